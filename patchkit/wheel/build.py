"""A patched wheel from upstream's: planned as values, written once, named when it was checked."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata as installed
from pathlib import Path

from patchkit.errors import PatchkitError
from patchkit.repository.store import Stored
from patchkit.series.selection import Selection
from patchkit.tree import REGULAR
from patchkit.upstream.members import VERSION_FILE
from patchkit.upstream.pins import Artifact
from patchkit.wheel.archive import Archive, NewMember, map_archive, opened_wheel, read_archive
from patchkit.wheel.check import SIGNATURES, check_wheel
from patchkit.wheel.metadata import set_module_version, set_version
from patchkit.wheel.names import WheelName, label_of, parse_wheel_name
from patchkit.wheel.output import new_file, write_pieces
from patchkit.wheel.patching import ChangedFile, Patched, is_taken, patch_tree
from patchkit.wheel.provenance import KEPT, PROVENANCE, Way, digest, format_document, provenance
from patchkit.wheel.record import Row, format_row, format_rows, parse_rows, renamed_row
from patchkit.wheel.rewrite import Edit, kept_archive, old_layout, plan_layout, plan_steps
from patchkit.wheel.sbom import SBOM, sbom
from patchkit.wheel.tree import wheel_tree

# A label longer than this is told by a count instead: it goes into file and folder names.
_MAX_WORD = 40


@dataclass(frozen=True)
class Wanted:
    """What is to be built: the pinned file, and the patches on it; `label` None for the default."""

    upstream: Artifact
    root: Path
    stored: tuple[Stored, ...]
    selection: Selection
    label: str | None = None
    keep_module_version: bool = False


@dataclass(frozen=True)
class Built:
    """A wheel that was written; `path` is None where not every hunk landed."""

    name: WheelName
    patched: Patched
    path: Path | None = None
    size_bytes: int = 0


def build_wheel(
    wanted: Wanted, source: Path, output: Path, verified: Callable[[], object] = lambda: True
) -> Built:
    """Write a patched wheel into a folder; `source` is upstream's file.

    `verified` says at last whether the file has the pinned sha256, and may take its time: the
    result gets no name before. Raises PatchkitError where upstream's file, the patches or the
    result are not sound; nothing under the result's name has then changed.
    """
    with opened_wheel(source) as (opened, archive):
        upstream_name = parse_wheel_name(wanted.upstream.filename)
        rows = _upstream_rows(archive, upstream_name)
        tree = wheel_tree(archive, rows, wanted.upstream.filename)
        patched = patch_tree(wanted.root, wanted.stored, wanted.selection, tree)
        label = wanted.label or default_label(wanted.stored, wanted.selection)
        name = upstream_name.with_label(label)
        if not patched.ok:
            return Built(name, patched)
        plan = _Plan(wanted, archive, rows, patched, upstream_name, name)
        path = output / str(name)
        with new_file(path) as (file, publish):
            write_pieces(file, plan.layout.pieces, opened)
            with ThreadPoolExecutor(1) as pool:  # the disk works while the check does
                flushed = pool.submit(os.fsync, file.fileno())
                _check(plan, map_archive(file, str(path)))
                flushed.result()
            if not verified():
                raise PatchkitError("does not have its pinned sha256 any more", place=str(source))
            publish()
    return Built(name, patched, path, plan.layout.size_bytes)


def default_label(stored: Sequence[Stored], selection: Selection) -> str:
    """Return the label that says which patches are in, and by a digest which text they have.

    The digest is in it so that an installer, and vLLM's compile cache, never take one build for
    another: equal versions hold equal patches.
    """
    word = label_of(selection.word)
    if len(word) > _MAX_WORD:
        chosen, left = len(selection.chosen), len(selection.left_out)
        word = f"{word.split('.')[0]}.{chosen}of{chosen + left}"
    total = hashlib.sha256()
    for entry in stored:
        for key in selection.chosen:
            if key[0] == entry.folder:
                total.update(f"{'/'.join(key)} {digest(entry.series.patches[key[1]])}\n".encode())
        taken = entry.series.overlay if is_taken(entry, selection) else None
        for file in taken.entries if taken else ():
            total.update(f"{file.path} {file.sha256}\n".encode())
    # a letter first: digits alone would lose their leading zeros
    parts = ("patchkit", word, f"h{total.hexdigest()[:8]}")
    return ".".join(part for part in parts if part)


class _Plan:
    """All bytes of the result, as new members and spans of upstream's file."""

    def __init__(
        self,
        wanted: Wanted,
        archive: Archive,
        rows: Mapping[str, Row],
        patched: Patched,
        old: WheelName,
        new: WheelName,
    ) -> None:
        self.archive, self.rows, self.new = archive, rows, new
        files = dict(patched.files)
        if not wanted.keep_module_version:
            self._set_module_version(files, old.version, new.version)
        patched = Patched(files, patched.outcomes, patched.unshipped, patched.notes)
        edit = self._edit(files, old)
        # the steps do not ask where in the new archive RECORD and the files about it lie
        self.way = Way(
            wanted.upstream.filename, wanted.upstream.sha256, wanted.upstream.size_bytes,
            old.dist_info, plan_steps(archive, edit),
        )  # fmt: skip
        tool = _tool_version()
        about = provenance(
            wanted.upstream, new.version, wanted.stored, wanted.selection, patched, self.way, tool
        )
        bill = sbom(wanted.upstream, new, old.version, wanted.stored, wanted.selection, tool)
        self.kept = kept_archive(archive, edit)
        last = [
            NewMember(f"{new.dist_info}/{SBOM}", format_document(bill)),
            NewMember(f"{new.dist_info}/{PROVENANCE}", format_document(about)),
            NewMember(f"{new.dist_info}/{KEPT}", self.kept),
        ]
        last.append(self._record(edit, last))
        self.layout = plan_layout(archive, edit, last)
        self.edit = edit

    def _set_module_version(self, files: dict[str, ChangedFile], old: str, new: str) -> None:
        member = self.archive.by_name.get(VERSION_FILE)
        if member is None:
            raise PatchkitError(f"{VERSION_FILE} is missing", place=self.archive.place)
        before = self.archive.read(member)
        given = files.get(VERSION_FILE, ChangedFile(before, before))
        content = set_module_version(given.after or b"", old, new, VERSION_FILE)
        files[VERSION_FILE] = ChangedFile(before, content, given.mode)

    def _edit(self, files: Mapping[str, ChangedFile], old: WheelName) -> Edit:
        members = self.archive.by_name
        changes: dict[str, NewMember | None] = {}
        added = []
        for path, file in sorted(files.items()):
            if path not in members:
                assert file.after is not None
                added.append(NewMember(path, file.after, _external(0, file.mode or REGULAR)))
            elif file.after is None:
                changes[path] = None
            else:
                external = members[path].external
                if file.mode is not None:
                    external = _external(external, file.mode)
                changes[path] = NewMember(path, file.after, external)
        metadata = f"{old.dist_info}/METADATA"
        content = set_version(self.archive.read(members[metadata]), self.new.version, metadata)
        external = members[metadata].external
        changes[metadata] = NewMember(f"{self.new.dist_info}/METADATA", content, external)
        changes[f"{old.dist_info}/RECORD"] = None  # written anew, at the end
        return Edit(changes, added, (old.dist_info, self.new.dist_info))

    def _record(self, edit: Edit, last: Sequence[NewMember]) -> NewMember:
        """Return RECORD: rows of what is untouched as upstream wrote them, in upstream's order."""
        rows: list[Row] = []
        waiting = [format_row(member.name, member.content) for member in edit.added]
        own = f"{edit.rename[0]}/RECORD"
        for path, row in self.rows.items():
            if path.startswith(f"{edit.rename[0]}/") and waiting:
                rows, waiting = rows + waiting, []
            if path == own:
                continue
            if path in edit.changes:
                change = edit.changes[path]
                rows += [format_row(change.name, change.content)] if change else []
            else:
                new = edit.new_name(path)
                rows.append(row if new == path else renamed_row(row, new))
        rows += waiting
        rows += [format_row(member.name, member.content) for member in last]
        name = f"{edit.rename[1]}/RECORD"
        rows.append(format_row(name, None))
        return NewMember(name, format_rows(rows), self.archive.by_name[own].external)


