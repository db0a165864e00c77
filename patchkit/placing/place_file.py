"""One file section onto one target: new, deleted, renamed and modified files, Python or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from patchkit.diff.model import FileChange, split_lines
from patchkit.outcome import Evidence, Method, Status
from patchkit.placing.clash import file_clash
from patchkit.placing.elsewhere import file_elsewhere, same_file
from patchkit.placing.file_edits import FileJob
from patchkit.placing.place_text import place_text
from patchkit.placing.placers import Placers
from patchkit.placing.plan import PlannedFile
from patchkit.placing.verdict import Verdict
from patchkit.syntax.build import try_module
from patchkit.tree import PYTHON, SourceTree

Placed = tuple[Mapping[int, Verdict], Mapping[str, bytes]]


@dataclass(frozen=True)
class FilePlacement:
    """The verdicts on a section's hunks and what the target's files become."""

    verdicts: Mapping[int, Verdict]
    contents: Mapping[str, bytes | None] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)


def place_file(
    file: PlannedFile,
    base: SourceTree,
    target: SourceTree,
    banned: Mapping[int, Verdict],
    placers: Placers,
) -> FilePlacement:
    """Return what becomes of one section on the target.

    `banned` hunks keep the verdict that they come with; they are not tried. `placers` are those of
    the patch.
    """
    stopped = {n: banned[n] for n in file.numbers if n in banned}
    if len(stopped) == len(file.numbers):
        return FilePlacement(stopped)
    change = file.section.change
    if change is FileChange.ADD:
        return _add(file, base, target)
    if change is FileChange.DELETE:
        return _delete(file, target)
    path, new = file.path_before, file.section.path
    modes = _mode_change(file, target)
    if not file.jobs:
        return _metadata(file, target, modes)
    if change is FileChange.RENAME and path not in target.files and new in target.files:
        return _modify(file, new, base, target, banned, placers)  # upstream renamed it as well
    placement = _modify(file, path, base, target, banned, placers)
    statuses = {v.status for v in placement.verdicts.values()}
    unnamed = path != new and new not in target.files
    unset = any(target.mode(path) != mode for mode in modes.values())
    if statuses == {Status.ALREADY_UPSTREAM} and (unnamed or unset):
        # the edits are there and the name or the mode is not: neither may go without a word
        what = f"the name {new}" if unnamed else "the mode"
        reason = f"the target has its edits in {path} already, and not {what}"
        return FilePlacement(_same(file, Verdict(Status.CONFLICTED, reason=reason)))
    if Status.PLACED not in statuses:
        modes = {}
    elif path != new:
        placement = _renamed(placement, path, new, target, keep=change is FileChange.COPY)
    return FilePlacement(placement.verdicts, placement.contents, modes)


def _same(file: PlannedFile, verdict: Verdict) -> dict[int, Verdict]:
    return dict.fromkeys(file.numbers, verdict)


def _add(file: PlannedFile, base: SourceTree, target: SourceTree) -> FilePlacement:
    path, authored = file.section.path, file.authored or b""
    existing = target.files.get(path)
    elsewhere = file_elsewhere(path, authored, base, target) if existing is None else None
    if elsewhere is not None:
        place, fact = elsewhere
        there = Verdict(Status.ALREADY_UPSTREAM, path=place, evidence=(fact,))
        return FilePlacement(_same(file, there))
    shadow = _same_module(path, target)
    if existing is None and shadow is not None:
        reason = f"the target has {shadow}, which is the same module to an import"
        verdict = Verdict(Status.CONFLICTED, reason=reason, candidates=(shadow,))
        return FilePlacement(_same(file, verdict))
    if existing is None:
        evidence = (Evidence("new-file", f"the target has no {path}"),)
        verdict = Verdict(
            Status.PLACED,
            path=path,
            method=Method.NEW_FILE,
            evidence=evidence,
            lines=(1, _line_count(file.authored)),
        )
        modes = {path: file.section.new_mode} if file.section.new_mode else {}
        return FilePlacement(_same(file, verdict), {path: file.authored}, modes)
    mode = file.section.new_mode
    if existing == file.authored and mode is not None and mode != target.mode(path):
        evidence = (Evidence("upstream", f"the target has {path} with another mode"),)
        verdict = Verdict(Status.PLACED, path=path, method=Method.METADATA, evidence=evidence)
        return FilePlacement(_same(file, verdict), {}, {path: mode})
    same = same_file(path, authored, existing)
    if same is not None:
        verdict = Verdict(Status.ALREADY_UPSTREAM, path=path, evidence=(same,))
        return FilePlacement(_same(file, verdict))
    reason = f"the target has a {path} of its own, with other content"
    clash = file_clash(path, authored, existing)
    verdict = Verdict(Status.CONFLICTED, reason=reason, candidates=(path,), clash=clash)
    return FilePlacement(_same(file, verdict))


def _same_module(path: str, target: SourceTree) -> str | None:
    """The file of the target that an import finds by the name of another one, if any."""
    stem = path.removesuffix(".py")
    if stem == path:
        return None
    package = stem.removesuffix("/__init__")
    other = f"{package}.py" if package != stem else f"{stem}/__init__.py"
    return other if other in target.files else None


def _line_count(content: bytes | None) -> int:
    return max(1, len(split_lines(content or b"")))


def _delete(file: PlannedFile, target: SourceTree) -> FilePlacement:
    path = file.path_before
    existing = target.files.get(path)
    if existing is None and target.partial:
        reason = f"{path} is not among the files given"
        return FilePlacement(_same(file, Verdict(Status.ORPHANED, reason=reason)))
    if existing is None:
        evidence = (Evidence("upstream", f"the target has no {path}"),)
        return FilePlacement(_same(file, Verdict(Status.ALREADY_UPSTREAM, evidence=evidence)))
    if existing == file.base:
        evidence = (Evidence("exact", f"{path} is the same in base and target"),)
        verdict = Verdict(Status.PLACED, path=path, method=Method.DELETE_FILE, evidence=evidence)
        return FilePlacement(_same(file, verdict), {path: None})
    reason = f"{path} has changed upstream; what would be lost has to be looked at"
    return FilePlacement(_same(file, Verdict(Status.CONFLICTED, reason=reason, candidates=(path,))))


def _mode_change(file: PlannedFile, target: SourceTree) -> dict[str, int]:
    new = file.section.new_mode
    path = file.section.path
    if new is None or new == file.section.old_mode or file.path_before not in target.files:
        return {}
    return {path: new}


def _metadata(file: PlannedFile, target: SourceTree, modes: Mapping[str, int]) -> FilePlacement:
    """A section without hunks: a mode, or a rename with the content as it was."""
    path, new = file.path_before, file.section.path
    content = target.files.get(path)
    if content is None:
        there = path != new and new in target.files and target.files[new] == file.base
        if there:
            evidence = (Evidence("upstream", f"the target calls {path} {new}"),)
            return FilePlacement(_same(file, Verdict(Status.ALREADY_UPSTREAM, evidence=evidence)))
        reason = f"the target has no {path}"
        return FilePlacement(_same(file, Verdict(Status.ORPHANED, reason=reason)))
    if path == new and target.mode(path) == file.section.new_mode:
        evidence = (Evidence("upstream", f"{path} has mode {target.mode(path):o} already"),)
        return FilePlacement(_same(file, Verdict(Status.ALREADY_UPSTREAM, evidence=evidence)))
    verdict = Verdict(
        Status.PLACED,
        path=new,
        method=Method.METADATA,
        evidence=(Evidence("exact", f"the target has {path}"),),
    )
    placement = FilePlacement(_same(file, verdict), {}, modes)
    keep = file.section.change is FileChange.COPY
    return _renamed(placement, path, new, target, keep=keep) if path != new else placement


def _renamed(
    placement: FilePlacement, path: str, new: str, target: SourceTree, *, keep: bool
) -> FilePlacement:
    """A placement with the file under its new name; a file of that name is a conflict.

    With `keep` the old file stays as it is in the target: a copy.
    """
    if path not in target.files:
        return placement
    if new in target.files:
        reason = f"the target has a {new} of its own"
        verdicts = dict.fromkeys(placement.verdicts, Verdict(Status.CONFLICTED, reason=reason))
        return FilePlacement(verdicts)
    contents = dict(placement.contents)
    changed = contents.pop(path, None)
    contents[new] = target.files[path] if changed is None else changed
    if not keep:
        contents[path] = None
    moved = {
        n: replace(v, path=new) if v.path == path else v for n, v in placement.verdicts.items()
    }
    return FilePlacement(moved, contents, placement.modes)


def _modify(
    file: PlannedFile,
    path: str,
    base: SourceTree,
    target: SourceTree,
    banned: Mapping[int, Verdict],
    placers: Placers,
) -> FilePlacement:
    assert file.base is not None
    assert file.authored is not None
    current = target.files.get(path)
    crlf = current is not None and _is_crlf(current) and not _is_crlf(file.base)
    job = _job(file, path)
    if crlf and current is not None:
        target = target.with_changes({path: current.replace(b"\r\n", b"\n")})
        current = target.files[path]
    if _is_placed_as_python(job, path, current):
        placer = placers.placer(file.numbers[0], job, path, base, target)
        placed: Placed = placer.place(banned)
    else:
        placed = _place_otherwise(job, path, current, target, banned)
    verdicts, contents = placed
    if crlf:
        contents = {p: c.replace(b"\n", b"\r\n") if p == path else c for p, c in contents.items()}
    return FilePlacement(verdicts, dict(contents))


def _is_crlf(content: bytes) -> bool:
    """Whether every line of a text ends in CR LF."""
    return b"\r\n" in content and content.count(b"\n") == content.count(b"\r\n")


def _job(file: PlannedFile, path: str) -> FileJob:
    assert file.base is not None
    assert file.authored is not None
    return FileJob(path, file.base, file.authored, file.jobs)


def _is_placed_as_python(job: FileJob, path: str, current: bytes | None) -> bool:
    return _is_python(job, path) and (current is None or _parses(current))


def _is_python(job: FileJob, path: str) -> bool:
    return path.endswith(PYTHON) and _parses(job.base) and _parses(job.authored)


def _place_otherwise(
    job: FileJob,
    path: str,
    current: bytes | None,
    target: SourceTree,
    banned: Mapping[int, Verdict],
) -> Placed:
    """Place what is no Python, or say why it cannot be placed."""
    if current is None:
        where = "not among the files given" if target.partial else "gone from the target"
        verdict = Verdict(Status.ORPHANED, reason=f"{path} is {where}")
    elif _is_python(job, path):
        verdict = Verdict(Status.CONFLICTED, reason=f"{path} in the target is not valid Python")
    else:
        return place_text(job, path, current, banned)
    return {h.number: banned.get(h.number, verdict) for h in job.hunks}, {}


def _parses(content: bytes) -> bool:
    return try_module(content) is not None
