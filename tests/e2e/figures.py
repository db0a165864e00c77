"""What an engine has laid out and what a planner says of the same, as figures under equal names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from patchkit.kv.configs import read_model
from patchkit.kv.formats import read_formats
from patchkit.kv.plan import plan
from patchkit.kv.planned import Options, Plan, Refusal
from tests.e2e.cases import Case

Figures = Mapping[str, object]
Run = Mapping[str, Any]
Table = tuple[str, int, int, int]  # kind, layers, tokens of a block, bytes of a page

KINDS = {"FullAttentionSpec": "full", "SlidingWindowSpec": "window", "MambaSpec": "state"}
NO_ROOM = ("To serve at least one request", "No available memory for the cache blocks")


def figures_of_run(run: Run) -> Figures:
    """What an engine has, and what it has logged, of pages and blocks."""
    if "error" in run:
        return _figures_of_error(run["error"])
    log = "\n".join(run["log"])
    tables = [(KINDS[g["spec"]], g["layers"], g["block"], g["page"]) for g in run["groups"]]
    return {
        "starts": True,
        **_of_tables(tables),
        "number of blocks": run["num_blocks"],
        "aligned block (tokens)": _one(r"Setting attention block size to (\d+) tokens", log),
        "padding of a state (%)": _one(r"Padding mamba page size by ([\d.]+)%", log),
        "padding layers": sorted(re.findall(r"Add (\d+) padding layers", log)),
        "KV cache size (tokens)": _one(r"KV cache size: ([\d,]+) tokens", log),
        "requests at once": _one(r"Maximum concurrency for [\d,]+ tokens per request: (\S+)x", log),
    }


def _figures_of_error(error: str) -> Figures:
    """What the message of a start that failed says."""
    if not error.startswith(NO_ROOM):
        return {"starts": False, "refused": True}
    longest = _one(r"estimated maximum model length is (\d+)", error)
    return {"starts": False, "longest (tokens)": int(longest or 0)}


def _one(pattern: str, text: str) -> str | None:
    """What a pattern's group matches, without thousands separators."""
    found = re.search(pattern, text)
    return found.group(1).replace(",", "") if found else None


def _of_tables(tables: Iterable[Table]) -> Figures:
    """The figures of block tables by kind; which layers are in which table does not matter."""
    found: dict[str, object] = {}
    for kind in sorted({table[0] for table in (tables := list(tables))}):
        of_kind = [table for table in tables if table[0] == kind]
        found[f"tables of {kind} layers"] = len(of_kind)
        found[f"{kind} layers"] = sum(table[1] for table in of_kind)
        found[f"block of {kind} layers (tokens)"] = sorted({table[2] for table in of_kind})
        found[f"page of {kind} layers (bytes)"] = sorted({table[3] for table in of_kind})
    return found