def _check(plan: _Plan, written: Archive) -> None:
    """Check what was written, and that it leads back to upstream's bytes.

    The data of copied members is upstream's, whose sha256 was verified as it came: their rows must
    be upstream's too, and are not hashed again.
    """
    edit = plan.edit
    known = {edit.new_name(path): row for path, row in plan.rows.items()}
    known = {path: row for path, row in known.items() if path in plan.layout.copied}
    check_wheel(written, str(plan.new), known=known)
    kept = read_archive(plan.kept, KEPT)
    back = old_layout(written, kept, plan.way.steps, edit.rename)
    view, start = plan.archive.view, plan.archive.directory.start
    size = sum(len(p) if isinstance(p, bytes) else p.size_bytes for p in back)
    # the directory holds each member's place, sizes and checksum
    if size != len(view) or b"".join(p for p in back[-2:] if isinstance(p, bytes)) != view[start:]:
        raise AssertionError("the way back does not lead to upstream's directory")


def _upstream_rows(archive: Archive, name: WheelName) -> dict[str, Row]:
    """Return the rows of upstream's RECORD by path; its wheel must be one that can be rewritten."""
    for file in ("METADATA", "WHEEL", "RECORD"):
        if f"{name.dist_info}/{file}" not in archive.by_name:
            raise PatchkitError(f"{name.dist_info}/{file} is missing", place=archive.place)
    for signature in SIGNATURES:
        if f"{name.dist_info}/{signature}" in archive.by_name:
            raise PatchkitError(
                f"{signature} signs the wheel, which a patched one cannot keep", place=archive.place
            )
    record = f"{name.dist_info}/RECORD"
    rows = parse_rows(archive.read(archive.by_name[record]), f"{archive.place}: RECORD")
    return {row.path: row for row in rows}


def _external(external: int, mode: int) -> int:
    """Return external attributes with another git mode; what is not the mode stays."""
    return (stat.S_IFREG | stat.S_IMODE(mode)) << 16 | external & 0xFFFF


def _tool_version() -> str:
    try:
        return installed.version("patchkit")
    except installed.PackageNotFoundError:
        return "unknown"
