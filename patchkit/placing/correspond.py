"""Where a definition of the base is in the target: by name, moved, renamed, or behind a wrapper.

A definition of the same qualified name in the same file is its correspondent. Where that is gone,
one that the base does not have may be it: one of the same name elsewhere, or one of another name in
the same scope that says clearly more of the same than any other. Where it is still there but calls
a new definition that holds what it used to say, that one is a correspondent as well. Similar bodies
alone invent renames, so that each answer needs a name, a scope or a call besides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from patchkit.names.imports import added_imports
from patchkit.names.rename import extends
from patchkit.names.tree_index import distance
from patchkit.outcome import Evidence, Method, Rejected
from patchkit.placing.likeness import (
    STATEMENTS,
    called_alike,
    common_statements,
    likeness,
    percent,
    said_likeness,
    said_share,
    statement_digests,
)
from patchkit.syntax.headings import headings_of
from patchkit.syntax.match import overlap, tokens
from patchkit.syntax.outline import Outline, name_of, outline_or_none
from patchkit.syntax.tree import Node
from patchkit.tree import SourceTree

# Where the name is the same, half of the tokens have to be (Dice). A new name needs a likeness of
# 0.6 where a caller of the old name calls the new one in otherwise the same line, or one name
# extends the other; 0.85 of the statements where nothing else speaks; and a clear lead over every
# other candidate, so that a near copy is no rename. Of 503 definitions that kept their names and
# changed from 0.27.1 to 0.28.0, 19 in 20 are as like as 0.6; of 3,243 definitions, 4 in 5 have no
# sibling that is.
SIMILAR_MOVED = 0.5
SIMILAR_SPOKEN_FOR = 0.6
SIMILAR_RENAMED = 0.85
LEAD = 0.15
# A file that is split takes its functions along: three that are word for word the same in one new
# file say where a fourth went that changed on the way.
COMPANY = 3
# Of what was looked at and not taken, a report names the likeliest: common names are defined often.
RUNNERS_UP = 3
MOST_PLACES = 12  # candidates that a person is shown

Score = tuple[float, str, str, Node]  # likeness, path, qualified name, definition


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
        self._companies: dict[tuple[str, str], int] = {}
        self._found: dict[tuple[str, str, bytes], tuple[Correspondent, ...]] = {}
        self._rejected: dict[tuple[str, str, bytes], tuple[Rejected, ...]] = {}
        self._passed_over: list[tuple[float, Rejected]] = []  # of the search that is going on

    def outline(self, path: str) -> Outline | None:
        """The outline of a target file, None where it is missing or not Python."""
        if path not in self._outlines:
            content = self.target.files.get(path)
            self._outlines[path] = None if content is None else outline_or_none(content)
        return self._outlines[path]

    def candidates(self, path: str, name: str, definition: Node) -> tuple[Correspondent, ...]:
        """Return what may be the definition in the target, the likeliest first."""
        key = (path, name, definition.digest)
        if key not in self._found:
            outer, self._passed_over = self._passed_over, []  # a search may lead to another
            self._found[key] = tuple(self._candidates(path, name, definition))
            ranked = sorted(self._passed_over, key=lambda p: (-p[0], p[1].candidate))
            self._rejected[key] = tuple(r for _, r in ranked[:RUNNERS_UP])
            self._passed_over = outer
        return self._found[key]

    def rejected(self, path: str, name: str, definition: Node) -> tuple[Rejected, ...]:
        """Return the likeliest of what was looked at for a definition and not taken, and why."""
        self.candidates(path, name, definition)
        return self._rejected[path, name, definition.digest]

    def _pass_over(self, share: float, candidate: str, why: str) -> None:
        self._passed_over.append((share, Rejected("definition", candidate, why)))

    def _candidates(self, path: str, name: str, definition: Node) -> Iterator[Correspondent]:
        outline = self.outline(path)
        here = outline.by_name.get(name) if outline else None
        if here is None:
            yield from (
                self._moved(path, name, definition)
                or self._renamed(path, name, definition)
                or self._moved_and_renamed(path, name, definition)
            )
            return
        text = f"`{name}` is in {path} as before"
        yield Correspondent(path, name, here, None, Evidence("same-name", text))
        if here.digest != definition.digest:
            yield from self._called(path, name, definition, here)

    def _before(self, path: str) -> Outline | None:
        return outline_or_none(self.base.files.get(path, b""))

    def _moved(self, path: str, name: str, definition: Node) -> list[Correspondent]:
        """The one new definition of the same bare name elsewhere that says half the same."""
        bare = name_of(definition)
        bag = tokens(definition)
        found = []
        for place in self._files_defining(bare, path):
            if place != path and not self._has_heading(place, name):
                continue  # into another file it goes with all that is around it
            outline, before = self.outline(place), self._before(place)
            for other, node in outline.by_name.items() if outline else ():
                if name_of(node) != bare or (place == path) == (other == name):
                    continue
                if node.kind != definition.kind and "ClassDef" in (node.kind, definition.kind):
                    continue
                if before is not None and other in before.by_name:
                    # a twin, not the one that moved
                    self._pass_over(0.0, f"`{other}` in {place}", "the base has that one as well")
                    continue
                same = node.digest == definition.digest
                share, of = 1.0 if same else overlap(bag, tokens(node)), "words and signs"
                if "." not in name and "." in other:  # a function turned into a method
                    said = common_statements(definition, node)
                    share, of = (said, STATEMENTS) if said > share else (share, of)
                alike = "word for word" if same else said_share(share, of)
                where = f"`{other}` in {place}"
                if share >= SIMILAR_MOVED and self._may_have_moved(path, name, place, other, share):
                    text = f"`{name}` of {path} is {where} in the target, {alike}"
                    evidence = Evidence("moved", text)
                    found.append(Correspondent(place, other, node, Method.MOVED, evidence))
                elif share < SIMILAR_MOVED:
                    why = f"{alike}, and {percent(SIMILAR_MOVED)} is asked"
                    self._pass_over(share, where, why)
                else:
                    why = f"{alike}, but nothing besides the name says that it went there"
                    self._pass_over(share, where, why)
        if len(found) > 1:
            for one in found:
                self._pass_over(2.0, f"`{one.name}` in {one.path}", "not the only one it may be")
        return found if len(found) == 1 else []

    def _may_have_moved(self, path: str, name: str, place: str, other: str, share: float) -> bool:
        """Whether more than likeness says that a definition went where its name is found.

        A method goes with its class. One whose class stays may have gone to a base of that class,
        or to a function that the class calls, word for word and inside the file; a function may
        become a method there with nearly all it says. A function below word for word needs the old
        file to import it, or the old file to be gone and the new one to be new, or others of the
        old file to have gone to the same new one word for word.
        """
        scope, new_scope = name.rpartition(".")[0], other.rpartition(".")[0]
        outline = self.outline(path)
        if scope != new_scope:
            if not scope:
                return share >= SIMILAR_RENAMED and place == path
            left = outline.by_name.get(scope) if outline is not None else None
            if left is None or share < 1.0 or place != path:
                return False
            # A short method stands word for word in many a class: only one above takes it over.
            called = tokens(left)[name.rpartition(".")[2].encode()] > 0
            return new_scope in _bases(left) or (not new_scope and called)
        if share == 1.0:
            return True
        if outline is None:
            return place not in self.base.files
        top = name.split(".")[0]
        imports = added_imports(b"", outline.module.source, path)
        if any(use.name == top and _leads_to(use.module, place) for use in imports):
            return True
        return self._company(path, place) >= COMPANY

    def _company(self, path: str, place: str) -> int:
        """How many definitions of a base file are gone from it, and in a new one as they were."""
        key = path, place
        if key not in self._companies:
            before, here, there = self._before(path), self.outline(path), self.outline(place)
            known = before is not None and place not in self.base.files
            self._companies[key] = sum(
                name not in (here.by_name if here is not None else ())
                and there is not None
                and name in there.by_name
                and there.by_name[name].digest == node.digest
                for name, node in (before.by_name.items() if before and known else ())
                if "." not in name
            )
        return self._companies[key]

    def _renamed(self, path: str, name: str, definition: Node) -> list[Correspondent]:
        """The new definition in the same scope that says the same, far ahead of any other."""
        before = self._before(path)
        if before is None:
            return []
        scope = name.rpartition(".")[0]
        scores = []
        for place, home in self._scope_images(path, scope):
            outline, known = self.outline(place), self._before(place)
            for other, node in outline.by_name.items() if outline else ():
                around, _, bare = other.rpartition(".")
                if around != home or "#" in other or node.kind != definition.kind:
                    continue
                if (f"{scope}.{bare}" if scope else bare) in before.by_name:
                    continue
                if known is not None and other in known.by_name:
                    continue
                scores.append((likeness(definition, node), place, other, node))
        return self._likeliest(path, name, definition, scores, Method.RENAMED)

    def _scope_images(self, path: str, scope: str) -> list[tuple[str, str]]:
        """Where the scope of a definition is in the target: files and qualified names."""
        outline, before = self.outline(path), self._before(path)
        if outline is not None and (not scope or scope in outline.by_name):
            return [(path, scope)]
        around = before.by_name.get(scope) if before is not None else None
        if around is None:
            return []
        found = self.candidates(path, scope, around)
        return [(c.path, c.name) for c in found if c.evidence.kind in ("moved", "renamed")]

    def _moved_and_renamed(self, path: str, name: str, definition: Node) -> list[Correspondent]:
        """The new definition of another name that the old file now imports from elsewhere."""
        outline, before = self.outline(path), self._before(path)
        if outline is None or before is None or "." in name:
            return []
        scores = []
        for use in added_imports(before.module.source, outline.module.source, path):
            stem = use.module.replace(".", "/")
            for place in (f"{stem}.py", f"{stem}/__init__.py"):
                found, known = self.outline(place), self._before(place)
                node = found.by_name.get(use.name or "") if found else None
                if node is None or node.kind != definition.kind or use.name is None:
                    continue
                if known is None or use.name not in known.by_name:
                    scores.append((likeness(definition, node), place, use.name, node))
        return self._likeliest(path, name, definition, scores, Method.MOVED)

    def _likeliest(
        self,
        path: str,
        name: str,
        definition: Node,
        scores: list[Score],
        method: Method,
    ) -> list[Correspondent]:
        """The one candidate of another name that is like enough and clearly ahead."""
        outline, before = self.outline(path), self._before(path)
        scores.sort(key=lambda s: (-s[0], s[1:3]))
        if not scores or before is None:
            return []
        old = name_of(definition)

        def is_called(place: str, node: Node) -> bool:
            files = [o for o in (outline, self.outline(place)) if o is not None]
            return any(called_alike(before, file, old, name_of(node)) for file in files)

        found, why = self._clear_winner(definition, scores, is_called)
        for score in scores:
            if score[0] and score != found:
                where = f"`{score[2]}`" if score[1] == path else f"`{score[2]}` in {score[1]}"
                self._pass_over(score[0], where, f"{said_likeness(definition, score[3])}, {why}")
        if found is None:
            return []
        _, place, other, node = found
        alike = said_likeness(definition, node)
        if method is Method.MOVED:
            text = f"`{name}` of {path} is `{other}` in {place} in the target, {alike}"
            return [Correspondent(place, other, node, method, Evidence("moved", text))]
        text = f"`{name}` is called `{other}` in the target, {alike}"
        return [Correspondent(place, other, node, method, Evidence("renamed", text))]

    def _clear_winner(
        self, definition: Node, scores: list[Score], is_called: Callable[[str, Node], bool]
    ) -> tuple[Score | None, str]:
        """The one of the scored definitions, best first, that is it beyond doubt.

        With it, why the others are not.
        """
        # A copy says the same. Where only one of them took over the callers, it is that one; where
        # none did, the one that the others are named after.
        close = [s for s in scores if scores[0][0] - s[0] < LEAD]
        why = f"and `{scores[0][2]}` has {percent(scores[0][0])}"
        if len(close) > 1:
            others = " and ".join(f"`{s[2]}`" for s in close[:2])
            heirs = [s for s in close if is_called(s[1], s[3])]
            why = "is called in its place" if heirs else "is the one that it is named after"
            close = heirs or _named_after(close)
            if len(close) != 1:
                return None, f"and {others} are less than {percent(LEAD)} apart"
            why = f"and `{close[0][2]}` {why}"
        share, place, _, node = close[0]
        if extends(name_of(definition), name_of(node)) or is_called(place, node):
            return (
                (close[0], why)
                if share >= SIMILAR_SPOKEN_FOR
                else (None, f"and {percent(SIMILAR_SPOKEN_FOR)} is asked")
            )
        known = 1.0 if share == 1.0 else common_statements(definition, node)
        return (
            (close[0], why)
            if known >= SIMILAR_RENAMED
            else (None, f"and {percent(SIMILAR_RENAMED)} of the {STATEMENTS} is asked")
        )

    def _called(
        self, path: str, name: str, definition: Node, here: Node
    ) -> Iterator[Correspondent]:
        """New definitions that the one of the old name calls and that hold some of its old text."""
        outline, before = self.outline(path), self._before(path)
        if outline is None or before is None:
            return
        new = [
            (other, node)
            for other, node in outline.by_name.items()
            if other not in before.by_name and node.kind != "ClassDef"
        ]
        words = tokens(here) if new else Counter()
        words[name_of(here).encode()] -= 1  # its own, after `def`
        called = [
            (other, node)
            for other, node in new
            if words[name_of(node).encode()] > 0 and _is_in_reach(outline, name, other)
        ]
        if not called:
            return
        statements = statement_digests(definition) - statement_digests(here)
        for other, node in called:
            if node in here.ancestors():
                continue
            if (statements & statement_digests(node)).total() > 0:
                text = f"`{name}` calls the new `{other}`, which holds statements that it had"
                yield Correspondent(path, other, node, Method.MOVED, Evidence("split", text))

    def _files_defining(self, bare: str, first: str) -> list[str]:
        pattern = _defining(bare)
        paths = [p for p in self._containing(bare.encode()) if p.endswith(".py") and p != first]
        places = [p for p in paths if pattern.search(self.target.files[p])]
        return [first, *places]

    def _has_heading(self, place: str, name: str) -> bool:
        """Whether a target file defines a qualified name; no parse."""
        return any(h.name == name for h in headings_of(self.target.files.get(place, b"")))

    def _containing(self, word: bytes) -> list[str]:
        return sorted(self.target.python_holding(word))

    def places_of(self, bare: str, first: str) -> tuple[str, ...]:
        """Where the target defines something of this name, the nearest: what to look at."""
        pattern, found = _defining(bare), []
        here = tuple(first.split("/"))
        paths = sorted(self._containing(bare.encode()), key=lambda p: distance(here, p))
        for path in dict.fromkeys([first, *paths]):
            content = self.target.files.get(path, b"")
            if pattern.search(content):
                headings = headings_of(content)
                found += [f"{path}:{h.line} {h.name}" for h in headings if h.bare == bare]
            if len(found) >= MOST_PLACES:  # of `__init__` there are thousands
                break
        return tuple(found[:MOST_PLACES])


def _defining(bare: str) -> re.Pattern[bytes]:
    head = rb"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+%b\b"
    return re.compile(head % bare.encode(), re.MULTILINE)


def _named_after(close: list[Score]) -> list[Score]:
    """The one of near copies, no less like than another, whose name all others are made from."""

    def is_original(score: Score) -> bool:
        own = name_of(score[3]).strip("_")
        return score[0] >= close[0][0] and all(
            other is score or (extends(own, name) and len(name) > len(own))
            for other in close
            for name in [name_of(other[3]).strip("_")]
        )

    return [score for score in close if is_original(score)]


def _leads_to(module: str, place: str) -> bool:
    """Whether a module is the file, or a package above it that may hand its names on."""
    stem = module.replace(".", "/")
    return place in (f"{stem}.py", f"{stem}/__init__.py") or place.startswith(f"{stem}/")


def _bases(definition: Node) -> set[str]:
    """What a class is derived from, as the text says."""
    slot = definition.slot_named("bases")
    return {n.text.decode() for n in slot.nodes} if slot is not None else set()


def _is_in_reach(outline: Outline, name: str, other: str) -> bool:
    """Whether a definition's bare name in another one's text may mean it.

    A method of a class that is neither its own nor above its own is called on something else.
    """
    scope, home = name.rpartition(".")[0], other.rpartition(".")[0]
    around = outline.by_name.get(scope)
    above = _bases(around) if around is not None else set()
    return home in ("", scope, name) or home.startswith(f"{name}.") or home in above
