"""What the user names, as patches in order: files, mailboxes, folders, quilt stacks, git ranges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchkit.adopting.log_text import split_log
from patchkit.adopting.naming import stem_of_file, stem_of_subject
from patchkit.adopting.said import Said, said_by
from patchkit.diff import Patch, parse_mbox
from patchkit.diff.mail import decode_text, split_letters
from patchkit.errors import PatchkitError, UsageError
from patchkit.repository.workspace import read_file, read_folder
from patchkit.series.series import SERIES, SeriesEntry, parse_series_file
from patchkit.upstream.source import GIT_PREFIX

_SUFFIXES = (".patch", ".diff", ".mbox", ".eml")
_LOOKS_LIKE_A_PATCH = re.compile(rb"^(diff --git |--- \S.*\n\+\+\+ \S|Index: )", re.MULTILINE)
_TRACE = re.compile(rb"^(diff |--- \S|\+\+\+ |@@|Index: |GIT binary)", re.MULTILINE)
STDIN = "standard input"
LETTER = "a mail without a patch"


@dataclass(frozen=True)
class Found:
    """One patch as it was found.

    `patch` goes by the name under which its lines are counted, `source` is how people know it, and
    `stem` what its stored name is made from. `strip` is what a quilt series says of its paths.
    """

    patch: Patch
    said: Said
    source: str
    stem: str
    strip: int | None = None


@dataclass(frozen=True)
class Gathered:
    """All that was found, in order; `ordered` where what was read says that it is that order.

    `passed_over` are files and commits without a patch, each with the reason.
    """

    patches: tuple[Found, ...]
    ordered: bool
    passed_over: tuple[tuple[str, str], ...] = ()


def gather(names: Sequence[str], read_stdin: Callable[[], bytes]) -> Gathered:
    """Return the patches that names stand for.

    A name is a file, `-`, a folder, or a range of commits: `git:REPO@A..B`, or `A..B` where the
    working folder is in a git repository. Raises PatchkitError for a damaged patch, and where there
    is none at all.
    """
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise UsageError("is given twice", place=twice[0])
    parts = [_gather(name, read_stdin) for name in names]
    patches = tuple(found for part in parts for found in part.patches)
    passed = tuple(row for part in parts for row in part.passed_over)
    if not patches:
        raise PatchkitError(
            "there is no patch",
            place=f"{passed[0][0]}:1" if passed else ", ".join(names),
            expected="unified diffs, mails with a patch, a folder of them, or git:REPO@A..B",
            hint=f"it is {passed[0][1]}" if passed else None,
        )
    return Gathered(patches, len(parts) == 1 and parts[0].ordered, passed)


def _gather(name: str, read_stdin: Callable[[], bytes]) -> Gathered:
    if name == "-":
        return Gathered(tuple(read_patches(read_stdin(), STDIN, "")), ordered=False)
    path = Path(name)
    if name.startswith(GIT_PREFIX):
        return _from_git(name.removeprefix(GIT_PREFIX))
    if path.is_dir():
        return _from_folder(path)
    if ".." in path.name and not path.exists():
        return _from_git(f"{_repository_here()}@{name}")
    data = read_file(path)
    if _is_letter(data, name):
        return Gathered((), ordered=False, passed_over=((name, LETTER),))
    return Gathered(tuple(read_patches(data, name, stem_of_file(name))), ordered=False)


def read_patches(
    data: bytes, name: str, stem: str, *, source: str | None = None, strip: int | None = None
) -> Iterator[Found]:
    """Yield the patches of a file; those of a mailbox or log are named by their subjects."""
    patches = [part for patch in parse_mbox(data, name) for part in split_log(patch)]
    for patch in patches:
        said = said_by(patch)
        by_subject = stem_of_subject(said.subject)
        own = by_subject or stem if len(patches) > 1 else stem or by_subject
        yield Found(patch, said, source or patch.name, own or "patch", strip)


def _from_folder(folder: Path) -> Gathered:
    """Return the patches of a folder, in the order of its series file where it has one."""
    for stack in (folder, folder / "patches"):
        if (stack / SERIES).is_file():
            return _from_stack(stack)
    if (folder / ".git").exists():
        raise PatchkitError(
            "is a git repository",
            place=str(folder),
            expected="a folder of patch files",
            hint=f"git:{folder}@A..B takes its commits from A to B",
        )
    found: list[Found] = []
    passed: list[tuple[str, str]] = []
    for name, data in read_folder(folder).items():
        if _is_hidden(name):
            continue
        place = (folder / name).as_posix()
        if _is_letter(data, place):
            passed.append((place, LETTER))
        elif _is_named(name) or _looks_like_a_patch(data, place):
            found += read_patches(data, place, stem_of_file(name))
        else:
            passed.append((place, "no patch"))
    return Gathered(tuple(found), ordered=False, passed_over=tuple(passed))


def _is_named(name: str) -> bool:
    return name.endswith(_SUFFIXES)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _is_letter(data: bytes, place: str) -> bool:
    """Return whether a file is mail with no trace of a patch: a cover letter, a reply."""
    try:
        text, _ = decode_text(data, place)
        letters = split_letters(text, place)
    except PatchkitError:
        return False
    body = b"".join(line for letter in letters for line in letter.lines)
    traces = _TRACE.search(body) or _TRACE.search(text)
    return all(letter.start for letter in letters) and not traces


def _looks_like_a_patch(data: bytes, place: str) -> bool:
    try:
        text, _ = decode_text(data, place)
    except PatchkitError:
        return False
    return bool(_LOOKS_LIKE_A_PATCH.search(text))


def _from_stack(folder: Path) -> Gathered:
    """Return the patches that a quilt series lists; others beside it are passed over, by name."""
    place = (folder / SERIES).as_posix()
    entries = parse_series_file(read_file(folder / SERIES), place)
    found: list[Found] = []
    for entry in entries:
        found += _from_entry(folder, place, entry)
    listed = {entry.name for entry in entries}
    passed = [
        ((folder / name).as_posix(), "not in the series file" if _is_named(name) else "no patch")
        for name in read_folder(folder)
        if name not in listed and name != SERIES and not _is_hidden(name)
    ]
    return Gathered(tuple(found), ordered=True, passed_over=tuple(passed))


def _from_entry(folder: Path, place: str, entry: SeriesEntry) -> Iterator[Found]:
    path = folder / entry.name
    if not path.is_file():
        raise PatchkitError(f"patch {entry.name} is missing", place=f"{place}:{entry.lineno}")
    stem = stem_of_file(entry.name)
    yield from read_patches(read_file(path), path.as_posix(), stem, strip=entry.strip)


def _from_git(spec: str) -> Gathered:
    from patchkit.upstream.gitrepo import read_commits

    found: list[Found] = []
    passed: list[tuple[str, str]] = []
    for commit in read_commits(spec):
        name = f"commit {commit.object_id[:12]}"
        if not commit.mail.strip():
            passed.append((name, "changes no file"))
            continue
        found += read_patches(commit.mail, name, "", source=f"commit {commit.object_id}")
    return Gathered(tuple(found), ordered=True, passed_over=tuple(passed))


def _repository_here() -> Path:
    """Return the top of the git work tree that the working folder is in."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").exists():
            return folder
    raise PatchkitError(
        "the working folder is in no git repository",
        place=str(here),
        hint="git:REPO@A..B names one",
    )
