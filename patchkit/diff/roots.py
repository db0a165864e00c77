"""Where the paths of a patch lie in a tree: root and strip level, found by matching its files.

`a/v1/core/x.py`, `a/vllm/v1/core/x.py` and `/usr/lib/site-packages/vllm/v1/core/x.py` are one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from patchkit.diff.apply import find_lines, fit_line_endings
from patchkit.diff.model import FileChange, FilePatch, Note, Patch, split_lines
from patchkit.errors import PatchkitError
from patchkit.profile import Profile, Section
from patchkit.tree import REGULAR, SourceTree
from patchkit.vllm.profile import VLLM

__all__ = ["AS_WRITTEN", "Root", "Section", "classify", "resolve_roots"]


@dataclass(frozen=True)
class Root:
    """How a written path becomes one of the tree: folders come off, then a prefix goes on."""

    stripped: tuple[str, ...]
    prefix: str

    def of(self, path: str) -> str | None:
        """Return the path in the tree, or None where it does not start with the folders."""
        parts = _parts(path)
        count = len(self.stripped)
        if len(parts) <= count or parts[:count] != self.stripped:
            return None
        return self.prefix + "/".join(parts[count:])


AS_WRITTEN = Root((), "")


@dataclass(frozen=True)
class _Hit:
    """A file of the tree that a section may mean."""

    root: Root
    path: str
    sure: bool  # nothing but the package's own name, or nothing at all, was taken for the root


def classify(path: str, *, tree: SourceTree | None = None, profile: Profile = VLLM) -> Section:
    """Return whether a file is shipped, built from source, or not shipped.

    A file of the package that the tree has is shipped whatever its name: wheels carry headers that
    are compiled at run time.
    """
    if tree is not None and path.startswith(f"{profile.package}/") and path in tree.files:
        return Section.SHIPPED
    return profile.classify(path)


def resolve_roots(
    patch: Patch, tree: SourceTree, *, profile: Profile = VLLM
) -> tuple[Patch, tuple[Note, ...]]:
    """Return the patch with paths of the tree, its line endings those of the files, and notes.

    Each section may have its own root. A file that the tree does not have keeps the best guess,
    noted. Raises PatchkitError where a section fits several files equally well.
    """
    finder = _Finder(patch, tree, profile)
    files: list[FilePatch] = []
    notes: list[Note] = []
    roots: set[Root] = set()
    for file in finder.files:
        root, hit = finder.root(file)
        moved = _move(file, root)
        written, path = _written(file), _written(moved)
        if root != AS_WRITTEN and root not in roots:
            notes.append(Note(file.lineno, f"root found by matching the tree: {written} is {path}"))
        roots.add(root)
        if not hit and file.change is not FileChange.ADD:
            notes.append(Note(file.lineno, f"{path} is not in the tree"))
        resolved, more = _settle(moved, tree)
        files.append(resolved)
        notes += more
    return replace(patch, files=tuple(files)), tuple(notes)


def _parts(path: str) -> tuple[str, ...]:
    return tuple(path.lstrip("/").split("/"))


def _written(file: FilePatch) -> str:
    """Return the name that says which file of the tree a section is about."""
    follows_old = file.change in (FileChange.RENAME, FileChange.COPY)
    return file.old_path if follows_old and file.old_path is not None else file.path


def _move(file: FilePatch, root: Root) -> FilePatch:
    """Return the section with its paths under a root; a modified file has one name from here on."""
    new = None if file.new_path is None else root.of(file.new_path) or file.new_path
    old = None if file.old_path is None else root.of(file.old_path) or file.old_path
    if file.change is FileChange.MODIFY:
        old = new
    elif new is not None and old is not None and root.of(new) is None and root.stripped:
        # A move between two folders that are compared, old/vllm/x.py and new/vllm/y.py.
        parts = _parts(new)[len(root.stripped) :]
        new = root.prefix + "/".join(parts) if parts else new
    return replace(file, old_path=old, new_path=new)


def _settle(file: FilePatch, tree: SourceTree) -> tuple[FilePatch, tuple[Note, ...]]:
    """Return the section as the tree decides it: added or modified, with which line endings."""
    content = tree.files.get(_written(file))
    if file.change is FileChange.ADD and file.new_mode is None:
        if content == b"":
            file = replace(file, change=FileChange.MODIFY, old_path=file.new_path)
        else:
            file = replace(file, new_mode=REGULAR)
    return (file, ()) if content is None else fit_line_endings(file, content)


class _Finder:
    """The search for the root of each section, given what the other sections are sure of."""

    def __init__(self, patch: Patch, tree: SourceTree, profile: Profile) -> None:
        self._name = patch.name
        self._tree = tree
        self._profile = profile
        self.files = [self._with_one_name(file) for file in patch.files]

    def _with_one_name(self, file: FilePatch) -> FilePatch:
        """Return a modified file under the one of its names that the tree has (`x.py.orig`)."""
        old = file.old_path
        if file.change is not FileChange.MODIFY or old in (None, file.new_path):
            return file
        named_old = replace(file, new_path=old)
        return named_old if self._hits(named_old) and not self._hits(file) else file

    @cached_property
    def _votes(self) -> list[tuple[FilePatch, Root]]:
        """Return the roots of sections that can mean one file only."""
        found = [(file, self._hits(file)) for file in self.files]
        return [
            (file, hits[0].root)
            for file, hits in found
            if len(hits) == 1 and not self._profile.names(_written(file))
        ]

    def _agreed(self, file: FilePatch) -> list[Root]:
        """Return the roots of the other sections, the most frequent first."""
        roots = [root for voter, root in self._votes if voter is not file]
        return sorted(dict.fromkeys(roots), key=lambda root: -roots.count(root))

    @cached_property
    def _folders(self) -> frozenset[str]:
        folders: set[str] = set()
        for path in self._tree.files:
            folder = path.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        return frozenset(folders)

    def root(self, file: FilePatch) -> tuple[Root, bool]:
        """Return the root of a section, and whether the tree has its file."""
        hits = self._hits(file)
        if not hits and file.change is not FileChange.ADD:
            hits = self._loose_hits(file)
        hits = [hit for hit in hits if self._is_plausible(file, hit)]
        if len(hits) > 1:
            hits = self._best(file, hits)
        if len(hits) > 1:
            raise PatchkitError(
                f"{_written(file)} fits several files: {', '.join(hit.path for hit in hits)}",
                place=f"{self._name}:{file.lineno}",
                expected="one",
                hint=f"write paths from the top of the tree, as in a/{self._profile.package}/...",
            )
        return (hits[0].root, True) if hits else (self._guess(file), False)

    def _hits(self, file: FilePatch) -> list[_Hit]:
        """Return the files of the tree that a section can mean without taking folders on trust."""
        return [hit for hit in self._possible(_written(file)) if hit.sure]

    def _loose_hits(self, file: FilePatch) -> list[_Hit]:
        """Return the files that hold every hunk, where folders of the path must be taken off.

        Not where the path names the package: a file that is gone must not become another one.
        """
        name = _written(file)
        if self._profile.package in _parts(name)[:-1]:
            return []
        return [
            hit
            for hit in self._possible(name)
            if 0 < len(file.hunks) == self._score(file, hit.path)
        ]

    def _possible(self, name: str) -> Iterator[_Hit]:
        parts = _parts(name)
        seen: set[str] = set()
        for strip in range(len(parts)):
            rest = "/".join(parts[strip:])
            for prefix in ("", f"{self._profile.package}/"):
                path = prefix + rest
                if path in seen or path not in self._tree.files:
                    continue
                seen.add(path)
                anchored = not prefix and parts[strip] == self._profile.package
                yield _Hit(Root(parts[:strip], prefix), path, sure=strip == 0 or anchored)

    def _is_plausible(self, file: FilePatch, hit: _Hit) -> bool:
        """Return whether a hit under the package may stand for a path written without it.

        `benchmarks/x.py` is most likely a file that is not shipped, and a root that no other
        section has is unlikely: then the content must speak for it.
        """
        if hit.root.prefix == "":
            return True
        agreed = self._agreed(file)
        odd = bool(agreed) and hit.root not in agreed
        elsewhere = self._profile.names(_written(file)) and hit.root not in agreed[:1]
        return not (odd or elsewhere) or self._score(file, hit.path) > 0

    def _best(self, file: FilePatch, hits: list[_Hit]) -> list[_Hit]:
        """Return the hits that hold the most hunks; of those, the agreed or the least stripped."""
        scores = {hit.path: self._score(file, hit.path) for hit in hits}
        hits = [hit for hit in hits if scores[hit.path] == max(scores.values())]
        agreed = [hit for hit in hits if hit.root in self._agreed(file)[:1]]
        hits = agreed or hits
        least = min(len(hit.root.stripped) for hit in hits)
        return [hit for hit in hits if len(hit.root.stripped) == least]

    def _score(self, file: FilePatch, path: str) -> int:
        """Return how many hunks have their old lines in a file."""
        content = self._tree.files[path]
        fitted, _ = fit_line_endings(file, content)
        lines = split_lines(content)
        return sum(bool(find_lines(lines, hunk.old_lines)) for hunk in fitted.hunks)

    def _guess(self, file: FilePatch) -> Root:
        """Return the most likely root of a path that the tree does not have."""
        name = _written(file)
        parts, package = _parts(name), self._profile.package
        roots = [root for root in self._agreed(file) if root.of(name) is not None]
        for root in roots:
            if self._has_folder(root.of(name) or ""):
                return root
        if self._profile.names(name):
            return AS_WRITTEN
        anchors = [at for at, part in enumerate(parts[:-1]) if part == package]
        for at in anchors:
            if self._has_folder("/".join(parts[at:])):
                return Root(parts[:at], "")
        if anchors:
            at = anchors[0]
            while at + 1 in anchors:  # a checkout named like the package
                at += 1
            return Root(parts[:at], "")
        if roots:
            return roots[0]
        return Root((), f"{package}/") if self._has_folder(f"{package}/{name}") else AS_WRITTEN

    def _has_folder(self, path: str) -> bool:
        """Return whether the tree has a folder of the path that is not the package itself."""
        folder = path.rpartition("/")[0]
        while folder and folder not in self._folders:
            folder = folder.rpartition("/")[0]
        return folder not in ("", self._profile.package)
