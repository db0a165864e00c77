"""Where a definition of the base is in the target: by name, moved, or renamed, with the evidence.

A definition of the same qualified name in the same file is its correspondent. Otherwise it has
moved or was renamed where exactly one definition that the base does not have says the same, word
for word. Similar bodies are no evidence: they invent renames.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from patchkit.outcome import Evidence, Method
from patchkit.outline import Outline, name_of, outline_or_none
from patchkit.syntax import Node
from patchkit.tree import SourceTree


@dataclass(frozen=True)
class Correspondent:
    """A definition of the target that is a definition of the base, and how that is known."""

    path: str
    name: str
    node: Node
    method: Method | None  # None: same name in the same file
    evidence: Evidence


class Correspondence:
    """Finds correspondents in one target tree; answers are remembered."""

    def __init__(self, base: SourceTree, target: SourceTree) -> None:
        self.base = base
        self.target = target
        self._outlines: dict[str, Outline | None] = {}

    def outline(self, path: str) -> Outline | None:
        """The outline of a target file, None where it is missing or not Python."""
        if path not in self._outlines:
            content = self.target.files.get(path)
            self._outlines[path] = None if content is None else outline_or_none(content)
        return self._outlines[path]

    def candidates(self, path: str, name: str, definition: Node) -> tuple[Correspondent, ...]:
        """Return what may be the definition in the target, the likeliest first.

        The one of the same name comes first; one that says the same elsewhere follows, for a
        function whose body upstream moved behind a wrapper of the old name.
        """
        found = []
        outline = self.outline(path)
        here = outline.by_name.get(name) if outline else None
        if here is not None:
            text = f"`{name}` is in {path} as before"
            found.append(Correspondent(path, name, here, None, Evidence("same-name", text)))
            if here.digest == definition.digest:
                return tuple(found)
        return (*found, *self._identical(path, name, definition))

    def _identical(self, path: str, name: str, definition: Node) -> tuple[Correspondent, ...]:
        """The one definition elsewhere with the same content; none where there are more."""
        moved = list(self._moved(path, name, definition))
        if len(moved) == 1:
            return tuple(moved)
        if moved:
            return ()
        renamed = list(self._renamed(path, name, definition))
        return tuple(renamed) if len(renamed) == 1 else ()

    def _moved(self, path: str, name: str, definition: Node) -> Iterator[Correspondent]:
        bare = name_of(definition)
        for place in self._files_defining(bare, path):
            outline = self.outline(place)
            before = outline_or_none(self.base.files.get(place, b""))
            for other, node in outline.by_name.items() if outline else ():
                if (place, other) == (path, name) or name_of(node) != bare:
                    continue
                if before is not None and other in before.by_name:
                    continue  # the base has that one too: a twin, not the one that moved
                if node.digest == definition.digest:
                    text = f"`{name}` moved from {path} to `{other}` in {place}, word for word"
                    evidence = Evidence("moved", text)
                    yield Correspondent(place, other, node, Method.MOVED, evidence)

    def _renamed(self, path: str, name: str, definition: Node) -> Iterator[Correspondent]:
        outline = self.outline(path)
        before = outline_or_none(self.base.files.get(path, b""))
        if outline is None or before is None:
            return
        masked = definition.digest_with("")
        for other, node in outline.by_name.items():
            if other in before.by_name or node.kind != definition.kind:
                continue
            if name_of(node) != name_of(definition) and node.digest_with("") == masked:
                text = f"`{name}` is called `{other}` in the target, word for word"
                evidence = Evidence("renamed", text)
                yield Correspondent(path, other, node, Method.RENAMED, evidence)

    def _files_defining(self, bare: str, first: str) -> list[str]:
        pattern = re.compile(
            rb"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+%b\b" % bare.encode(), re.M
        )
        paths = [p for p in self._containing(bare.encode()) if p.endswith(".py") and p != first]
        places = [p for p in paths if pattern.search(self.target.files[p])]
        return [first, *places]

    def _containing(self, word: bytes) -> list[str]:
        search = getattr(self.target.files, "search", None)
        if search is not None:
            return sorted(search(word))
        return sorted(p for p, content in self.target.files.items() if word in content)

    def places_of(self, bare: str, first: str) -> tuple[str, ...]:
        """Where the target defines something of this name: what a person would look at."""
        found = []
        for path in self._files_defining(bare, first):
            outline = self.outline(path)
            for name, node in outline.by_name.items() if outline else ():
                if name_of(node) == bare:
                    found.append(f"{path}:{node.line} {name}")
        return tuple(found)
