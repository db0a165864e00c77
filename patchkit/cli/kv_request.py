"""What `patchkit kv-plan` is asked for: its options, held against each other and planned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from patchkit.cli.checkpoint import read_config
from patchkit.cli.kv_document import Asked, plan_document
from patchkit.cli.kv_memory import PLACE, Given, Memory, read_memory
from patchkit.cli.options import here
from patchkit.cli.speculative import PLACE as SPECULATIVE
from patchkit.cli.speculative import read_speculative
from patchkit.errors import PatchkitError, UsageError
from patchkit.kv.amounts import gib
from patchkit.kv.configs import read_model
from patchkit.kv.formats import Formats, read_formats
from patchkit.kv.layers import Model
from patchkit.kv.plan import plan
from patchkit.kv.planned import Options, Plan
from patchkit.kv.rules import rules_for
from patchkit.kv.serving import Batch, default_batch
from patchkit.kv.states import cache_mode
from patchkit.report import counted
from patchkit.repository.store import stored_releases
from patchkit.repository.workspace import read_file
from patchkit.upstream import shipped_pins
from patchkit.upstream.pins import normalise_version

_USUAL_LENGTHS = (4096, 32768)


@dataclass(frozen=True)
class Request:
    """The options of the command, as they were given."""

    model: str
    formats: tuple[str, ...]
    compare: bool
    memory: str | None
    card: str | None
    utilisation: str | None
    weights: str | None
    overhead: str | None
    drafter: str | None
    mtp: bool
    draft_tokens: int
    speculative_config: str | None
    release: str | None
    pristine: bool
    max_model_len: int | None
    lengths: tuple[int, ...]
    tensor_parallel: int
    pipeline_parallel: int
    batched_tokens: int | None
    max_seqs: int | None
    no_async: bool
    no_prefix_caching: bool
    state_cache_mode: str | None
    prefix_match_unit: int | None
    prefill_checkpoints: bool
    block_size: int | None
    backend: str | None
    platform: str
    group_rule: str
    dtype: str | None
    state_dtype: str | None
    own_formats: Path | None

    @property
    def ranks(self) -> int:
        """Over how many ranks the model is spread."""
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True)
class Made:
    """The plans, what there is to say of them, and how a picture of them is headed."""

    plans: tuple[Plan, ...]
    document: dict[str, Any]
    title: str
    subtitle: str


def make_plans(request: Request) -> Made:
    """Return a plan or a refusal for each format that is asked for."""
    request = _with_drafts(request)
    _check_options(request)
    formats = _read_formats(request.own_formats)
    names = _chosen(request, formats)
    release = _release(request.release)
    model = _read_model(request, release)
    given = Given(
        request.memory, request.card, request.utilisation, request.weights, request.overhead
    )
    memory = read_memory(given, Path(request.model), request.ranks)
    card_bytes = memory.card_bytes or memory.size_bytes  # a card has what its cache has, or more
    batch = default_batch(release, request.platform, card_bytes, request.ranks)
    options = _options(request, memory, batch)
    lengths = _lengths(request, model)
    outcomes = [plan(model, formats.get(name), options, release, formats=formats) for name in names]
    plans = tuple(outcome for outcome in outcomes if isinstance(outcome, Plan))
    notes = tuple(_notes(request, model, batch, plans))
    asked = Asked(model, f"v{release}", options, memory, lengths, notes, request.compare)
    return Made(plans, plan_document(asked, outcomes), *_heading(asked))


def _with_drafts(request: Request) -> Request:
    """Return a request with what --speculative-config says."""
    if request.speculative_config is None:
        return request
    if request.mtp or request.drafter is not None or request.draft_tokens:
        raise UsageError(
            "--mtp, --drafter and --draft-tokens say the same", place=SPECULATIVE,
            expected="the one or the others",
        )  # fmt: skip
    return replace(request, **asdict(read_speculative(request.speculative_config)))


def _check_options(request: Request) -> None:
    if request.compare and request.formats:
        raise UsageError("--compare takes all formats, and --format names some", place=PLACE)
    if request.mtp and request.drafter is not None:
        raise UsageError("--mtp is the model's own drafter, --drafter another one", place=PLACE)
    if (request.mtp or request.drafter is not None) and not request.draft_tokens:
        named = "--mtp" if request.mtp else "--drafter"
        raise UsageError(
            f"{named} without --draft-tokens", place=PLACE,
            expected="how many tokens it drafts, such as --draft-tokens 3",
        )  # fmt: skip
    if twice := [name for n, name in enumerate(request.formats) if name in request.formats[:n]]:
        raise UsageError(f"--format {twice[0]} is given twice", place=PLACE)


def _read_formats(path: Path | None) -> Formats:
    return read_formats({} if path is None else {str(path): read_file(path)})


def _chosen(request: Request, formats: Formats) -> tuple[str, ...]:
    """Return the formats that are asked for, each known; a mistyped one is a usage error."""
    if request.compare:
        return formats.names
    for name in request.formats:
        try:
            formats.get(name)
        except PatchkitError as err:
            raise UsageError(
                err.fact, place="--format", expected=err.expected, hint=err.hint
            ) from err
    return request.formats or ("auto",)


def _release(text: str | None) -> str:
    """Return the release that is named, else the newest that is stored, else the newest pinned."""
    if text is not None:
        try:
            release = normalise_version(text)
        except PatchkitError as err:
            raise UsageError(
                err.fact, place="--release", expected=err.expected, hint=err.hint
            ) from err
        return rules_for(release).release
    config = here()
    stored = [stored_releases(config.root, folder)[-1:] for folder in config.series]
    from packaging.version import Version

    newest = sorted((release for found in stored for release in found), key=Version)
    try:
        return rules_for((newest or list(shipped_pins().versions))[-1]).release
    except PatchkitError as err:
        hint = "it is the newest that is stored here; --release takes another"
        raise PatchkitError(err.fact, expected=err.expected, hint=hint) from err


def _read_model(request: Request, release: str) -> Model:
    target = read_config(request.model)
    drafter = None if request.drafter is None else read_config(request.drafter)
    model = read_model(
        target.values,
        name=target.name,
        drafter=None if drafter is None else drafter.values,
        drafter_name="" if drafter is None else drafter.name,
        own_drafter=request.mtp,
        dtype=request.dtype,
        state_dtype=request.state_dtype,
        release=release,
    )
    return replace(model, name=request.model)


def _options(request: Request, memory: Memory, batch: Batch) -> Options:
    return Options(
        memory_bytes=memory.size_bytes,
        max_model_len=request.max_model_len,
        draft_tokens=request.draft_tokens,
        prefix_caching=not request.no_prefix_caching,
        state_cache_mode=request.state_cache_mode,
        prefix_match_unit=request.prefix_match_unit,
        tensor_parallel=request.tensor_parallel,
        pipeline_parallel=request.pipeline_parallel,
        max_num_batched_tokens=request.batched_tokens or batch.max_num_batched_tokens,
        max_num_seqs=request.max_seqs or batch.max_num_seqs,
        async_scheduling=not request.no_async,
        block_size=request.block_size,
        backend=request.backend,
        platform=request.platform,
        promotion=not request.pristine,
        group_rule=request.group_rule,
        prefill_checkpoints=request.prefill_checkpoints,
    )


def _lengths(request: Request, model: Model) -> tuple[int, ...]:
    """Return the lengths that are asked for, else usual ones, and that of the longest request."""
    longest = request.max_model_len or model.max_model_len
    for length in request.lengths:
        if length > longest:
            raise UsageError(
                f"{length:,} tokens are more than the {longest:,} of the longest request",
                place="--at", hint="--max-model-len says what the engine takes",
            )  # fmt: skip
    usual = tuple(length for length in _USUAL_LENGTHS if length < longest)
    return tuple(sorted({*(request.lengths or usual), longest}))


def _notes(request: Request, model: Model, batch: Batch, plans: Sequence[Plan]) -> Iterator[str]:
    """Yield what was assumed of the engine, so far as it makes a difference to the figures."""
    longest = request.max_model_len
    if longest is not None and longest > model.max_model_len:
        yield (
            f"--max-model-len {longest:,} is more than the {model.max_model_len:,} tokens of the "
            "model: vLLM refuses that without VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 or rope scaling"
        )
    if model.states and plans and request.state_cache_mode is None:
        mode, _ = cache_mode(model, plans[0].options, rules_for(plans[0].release))
        with_caching = "without" if request.no_prefix_caching else "with"
        yield f"--mamba-cache-mode {mode}, as vLLM has it {with_caching} prefix caching"
    windows = any(kind.window for plan in plans for kind in plan.kinds)
    if windows and request.batched_tokens is None:
        yield (
            f"--max-num-batched-tokens {batch.max_num_batched_tokens:,}, as `vllm serve` has it "
            f"{batch.ground}; windows keep what is in flight"
        )
    tail_bytes = max((plan.tail_bytes for plan in plans), default=0)
    if tail_bytes and request.max_seqs is None:
        yield (
            f"--max-num-seqs {batch.max_num_seqs:,}, as `vllm serve` has it {batch.ground}; so "
            f"many 16-bit tails take up to {gib(tail_bytes)} of the cache, fewer take less"
        )
    if request.draft_tokens and not request.mtp and request.drafter is None:
        yield (
            "drafts without a drafter, as from n-grams: it caches nothing, and vLLM then starts "
            "with --no-async-scheduling"
        )


def _heading(asked: Asked) -> tuple[str, str]:
    """Return the title and the second line of a picture."""
    options = asked.options
    ranks = options.tensor_parallel * options.pipeline_parallel
    parts = [f"vLLM {asked.release.removeprefix('v')}", f"{gib(asked.memory.size_bytes)} of cache"]
    if ranks > 1:
        parts[1] += f" on each of {ranks} ranks"
    if options.draft_tokens:
        parts.append(counted(options.draft_tokens, "draft token"))
    name = Path(asked.model.name).absolute()
    return (name.parent.name if name.name == "config.json" else name.name), ", ".join(parts)
