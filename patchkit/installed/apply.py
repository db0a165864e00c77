"""A series put into an installed tree, planned as values and then done in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.installed.kept import APPLIED, KEPT, Applied, Change, Identity, identity_of, pack
from patchkit.installed.kept import SCHEMA as APPLIED_SCHEMA
from patchkit.installed.recognise import Recognised, check_pristine, recognise
from patchkit.installed.site import Site
from patchkit.installed.source import Source
from patchkit.installed.transaction import Step, bytecode_of, digest_of
from patchkit.installed.tree import installed_tree
from patchkit.repository.store import Stored
from patchkit.series.selection import Selection
from patchkit.tree import SourceTree
from patchkit.wheel.patching import ChangedFile, Patched, patch_tree
from patchkit.wheel.provenance import (
    digest,
    format_document,
    left_out_json,
    selection_json,
    series_json,
)
from patchkit.wheel.record import Row, digest_text, format_row, format_rows

Choose = Callable[[Sequence[Stored]], Selection]
OpenTree = Callable[[str], SourceTree]


@dataclass(frozen=True)
class Plan:
    """What an apply would do: no steps where it is done already or where a hunk did not land.

    `patched` is None where the series is in already; `notes` say how the release was found.
    """

    release: str
    selection: Selection
    patched: Patched | None = None
    steps: tuple[Step, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every hunk is in, now or when the steps are taken."""
        return self.patched is None or self.patched.ok


def plan_apply(
    site: Site,
    source: Source,
    choose: Choose,
    applied: Applied | None,
    open_tree: OpenTree | None = None,
    release: str | None = None,
) -> Plan:
    """Return what puts the chosen patches of a source into a site.

    Nothing is to be done where they are in and every file is as they made it. On a tree that is no
    release, each hunk is placed and proven as in a rebase, from the release that is nearest, which
    `open_tree` opens; without that such a tree is refused. Raises PatchkitError for a file that was
    edited by hand, and where other patches are in.
    """
    if applied is not None:
        return _again(site, source, choose, applied)
    tree = installed_tree(site)
    found = recognise(source, tree, site.distribution or site.place, release)
    stored = source.stored(found.release)
    selection = choose(stored)
    rows = site.rows()
    paths = (*found.likeness.pristine, *found.likeness.patched, *found.likeness.other)
    for path in paths:
        _refuse_edited(site, rows, path, tree)
    base = None
    if not found.likeness.fits:
        if open_tree is None:
            check_pristine(found.likeness, source.files.get(found.release, {}), tree)
            fact = f"{', '.join(found.likeness.other or found.likeness.patched)} is another file"
            raise PatchkitError(fact, place=site.place, expected=f"that of v{found.release}")
        _refuse_patched(site, found)
        base = open_tree(f"v{found.release}")
    patched = patch_tree(source.root, stored, selection, tree, base)
    notes = (*((found.note,) if found.note else ()), *patched.notes)
    if not patched.ok:
        return Plan(found.release, selection, patched, notes=notes)
    writer = _Writer(site, tree, rows, patched)
    document = _document(site, found, tree, stored, selection, patched, writer)
    return Plan(found.release, selection, patched, writer.steps(document), notes)


def _again(site: Site, source: Source, choose: Choose, applied: Applied) -> Plan:
    """Return the plan for a site with a series in it: nothing, if it is the same one, and whole."""
    stored = source.stored(applied.release)
    hint = f"`patchkit revert {site.place}` takes it out first"
    if not applied.in_place:
        hint = "the wheel was patched before it was installed: install another wheel instead"
    if not stored:
        raise PatchkitError(
            f"a series for v{applied.release} is in it, which {source.place} does not hold",
            place=site.place,
            hint=hint,
        )
    selection = choose(stored)
    wanted = _identity(stored, selection)
    if wanted != applied.identity:
        raise PatchkitError(
            f"other patches are in it already: {_named(applied.identity, wanted)}",
            place=site.place,
            hint=hint,
        )
    for change in applied.changes:
        if digest_of(site.root / change.path) != change.after and not _is_bytecode(change):
            raise PatchkitError(
                "was changed after the series was applied",
                place=str(site.root / change.path),
                hint=f"`patchkit verify {site.place}` says what is missing",
            )
    return Plan(applied.release, selection)


def _is_bytecode(change: Change) -> bool:
    return change.path.endswith(".pyc")


def _identity(stored: Sequence[Stored], selection: Selection) -> Identity:
    empty = Patched({}, ())
    return identity_of([series_json(entry, selection, empty) for entry in stored])


def _named(found: Identity, wanted: Identity) -> str:
    """Say which patches are in that are not wanted, or are wanted in another text."""
    other = [name for name, sha in found.patches if (name, sha) not in wanted.patches]
    missing = [name for name, sha in wanted.patches if (name, sha) not in found.patches]
    return ", ".join(other) or f"all but {', '.join(missing)}"


def _refuse_edited(site: Site, rows: Mapping[str, Row], path: str, tree: SourceTree) -> None:
    """Raise where a file that is to change is not as it was installed."""
    if not rows:
        return
    content, row = tree.files.get(path), rows.get(path)
    place = str(site.root / path)
    hint = "it was edited by hand; install the wheel anew, or put the file back"
    if content is None and row is not None:
        raise PatchkitError("is missing, though RECORD lists it", place=place, hint=hint)
    if content is not None and row is None:
        raise PatchkitError("is not in RECORD", place=place, hint=hint)
    if content is not None and row is not None and row.digest != digest_text(content):
        fact = f"is {digest_text(content)}" if row.digest else "has no digest in RECORD"
        expected = f"{row.digest} as in RECORD" if row.digest else None
        raise PatchkitError(fact, place=place, expected=expected, hint=hint)


