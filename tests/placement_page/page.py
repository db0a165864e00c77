"""docs/how-placement-works.md from its cases: each moved anew, and told by what came of it."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import unified_diff
from pathlib import Path

import tomlkit

from patchkit import RebaseResult, SourceTree, port
from patchkit.cli.render_outcome import why_lines
from patchkit.diff import parse_patch
from patchkit.outcome import HunkOutcome
from patchkit.report import outcome_json
from patchkit.series.anchoring import stored_overrides
from patchkit.stacking.rebase import PatchInput, rebase_series
from tests.evidence import code

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-placement-works.md"
CASES = Path(__file__).with_name("cases.toml")
SERIES = ROOT / "patches/v0.28.0"
WIDTH = 96
MOST_TOLD = 16  # lines of what upstream did


@dataclass(frozen=True)
class Case:
    """One example: a patch on `path` of the release `base`, moved to the release `target`.

    `name` is the definition that the patch changes, `new_path` and `new_name` where that is in the
    target; both are the old ones where it is nowhere.
    """

    kind: str
    base: str
    target: str
    path: str
    name: str
    new_path: str
    new_name: str
    patch: str


HEAD = """\
# How placement works

A hunk goes through a cascade of methods, from exact to clever. Each only proposes; a proposal
counts when its result, parsed again, is proven to be the same edit in the same place and nothing
else. What is not proven is a conflict. `patchkit show v0.29.0 --why` prints what is shown here for
a stored series, `patchkit port … --why` for a plain patch.

Each example is a patch of one line, made for this page, on real code of vLLM; what upstream did to
that code from one release to the next is real as well. `python -m tests.placement_page` writes the
page from the trees of the releases, and a test compares.
"""

# Each section: the kind of its case, its head, and what there is to know.
SECTIONS = {
    "offset": (
        "Exact, and offset",
        """
        All old lines of the hunk stand in the target, at the line that the hunk states (*exact*) or
        once in the whole file (*offset*). Where they stand twice, they say nothing.""",
    ),
    "merge3": (
        "Three-way inside the definition",
        """
        Lines of the context changed, but not those that the hunk replaces or stands between. Base
        and target are aligned inside the one definition, so that nothing outside attracts the
        edit.""",
    ),
    "typed": (
        "Typed edit",
        """
        A line next to the edit changed as text, but it is the same element of the syntax. The patch
        is read as edits of lists (a statement, an argument, an entry added, removed, replaced), and
        each is made between the counterparts of its neighbours, in the target's own layout.""",
    ),
    "wrapped": (
        "A block put around",
        """
        Upstream put a block around the neighbours of the edit. Where it holds both of them, the
        edit goes inside with their indentation; where it holds one, nobody can know, and it is a
        conflict.""",
    ),
    "renamed variable": (
        "Renamed: undo, merge, redo",
        """
        A name is taken for renamed where the statements that bound the old one bind the new one,
        all or most, and neither is in use on the other side. The rename is taken back, the hunk is
        placed as on its base, and the rename is made again, so that the inserted code follows
        it.""",
    ),
    "renamed definition": (
        "Renamed definition",
        """
        A definition that is gone by its name is looked for among the new ones of the same scope.
        One has to say most of the same, far ahead of any other; less is enough where callers or the
        name itself speak for it.""",
    ),
    "moved": (
        "Moved to another file",
        """
        The one new definition of the same name elsewhere, if it is the same word for word, or at
        least half the same and the old file imports it now; one of another name only if the old
        file imports it and it is like enough for a rename.""",
    ),
    "split": (
        "Function split",
        """
        The definition is there but calls a new one that holds statements which it had. The hunk is
        tried in both; two proven results that differ are a conflict.""",
    ),
    "upstream": (
        "Already upstream",
        """
        Decided by content: what the edit inserts is in its place and is not something that the base
        had already; what it removes is gone while its neighbours are there. Layout, comments and
        how imports are joined do not count; the characters of a text do. What stands before the
        edit in the patch must not stand after it in the target: then upstream changed another one
        of its like. A new file or function may have gone to another path, if all of it is there.
        Where the target has only what binds the very same thing (an import, a definition, an
        entry), the rest of the hunk lands without it; otherwise it is *partly upstream*, and the
        report names what is missing.""",
    ),
    "conflict": (
        "Conflict",
        """
        No proposal was proven. Each method says what it lacked, and every definition of the name is
        listed to look at. Where upstream changed the very place that the hunk changes (the same
        statement, the gap into which it inserts, a name that it brings in, a file that it adds) and
        not to what the patch wants, that is a *clash*: base, target and patch side by side.""",
    ),
    "like, but not the same": (
        "Like, but not the same",
        """
        Similar code alone is no proof. What was looked at and not taken is named with its likeness
        and with what was asked of it.""",
    ),
}


def read_cases() -> list[Case]:
    """Return the recorded cases, in the order of the page."""
    entries = tomllib.loads(CASES.read_text())["case"]
    by_kind = {entry["kind"]: Case(**entry) for entry in entries}
    return [by_kind[kind] for kind in SECTIONS if kind in by_kind]


