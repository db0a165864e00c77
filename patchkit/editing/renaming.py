"""A patch under another name: everywhere that a repository calls it by the old one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import tomlkit
from tomlkit.exceptions import TOMLKitError

from patchkit.config import PYPROJECT, Config
from patchkit.diff import format_patch, parse_patch
from patchkit.editing.heading import with_needs
from patchkit.editing.naming import refuse_taken
from patchkit.errors import PatchkitError, UsageError
from patchkit.repository.memory import memory_path, read_memory
from patchkit.repository.store import Stored, read_stored, release_folder, stored_releases
from patchkit.repository.verdicts import read_verdicts, verdicts_path
from patchkit.repository.workspace import Replacement, read_file
from patchkit.series.resolutions import format_resolutions
from patchkit.series.selection import same_patch
from patchkit.series.series import SERIES, anchors_name
from patchkit.series.verdict import format_verdicts


@dataclass(frozen=True)
class Renamed:
    """What a new name writes, each file with what was done in it, in words."""

    replacements: tuple[Replacement, ...]
    done: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()


def rename(
    config: Config, folder: str, old: str, new: str, releases: Sequence[str], *, everywhere: bool
) -> Renamed:
    """Return a patch of a folder under a new name, in some releases or with `everywhere` in all.

    Only then do selections and resolutions go by the new name, and the comments that say why a
    release has it not.
    Raises PatchkitError where a release has a patch of the new name.
    """
    found: list[tuple[str, bytes | Mapping[str, bytes], str]] = []
    for release in releases:
        found += _in_release(config, folder, old, new, release)
    if everywhere:
        found += _comments(config, folder, old, new, {place for place, _, _ in found})
        found += _resolutions(config, folder, old, new)
    found += _verdicts(config, folder, old, new, None if everywhere else releases)
    notes = []
    selections = _selections(config, folder, old, new)
    if selections is not None and everywhere:
        found.append((PYPROJECT, selections, "selections"))
    elif selections is not None:
        notes.append(f"the selections of pyproject.toml still say {old}, as other releases do")
    written = tuple(Replacement(config.root / place, content) for place, content, _ in found)
    return Renamed(written, tuple((place, what) for place, _, what in found), tuple(notes))


def holders(
    config: Config, folders: Sequence[str], word: str
) -> tuple[tuple[str], str, tuple[str, ...]]:
    """Return the folder of a patch, its name, and the releases that hold it as their own."""
    found: dict[tuple[str, str], list[str]] = {}
    for folder in folders:
        for release in stored_releases(config.root, folder):
            stored = read_stored(config.root, folder, release)
            for entry in stored.series.entries if stored.same_as is None else ():
                if same_patch(word, folder, entry.name):
                    found.setdefault((folder, entry.name), []).append(release)
    if len(found) != 1:
        named = " and ".join("/".join(key) for key in found)
        fact = f"names {named}" if found else "names no stored patch"
        raise PatchkitError(f"{word!r} {fact}", place=", ".join(folders), expected="one patch")
    (folder, name), releases = next(iter(found.items()))
    return (folder,), name, tuple(releases)


def _in_release(
    config: Config, folder: str, old: str, new: str, release: str
) -> list[tuple[str, bytes | Mapping[str, bytes], str]]:
    """Return the release folders with the patch under its new name, and what points at it."""
    found: list[tuple[str, bytes | Mapping[str, bytes], str]] = []
    for name in config.series:
        if release not in stored_releases(config.root, name):
            continue
        stored = read_stored(config.root, name, release)
        if stored.same_as is not None:
            continue  # what it is the same as is renamed where it is stored
        files = dict(stored.files)
        done = []
        if name == folder:
            refuse_taken(new, [e.name for e in stored.series.entries if e.name != old])
            _move(files, stored, old, new)
            done.append(f"{old} is {new}")
        pointing = _point(files, name, stored, (folder, old), new)
        done += [f"{other} depends on it by the new name" for other in pointing]
        if done:
            found.append((stored.place, files, "; ".join(done)))
    return found


def _move(files: dict[str, bytes], stored: Stored, old: str, new: str) -> None:
    files[new] = files.pop(old)
    if anchors_name(old) in files:
        files[anchors_name(new)] = files.pop(anchors_name(old))
    entry = next(entry for entry in stored.series.entries if entry.name == old)
    lines = files[SERIES].decode().split("\n")
    line = lines[entry.lineno - 1]
    lines[entry.lineno - 1] = line.replace(old, new, 1)
    files[SERIES] = "\n".join(lines).encode()


def _point(
    files: dict[str, bytes], folder: str, stored: Stored, old: tuple[str, str], new: str
) -> list[str]:
    """Change the headers that depend on the patch, and return the names of theirs."""
    found = []
    stem = _stem(new)

    own = [entry.name for entry in stored.series.entries] if folder != old[0] else []

    def renamed(word: str) -> str:
        if not same_patch(word, *old) or any(same_patch(word, folder, name) for name in own):
            return word
        return f"{old[0]}/{stem}" if "/" in word else stem

    for entry in stored.series.entries:
        name = new if (folder, entry.name) == old else entry.name
        patch = parse_patch(files[name], f"{stored.place}/{entry.name}")
        preamble = with_needs(patch.preamble, renamed, f"{stored.place}/{entry.name}")
        if preamble != patch.preamble:
            files[name] = format_patch(replace(patch, preamble=preamble))
            found.append(name)
    return found


def _comments(
    config: Config, folder: str, old: str, new: str, known: set[str]
) -> list[tuple[str, bytes | Mapping[str, bytes], str]]:
    """Return the release folders whose series file says why it has the patch not."""
    found: list[tuple[str, bytes | Mapping[str, bytes], str]] = []
    for release in stored_releases(config.root, folder):
        place = release_folder(folder, release)
        stored = read_stored(config.root, folder, release)
        if place in known or stored.same_as is not None:
            continue
        text = stored.files[SERIES].decode()
        pattern = rf"^(#\s*){re.escape(_stem(old))}(?:\.patch)?(\s*:)"
        changed = re.sub(pattern, rf"\g<1>{_stem(new)}\g<2>", text, flags=re.MULTILINE)
        if changed != text:
            files = {**stored.files, SERIES: changed.encode()}
            found.append((place, files, "its comment on it"))
    return found


def _verdicts(
    config: Config, folder: str, old: str, new: str, releases: Iterable[str] | None
) -> list[tuple[str, bytes | Mapping[str, bytes], str]]:
    """Return the file of the verdicts with those on the patch under its new name."""
    known = read_verdicts(config.root, folder)
    wanted = None if releases is None else set(releases)
    changed = [
        replace(verdict, patch=new)
        if verdict.patch == old and (wanted is None or verdict.release in wanted)
        else verdict
        for verdict in known
    ]
    if changed == list(known):
        return []
    keys = [verdict.key for verdict in changed]
    if len(set(keys)) < len(keys):
        place = verdicts_path(config.root, folder).relative_to(config.root).as_posix()
        raise PatchkitError(f"has verdicts on {new} already", place=place, expected="another name")
    path = verdicts_path(config.root, folder).relative_to(config.root).as_posix()
    count = sum(one is not other for one, other in zip(changed, known, strict=True))
    return [(path, format_verdicts(changed), f"{count} verdict{'s' if count > 1 else ''}")]


def _resolutions(
    config: Config, folder: str, old: str, new: str
) -> list[tuple[str, bytes | Mapping[str, bytes], str]]:
    """Return the memory of a folder with what is remembered of the patch under its new name."""
    known = read_memory(config.root, folder)
    changed = [replace(one, patch=new) if one.patch == old else one for one in known]
    if changed == list(known):
        return []
    place = memory_path(config.root, folder).relative_to(config.root).as_posix()
    if len({one.key for one in changed}) < len(changed):
        raise PatchkitError(
            f"remembers the same resolution of {new} already",
            place=place,
            expected="another name",
            hint=f"`patchkit resolutions --forget {_stem(new)}` if it is of another patch",
        )
    count = sum(one.patch == old for one in known)
    words = f"{count} resolution{'s' if count > 1 else ''}"
    return [(place, format_resolutions(changed), words)]


def _selections(config: Config, folder: str, old: str, new: str) -> bytes | None:
    """Return pyproject.toml with the selections by the new name; None where none has the old."""
    named = any(same_patch(w, folder, old) for words in config.selections.values() for w in words)
    path = config.root / PYPROJECT
    if not named or not path.is_file():
        return None
    try:
        document = tomlkit.parse(read_file(path).decode("utf-8"))
    except (UnicodeDecodeError, TOMLKitError) as err:
        raise UsageError(f"not valid TOML: {err}", place=PYPROJECT) from err
    table = document["tool"]["patchkit"]["selections"]
    for words in table.values():
        for at, word in enumerate(words):
            if same_patch(str(word), folder, old):
                suffix = new if str(word).endswith((".patch", ".diff")) else _stem(new)
                words[at] = f"{folder}/{suffix}" if "/" in str(word) else suffix
    return tomlkit.dumps(document).encode()


def _stem(name: str) -> str:
    return name.removesuffix(".patch").removesuffix(".diff")
