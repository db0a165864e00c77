"""What people decided on a patch, as its anchors file keeps it: adaptations and accepted drifts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import tomlkit

from patchkit.errors import PatchkitError
from patchkit.placing.acceptance import Acceptance
from patchkit.placing.adaptation import Adaptation
from patchkit.placing.fingerprint import fingerprint_hunk
from patchkit.placing.plan import PatchPlan


@dataclass(frozen=True)
class Overrides:
    """The adaptations and the accepted drifts of one patch; false where there is none."""

    adaptations: tuple[Adaptation, ...] = ()
    acceptances: tuple[Acceptance, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.adaptations or self.acceptances)

    def with_decision(self, decision: Adaptation | Acceptance) -> Overrides:
        """Return the overrides with one more."""
        if isinstance(decision, Acceptance):
            return replace(self, acceptances=(*self.acceptances, decision))
        return replace(self, adaptations=(*self.adaptations, decision))


def parse_overrides(table: Any, place: str) -> Overrides:
    """Return the overrides of a file's `override` table; raises PatchkitError with the place."""
    if not isinstance(table, dict):
        raise PatchkitError("override is not a table", place=place)
    unknown = sorted(set(table) - {"adaptation", "drift"})
    if unknown:
        raise PatchkitError(
            f"unknown field `override.{unknown[0]}`",
            place=place,
            expected="override.adaptation or override.drift",
        )
    for name in ("adaptation", "drift"):
        if not isinstance(table.get(name, []), list):
            raise PatchkitError(f"override.{name} is not a list of tables", place=place)
    adaptations = enumerate(table.get("adaptation", []), start=1)
    drifts = enumerate(table.get("drift", []), start=1)
    return Overrides(
        tuple(_adaptation(entry, f"{place}: adaptation {n}") for n, entry in adaptations),
        tuple(_acceptance(entry, f"{place}: accepted drift {n}") for n, entry in drifts),
    )


def format_overrides(overrides: Overrides) -> Iterator[str]:
    """Yield the text of each override, a table under its own head."""
    for adaptation in overrides.adaptations:
        yield _text("adaptation", _adaptation_table(adaptation))
    for acceptance in overrides.acceptances:
        yield _text("drift", _acceptance_table(acceptance))


_ADAPTATION: Mapping[str, type] = {
    "release": str, "path": str, "hunks": list, "reason": str, "base_hunks": list,
    "target_definitions": dict, "diff": str,
}  # fmt: skip
_ACCEPTANCE: Mapping[str, type] = {
    "release": str, "hunk": int, "base_hunk": str, "kind": str, "name": str, "surface": str,
    "text": str, "reason": str,
}  # fmt: skip


def _checked(entry: Any, known: Mapping[str, type], place: str) -> dict[str, Any]:
    """Return an override with just the known fields, each of its type, and a reason."""
    if not isinstance(entry, dict):
        raise PatchkitError("not a table", place=place)
    for name, kind in known.items():
        if not isinstance(entry.get(name), kind):
            raise PatchkitError(f"field `{name}` is missing or not a {kind.__name__}", place=place)
    unknown = sorted(set(entry) - set(known))
    if unknown:
        raise PatchkitError(f"unknown field `{unknown[0]}`", place=place)
    if not entry["reason"].strip():
        raise PatchkitError("the reason is empty", place=place)
    return entry


def _acceptance(entry: Any, place: str) -> Acceptance:
    return Acceptance(**_checked(entry, _ACCEPTANCE, place))


def _adaptation(entry: Any, place: str) -> Adaptation:
    entry = _checked(entry, _ADAPTATION, place)
    hunks, fingerprints = entry["hunks"], entry["base_hunks"]
    if not hunks or len(hunks) != len(fingerprints):
        raise PatchkitError("`hunks` and `base_hunks` differ in length or are empty", place=place)
    if not all(isinstance(n, int) for n in hunks):
        raise PatchkitError("`hunks` holds something that is not a number", place=place)
    values = {**entry, "hunks": tuple(hunks), "base_hunks": tuple(map(str, fingerprints))}
    return Adaptation(**values)


def _acceptance_table(acceptance: Acceptance) -> tomlkit.items.Table:
    table = tomlkit.table()
    for name in _ACCEPTANCE:
        table.add(name, getattr(acceptance, name))
    return table


def _text(name: str, table: tomlkit.items.Table) -> str:
    array = tomlkit.aot()
    array.append(table)
    override = tomlkit.table(is_super_table=True)
    override.add(name, array)
    document = tomlkit.document()
    document.add("override", override)
    return tomlkit.dumps(document)


def _adaptation_table(adaptation: Adaptation) -> tomlkit.items.Table:
    table = tomlkit.table()
    table.add("release", adaptation.release)
    table.add("path", adaptation.path)
    table.add("hunks", list(adaptation.hunks))
    table.add("reason", adaptation.reason)
    table.add("base_hunks", list(adaptation.base_hunks))
    definitions = tomlkit.inline_table()
    definitions.update(dict(adaptation.target_definitions))
    table.add("target_definitions", definitions)
    table.add("diff", _multiline(adaptation.diff))
    return table


def _multiline(text: str) -> tomlkit.items.String:
    """A diff as a literal block where TOML can hold it so, else as an escaped string."""
    plain = "'''" not in text and not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
    if plain:
        return tomlkit.string(text, literal=True, multiline=True)
    return tomlkit.string(text)


def contradictions(overrides: Overrides, plan: PatchPlan, place: str) -> tuple[str, ...]:
    """Return how the overrides contradict the patch that they stand beside."""
    hunks = {job.number: job.hunk for file in plan.files for job in file.jobs}
    problems = []
    for adaptation in overrides.adaptations:
        for number, known in zip(adaptation.hunks, adaptation.base_hunks, strict=True):
            hunk = hunks.get(number)
            if hunk is None:
                problems.append(f"{place}: an adaptation names hunk {number}, of {len(hunks)}")
            elif fingerprint_hunk(hunk) != known:
                problems.append(
                    f"{place}: hunk {number} has changed since its adaptation for "
                    f"{adaptation.release} was made"
                )
    for acceptance in overrides.acceptances:
        hunk = hunks.get(acceptance.hunk)
        if hunk is None:
            problems.append(
                f"{place}: an accepted drift names hunk {acceptance.hunk}, of {len(hunks)}"
            )
        elif fingerprint_hunk(hunk) != acceptance.base_hunk:
            problems.append(
                f"{place}: hunk {acceptance.hunk} has changed since its drift of "
                f"`{acceptance.name}` was accepted"
            )
    return tuple(problems)