def format_cases(cases: list[Case]) -> str:
    """Return the text of the file that records the cases."""
    document = tomlkit.document()
    document.add(tomlkit.comment("The examples of docs/how-placement-works.md, see search.py."))
    entries = tomlkit.aot()
    for case in cases:
        entry = tomlkit.table()
        for item in fields(Case):
            value = getattr(case, item.name)
            literal = item.name == "patch" and "'''" not in value
            text = tomlkit.string(value, literal=True, multiline=True) if literal else value
            entry.add(item.name, text)
        entries.append(entry)
    document.add("case", entries)
    return tomlkit.dumps(document)


def make_page(cases: list[Case], open_tree: Callable[[str], SourceTree]) -> str:
    """Return the page; every example is moved anew on the trees of its releases."""
    parts = [HEAD]
    for case in cases:
        base, target = open_tree(f"v{case.base}"), open_tree(f"v{case.target}")
        head, text = SECTIONS[case.kind]
        parts += [f"## {head}\n", _wrapped(text), *_example(case, base, target)]
    parts += _stored(open_tree("v0.28.0"), open_tree("v0.29.0"))
    return "\n".join(parts)


def _example(case: Case, base: SourceTree, target: SourceTree) -> list[str]:
    result = port([case.patch.encode()], base, target)
    (outcome,) = result.outcomes
    where = f"`{case.path}`, {case.base} to {case.target}. The patch:"
    around = 2 if case.kind == "wrapped" else 1  # the block is above the line above
    patch, landed = _short(_hunk_lines(case.patch), around), _landed(result, outcome, around)
    said = [where, "", *_fenced(patch), ""]
    changed = changed_lines(case, base.files, target.files)
    if changed:
        kept = changed[:MOST_TOLD] + (["…"] if len(changed) > MOST_TOLD else [])
        said += ["What upstream did to the function:", "", *_fenced(kept), ""]
    if landed and landed != patch:
        said += ["What landed:", "", *_fenced(landed), ""]
    return [*said, *_why(outcome)]


def changed_lines(case: Case, base: Mapping[str, bytes], target: Mapping[str, bytes]) -> list[str]:
    """Return what upstream did to the definition, as the lines of a diff."""
    old = code.text_of(base[case.path], case.name)
    there = target.get(case.new_path)
    if there is None or not code.has(there, case.new_name):
        return []
    sides = [textwrap.dedent(x).split("\n") for x in (old, code.text_of(there, case.new_name))]
    diff = list(unified_diff(*sides, n=1, lineterm=""))
    return [line for line in diff if not line.startswith(("---", "+++", "@@"))]


def _hunk_lines(patch: str) -> list[str]:
    (file,) = parse_patch(patch.encode(), "patch").files
    return [x.kind + x.text.decode().rstrip("\n") for hunk in file.hunks for x in hunk.lines]


def _landed(result: RebaseResult, outcome: HunkOutcome, around: int) -> list[str]:
    (patch,) = result.patches
    placed = outcome.status == "placed"
    return _short(_hunk_lines(patch.data.decode()), around) if placed else []


def _short(lines: list[str], around: int) -> list[str]:
    """A hunk with a line or two of context, without the indentation that all of it has."""
    changed = [n for n, line in enumerate(lines) if line[0] != " "]
    near = lines[max(0, changed[0] - around) : changed[-1] + 2]
    texts = textwrap.dedent("\n".join(line[1:] for line in near)).split("\n")
    return [f"{line[0]}{text}".rstrip() for line, text in zip(near, texts, strict=True)]


def _why(outcome: HunkOutcome) -> list[str]:
    return [
        "```text",
        *(x for line in why_lines(outcome_json(outcome)) for x in _told(line)),
        "```\n",
    ]


def _told(line: str) -> list[str]:
    return textwrap.wrap(
        line, WIDTH, subsequent_indent=" " * 13, break_on_hyphens=False, drop_whitespace=True
    )


def _fenced(lines: list[str]) -> list[str]:
    return ["```diff", *lines, "```"]


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 100, break_on_hyphens=False) + "\n"


DRIFTED = """\
The edit fits, but what its new code relies on is gone or something else: a name, attribute or
keyword that the base defines and the target nowhere; a call whose arguments bind to other
parameters, or that lacks one, or takes another default; a constant or member of another value; a
field of another type. Hunk 1 of `patches/v0.28.0/block-promotion.patch`, as it was authored, on
0.29.0:
"""
ADAPTED = """\
What a person decided for one release is stored with its reason, and is placed while the hunk and
the definitions that it touches are as they were; when either changes it is a conflict again. The
same hunk, with what `[override]` of its anchors holds:
"""


def _stored(base: SourceTree, target: SourceTree) -> list[str]:
    """The two sections that the series of this repository is the example for."""
    name = "block-promotion.patch"
    data = (SERIES / name).read_bytes()
    anchors = (SERIES / name.replace(".patch", ".anchors.toml")).read_bytes()
    parts = []
    for head, text, adaptations in (
        ("Drifted", DRIFTED, ()),
        ("Adaptation", ADAPTED, stored_overrides(anchors, name).adaptations),
    ):
        result = rebase_series([PatchInput(name, data, adaptations)], base, target)
        parts += [f"## {head}\n", text, *_why(result.outcomes[0])]
    return parts
