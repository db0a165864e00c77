"""Anchors: where a patch's hunks belong, said in terms of the code; stored beside each patch.

`NAME.anchors.toml` has two parts. `[generated]` is a pure function of base tree and diff: place,
definition and its fingerprint, typed edits with their neighbours, and the surface that the new code
uses. `[override]` is a person's: adaptations, each with a reason. It is kept letter for letter when
the rest is generated anew.
"""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tomlkit

from patchkit.errors import PatchkitError
from patchkit.names.surface import reads
from patchkit.placing.adaptation import FINGERPRINT_FORMAT, Adaptation, fingerprint_hunk
from patchkit.placing.file_edits import FileEdits, FileJob
from patchkit.placing.landing import authored_lines
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.syntax.build import parse_module, try_module
from patchkit.syntax.edit import Edit
from patchkit.syntax.outline import outline_of
from patchkit.syntax.tree import Node

FORMAT = 1
_OVERRIDE = re.compile(r"^[ \t]*\[\[?[ \t]*[\"']?override\b", re.MULTILINE)
_HEAD = "# Generated from the patch and its base; edit nothing above [override].\n"


@dataclass(frozen=True)
class Anchors:
    """The two parts of an anchors file: `generated` as text, the overrides as values and text."""

    generated: str
    adaptations: tuple[Adaptation, ...] = ()
    override_text: str = ""


def parse_anchors(data: bytes, place: str) -> Anchors:
    """Return the anchors of a file; raises PatchkitError with the place of what is wrong."""
    try:
        text = data.decode("utf-8")
        table = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PatchkitError(f"not valid TOML: {error}", place=place) from error
    if table.get("format") != FORMAT:
        raise PatchkitError(
            f"format is {table.get('format')!r}", place=place, expected=str(FORMAT),
            hint="this patchkit reads format 1; a newer one may have written the file",
        )  # fmt: skip
    override = table.get("override", {})
    entries = override.get("adaptation", []) if isinstance(override, dict) else None
    if not isinstance(entries, list):
        raise PatchkitError("override.adaptation is not a list of tables", place=place)
    unknown = sorted(set(override) - {"adaptation"})
    if unknown:
        raise PatchkitError(
            f"unknown field `override.{unknown[0]}`", place=place, expected="override.adaptation"
        )
    found = _OVERRIDE.search(text)
    generated = text.find("[generated]")
    if override and (found is None or found.start() < generated):
        raise PatchkitError(
            "the overrides do not follow the generated part under a head of their own",
            place=place,
            expected="[[override.adaptation]] after [generated]",
        )
    split = found.start() if found else len(text)
    adaptations = tuple(
        _adaptation(e, f"{place}: adaptation {i}") for i, e in enumerate(entries, 1)
    )
    return Anchors(text[:split], adaptations, text[split:])


_FIELDS: Mapping[str, type] = {
    "release": str, "path": str, "hunks": list, "reason": str, "base_hunks": list,
    "target_definitions": dict, "diff": str,
}  # fmt: skip


def _adaptation(entry: Any, place: str) -> Adaptation:
    if not isinstance(entry, dict):
        raise PatchkitError("an adaptation is not a table", place=place)
    for name, kind in _FIELDS.items():
        if not isinstance(entry.get(name), kind):
            raise PatchkitError(f"field `{name}` is missing or not a {kind.__name__}", place=place)
    unknown = sorted(set(entry) - set(_FIELDS))
    if unknown:
        raise PatchkitError(f"unknown field `{unknown[0]}`", place=place)
    if not entry["reason"].strip():
        raise PatchkitError("the reason is empty", place=place)
    hunks, fingerprints = entry["hunks"], entry["base_hunks"]
    if not hunks or len(hunks) != len(fingerprints):
        raise PatchkitError("`hunks` and `base_hunks` differ in length or are empty", place=place)
    if not all(isinstance(n, int) for n in hunks):
        raise PatchkitError("`hunks` holds something that is not a number", place=place)
    values = {**entry, "hunks": tuple(hunks), "base_hunks": tuple(map(str, fingerprints))}
    return Adaptation(**values)


def format_anchors(generated: str, adaptations: Sequence[Adaptation], kept: str = "") -> bytes:
    """Return an anchors file: generated part, kept overrides, then the new adaptations."""
    text = generated
    if kept:
        text += kept if kept.endswith("\n") else kept + "\n"
    for adaptation in adaptations:
        text += ("" if text.endswith("\n\n") else "\n") + _adaptation_text(adaptation)
    return text.encode("utf-8")


def _adaptation_text(adaptation: Adaptation) -> str:
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
    array = tomlkit.aot()
    array.append(table)
    override = tomlkit.table(is_super_table=True)
    override.add("adaptation", array)
    document = tomlkit.document()
    document.add("override", override)
    return tomlkit.dumps(document)


