"""What two rows differ in, and what a row says of a condition."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.records.record import Record, Row, Workload

WORKLOAD = tuple(field.name for field in fields(Workload))
_VERSIONS = ("python", "torch", "triton", "vllm")
# What a ratio may be about; the rest must never differ.
COMPARABLE = (
    "subject", *WORKLOAD, "gpu", "driver", "power_limit_w", "cpu", "cores", *_VERSIONS, "tree",
    "release", "sources", "command",
)  # fmt: skip


def conditions(record: Record, row: Row) -> dict[str, Any]:
    """Return everything that a figure depends on, by name.

    The commit is none of it: code is the same where its sources are.
    """
    header, gpu = record.header, record.header["gpu"] or {}
    tree = header["tree"] or {}
    return {
        "measured": row.measured.partition(",")[0].strip(),
        "unit": row.unit,
        "subject": row.subject,
        **asdict(row.workload),
        "gpu": gpu.get("name"),
        "driver": gpu.get("driver"),
        "power_limit_w": gpu.get("power_limit_w"),
        "cpu": header["machine"]["cpu"],
        "cores": header["machine"]["cores"],
        **{name: header["machine"]["versions"].get(name) for name in _VERSIONS},
        "tree": tree.get("sha256"),
        "release": tree.get("release"),
        "sources": dict(header["sources"]),
    }


def differences(
    one: tuple[Record, Row], other: tuple[Record, Row], compare: str
) -> list[tuple[str, Any, Any]]:
    """Return what two rows differ in besides the thing compared: field, its values.

    The values of that thing may stand in the commands as well. A patched tree against another may
    differ in the local part of vLLM's version, and what follows from a length may differ with it.
    """
    left, right = conditions(*one), conditions(*other)
    found = [(k, left[k], right[k]) for k in left if left[k] != right[k] and k != compare]
    if compare == "tree":
        found = [f for f in found if f[0] != "vllm" or _public(f[1]) != _public(f[2])]
    found = [
        f for f in found if not (_follows(f[0], compare, left) and _follows(f[0], compare, right))
    ]
    here, there = (_words(record.header["command"]) for record, _ in (one, other))
    if compare != "command" and not _same_command(
        here, there, left.get(compare), right.get(compare)
    ):
        found.append(("command", " ".join(here), " ".join(there)))
    return found


def _follows(name: str, compare: str, row: dict[str, Any]) -> bool:
    """Return whether a length of a row is no more than what the one that is compared makes it."""
    context, new, cached = row["context"], row["new_tokens"], row["cached_tokens"]
    if name == "cached_tokens" and compare in ("context", "new_tokens"):
        return None not in (context, new, cached) and cached == context - new
    if name == "draft_length" and compare == "new_tokens":
        return None not in (new, row[name]) and row[name] == new - 1
    return False


def _public(version: object) -> str:
    return str(version).partition("+")[0]


def _words(command: list[str]) -> list[str]:
    """Return a command without where its manifest lay."""
    kept = [w for w in command if not w.startswith("--manifest=")]
    if "--manifest" in kept:
        at = kept.index("--manifest")
        del kept[at : at + 2]
    return kept


def _same_command(one: list[str], other: list[str], left: object, right: object) -> bool:
    if len(one) != len(other):
        return False
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a != b]
    return all(a.endswith(str(left)) and b.endswith(str(right)) for a, b in pairs)


def check_condition(record: Record, row: Row, key: str, wanted: str) -> str | None:
    """Return how a row differs from a condition that a mark states; None where it is met."""
    there = conditions(record, row)
    if key not in there:
        raise PatchkitError(f"{key}= is no condition of a record", expected=", ".join(there))
    value = there[key]
    if isinstance(value, int | float) and not isinstance(value, bool):
        forms = [str(value), f"{value:g}"] if isinstance(value, float) else [str(value)]
        met = wanted.replace(",", "").replace("_", "") in forms
    else:
        met = value == wanted
    return None if met else f"{key} is {value}, the mark says {wanted}"
