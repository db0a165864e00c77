"""Order, base and place of foreign patches, on trees that are small enough to read."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.adopting import order
from patchkit.adopting.adopt import Wanted, adopt
from patchkit.adopting.canonical import canonical
from patchkit.adopting.gather import Found, Gathered, gather, read_patches
from patchkit.adopting.lost_names import lost_names
from patchkit.adopting.made_on import Ground, Way, made_on
from patchkit.adopting.naming import split_subject
from patchkit.adopting.order import applying_order, numbered
from patchkit.config import Config
from patchkit.diff import parse_patch
from patchkit.errors import PatchkitError
from patchkit.stacking.rebase import PatchInput, rebase_series
from patchkit.surveying.base import Base
from patchkit.tree import SourceTree
from tests.moves import PATH, diff

BODY = "".join(f"a{n} = {n}\n" for n in range(60))


def found(old: str, new: str, name: str = "p.patch", subject: str = "") -> Found:
    head = f"From: A <a@example.org>\nSubject: {subject}\n\n" if subject else ""
    (one,) = read_patches(head.encode() + diff(old, new), name, "p")
    return one


def tree(text: str, **others: str) -> SourceTree:
    files = {PATH: text, **{f"vllm/{name}.py": body for name, body in others.items()}}
    return SourceTree({path: body.encode() for path, body in files.items()}, name="t", version="t")


def ground(tmp_path: Path, trees: dict[str, SourceTree]) -> Ground:
    return Ground(Config(tmp_path), "patches", trees.__getitem__)


def change(number: int, text: str = BODY) -> str:
    return text.replace(f"a{number} = {number}\n", f"a{number} = -1\n")


@pytest.mark.parametrize(
    ("subjects", "wanted"),
    [
        (["[PATCH 2/2] b", "[PATCH 1/2] a"], [1, 0]),
        (["[PATCH 1/2] a", "[PATCH 2/2] b"], None),
        (["[PATCH 2/2] b", "[PATCH 2/2] a"], None),
        (["[PATCH 2/2] b", "[PATCH 1/3] a"], None),
        (["[PATCH 2/2] b", "a"], None),
        (["[PATCH 2/2] b", "[PATCH 1/2] a", "[PATCH v2 2/2] c"], None),
    ],
)
def test_numbers_say_an_order_where_all_have_one_of_one_count(
    subjects: list[str], wanted: list[int] | None
) -> None:
    patches = [found(BODY, change(5), subject=subject) for subject in subjects]
    assert [split_subject(text)[1] for text in subjects] == [one.said.numbers for one in patches]
    assert numbered(patches) == wanted


def test_what_was_a_dead_end_once_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "_MOST_TRIES", 120)  # 90 are made; 358 otherwise
    independent = [found(BODY, change(n), f"{n}.patch") for n in (5, 15, 25, 35, 45)]
    wide = diff(BODY, change(10), context=5)  # needs lines that the first two change
    (before_both,) = read_patches(wide, "late.patch", "late")
    patches = [*independent, before_both]
    assert applying_order(patches, tree(BODY)) == [2, 3, 4, 5, 0, 1]


def test_a_search_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    patches = [found(BODY, change(n), f"{n}.patch") for n in (5, 15, 25)]
    patches.append(found("other\n", "another\n", "odd.patch"))
    monkeypatch.setattr(order, "_MOST_TRIES", 3)
    assert applying_order(patches, tree(BODY)) is None
    assert applying_order(patches[:3], tree(BODY)) == [0, 1, 2]


def test_of_alike_releases_the_newest_is_taken_that_has_what_new_code_needs(
    tmp_path: Path,
) -> None:
    old = "from vllm import util\n\n" + BODY
    new = old.replace("a9 = 9\n", "a9 = util.helper(9)\n")
    trees = {
        "0.27.0": tree(old, util="def helper(x):\n    return x\n"),
        "0.28.0": tree(old, util="def helper(x):\n    return x\n\n\nlast = 1\n"),
        "0.29.0": tree(old, util="last = 1\n"),
    }
    answer = made_on(Gathered((found(old, new),), ordered=False), ground(tmp_path, trees), [*trees])
    assert isinstance(answer.base, Base)
    assert (answer.base.name, answer.base.alike) == ("0.28.0", ("0.27.0",))


def test_an_order_that_is_said_is_not_changed(tmp_path: Path) -> None:
    one, two = found(BODY, change(5), "a"), found(change(5), change(6, change(5)), "b")
    trees = {"0.28.0": tree(BODY)}
    said = made_on(Gathered((two, one), ordered=True), ground(tmp_path, trees), [*trees])
    assert not isinstance(said.base, Base)
    open_order = made_on(Gathered((two, one), ordered=False), ground(tmp_path, trees), [*trees])
    assert open_order.patches == (one, two)
    assert open_order.way is Way.STACK


def test_an_order_is_looked_for_where_the_most_hunks_apply(tmp_path: Path) -> None:
    one, two = found(BODY, change(5), "a"), found(change(5), change(6, change(5)), "b")
    trees = {"0.21.0": tree(BODY), **{f"0.2{n}.0": tree("x = 1\n") for n in range(2, 7)}}
    answer = made_on(Gathered((two, one), ordered=False), ground(tmp_path, trees), [*trees])
    assert isinstance(answer.base, Base)
    assert (answer.base.name, answer.patches) == ("0.21.0", (one, two))


def test_no_release_that_can_be_opened_is_an_error(tmp_path: Path) -> None:
    def closed(_: str) -> SourceTree:
        raise PatchkitError("no answer", place="the index")

    gathered = Gathered((found(BODY, change(5)),), ordered=False)
    with pytest.raises(PatchkitError) as caught:
        made_on(gathered, Ground(Config(tmp_path), "patches", closed), ["0.27.0", "0.28.0"])
    assert str(caught.value) == "no release can be opened; 0.27.0: no answer (the index)"


def test_sections_that_undo_each_other_are_refused() -> None:
    text = diff(BODY, change(5)) + diff(change(5), BODY)
    with pytest.raises(PatchkitError) as caught:
        canonical(parse_patch(text, "p.patch"), tree(BODY))
    assert str(caught.value) == "p.patch: sections undo each other: the patch changes nothing"


def test_two_sections_of_a_file_become_one() -> None:
    text = diff(BODY, change(5)) + diff(change(5), change(40, change(5)))
    made = canonical(parse_patch(text, "p.patch"), tree(BODY))
    (file,) = made.patch.files
    assert [hunk.old_start for hunk in file.hunks] == [3, 38]


def test_text_between_sections_is_of_the_file_and_not_of_the_patch() -> None:
    others = b"--- a/csrc/x.cu\n+++ b/csrc/x.cu\n@@ -1 +1 @@\n-a\n+b\n"
    text = diff(BODY, change(5)) + b"\nand more\n" + others
    made = canonical(parse_patch(text, "p.patch"), tree(BODY))
    assert [(file.path, file.lead) for file in made.patch.files] == [
        (PATH, b""), ("csrc/x.cu", b""),
    ]  # fmt: skip


def test_hidden_files_are_no_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("in/a.patch", "in/.pc/a.patch", "in/.b.patch.swp"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(diff(BODY, change(5)))
    gathered = gather(["in"], _nothing)
    assert [one.source for one in gathered.patches] == ["in/a.patch"]
    assert gathered.passed_over == ()


def _nothing() -> bytes:
    return b""


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", "-: there is no patch"),
        (b"hello\n", "standard input:1: no patch found, expected a unified diff"),
    ],
)
def test_what_holds_no_patch_is_refused(data: bytes, error: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        gather(["-"], lambda: data)
    assert str(caught.value).startswith(error.replace("-: there is no patch", "standard input:1: "))


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("class A:\n    def one(self): ...\n", "public names lost: A.two, run"),
        (
            "class A:\n    def one(self): ...\n    def two(self): ...\n\n\ndef run(): ...\n",
            "no public name is lost",
        ),
        ("(((\n", "public names lost: A, A.one, A.two, run"),
    ],
)
def test_names_that_a_whole_file_loses_are_told(new: str, said: str) -> None:
    old = (
        "class A:\n    def one(self): ...\n    def two(self):\n        def inner(): ...\n\n\n"
        "def _own(): ...\n\n\ndef run(): ...\n"
    )
    added = diff("", new).replace(b"--- a/vllm/mod.py", b"--- /dev/null")
    texts = lost_names(parse_patch(added, "p"), tree(old))
    assert texts == (f"vllm/mod.py is replaced as a whole; {said}",)


def test_a_file_that_is_changed_in_part_loses_nothing_that_is_told() -> None:
    old = "def one(): ...\n\n\ndef two(): ...\n"
    patch = diff(old, "def one(): ...\n")
    assert lost_names(parse_patch(patch, "p"), tree(old)) == ()


def test_a_patch_for_sources_alone_goes_along_in_a_rebase() -> None:
    source = b"--- a/csrc/x.cu\n+++ b/csrc/x.cu\n@@ -1 +1 @@\n-a\n+b\n"
    inputs = [PatchInput("a.patch", diff(BODY, change(5))), PatchInput("b.patch", source)]
    result = rebase_series(inputs, tree(BODY), tree("import os\n" + BODY))
    assert result.ok
    assert [bool(patch.data) for patch in result.patches] == [True, True]
    assert result.patches[1].data.endswith(b"@@ -1 +1 @@\n-a\n+b\n")


def test_what_has_drifted_on_the_way_is_not_taken(tmp_path: Path) -> None:
    head = "from vllm.util import helper\n\n"
    new = BODY.replace("a9 = 9\n", "a9 = helper(9)\n")
    trees = {
        "nightly": tree(head + BODY, util="def helper(a):\n    return a\n"),
        "0.28.0": tree(head + BODY, util="def helper(b, a):\n    return a\n"),
    }
    gathered = Gathered((found(head + BODY, head + new),), ordered=False)
    wanted = Wanted(base="nightly", release="0.28.0")
    adoption = adopt(gathered, ground(tmp_path, trees), ["0.28.0"], wanted)
    assert [(o.status.value, o.drifted) for o in adoption.moved] == [("placed", True)]
    assert (adoption.ok, adoption.patches) == (False, ())
