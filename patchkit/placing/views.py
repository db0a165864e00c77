"""How the base is seen in a target file: upstream's renames undone, definitions matched up.

A `Ground` is one target file with the renames taken back that concern the definitions a patch
edits; a `View` adds the alignment of base and ground. Several views may share one ground: a
definition whose body upstream moved behind a call can be seen in either place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchkit.names.rename import Renaming, find_variables, undo
from patchkit.outcome import Evidence, Method, Rejected, Rename
from patchkit.placing.correspond import Correspondence, Correspondent
from patchkit.placing.file_edits import FileEdits, Group
from patchkit.placing.propose import Lines, Merger
from patchkit.syntax.align import Alignment
from patchkit.syntax.edit import Edit
from patchkit.syntax.outline import name_of, outline_of
from patchkit.syntax.tree import Module, Node

_HEAD = ("decorators", "params", "bases", "returns", "type_params", "keywords", "close", "colon")


@dataclass(frozen=True)
class Ground:
    """A target file as a patch is placed on it, and the renames to make again afterwards."""

    path: str
    original: Module
    module: Module
    renamings: tuple[Renaming, ...]
    lines: Lines


@dataclass(frozen=True)
class View:
    """One way of seeing the base in a ground."""

    ground: Ground
    alignment: Alignment
    merger: Merger
    method: Method | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def path(self) -> str:
        """The path of the target file."""
        return self.ground.path


class Views:
    """The views of one base file in the target; made when asked for."""

    def __init__(self, edits: FileEdits, path: str, correspondence: Correspondence) -> None:
        self.edits = edits
        self.path = path
        self.correspondence = correspondence
        self._grounds: dict[str, Ground] = {}
        self._views: dict[tuple[str, frozenset[tuple[int, int]]], View] = {}
        self._definitions = list(
            dict.fromkeys(d for g in edits.groups for d in self.definitions(g))
        )

    def definitions(self, group: Group) -> list[Node]:
        """The base definitions that decide a group's place: those it edits, or stands beside."""
        outline = outline_of(self.edits.base)
        nodes: list[Node] = []
        for edit in group.edits:
            around = outline.enclosing(edit.container)
            # What stands beside an insertion says where it goes only if the file itself is gone.
            beside = [n for n in (edit.next, edit.prev) if n] if self._is_gone() else []
            near = [around] if around else beside
            nodes += [n for n in near if n in outline.names]
        return list(dict.fromkeys(nodes))

    def _is_gone(self) -> bool:
        return self.correspondence.outline(self.path) is None

    def of(self, group: Group) -> Iterator[View]:
        """Return the views in which a group may be placed, the likeliest first."""
        if self.correspondence.outline(self.path) is not None:
            yield self._view(self.path, [], self._renames_for(group, self.path))
        for path, found in self._elsewhere(group).items():
            facts = (*(c.evidence for _, c in found), *self._renames_for(group, path))
            yield self._view(path, found, facts, Method.MOVED)

    def split(self, group: Group) -> Iterator[View]:
        """Return the views in which a definition is the new one that its old name calls."""
        if all(edit.container.is_definition and edit.slot in _HEAD for edit in group.edits):
            return  # a parameter is one of the definition of that name, wherever its body went
        if any(_concerns_caller(edit) for edit in group.edits):
            return
        for definition in self.definitions(group):
            for candidate in self._candidates(definition):
                if candidate.evidence.kind == "split":
                    pair = [(definition, candidate)]
                    yield self._view(candidate.path, pair, (candidate.evidence,), Method.MOVED)

    def _candidates(self, definition: Node) -> tuple[Correspondent, ...]:
        name = outline_of(self.edits.base).names[definition]
        return self.correspondence.candidates(self.edits.job.path, name, definition)

    def _elsewhere(self, group: Group) -> dict[str, list[tuple[Node, Correspondent]]]:
        """Per target file: the definitions of a group that have moved there or to another scope."""
        found: dict[str, list[tuple[Node, Correspondent]]] = {}
        for definition in self.definitions(group):
            # Where a class has moved, what is inside it is found through the class.
            for outer in self._lineage(definition):
                moved = [c for c in self._candidates(outer) if c.evidence.kind == "moved"]
                for candidate in moved:
                    found.setdefault(candidate.path, []).append((outer, candidate))
                if moved:
                    break
        return found

    def _lineage(self, definition: Node) -> list[Node]:
        """A definition and those around it, the outermost first."""
        names = outline_of(self.edits.base).names
        around = [a for a in definition.ancestors() if a in names]
        return [*around[::-1], definition]

    def _view(
        self,
        path: str,
        found: Sequence[tuple[Node, Correspondent]],
        evidence: tuple[Evidence, ...],
        method: Method | None = None,
    ) -> View:
        ground = self.ground(path)
        names = outline_of(ground.module).by_name
        overrides = {d: names[c.name] for d, c in found if c.name in names}
        key = (path, frozenset((a.start, b.start) for a, b in overrides.items()))
        if key not in self._views:
            alignment = Alignment(self.edits.base, ground.module, overrides)
            self._views[key] = View(ground, alignment, Merger(self.edits.lines, ground.lines))
        method = method or (Method.RENAMED if evidence else None)
        return replace(self._views[key], method=method, evidence=evidence)

    # What a report says of the search ---------------------------------------------------------

    def rejected(self, group: Group) -> tuple[Rejected, ...]:
        """Return the definitions that were looked at for a group's own and not taken."""
        names = outline_of(self.edits.base).names
        around = dict.fromkeys(a for d in self.definitions(group) for a in self._lineage(d))
        path = self.edits.job.path
        found = [r for d in around for r in self.correspondence.rejected(path, names[d], d)]
        return tuple(dict.fromkeys(found))

    def likeness(self, group: Group, view: View) -> tuple[Evidence, ...]:
        """Return how the renamed definitions around a group were recognised in a view."""
        renamed = {r.old for r in view.ground.renamings if r.kind == "definition"}
        around = dict.fromkeys(a for d in self.definitions(group) for a in self._lineage(d))
        return tuple(
            c.evidence
            for d in around
            if name_of(d) in renamed
            for c in self._candidates(d)
            if c.evidence.kind == "renamed" and c.path == view.path
        )

    def renames(self, group: Group, view: View) -> tuple[Rename, ...]:
        """Return the renames, taken back in a view, of a group's definitions and of what they bind.

        Variables go by the name that their function has in the view.
        """
        names, seen = outline_of(self.edits.base).names, outline_of(view.ground.module).names
        own: set[str] = set()
        around = dict.fromkeys(a for d in self.definitions(group) for a in self._lineage(d))
        for definition in around:
            image = view.alignment.image(definition)
            own |= {names[definition]} | ({seen[image]} if image in seen else set())
        found = [r for r in view.ground.renamings if r.scope in own]
        return tuple(Rename(r.kind, r.scope, r.old, r.new) for r in found)

    # Grounds ---------------------------------------------------------------------------------

    def ground(self, path: str) -> Ground:
        """Return a target file with the renames undone that concern this patch."""
        if path not in self._grounds:
            outline = self.correspondence.outline(path)
            assert outline is not None
            original = module = outline.module
            accepted: list[Renaming] = []
            for find in (self._renamed_definitions, self._renamed_variables):
                for renaming in find(path, module):
                    undone = undo(original, [*accepted, renaming])
                    if undone is not None:
                        accepted.append(renaming)
                        module = undone
            lines = Lines(module.source)
            self._grounds[path] = Ground(path, original, module, tuple(accepted), lines)
        return self._grounds[path]

    def _renamed_definitions(self, path: str, _module: Module) -> list[Renaming]:
        found = []
        names = outline_of(self.edits.base).names
        lineage = dict.fromkeys(a for d in self._definitions for a in self._lineage(d))
        for definition in lineage:
            for candidate in self._candidates(definition):
                old, new = name_of(definition), name_of(candidate.node)
                if candidate.path == path and new != old and candidate.evidence.kind != "split":
                    found.append(Renaming("definition", names[definition], old, new))
        return found

    def _renamed_variables(self, path: str, module: Module) -> list[Renaming]:
        found: list[Renaming] = []
        outline = outline_of(module)
        alignment = Alignment(self.edits.base, module)
        functions = dict.fromkeys(
            node
            for d in self._definitions
            for node in (d, *d.ancestors())
            if node.kind in ("FunctionDef", "AsyncFunctionDef")
        )
        for function in functions:
            image = alignment.image(function) if path == self.path else None
            for candidate in self._candidates(function) if image is None else ():
                if candidate.path == path:
                    image = outline.by_name.get(candidate.name)
            if image is not None and image in outline.names:
                found += find_variables(outline.names[image], function, image)
        return found

    def _renames_for(self, group: Group, path: str) -> tuple[Evidence, ...]:
        """The evidence of the renames that concern a group's own definitions."""
        names = outline_of(self.edits.base).names
        own = {names[d] for d in self.definitions(group)}
        own |= {names[a] for d in self.definitions(group) for a in d.ancestors() if a in names}
        return tuple(r.evidence for r in self.ground(path).renamings if r.scope in own)


_LEAVING = (ast.Return, ast.Yield, ast.YieldFrom, ast.Break, ast.Continue)


def _concerns_caller(edit: Edit) -> bool:
    """Whether what an edit adds leaves a function or binds a name: behind a call it would not."""
    return bool(_effects(edit.inserted) - _effects(edit.removed))


def _effects(nodes: Sequence[Node]) -> set[str]:
    found = set()
    for node in nodes:
        for tree in ast.walk(node.tree) if isinstance(node.tree, ast.AST) else ():
            if isinstance(tree, _LEAVING):
                found.add(type(tree).__name__)
            elif isinstance(tree, ast.Name) and isinstance(tree.ctx, (ast.Store, ast.Del)):
                found.add(f"binds {tree.id}")
    return found
