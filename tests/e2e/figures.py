"""What an engine has laid out, and what the planner says of the same start, under equal names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from patchkit.kv.configs import read_model
from patchkit.kv.formats import read_formats
from patchkit.kv.plan import plan
from patchkit.kv.planned import Options, Plan, Refusal
from tests.e2e.cases import Case

Figures = Mapping[str, object]
Run = Mapping[str, Any]

KINDS = {"FullAttentionSpec": "full", "SlidingWindowSpec": "window", "MambaSpec": "state"}
NO_ROOM = ("To serve at least one request", "No available memory for the cache blocks")
DEFAULT_BLOCK = 128  # tokens, of a CPU engine
REFUSED: Figures = {"starts": False, "refused": True}


def figures_of_run(run: Run) -> Figures:
    """What an engine has, and what it has logged, of pages and blocks."""
    if "error" in run:
        return _figures_of_error(run["error"])
    log = "\n".join(run["log"])
    tables: dict[str, list[Run]] = {}
    for group in run["groups"]:
        tables.setdefault(KINDS[group["spec"]], []).append(group)
    found: dict[str, object] = {}
    for kind, groups in tables.items():
        blocks, pages = ({group[name] for group in groups} for name in ("block", "page"))
        layers = sum(group["layers"] for group in groups)
        found |= _of_kind(kind, len(groups), layers, blocks, pages)
    return {
        "starts": True,
        **found,
        "blocks": run["num_blocks"],
        "padding layers": sorted(int(n) for n in re.findall(r"Add (\d+) padding layers", log)),
        "aligned block (tokens)": _one(r"Setting attention block size to (\d+) tokens", log),
        "padding of a state (%)": _one(r"Padding mamba page size by ([\d.]+)%", log),
        "KV cache size (tokens)": _one(r"KV cache size: ([\d,]+) tokens", log),
        "requests at once": _one(r"Maximum concurrency for [\d,]+ tokens per request: (\S+)x", log),
    }


def _figures_of_error(error: str) -> Figures:
    """What the message of a start that failed says."""
    if not error.startswith(NO_ROOM):
        return REFUSED
    longest = _one(r"estimated maximum model length is (\d+)", error)
    return {"starts": False, "longest (tokens)": int(longest or 0)}


def _one(pattern: str, text: str) -> str | None:
    """What a pattern's group matches, without thousands separators."""
    found = re.search(pattern, text)
    return found.group(1).replace(",", "") if found else None


def _of_kind(
    kind: str, groups: int, layers: int, blocks: Iterable[int], pages: Iterable[int]
) -> Figures:
    """The figures of the layers of one kind; which of them share a table does not matter."""
    return {
        f"{kind} layers": layers,
        f"tables of {kind} layers": groups,
        f"block of {kind} layers (tokens)": sorted(blocks),
        f"page of {kind} layers (bytes)": sorted(pages),
    }


def plan_case(case: Case, release: str, state_dtype: str, **change: Any) -> Plan | Refusal:
    """What the planner says of a case; states are of the type that the engine has taken."""
    model = read_model(
        case.config,
        name="config.json",
        dtype=case.dtype,
        state_dtype=None if state_dtype == "auto" else state_dtype,
        release=release.removeprefix("v"),
    )
    options = {
        "memory_bytes": case.memory_bytes,
        "max_model_len": case.max_model_len,
        "prefix_caching": case.prefix_caching,
        "max_num_batched_tokens": case.max_num_batched_tokens,
        "block_size": case.block_size,
        "backend": case.backend,
        "platform": "cpu",
        "promotion": case.wheel == "patched",
    }
    formats = read_formats()
    chosen = Options(**{**options, **change})
    return plan(model, formats.get(case.format), chosen, release, formats=formats)


def figures_of_plan(found: Plan | Refusal) -> Figures:
    """What the planner expects that an engine has, and logs."""
    if isinstance(found, Refusal):
        return REFUSED
    if not found.fits:
        return {"starts": False, "longest (tokens)": found.longest}
    figures: dict[str, object] = {}
    for kind in found.kinds:
        figures |= _of_kind(kind.kind, kind.groups, kind.layers, [kind.block], [kind.page_bytes])
    spare = [kind.groups * found.group_size - kind.layers for kind in found.kinds]
    return {
        "starts": True,
        **figures,
        "blocks": found.num_blocks,
        "padding layers": sorted(layers for layers in spare if layers),
        **_of_alignment(found),
        "KV cache size (tokens)": str(found.tokens),
        "requests at once": f"{found.concurrency:.2f}",
    }


def _of_alignment(found: Plan) -> Figures:
    """What is logged where blocks had to grow for states to fit in, and where states are padded."""
    states = [kind for kind in found.kinds if kind.kind == "state"]
    least = found.options.block_size or DEFAULT_BLOCK
    grown = [kind.block for kind in found.kinds if kind.kind == "full" and kind.block > least]
    aligned = str(grown[0]) if states and grown else None
    padding = next((100 * k.padding_bytes / k.content_bytes for k in states), None)
    return {
        "aligned block (tokens)": aligned,
        "padding of a state (%)": None if not padding else f"{padding:.2f}",
    }


def differences(planned: Figures, run: Figures) -> list[str]:
    """Each figure in which a planner and an engine do not agree, as a line."""
    names = [*planned, *(name for name in run if name not in planned)]
    return [
        f"{name}: planned {planned.get(name)}, engine {run.get(name)}"
        for name in names
        if planned.get(name) != run.get(name)
    ]