def _refuse_patched(site: Site, found: Recognised) -> None:
    """Raise where files have the series in them though nothing says that it was applied."""
    if found.likeness.patched:
        raise PatchkitError(
            f"{', '.join(found.likeness.patched)} has the series of v{found.release} in it already",
            place=site.place,
            hint="something else patched it; patchkit has no original of it to go back to",
        )


class _Writer:
    """The steps that turn a site into what the patches make of it."""

    def __init__(
        self, site: Site, tree: SourceTree, rows: Mapping[str, Row], patched: Patched
    ) -> None:
        self.site, self.rows, self.patched = site, rows, patched
        self.before: dict[str, bytes] = {}
        self.changes: list[Change] = []
        self.sources: list[Step] = []
        for path, file in sorted(patched.files.items()):
            self._take(path, file, tree)
        self.kept = pack(self._with_record(), patched.texts)

    def _take(self, path: str, file: ChangedFile, tree: SourceTree) -> None:
        old = tree.files.get(path)
        assert old == file.before
        mode = self._note(path, old, file.after)
        if file.mode is not None:
            mode = (mode or 0o644) & ~0o111 | file.mode & 0o111
        self.sources.append(Step(path, _sha256(old), file.after, mode))
        for compiled in bytecode_of(self.site.root, path):
            # byte code that the installer made is listed in RECORD, and comes back with it
            if compiled in self.rows and (content := self.site.read(compiled)) is not None:
                self._note(compiled, content, None)
                self.sources.append(Step(compiled, _sha256(content), None))

    def _note(self, path: str, old: bytes | None, new: bytes | None) -> int | None:
        """Note a change and keep what was there; return the permission bits that it had."""
        if old is None:
            self.changes.append(Change(path, None, _sha256(new)))
            return None
        status = (self.site.root / path).stat()
        self.before[path] = old
        mode = status.st_mode & 0o7777
        self.changes.append(Change(path, _sha256(old), _sha256(new), mode, status.st_mtime_ns))
        return mode

    def _with_record(self) -> dict[str, bytes]:
        record = self.site.record
        return self.before | ({record: self.site.read(record) or b""} if record else {})

    def folders(self) -> list[str]:
        """Return the folders that new files need, deepest first."""
        found: dict[str, None] = {}
        for step in self.sources:
            folder = step.path.rpartition("/")[0]
            while step.content is not None and folder and not (self.site.root / folder).exists():
                found[folder] = None
                folder = folder.rpartition("/")[0]
        return sorted(found, key=lambda folder: (-folder.count("/"), folder))

    def steps(self, document: Mapping[str, Any]) -> tuple[Step, ...]:
        """Return all steps: what undoes them first, then the files, RECORD last."""
        own = {
            f"{self.site.state}/{KEPT}": self.kept,
            f"{self.site.state}/{APPLIED}": format_document(document),
        }
        steps = [Step(path, None, content) for path, content in own.items()]
        steps += self.sources
        record = self.site.record
        if record is not None:
            old = self.site.read(record) or b""
            contents = {step.path: step.content for step in self.sources}
            new = format_record(self.rows, {**contents, **own}, record, crlf=b"\r\n" in old)
            steps.append(Step(record, _sha256(old), new))
        return tuple(steps)


def format_record(
    rows: Mapping[str, Row], contents: Mapping[str, bytes | None], record: str, *, crlf: bool
) -> bytes:
    """Return RECORD with the rows of some files as they are now, None for one that is gone.

    All other rows stay as they are, in their order; new ones go before RECORD's own.
    """

    def formatted(path: str, content: bytes) -> Row:
        row = format_row(path, content)
        text = row.text.replace("\n", "\r\n") if crlf else row.text
        return Row(row.path, row.digest, row.size_bytes, text)

    new = {p: formatted(p, c) for p, c in contents.items() if c is not None}
    added = [row for path, row in new.items() if path not in rows]
    found: list[Row] = []
    for path, row in rows.items():
        if path == record:
            found, added = found + added, []
        if path in new:
            found.append(new[path])
        elif path not in contents:
            found.append(row)
    return format_rows([*found, *added])


def _document(
    site: Site,
    found: Recognised,
    tree: SourceTree,
    stored: Sequence[Stored],
    selection: Selection,
    patched: Patched,
    writer: _Writer,
) -> dict[str, Any]:
    return {
        "schema": APPLIED_SCHEMA,
        "patchkit": tool_version(),
        "distribution": site.distribution,
        "version": tree.version,
        "release": found.release,
        "recognised": found.note,
        "selection": selection_json(selection),
        "series": [series_json(entry, selection, patched) for entry in stored],
        "files": [
            {
                "path": change.path,
                "before": change.before,
                "after": change.after,
                "mode": change.mode,
                "mtime_ns": change.mtime_ns,
            }
            for change in writer.changes
        ],
        "folders": writer.folders(),
        "left_out": left_out_json(patched),
        "kept": digest(writer.kept),
    }


def tool_version() -> str:
    """Return the version of patchkit."""
    try:
        return metadata.version("patchkit")
    except metadata.PackageNotFoundError:
        return "unknown"


def _sha256(content: bytes | None) -> str | None:
    return None if content is None else digest(content)
