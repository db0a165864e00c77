"""Two patches that edit the same statement: found when they are recorded, not when they move.

Such patches can hardly move apart: what the later one replaces is what the earlier one wrote. They
are better one patch, or the later one says that it depends on the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from patchkit.placing.file_edits import FileEdits, FileJob
from patchkit.placing.plan import PatchPlan, PlannedFile
from patchkit.stacking.weave import FileWeave, HunkId, Touch, Weaves, weave
from patchkit.syntax.edit import Edit, head_end
from patchkit.syntax.outline import MODULE, outline_or_none
from patchkit.syntax.tree import STATEMENT_LISTS, Node, NotPythonError
from patchkit.tree import PYTHON

# What is in these lists stands for itself: entries of a literal, names of an import.
_ENTRIES = ("elts", "pairs", "names")
_PARTS = ("branch", "ExceptHandler", "match_case")
_MOST = 60  # characters of a statement that are shown


@dataclass(frozen=True)
class SameStatement:
    """A hunk and one of an earlier patch that edit one statement, expression or entry.

    `statement` is the first line of it, as the later patch finds it; `line` is where (1-based).
    `definition` is the one around it, None in what is no Python. `ordered` says that both add
    lines in one gap, where it matters which come first.
    """

    later: HunkId
    earlier: HunkId
    path: str
    line: int
    definition: str | None
    statement: str
    ordered: bool = False

    @property
    def text(self) -> str:
        """What is found, and what to do about it."""
        where = f"{self.path}:{self.line}"
        if self.definition is not None:
            where += f", in {self.definition}" if self.definition != MODULE else ", in the module"
        what = (
            f"adds lines beside `{self.statement}` ({where}), which {self.earlier} adds there"
            if self.ordered
            else f"edits `{self.statement}` ({where}), as {self.earlier} does"
        )
        name = self.earlier.patch
        return f"hunk {self.later.number} {what}; fold the two, or declare `Depends-On: {name}`"


def same_statements(plans: Sequence[PatchPlan]) -> tuple[SameStatement, ...]:
    """Return the pairs of hunks of a series that edit the same statement, one finding a pair."""
    weaves = weave(plans)
    found: dict[tuple[HunkId, HunkId], SameStatement] = {}
    for plan in plans:
        pairs = list(_by_statement(plan, weaves))
        pairs += _by_line(plan, weaves.follow(plan))
        for pair in pairs:
            found.setdefault((pair.later, pair.earlier), pair)
    return tuple(found.values())


def _by_line(plan: PatchPlan, touches: Sequence[Touch]) -> Iterator[SameStatement]:
    """The hunks that change the very lines of an earlier one, or add some in its gap."""
    files = {file.path_before: file for file in plan.files}
    for touch in touches:
        if touch.how not in ("changes", "beside"):
            continue
        base = files[touch.path].base or b""
        lines = base.splitlines()
        at = touch.line
        if touch.how == "beside" and touch.line > 1:
            at = touch.line - 1
        text = lines[at - 1] if at <= len(lines) else b""
        if not text.strip():
            continue
        yield SameStatement(
            touch.later, touch.earlier, touch.path, at, _around(touch.path, base, at),
            _shown(text), touch.how == "beside",
        )  # fmt: skip


def _around(path: str, source: bytes, line: int) -> str | None:
    """The qualified name of the innermost definition that holds a line."""
    outline = outline_or_none(source) if path.endswith(PYTHON) else None
    if outline is None:
        return None
    starts = outline.module.line_starts
    low = starts[min(line, len(starts)) - 1]
    inside = [
        (node.end - node.start, name)
        for name, node in outline.by_name.items()
        if node.start <= low < node.end or outline.module.line_at(node.start) == line
    ]
    return min(inside)[1] if inside else MODULE


def _shown(text: bytes) -> str:
    shown = text.decode("utf-8", "replace").strip().split("\n")[0].rstrip()
    return shown if len(shown) <= _MOST else f"{shown[: _MOST - 1].rstrip()}…"


def _by_statement(plan: PatchPlan, weaves: Weaves) -> Iterator[SameStatement]:
    """The hunks that edit other lines of a statement that an earlier one edits."""
    for file in plan.files:
        woven = weaves.files.get(file.path_before)
        if woven is None or not file.jobs or not file.path_before.endswith(PYTHON):
            continue
        try:
            job = FileJob(file.path_before, file.base or b"", file.authored or b"", file.jobs)
            edits = FileEdits(job)
        except NotPythonError:
            continue
        seen = woven.seen()
        for number in file.numbers:
            for edit in edits.edits_of(number):
                for node in _edited(edit):
                    yield from _owners(HunkId(plan.patch.name, number), node, file, woven, seen)


def _edited(edit: Edit) -> Iterator[Node]:
    """The smallest statements or entries that an edit changes; what it only adds is none."""
    if edit.is_layout:
        return
    nodes = [node for node in edit.removed if node.kind != "Comment"]
    if not nodes and edit.slot not in (*STATEMENT_LISTS, *_ENTRIES):
        nodes = [edit.container]
    for node in nodes:
        yield next((n for n in (node, *node.ancestors()) if _is_whole(n)), node)


def _is_whole(node: Node) -> bool:
    return node.is_statement or node.slot in _ENTRIES or node.kind in _PARTS


def _owners(
    later: HunkId, node: Node, file: PlannedFile, woven: FileWeave, seen: Sequence[int]
) -> Iterator[SameStatement]:
    """The earlier hunks that had a part in a statement, of a block in what heads it."""
    if node.kind == "Module":
        return
    module = node.module
    first = module.line_at(node.start)
    last = module.line_at(max((head_end(node) or node.end) - 1, node.start))
    for cell in woven.cells[seen[first - 1] : seen[last - 1] + 1]:
        stroke = cell.removed or cell.added
        if stroke is None or stroke.hunk.patch == later.patch or _says_nothing(cell.text):
            continue
        definition = _around(file.path_before, file.base or b"", first)
        yield SameStatement(
            later, stroke.hunk, file.path_before, first, definition, _shown(node.text)
        )


def _says_nothing(line: bytes) -> bool:
    return not line.strip() or line.strip().startswith(b"#")
