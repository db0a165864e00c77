"""Where a definition of the base is in the target: by name, moved, renamed, or behind a wrapper.

A definition of the same qualified name in the same file is its correspondent. Where that is gone,
one that the base does not have may be it: one of the same name elsewhere, or one of another name in
the same scope that says clearly more of the same than any other. Where it is still there but calls
a new definition that holds what it used to say, that one is a correspondent as well. Similar bodies
alone invent renames, so that each answer needs a name, a scope or a call besides.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from patchkit.outcome import Evidence, Method, Rejected
from patchkit.syntax.match import overlap, tokens
from patchkit.syntax.outline import Outline, name_of, outline_or_none
from patchkit.syntax.tree import Node
from patchkit.tree import SourceTree

# Where the name is the same, half of the tokens have to be (Dice). A new name needs whole
# statements in common, a share of the text: half of it where a caller of the old name calls the new
# one in otherwise the same line or one name extends the other, nearly all of it where nothing else
# speaks; and a clear lead over every other candidate, so that a near copy is no rename.
SIMILAR_MOVED = 0.5
SIMILAR_CALLED = 0.5
SIMILAR_RENAMED = 0.8
LEAD = 0.15
# Of what was looked at and not taken, a report names the likeliest: common names are defined often.
RUNNERS_UP = 3


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
            self._passed_over = []
            self._found[key] = tuple(self._candidates(path, name, definition))
            ranked = sorted(self._passed_over, key=lambda p: (-p[0], p[1].candidate))
            self._rejected[key] = tuple(r for _, r in ranked[:RUNNERS_UP])
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
            yield from self._moved(path, name, definition) or self._renamed(path, name, definition)
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
            outline, before = self.outline(place), self._before(place)
            for other, node in outline.by_name.items() if outline else ():
                if name_of(node) != bare or (place, other) == (path, name):
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
                    said = _common_statements(definition, node)
                    share, of = (said, _TEXT) if said > share else (share, of)
                likeness = "word for word" if same else _share(share, of)
                where = f"`{other}` in {place}"
                if share >= SIMILAR_MOVED and self._may_have_moved(path, name, place, other, share):
                    text = f"`{name}` of {path} is {where} in the target, {likeness}"
                    evidence = Evidence("moved", text)
                    found.append(Correspondent(place, other, node, Method.MOVED, evidence))
                elif share < SIMILAR_MOVED:
                    why = f"{likeness}, and {_percent(SIMILAR_MOVED)} is asked"
                    self._pass_over(share, where, why)
                else:
                    why = f"{likeness}, but nothing besides the name says that it went there"
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
        file to import it, or the old file to be gone and the new one to be new.
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
            bases = left.slot_named("bases")
            above = {n.text.decode() for n in bases.nodes} if bases is not None else set()
            called = tokens(left)[name.rpartition(".")[2].encode()] > 0
            return new_scope in above or (not new_scope and called)
        if share == 1.0:
            return True
        if outline is None:
            return place not in self.base.files
        top = name.split(".")[0]
        return any(
            alias.name == top
            for statement in outline.module.tree.body
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
        )

    def _renamed(self, path: str, name: str, definition: Node) -> list[Correspondent]:
        """The new definition in the same scope that says the same, far ahead of any other."""
        outline, before = self.outline(path), self._before(path)
        if outline is None or before is None:
            return []
        scope = name.rpartition(".")[0]
        masked = definition.digest_with("")
        scores = []
        for other, node in outline.by_name.items():
            if other in before.by_name or other.rpartition(".")[0] != scope or "#" in other:
                continue
            if node.kind != definition.kind:
                continue
            same = node.digest_with("") == masked
            scores.append((1.0 if same else _common_statements(definition, node), other, node))
        scores.sort(key=lambda s: (-s[0], s[1]))
        found, why = self._clear_winner(before, outline, definition, scores)
        for score in scores:
            if score[0] and score != found:
                self._pass_over(score[0], f"`{score[1]}`", f"{_share(score[0], _TEXT)}, {why}")
        if found is None:
            return []
        share, other, node = found
        likeness = "word for word" if node.digest_with("") == masked else _share(share, _TEXT)
        text = f"`{name}` is called `{other}` in the target, {likeness}"
        return [Correspondent(path, other, node, Method.RENAMED, Evidence("renamed", text))]

    def _clear_winner(
        self,
        before: Outline,
        outline: Outline,
        definition: Node,
        scores: list[tuple[float, str, Node]],
    ) -> tuple[tuple[float, str, Node] | None, str]:
        """The one of the scored definitions, best first, that is the renamed one beyond doubt.

        With it, why the others are not.
        """
        if not scores:
            return None, ""
        old, new = name_of(definition), name_of(scores[0][2])
        spoken_for = _called_alike(before, outline, old, new) or _extends(old, new)
        asked = SIMILAR_CALLED if spoken_for else SIMILAR_RENAMED
        if scores[0][0] < asked:
            return None, f"and {_percent(asked)} is asked"
        if len(scores) > 1 and scores[0][0] - scores[1][0] < LEAD:
            # A copy says the same; where only one of them took over the callers, it is that one.
            close = [s for s in scores if scores[0][0] - s[0] < LEAD]
            heirs = [s for s in close if _called_alike(before, outline, old, name_of(s[2]))]
            if len(heirs) != 1:
                others = " and ".join(f"`{s[1]}`" for s in close[:2])
                return None, f"and {others} are less than {_percent(LEAD)} apart"
            return heirs[0], f"and `{heirs[0][1]}` is called in its place"
        return scores[0], f"and `{scores[0][1]}` has {_percent(scores[0][0])}"

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
        called = [(other, node) for other, node in new if words[name_of(node).encode()]]
        if not called:
            return
        statements = _statement_digests(definition) - _statement_digests(here)
        for other, node in called:
            if node in here.ancestors():
                continue
            if (statements & _statement_digests(node)).total() > 0:
                text = f"`{name}` calls the new `{other}`, which holds statements that it had"
                yield Correspondent(path, other, node, Method.MOVED, Evidence("split", text))

    def _files_defining(self, bare: str, first: str) -> list[str]:
        head = rb"^[ \t]*(?:async[ \t]+def|def|class)[ \t]+%b\b"
        pattern = re.compile(head % bare.encode(), re.MULTILINE)
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


_TEXT = "statements' text"


def _share(share: float, of: str) -> str:
    return f"{_percent(share)} of its {of} the same"


def _percent(share: float) -> str:
    return f"{int(share * 100 + 1e-9)} %"  # rounded down: 100 % is all of it


def _common_statements(old: Node, new: Node) -> float:
    """The share, by length, of a definition's simple statements that another one has as well."""
    left, right = _simple_statements(old), _simple_statements(new)
    total = sum(len(n.text) for n in left)
    known = Counter(n.digest for n in right)
    same = 0
    for node in left:
        if known[node.digest] > 0:
            known[node.digest] -= 1
            same += len(node.text)
    return same / total if total else 0.0


