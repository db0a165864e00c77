"""A remembered resolution is replayed where it is proven, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from difflib import unified_diff
from typing import Any

import pytest

from patchkit import RebaseResult, SourceTree
from patchkit.diff import parse_patch
from patchkit.outcome import Status
from patchkit.placing import replay as replaying
from patchkit.placing.adaptation import Replay, make_adaptation
from patchkit.placing.landed import Landing
from patchkit.placing.resolution import Resolution, make_resolution
from patchkit.placing.verdict import Verdict
from patchkit.stacking.rebase import PatchInput, rebase_series

PATH = "vllm/mod.py"
HEAD = "import os\n\n\ndef first(x):\n    return os.path.join(x)\n\n\n"
TAIL = "\n\ndef last(x):\n    return x\n"
F = "def f(x):\n    a(x)\n    b(x)\n    return x\n"
BASE = HEAD + F + TAIL
AUTHORED = BASE.replace("    b(x)\n", "    b(x, mine=1)\n")
# the release for which a person resolved it
TARGET = BASE.replace("    b(x)\n", "    c(x)\n")
RESOLVED = TARGET.replace("    c(x)\n", "    c(x, mine=1)\n")
# a later one, in which the definition has changed beside what was resolved
LATER = TARGET.replace("    a(x)\n", "    before(x)\n    a(x, 2)\n")


def diff(old: str, new: str, path: str = PATH) -> bytes:
    lines = unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(lines).encode()


def resolution(
    before: str = TARGET,
    after: str = RESOLVED,
    patch: bytes | None = None,
    numbers: tuple[int, ...] = (1,),
    release: str = "0.29.0",
    reason: str = "upstream calls c now",
    name: str = "p",
    path: str = PATH,
) -> Resolution:
    sections = parse_patch(patch or diff(BASE, AUTHORED), "p").files
    hunks = dict(enumerate((h for s in sections for h in s.hunks), start=1))
    adaptation = make_adaptation(
        release=release, path=path, hunks=[(n, hunks[n]) for n in numbers],
        before=before.encode(), after=after.encode(), reason=reason,
    )  # fmt: skip
    return make_resolution(name, adaptation, before.encode(), after.encode())


def move(
    target: str | dict[str, str],
    *memory: Resolution,
    patch: bytes | None = None,
    base: str | dict[str, str] = BASE,
    version: str = "0.33.0",
    name: str = "p",
    made_on: dict[str, str] | None = None,
) -> RebaseResult:
    trees = [t if isinstance(t, dict) else {PATH: t} for t in (base, target)]
    old, new = ({path: text.encode() for path, text in tree.items()} for tree in trees)
    found = {path: text.encode() for path, text in (made_on or {}).items()}
    then = SourceTree(found, version="0.29.0") if found else None
    return rebase_series(
        [PatchInput(name, patch or diff(BASE, AUTHORED), memory=memory)],
        SourceTree(old, version="0.28.0"),
        SourceTree(new, version=version),
        made_on={"0.29.0": then}.get,
    )


def test_it_is_replayed_where_the_definition_is_as_it_was() -> None:
    shifted = TARGET.replace("import os\n", "import os\nimport sys\n")
    result = move(shifted, resolution())
    (outcome,) = result.outcomes
    assert (outcome.status, outcome.method, outcome.definition_after) == (
        "placed",
        "adaptation",
        "f",
    )
    assert result.tree.files[PATH].decode() == shifted.replace("c(x)", "c(x, mine=1)")
    assert [(e.kind, e.text) for e in outcome.evidence] == [
        ("resolution", "resolved for 0.29.0: upstream calls c now"),
        ("fingerprints", "the hunk and the target definitions are as they were then"),
    ]
    assert outcome.replayed is not None
    assert (outcome.replayed.release, outcome.replayed.how) == ("0.29.0", "exact")
    assert outcome.replayed.key == resolution().key


def test_it_is_carried_onto_a_definition_that_changed_elsewhere() -> None:
    result = move(LATER, resolution())
    (outcome,) = result.outcomes
    assert (outcome.status, outcome.method) == ("placed", "adaptation")
    assert result.tree.files[PATH].decode() == LATER.replace("c(x)", "c(x, mine=1)")
    assert outcome.replayed is not None
    assert outcome.replayed.how == "carried"
    assert [e.kind for e in outcome.evidence][:2] == ["resolution", "carried"]
    assert outcome.evidence[1].text == (
        "`f` in the target is not as it was when the adaptation was made; "
        "its own change was placed there by typed, and proven: what it replaces, or its "
        "neighbours, are there; argument added in `f`, between the same neighbours"
    )


def test_it_is_carried_into_a_definition_that_was_renamed() -> None:
    long = "    s1(x)\n    s2(x)\n    s3(x)\n    s4(x)\n    s5(x)\n"
    base, authored, target, resolved, later = (
        text.replace("    a(x", long + "    a(x")
        for text in (BASE, AUTHORED, TARGET, RESOLVED, TARGET.replace("def f(", "def renamed("))
    )
    made = resolution(target, resolved, diff(base, authored))
    result = move(later, made, patch=diff(base, authored), base=base)
    assert result.tree.files[PATH].decode() == later.replace("c(x)", "c(x, mine=1)")
    assert result.outcomes[0].definition_after == "renamed"


def test_what_lands_by_itself_is_not_replayed() -> None:
    result = move(BASE, resolution(BASE, AUTHORED.replace("mine=1", "mine=2")))
    (outcome,) = result.outcomes
    assert (outcome.method, outcome.replayed) == ("exact", None)
    assert result.tree.files[PATH].decode() == AUTHORED


def test_what_cannot_be_placed_is_a_conflict_that_names_it() -> None:
    target = TARGET.replace("c(x)", "d(x, y)")
    result = move(target, resolution())
    (outcome,) = result.outcomes
    assert outcome.status == "conflicted"
    without = move(target).outcomes[0]
    assert outcome.reason == (
        f"{without.reason}; a resolution made for 0.29.0 is remembered, and does not hold: `f` in "
        "the target is not as it was when the adaptation was made, and its change cannot be placed "
        "there: the lines that it changes in `f`, or those next to them, changed upstream"
    )
    assert outcome.clash == without.clash
    assert result.tree.files[PATH].decode() == target


def test_what_would_leave_a_name_unbound_is_a_conflict() -> None:
    resolved = TARGET.replace("    c(x)\n", "    c(x, first)\n")
    gone = LATER.replace("def first(x)", "def second(x)")
    result = move(gone, resolution(TARGET, resolved))
    (outcome,) = result.outcomes
    assert outcome.status == "conflicted"
    assert "does not hold: " in (outcome.reason or "")
    assert "first" in (outcome.reason or "")
    assert result.tree.files[PATH].decode() == gone
    assert move(LATER, resolution(TARGET, resolved)).ok


def test_what_the_target_has_already_as_resolved_is_not_done_again() -> None:
    result = move(LATER.replace("c(x)", "c(x, mine=1)"), resolution())
    (outcome,) = result.outcomes
    assert outcome.status != "placed"
    assert (outcome.reason or "").endswith(
        "and its change cannot be placed there: it is already upstream"
    )


def test_a_changed_hunk_is_another_hunk() -> None:
    patch = diff(BASE, AUTHORED.replace("mine=1", "mine=2"))
    (outcome,) = move(TARGET, resolution(), patch=patch).outcomes
    assert outcome.status == "conflicted"
    assert "remembered" not in (outcome.reason or "")


def test_a_hunk_is_known_by_its_lines_whatever_its_number_and_its_patch() -> None:
    other = "vllm/a.py"
    patch = diff("x = 1\n", "x = 2\n", other) + diff(BASE, AUTHORED)
    result = move(
        {PATH: TARGET, other: "x = 1\n"}, resolution(name="old"),
        patch=patch, base={PATH: BASE, other: "x = 1\n"}, name="new",
    )  # fmt: skip
    assert [o.method for o in result.outcomes] == ["exact", "adaptation"]
    assert result.tree.files[PATH].decode() == RESOLVED


def test_a_hunk_that_the_patch_has_twice_is_not_guessed() -> None:
    other = "vllm/a.py"
    patch = diff(BASE, AUTHORED) + diff(BASE, AUTHORED, other)
    trees = {PATH: TARGET, other: TARGET}, {PATH: BASE, other: BASE}
    result = move(trees[0], resolution(), patch=patch, base=trees[1])
    assert [str(o.status) for o in result.outcomes] == ["conflicted", "conflicted"]


def test_of_two_the_own_patch_goes_first_then_the_own_release_then_the_last() -> None:
    def made(number: int, **fields: str) -> Resolution:
        after = TARGET.replace("c(x)", f"c(x, mine={number})")
        return resolution(TARGET, after, **fields)

    other, old, late, own = (
        made(1, name="other", release="0.33.0"),
        made(2, release="0.29.0"),
        made(3, release="0.30.0"),
        made(4, release="0.33.0"),
    )

    def chosen(*memory: Resolution) -> str:
        line = next(
            line
            for line in move(TARGET, *memory).tree.files[PATH].decode().split("\n")
            if "c(x" in line
        )
        return line.strip()

    assert chosen(other, old) == "c(x, mine=2)"
    assert chosen(old, late) == "c(x, mine=3)"
    assert chosen(own, old, late) == "c(x, mine=4)"


def test_the_next_one_is_tried_where_the_first_does_not_hold() -> None:
    newest = resolution(TARGET.replace("c(x)", "e(x)"), TARGET.replace("c(x)", "e(x, mine=1)"))
    result = move(TARGET, resolution(release="0.30.0"), newest)
    assert result.ok
    assert result.tree.files[PATH].decode() == RESOLVED


def test_what_was_made_of_a_drift_is_replayed_where_it_drifts_again() -> None:
    spec = "vllm/spec.py"
    uses = BASE.replace("    b(x)\n", "    b(x, x.stride)\n")
    base = {PATH: BASE, spec: "class Spec:\n    stride = 1\n"}
    target = {PATH: BASE, spec: "class Spec:\n    width = 1\n"}
    patch = diff(BASE, uses)
    assert move(target, patch=patch, base=base).drifted
    made = resolution(BASE, BASE.replace("b(x)", "b(x, x.width)"), patch)
    result = move(target, made, patch=patch, base=base)
    assert not result.drifted
    assert result.tree.files[PATH].decode() == BASE.replace("b(x)", "b(x, x.width)")
    # where nothing has drifted it lands as it was authored
    assert move(base, made, patch=patch, base=base).tree.files[PATH].decode() == uses


CALLEES = "vllm/calls.py"
CALLED = (
    "def a(x, y=0):\n    pass\n\n\ndef b(x, mine=0):\n    pass\n\n\ndef c(x, *more):\n    pass\n"
)
THEN = CALLED.replace("c(x, *more)", "c(x, mine=0, flag=0)")


def calls(text: str) -> str:
    return "from vllm.calls import a, b, c\n\n\n" + text.replace("mine=1", "1, 2")


@pytest.mark.parametrize("target", [TARGET, LATER])
def test_what_is_replayed_is_held_against_the_release_that_it_was_made_for(target: str) -> None:
    """The base says nothing of it: a person wrote it on what another release had."""
    patch = diff(calls(BASE), calls(AUTHORED))
    made = resolution(calls(TARGET), calls(RESOLVED), patch)
    base = {PATH: calls(BASE), CALLEES: CALLED}
    then = {PATH: calls(RESOLVED), CALLEES: THEN}

    def moved(callees: str, made_on: dict[str, str] | None) -> Any:
        new = {PATH: calls(target), CALLEES: callees}
        result = move(new, made, patch=patch, base=base, made_on=made_on)
        (outcome,) = result.outcomes
        assert outcome.replayed is not None
        return outcome

    assert moved(THEN, then).drifts == ()
    inserted = moved(THEN.replace("mine=0, flag", "other=0, mine=0, flag"), then)
    assert [d.text for d in inserted.drifts] == [
        "argument 2 of `c` binds to `mine` in 0.29.0 (vllm/calls.py:9) and to `other` in 0.33.0 "
        "(vllm/calls.py:9); argument 3 of `c` binds to `flag` in 0.29.0 (vllm/calls.py:9) and to "
        "`mine` in 0.33.0 (vllm/calls.py:9)"
    ]
    unknown = moved(THEN.replace("mine=0, flag", "other=0, mine=0, flag"), None)
    assert unknown.not_checked == (
        "what it calls and reads: 0.29.0, for which it was made, is not at hand",
    )


def test_what_a_replayed_text_reads_must_be_there_as_in_its_own_release() -> None:
    patch = diff(BASE, AUTHORED)
    made = resolution(TARGET, RESOLVED.replace("mine=1", "x.width"), patch)
    spec = "vllm/spec.py"
    then = {PATH: RESOLVED, spec: "class Spec:\n    width = 1\n"}
    (outcome,) = move({PATH: TARGET, spec: ""}, made, made_on=then).outcomes
    assert [d.text for d in outcome.drifts] == [
        "attribute `width` is defined in 0.29.0 (vllm/spec.py:2) and nowhere in 0.33.0"
    ]
    assert move({**then, PATH: TARGET}, made, made_on=then).outcomes[0].drifts == ()


BODY = "".join(f"    s{n}(x)\n" for n in range(9))
TWO = f"def f(x):\n    a(x)\n{BODY}    b(x)\n    return x\n"
TWO_AUTHORED = TWO.replace("a(x)\n", "a(x, mine=1)\n").replace("b(x)\n", "b(x, mine=1)\n")
TWO_TARGET = TWO.replace("    a(x)\n", "    c(x)\n").replace("    b(x)\n", "    d(x)\n")
TWO_RESOLVED = TWO_TARGET.replace("c(x)", "c(x, mine=1)").replace("d(x)", "d(x, mine=1)")


def test_one_for_two_hunks_is_not_used_where_one_of_them_lands() -> None:
    patch = diff(TWO, TWO_AUTHORED)
    made = resolution(TWO_TARGET, TWO_RESOLVED, patch, (1, 2))
    assert move(TWO_TARGET, made, patch=patch, base=TWO).ok
    half = TWO.replace("    b(x)\n", "    d(x)\n")
    result = move(half, made, patch=patch, base=TWO)
    assert [str(o.status) for o in result.outcomes] == ["placed", "conflicted"]
    assert (result.outcomes[1].reason or "").endswith(
        "does not hold: it is for several hunks together, of which hunk 1 lands without it"
    )


def test_two_in_one_definition_are_replayed_together() -> None:
    patch = diff(TWO, TWO_AUTHORED)
    one = resolution(TWO_TARGET, TWO_TARGET.replace("c(x)", "c(x, mine=1)"), patch, (1,))
    two = resolution(TWO_TARGET, TWO_TARGET.replace("d(x)", "d(x, mine=1)"), patch, (2,))
    result = move(TWO_TARGET, one, patch=patch, base=TWO)
    assert [str(o.method) for o in result.outcomes] == ["adaptation", "None"]
    result = move(TWO_TARGET, one, two, patch=patch, base=TWO)
    assert [str(o.method) for o in result.outcomes] == ["adaptation", "adaptation"]
    assert result.tree.files[PATH].decode() == TWO_RESOLVED


def test_what_waits_in_the_same_definition_is_there_as_when_it_was_resolved() -> None:
    authored = TWO.replace("a(x)\n", "mine = a(x)\n").replace("b(x)\n", "b(x, mine)\n")
    patch, target = diff(TWO, authored), TWO.replace("    a(x)\n", "    c(x)\n")
    assert [str(o.status) for o in move(target, patch=patch, base=TWO).outcomes] == [
        "conflicted",
        "blocked",
    ]
    before = target.replace("b(x)\n", "b(x, mine)\n")
    after = before.replace("    c(x)\n", "    mine = c(x)\n")
    result = move(target, resolution(before, after, patch), patch=patch, base=TWO)
    assert result.tree.files[PATH].decode() == after
    assert [o.replayed.how if o.replayed else None for o in result.outcomes] == ["exact", None]


def test_one_that_falls_takes_none_with_it() -> None:
    base = BASE.replace("def last(x):\n    return x", f"def last(x):\n{BODY}    return d(x)")
    authored = base.replace("b(x)\n", "b(x, mine=1)\n").replace("d(x)", "d(x, mine=1)")
    patch = diff(base, authored)
    target = base.replace("    b(x)\n", "    c(x)\n").replace("d(x)", "e(x)")
    falls = resolution(target, target.replace("c(x)", "c(x, nowhere)"), patch, (1,))
    stays = resolution(target, target.replace("e(x)", "e(x, mine=1)"), patch, (2,))
    for memory in ((falls, stays), (stays, falls)):
        result = move(target, *memory, patch=patch, base=base)
        assert [str(o.status) for o in result.outcomes] == ["conflicted", "placed"]
        assert "does not hold: name `nowhere` is not bound" in (result.outcomes[0].reason or "")
        assert result.tree.files[PATH].decode() == target.replace("e(x)", "e(x, mine=1)")


def test_what_lands_by_itself_goes_before_what_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patch = diff(TWO, TWO_AUTHORED)
    target = TWO.replace("    a(x)\n", "    c(x)\n")
    before = target.replace("b(x)\n", "b(x, mine=1)\n")
    made = resolution(before, before.replace("c(x)", "c(x, mine=1)"), patch, (1,))
    assert move(target, made, patch=patch, base=TWO).ok
    land = replaying.land_patch

    def unseating(*args: Any, **kwargs: Any) -> Landing:
        landing = land(*args, **kwargs)
        if not any(isinstance(a, Replay) for a in kwargs.get("adaptations", ())):
            return landing
        gone = Verdict(Status.CONFLICTED, reason="unseated")
        return replace(landing, verdicts={**landing.verdicts, 2: gone})

    monkeypatch.setattr(replaying, "land_patch", unseating)
    result = move(target, made, patch=patch, base=TWO)
    assert [str(o.status) for o in result.outcomes] == ["conflicted", "placed"]
    assert (result.outcomes[0].reason or "").endswith(
        "does not hold: other hunks would not land any more"
    )


def test_a_change_that_would_go_into_two_files_is_not_carried() -> None:
    body = "".join(f"    s{n}(x)\n" for n in range(8))
    two = f"def f(x):\n    b(x)\n\n\ndef g(x):\n{body}    d(x)\n    return x\n"
    resolved = two.replace("b(x)", "b(x, 1)").replace("d(x)", "d(x, 1)")
    patch = diff(two.replace("b(x)", "z(x)"), two.replace("b(x)", "z(mine)"))
    made = resolution(two, resolved, patch)
    f, _, g = two.partition("\n\n\n")
    target = {PATH: f.replace("b(x)", "b(x)\n    more(x)"), "vllm/moved.py": g}
    result = move(target, made, patch=patch, base=two.replace("b(x)", "z(x)"))
    assert (result.outcomes[0].reason or "").endswith("its change would go into several files")


def test_a_hunk_that_waited_for_a_replayed_one_lands_with_it() -> None:
    helper = AUTHORED.replace("b(x, mine=1)", "b(x, mine(x))").replace(
        "def f(", "def mine(x):\n    return x\n\n\ndef f("
    )
    other = "vllm/other.py"
    uses = "from vllm.mod import mine\n\n\ndef g(x):\n    return mine(x)\n"
    patch = diff(BASE, helper) + diff("def g(x):\n    return x\n", uses, other)
    base = {PATH: BASE, other: "def g(x):\n    return x\n"}
    target = {**base, PATH: TARGET}
    alone = move(target, patch=patch, base=base)
    assert [str(o.status) for o in alone.outcomes] == ["conflicted", "blocked"]
    resolved = TARGET.replace("c(x)", "c(x, mine(x))").replace(
        "def f(", "def mine(x):\n    return x\n\n\ndef f("
    )
    result = move(target, resolution(TARGET, resolved, patch), patch=patch, base=base)
    assert result.ok
    assert result.tree.files[PATH].decode() == resolved
    assert result.tree.files[other].decode() == uses


def test_what_is_no_python_is_replayed_on_the_same_file_alone() -> None:
    path, base, target = "vllm/c.yaml", "a: 1\nb: 2\n", "a: 1\nb: 3\n"
    patch = diff(base, "a: 1\nb: 4\n", path)
    made = resolution(target, "a: 1\nb: 5\n", patch, path=path)
    assert made.definitions == ""
    fields = {"patch": patch, "base": {path: base}}
    assert move({path: target}, made, **fields).tree.files[path] == b"a: 1\nb: 5\n"  # type: ignore[arg-type]
    (outcome,) = move({path: "a: 2\nb: 3\n"}, made, **fields).outcomes  # type: ignore[arg-type]
    assert (outcome.reason or "").endswith(
        "does not hold: the file in the target is not as it was when the adaptation was made"
    )


# What is kept of the definitions -----------------------------------------------------------------

CLASS = '''\
import os


def before():
    """First."""
    return 1


class A:
    """A class."""

    x = 1

    def one(self):
        return 1

    def two(self):
        a()
        return 2

    def three(self):
        """Third."""
        return 3

    def four(self):
        return 4


def after():
    return 5


def far():
    return 6
'''


def kept(after: str, before: str = CLASS) -> str:
    made = resolution(before, after, diff(BASE, AUTHORED))
    texts = made.texts
    assert texts is not None
    return texts[0].decode()


def test_of_a_class_the_changed_method_and_its_neighbours_are_kept() -> None:
    assert (
        kept(CLASS.replace("        a()\n", "        a(1)\n"))
        == '''\
def before():
    """First."""


class A:
    def one(self):
        return 1

    def two(self):
        a()
        return 2

    def three(self):
        """Third."""


def after():
    return 5
'''
    )


def test_both_texts_are_modules_wherever_a_change_is() -> None:
    lines = CLASS.splitlines(keepends=True)
    for number in range(len(lines) + 1):
        indent = next((t[: len(t) - len(t.lstrip())] for t in lines[number:] if t.strip()), "")
        after = "".join([*lines[:number], f"{indent}new = 1\n", *lines[number:]])
        try:
            compile(after, "after", "exec")
        except SyntaxError:
            continue
        made = resolution(CLASS, after, diff(BASE, AUTHORED))
        assert made.texts is not None
        for text in made.texts:
            compile(text, "kept", "exec")
        assert b"new = 1\n" in made.texts[1]
        assert b"new = 1\n" not in made.texts[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        return 4\n", "        return 4\n\n    def five(self):\n        return 5\n"),
        ("    x = 1\n", "    x = 1\n    y = 2\n"),
        ("import os\n", "import os\nimport sys\n"),
        ("        return 2\n", "        return 2\n        os.sep()\n"),
        ("def after():\n", "def new():\n    return 0\n\n\ndef after():\n"),
        ("    return 6\n", "    return 6\n\n\ndef end():\n    return 7\n"),
        ("    def one(self):\n        return 1\n\n", ""),
        ("class A:\n", "class A(B):\n"),
    ],
)
def test_what_is_kept_is_enough_to_carry_it(old: str, new: str) -> None:
    after = CLASS.replace(old, new)
    fresh = CLASS.replace("import os\n", "import os\nimport B\n").replace(
        "        a()\n", "        a(9)\n"
    )
    # the patch's own hunk conflicts; the resolution is the change looked at
    patch = diff(CLASS.replace("a()", "z()"), CLASS.replace("a()", "z(mine)"))
    base = CLASS.replace("a()", "z()")
    made = resolution(CLASS, after, patch)
    result = move(fresh, made, patch=patch, base=base)
    assert result.tree.files[PATH].decode() == fresh.replace(old, new), result.outcomes[0].reason


def test_what_was_left_alone_where_the_hunk_belongs_is_left_alone_there_only() -> None:
    """A person solved it elsewhere, for what the hunk's own definition said then."""
    long = "".join(f"    s{n}(x)\n" for n in range(8))
    base, target = (t.replace("def last(x):\n", f"def last(x):\n{long}") for t in (BASE, TARGET))
    patch = diff(base, base.replace("    b(x)\n", "    b(x, mine=1)\n"))
    hunk = parse_patch(patch, "p").files[0].hunks[0]
    after = target.replace("    return x\n", "    return mine(x)\n").replace(
        "return mine(x)\n", "return x\n", 1
    )
    after = "from vllm import mine\n" + after
    adaptation = make_adaptation(
        release="0.29.0", path=PATH, hunks=[(1, hunk)], before=target.encode(),
        after=after.encode(), reason="last does it", authored_in={"f", "gone"},
    )  # fmt: skip
    assert set(adaptation.target_definitions) >= {"f", "last", "gone"}
    assert adaptation.target_definitions["gone"] == ""
    made = make_resolution("p", adaptation, target.encode(), after.encode())
    fields: dict[str, Any] = {"patch": patch, "base": base}
    mine = {"vllm/__init__.py": "def mine(x):\n    return x\n"}
    assert move({PATH: target, **mine}, made, **fields).ok
    assert move({PATH: target.replace("s3(x)", "s3(x, 1)"), **mine}, made, **fields).ok
    for other in (
        target.replace("    a(x)\n", "    a(x, 2)\n"),
        target.replace("c(x)", "d(x)"),
        target + "\n\ndef gone():\n    return 1\n",
    ):
        (outcome,) = move({PATH: other, **mine}, made, **fields).outcomes
        assert outcome.status == "conflicted"
        assert "in the target is not as it was when the adaptation was made" in str(outcome.reason)


def test_a_replay_after_which_the_file_is_no_python_is_refused() -> None:
    made = resolution(TARGET, TARGET.replace("c(x)", "c(x"))
    (outcome,) = move(TARGET, made).outcomes
    assert outcome.status == "conflicted"
    assert "does not hold: does not compile: '(' was never closed" in str(outcome.reason)