def _multiline(text: str) -> tomlkit.items.String:
    """A diff as a literal block where TOML can hold it so, else as an escaped string."""
    plain = "'''" not in text and not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
    if plain:
        return tomlkit.string(text, literal=True, multiline=True)
    return tomlkit.string(text)


# Generation --------------------------------------------------------------------------------------


def generate_anchors(plan: PatchPlan) -> str:
    """Return the generated part for a patch against its base."""
    document = tomlkit.document()
    document.add("format", FORMAT)
    generated = tomlkit.table()
    generated.add("fingerprints", FINGERPRINT_FORMAT)
    hunks = tomlkit.aot()
    for file in plan.files:
        for entry in _file_hunks(file):
            hunks.append(entry)
    generated.add("hunk", hunks)
    document.add("generated", generated)
    text = _HEAD + tomlkit.dumps(document).rstrip("\n") + "\n"
    return text + "\n"


def _file_hunks(file: PlannedFile) -> list[tomlkit.items.Table]:
    python = file.base is not None and file.authored is not None and bool(file.jobs)
    edits = None
    if python and try_module(file.base or b"") and try_module(file.authored or b""):
        edits = FileEdits(
            FileJob(file.path_before, file.base or b"", file.authored or b"", file.jobs)
        )
    result = []
    for number in file.numbers:
        table = tomlkit.table()
        table.add("number", number)
        table.add("path", file.path_before)
        hunk = next((j.hunk for j in file.jobs if j.number == number), None)
        if hunk is not None:
            table.add("hunk", fingerprint_hunk(hunk))
        if edits is not None:
            _add_places(table, edits.edits_of(number))
        elif file.authored is not None:
            digest = hashlib.sha256(file.authored).hexdigest()
            table.add("new_content", f"sha256:{digest}")
        _add_surface(table, file, number)
        result.append(table)
    return result


def _add_places(table: tomlkit.items.Table, edits: Sequence[Edit]) -> None:
    edits = [e for e in edits if not e.is_layout]
    if not edits:
        return
    outline = outline_of(edits[0].container.module)
    names = list(dict.fromkeys(outline.qualified(e.container) for e in edits))
    definitions = tomlkit.inline_table()
    for name in names:
        node = outline.by_name.get(name)
        definitions.add(name, _mark(node) if node is not None else "")
    table.add("definitions", definitions)
    entries = tomlkit.array().multiline(True)
    for edit in edits:
        entry = tomlkit.inline_table()
        entry.add("kind", edit.kind)
        entry.add("in", f"{outline.qualified(edit.container)} {edit.container.kind}.{edit.slot}")
        for label, node in (("after", edit.prev), ("before", edit.next)):
            if node is not None:
                entry.add(label, _mark(node))
        if edit.removed:
            entry.add("removes", [_mark(n) for n in edit.removed])
        entries.append(entry)
    table.add("edits", entries)


def _mark(node: Node) -> str:
    return f"{FINGERPRINT_FORMAT}:{node.digest.hex()}"


def _add_surface(table: tomlkit.items.Table, file: PlannedFile, number: int) -> None:
    """What a hunk's new code relies on, by kind, and the signatures of callees in the file."""
    if file.authored is None or try_module(file.authored) is None:
        return
    if file.base is not None and try_module(file.base) is None:
        return
    lines = authored_lines(file, number)
    found = [
        r for r in reads(file.base or b"", file.authored) if any(a <= r.line <= b for a, b in lines)
    ]
    for kind in ("attribute", "keyword", "name", "import"):
        names = sorted({r.name for r in found if r.kind == kind})
        if names:
            table.add(f"{kind}s", names)
    calls = sorted(_signatures(file.authored, lines))
    if calls:
        table.add("calls", calls)


def _signatures(source: bytes, lines: Iterable[tuple[int, int]]) -> set[str]:
    """The signatures of functions of the same module that are called on the given lines."""
    tree = parse_module(source).tree
    defined = {n.name: n for n in tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    spans = list(lines)
    called = {
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
        and any(a <= n.lineno <= b for a, b in spans)
    }  # fmt: skip
    functions = [defined[name] for name in called if isinstance(defined.get(name), ast.FunctionDef)]
    return {f"{f.name}({ast.unparse(f.args)})" for f in functions if isinstance(f, ast.FunctionDef)}


def contradictions(anchors: Anchors, plan: PatchPlan, place: str) -> tuple[str, ...]:
    """Return how the overrides contradict the patch that they stand beside."""
    hunks = {job.number: job.hunk for file in plan.files for job in file.jobs}
    problems = []
    for adaptation in anchors.adaptations:
        for number, known in zip(adaptation.hunks, adaptation.base_hunks, strict=True):
            hunk = hunks.get(number)
            if hunk is None:
                problems.append(f"{place}: an adaptation names hunk {number}, of {len(hunks)}")
            elif fingerprint_hunk(hunk) != known:
                problems.append(
                    f"{place}: hunk {number} has changed since its adaptation for "
                    f"{adaptation.release} was made"
                )
    return tuple(problems)