def _simple_statements(definition: Node) -> list[Node]:
    blocks = ("If", "For", "While", "With", "Try", "Match", "Async", "Function", "Class", "Comment")
    return [
        n
        for n in definition.walk()
        if n is not definition and n.is_statement and not n.kind.startswith(blocks)
    ]


def _extends(old: str, new: str) -> bool:
    """Whether one name is the other with something before or after it (`_run`, `run_impl`)."""
    short, long = sorted((old.strip("_"), new.strip("_")), key=len)
    return len(short) > 3 and (long.startswith(short) or long.endswith(short))


def _called_alike(before: Outline, after: Outline, old: str, new: str) -> bool:
    """Whether a line of the target names the new definition just as one of the base did the old."""
    return bool(_lines_naming(before, old) & _lines_naming(after, new))


def _lines_naming(outline: Outline, name: str) -> set[bytes]:
    word = re.compile(rb"\b%b\b" % name.encode())
    lines = outline.module.source.split(b"\n")
    found = {word.sub(b"\0", line.strip()) for line in lines if word.search(line)}
    return {
        line for line in found if not line.startswith((b"def ", b"class ", b"async def ", b"#"))
    }


def _statement_digests(definition: Node) -> Counter[bytes]:
    """The simple statements in a definition that say enough to be told apart."""
    idle = (b"pass", b"return", b"break", b"continue", b"return None")
    return Counter(n.digest for n in _simple_statements(definition) if n.text not in idle)
