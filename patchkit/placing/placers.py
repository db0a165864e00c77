"""The placers of one patch, kept between its rounds while what they read stays as it was.

A patch is placed anew whenever a check takes one of its hunks out, and what the others' files look
like in the target hardly ever changes by it: their views and the facts found there hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from patchkit.placing.correspond import Correspondence
from patchkit.placing.file_edits import FileEdits, FileJob
from patchkit.placing.place import PythonPlacer
from patchkit.tree import SourceTree, search_files


class SeenFiles(Mapping[str, bytes]):
    """Files that remember what was asked of them."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files
        self._contents: dict[str, bytes | None] = {}
        self._searches: dict[tuple[bytes, bool], list[str]] = {}
        self._listed = False

    def answer_alike(self, files: Mapping[str, bytes]) -> bool:
        """Return whether other files would have given every answer that these gave."""
        if self._listed:
            return False
        contents, searches = self._contents.items(), self._searches.items()
        return all(files.get(path) == content for path, content in contents) and all(
            search_files(files, word, python=python) == paths for (word, python), paths in searches
        )

    def _content(self, path: str) -> bytes | None:
        if path not in self._contents:
            self._contents[path] = self._files.get(path)
        return self._contents[path]

    def __getitem__(self, path: str) -> bytes:
        content = self._content(path)
        if content is None:
            raise KeyError(path)
        return content

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._content(path) is not None

    def __iter__(self) -> Iterator[str]:
        self._listed = True
        return iter(self._files)

    def __len__(self) -> int:
        self._listed = True
        return len(self._files)

    def search(self, word: bytes, *, python: bool = False) -> list[str]:
        """Return the paths of the files, or of the Python files alone, that hold a word."""
        key = (word, python)
        if key not in self._searches:
            self._searches[key] = search_files(self._files, word, python=python)
        return list(self._searches[key])


class Placers:
    """Gives the placer of each file of a patch; the base is the same in all rounds."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str], tuple[PythonPlacer, SeenFiles]] = {}

    def edits(self, number: int) -> FileEdits | None:
        """Return the lifted edits of a section by its first hunk, None where none was lifted."""
        return next((p.edits for (n, _), (p, _) in self._kept.items() if n == number), None)

    def placer(
        self, number: int, job: FileJob, path: str, base: SourceTree, target: SourceTree
    ) -> PythonPlacer:
        """Return the placer of a job onto a path; `number` is the first hunk of its section."""
        kept = self._kept.get((number, path))
        if kept is not None and kept[1].answer_alike(target.files):
            return kept[0]
        edits = FileEdits(job) if kept is None else kept[0].edits
        seen = SeenFiles(target.files)
        placer = PythonPlacer(edits, path, Correspondence(base, replace(target, files=seen)))
        self._kept[number, path] = placer, seen
        return placer
