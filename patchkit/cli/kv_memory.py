"""What one rank has for the cache: as it is given, or what a card leaves beside the weights."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from patchkit.cli.checkpoint import has_weights, is_folder, weights_bytes
from patchkit.errors import PatchkitError, UsageError
from patchkit.kv.amounts import GIB, exact, gib, parse_size
from patchkit.kv.serving import default_utilisation

PLACE = "patchkit kv-plan"
# Activations, CUDA graphs and the context of a card. It differs by model, batch and backend; what
# an engine logs is the only true figure, so that the plan says that this one is assumed.
ASSUMED_OVERHEAD_BYTES = 3 * GIB // 2


@dataclass(frozen=True)
class Memory:
    """What one rank has for the cache in bytes; where it comes from a card, with its parts."""

    size_bytes: int
    card_bytes: int | None = None
    utilisation: Decimal | None = None
    weights_bytes: int | None = None  # of the whole model
    overhead_bytes: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Given:
    """What was said of the memory, as texts of options."""

    memory: str | None
    card: str | None
    utilisation: str | None
    weights: str | None
    overhead: str | None


def read_memory(given: Given, model: Path, ranks: int) -> Memory:
    """Return what one rank has, of a model that lies at a path and is spread over ranks."""
    if given.memory is not None:
        others = {"--card": given.card, "--utilisation": given.utilisation,
                  "--weights": given.weights, "--overhead": given.overhead}  # fmt: skip
        if said := [name for name, text in others.items() if text is not None]:
            raise UsageError(
                f"--memory is what the cache gets, {', '.join(said)} would be for nothing",
                place=PLACE, expected="--memory alone, or --card with --weights",
            )  # fmt: skip
        size_bytes = parse_size(given.memory, "--memory")
        if size_bytes == 0:
            raise UsageError("a cache of 0 B holds nothing", place="--memory", expected="20GiB")
        return Memory(size_bytes)
    if given.card is None:
        raise UsageError(
            "nothing says how much memory the cache has", place=PLACE,
            expected="--memory 20GiB, or --card 24GiB with --weights 16GiB",
            hint="an engine logs it as `Available KV cache memory`",
        )  # fmt: skip
    return _beside_weights(given, given.card, model, ranks)


def _beside_weights(given: Given, card: str, model: Path, ranks: int) -> Memory:
    notes = []
    card_bytes = parse_size(card, "--card")
    utilisation = _share(given.utilisation)
    if given.utilisation is None:
        notes.append(f"--utilisation {utilisation}, as vLLM has it")
    whole, note = _weights(given.weights, model)
    notes += note
    if given.overhead is None:
        overhead = ASSUMED_OVERHEAD_BYTES
        notes.append(
            f"--overhead {overhead / GIB:g}GiB a rank for activations and CUDA graphs; an engine "
            "logs `Available KV cache memory`, which --memory takes"
        )
    else:
        overhead = parse_size(given.overhead, "--overhead")
    taken = int(card_bytes * utilisation)
    share = -(-whole // ranks)
    if taken - share - overhead <= 0:
        raise PatchkitError(
            f"nothing is left for the cache: {utilisation} of {gib(card_bytes)} is {gib(taken)}, "
            f"weights take {gib(share)} and the rest {gib(overhead)}",
            place=PLACE, hint="a larger card, more ranks to share the weights, or smaller ones",
        )  # fmt: skip
    if ranks > 1:
        notes.append(f"the weights are shared evenly: {exact(share)} on each of {ranks} ranks")
    return Memory(taken - share - overhead, card_bytes, utilisation, whole, overhead, tuple(notes))


def _share(text: str | None) -> Decimal:
    if text is None:
        return default_utilisation()
    expected = "a share above 0 and up to 1, such as 0.92"
    try:
        share = Decimal(text)
    except InvalidOperation as err:
        fact = f"{text!r} is no number"
        raise UsageError(fact, place="--utilisation", expected=expected) from err
    if not share.is_finite() or not 0 < share <= 1:
        raise UsageError(f"{text} of a card", place="--utilisation", expected=expected)
    return share


def _weights(text: str | None, model: Path) -> tuple[int, list[str]]:
    """Return the weights of the whole model in bytes, and where the figure is from."""
    if text is None:
        if not has_weights(model):
            raise UsageError(
                "nothing says what the weights take", place=PLACE,
                expected="--weights with an amount such as 17.6GiB, or with a checkpoint folder",
            )  # fmt: skip
        folder, shown = model, str(model)
    elif is_folder(Path(text)):
        folder, shown = Path(text), text.rstrip("/")
    else:
        return parse_size(text, "--weights"), []
    size_bytes, files = weights_bytes(folder, shown)
    return size_bytes, [f"weights {exact(size_bytes)}: {files} in {shown}"]
