"""A series in which something does not land: what waits for it; the rest lands without it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest

from patchkit import RebaseResult
from patchkit.outcome import HunkOutcome, Status
from patchkit.placing.adaptation import fingerprint_definition, make_adaptation
from patchkit.placing.plan import hunk_of
from patchkit.stacking.dependencies import dependencies
from patchkit.stacking.rebase import PatchInput, plan_all, rebase_series
from patchkit.tree import SourceTree
from tests.moves import PATH, diff

OTHER = "vllm/other.py"
BODY = "".join(f"    step{n}(x, {n})\n" for n in range(12))
BASE = f"import os\n\n\ndef f(x):\n{BODY}    return x\n\n\ndef g(x):\n    return os.path(x)\n"


def series(*versions: str, context: int = 3) -> list[PatchInput]:
    """One patch of `PATH` for each step over several versions, named A, B, C."""
    steps = zip("ABCDEF", versions, versions[1:], strict=False)
    return [PatchInput(name, diff(old, new, context=context)) for name, old, new in steps]


def move(
    patches: Sequence[PatchInput], base: str | dict[str, str], target: str | dict[str, str]
) -> RebaseResult:
    trees = ({PATH: t} if isinstance(t, str) else t for t in (base, target))
    old, new = (SourceTree({p: c.encode() for p, c in tree.items()}) for tree in trees)
    return rebase_series(patches, old, new)


def told(result: RebaseResult) -> list[tuple[str, str, tuple[str, ...]]]:
    """Every hunk, what became of it, and what it waits for."""
    return [(f"{o.patch}#{o.hunk}", str(o.status), o.blocked_by) for o in result.outcomes]


def hunk(result: RebaseResult, label: str) -> HunkOutcome:
    return next(o for o in result.outcomes if f"{o.patch}#{o.hunk}" == label)


def text(result: RebaseResult, path: str = PATH) -> str:
    return result.tree.files[path].decode()


A = BASE.replace("step1(x, 1)", "step1(x, 11)")
B = A.replace("step5(x, 5)", "step5(x, 55)")
UPSTREAM = BASE.replace("    step5(x, 5)\n", "    other5(x)\n")  # where B does not fit


def test_only_what_needs_the_patch_in_conflict_waits_for_it() -> None:
    c = B.replace("step5(x, 55)", "step5(x, 56)").replace("step10(x, 10)", "step10(x, 100)")
    result = move(series(BASE, A, B, c, context=1), BASE, UPSTREAM)
    assert told(result) == [
        ("A#1", "placed", ()),
        ("B#1", "conflicted", ()),
        ("C#1", "blocked", ("B#1",)),
        ("C#2", "placed", ()),
    ]
    assert hunk(result, "C#1").reason == (
        f"C#1 changes lines that B#1 adds ({PATH}:10); B#1 did not land"
    )
    assert hunk(result, "C#1").definition_before == "f"
    landed = UPSTREAM.replace("step1(x, 1)", "step1(x, 11)")
    assert text(result) == landed.replace("step10(x, 10)", "step10(x, 100)")


def test_a_patch_that_commutes_lands_as_if_the_one_in_conflict_had_never_been() -> None:
    c = B.replace("    step6(x, 6)\n", "    step6(x, 66)\n")
    result = move(series(BASE, A, B, c), BASE, UPSTREAM)
    without = move(series(BASE, A, A.replace("step6(x, 6)", "step6(x, 66)")), BASE, UPSTREAM)
    assert told(result) == [
        ("A#1", "placed", ()),
        ("B#1", "conflicted", ()),
        ("C#1", "placed", ()),
    ]
    assert text(result) == text(without)


def test_a_line_beside_one_that_did_not_land_goes_beside_what_that_was() -> None:
    c = B.replace("    step5(x, 55)\n", "    step5(x, 55)\n    mine(x)\n")
    (a, b, c_patch) = series(BASE, A, B, c)
    left = [a, PatchInput(b.name, b.data, left_out=None), c_patch]
    result = move(left, BASE, "import re\n" + BASE)
    assert told(result)[2] == ("C#1", "placed", ())
    wanted = A.replace("    step5(x, 5)\n", "    step5(x, 5)\n    mine(x)\n")
    assert text(result) == "import re\n" + wanted


def test_lines_added_where_a_missing_patch_adds_others_land_there_alone() -> None:
    b = A.replace("    step5(x, 5)\n", "    step5(x, 5)\n    one(x)\n")
    c = b.replace("    one(x)\n", "    one(x)\n    two(x)\n")
    a, b_patch, c_patch = series(BASE, A, b, c)
    result = move([a, PatchInput("B", b_patch.data, left_out=None), c_patch], BASE, BASE)
    assert told(result)[2] == ("C#1", "placed", ())
    assert text(result) == c.replace("    one(x)\n", "")


def test_what_needs_a_patch_that_is_left_out_says_so() -> None:
    c = B.replace("step5(x, 55)", "step5(x, 56)")
    a, b, c_patch = series(BASE, A, B, c)
    result = move([a, PatchInput("B", b.data, left_out=None), c_patch], BASE, BASE)
    assert told(result) == [
        ("A#1", "placed", ()),
        ("B#1", "conflicted", ()),
        ("C#1", "blocked", ("B#1",)),
    ]
    assert hunk(result, "C#1").reason == (
        f"C#1 changes lines that B#1 adds ({PATH}:10); B#1 is left out on request"
    )
    assert text(result) == A


def test_what_waits_has_others_wait_for_it() -> None:
    c = B.replace("step5(x, 55)", "step5(x, 56)")
    d = c.replace("step5(x, 56)", "step5(x, 57)")
    assert told(move(series(BASE, A, B, c, d), BASE, UPSTREAM))[1:] == [
        ("B#1", "conflicted", ()),
        ("C#1", "blocked", ("B#1",)),
        ("D#1", "blocked", ("C#1",)),
    ]


def test_a_later_patch_goes_onto_upstreams_form_of_an_earlier_one() -> None:
    c = B.replace("    step5(x, 55)\n", "    step5(x, 55)\n    mine(x)\n")
    upstream = BASE.replace("step5(x, 5)", "step5(\n        x, 55\n    )")
    result = move(series(BASE, A, B, c), BASE, upstream)
    assert told(result) == [
        ("A#1", "placed", ()),
        ("B#1", "already_upstream", ()),
        ("C#1", "placed", ()),
    ]
    wanted = upstream.replace("step1(x, 1)", "step1(x, 11)")
    assert text(result) == wanted.replace(
        "        x, 55\n    )\n", "        x, 55\n    )\n    mine(x)\n"
    )


def test_what_the_target_has_already_waits_for_nothing() -> None:
    c = B.replace("step5(x, 55)", "step5(x, 56)")
    a, b, c_patch = series(BASE, A, B, c)
    target = BASE.replace("step5(x, 5)", "step5(x, 56)")
    result = move([a, PatchInput("B", b.data, left_out=None), c_patch], BASE, target)
    assert told(result)[2] == ("C#1", "already_upstream", ())
    assert text(result) == target.replace("step1(x, 1)", "step1(x, 11)")


HELPER = BASE + "\n\ndef helper(x):\n    return x\n"
USER = "import os\n\n\ndef use(x):\n    return x\n"


def test_a_name_that_did_not_land_blocks_what_uses_it_in_another_file() -> None:
    calls = USER.replace("import os\n", "import os\n\nfrom vllm.mod import helper\n")
    calls = calls.replace("return x", "return helper(x)")
    noise = USER.replace("import os\n", "import os\nimport re\n").replace("use(x)", "use(x, y=re)")
    user = PatchInput("B", diff(USER, calls, OTHER))
    target = BASE + "\n\ndef helper(x):\n    return upstreams(x)\n"
    trees = {PATH: BASE, OTHER: USER}, {PATH: target, OTHER: USER}
    result = move([*series(BASE, HELPER), user], *trees)
    assert told(result) == [("A#1", "conflicted", ()), ("B#1", "blocked", ("A#1",))]
    assert hunk(result, "B#1").reason == (
        f"`helper` is defined by A#1 ({PATH}:24) and imported in B#1 ({OTHER}:3); A#1 did not land"
    )
    assert text(result, OTHER) == USER
    other = PatchInput("C", diff(USER, noise, OTHER))
    assert told(move([*series(BASE, HELPER), other], *trees))[1] == ("C#1", "placed", ())


def test_a_change_of_a_new_file_that_upstream_has_otherwise_waits_for_it() -> None:
    add = PatchInput(
        "A", b"--- /dev/null\n+++ b/vllm/new.py\n@@ -0,0 +1,2 @@\n+def n():\n+    return 1\n"
    )
    change = PatchInput(
        "B", diff("def n():\n    return 1\n", "def n():\n    return 2\n", "vllm/new.py")
    )
    target = {PATH: BASE, "vllm/new.py": "def n(self):\n    return None\n"}
    result = move([add, change], {PATH: BASE}, target)
    assert told(result) == [("A#1", "conflicted", ()), ("B#1", "blocked", ("A#1",))]
    assert text(result, "vllm/new.py") == target["vllm/new.py"]


def test_a_change_of_a_renamed_file_waits_for_the_rename() -> None:
    rename = (
        f"diff --git a/{PATH} b/{OTHER}\nsimilarity index 100%\n"
        f"rename from {PATH}\nrename to {OTHER}\n"
    ).encode()
    change = diff(BASE, BASE.replace("step3(x, 3)", "step3(x, 33)"), OTHER)
    result = move([PatchInput("A", rename, left_out=None), PatchInput("B", change)], BASE, BASE)
    assert told(result) == [("A#1", "conflicted", ()), ("B#1", "blocked", ("A#1",))]
    assert hunk(result, "B#1").reason == (
        f"B#1 changes {OTHER}, which A#1 gives that name; A#1 is left out on request"
    )


def test_hunks_of_one_edit_wait_together() -> None:
    text_lines = "".join(f"line {n}\n" for n in range(9))
    base = f'def f(x):\n    a(x)\n    y = """\n{text_lines}"""\n    b(x)\n    return y\n'
    one = base.replace("a(x)", "a(x, 1)")
    two = one.replace("    a(x, 1)\n    y =", "    with lock:\n        a(x, 1)\n        y =")
    two = two.replace("    b(x)\n", "        b(x)\n")
    a, b = series(base, one, two)
    result = move([PatchInput("A", a.data, left_out=None), b], base, base)
    assert told(result)[1:] == [("B#1", "blocked", ("A#1",)), ("B#2", "blocked", ("A#1",))]
    assert text(result) == base


def test_what_builds_on_a_hunk_that_the_target_has_waits_for_nothing() -> None:
    """B did not land, but upstream is what C made of it: D goes on from there."""
    c = B.replace("step5(x, 55)", "step5(x, 56)")
    d = c.replace("step5(x, 56)", "step5(x, 57)")
    a, b, c_patch, d_patch = series(BASE, A, B, c, d)
    target = BASE.replace("step5(x, 5)", "step5(x, 56)")
    result = move([a, PatchInput("B", b.data, left_out=None), c_patch, d_patch], BASE, target)
    assert told(result)[2:] == [("C#1", "already_upstream", ()), ("D#1", "placed", ())]
    assert result.patches[3].placed.files[0].base == c.encode()
    assert text(result) == target.replace("step1(x, 1)", "step1(x, 11)").replace("56", "57")


def test_a_name_that_only_a_missing_hunk_binds_is_waited_for_however_it_is_bound() -> None:
    base = (
        "def f(x):\n    match x:\n        case Foo():\n            a(x)\n            b(x)\n"
        "            c(x)\n    return x\n"
    )
    one = base.replace("Foo()", "Foo(q)")
    two = one.replace("            c(x)\n", "            c(x)\n            use(q)\n")
    a, b = series(base, one, two)
    result = move([PatchInput("A", a.data, left_out=None), b], base, base)
    assert told(result)[1:] == [("B#1", "blocked", ("A#1",))]
    assert hunk(result, "B#1").reason == (
        "name `q` is not bound in f (line 7) without A#1, which is left out on request"
    )


def test_the_base_of_a_patch_is_without_what_did_not_land_in_other_files() -> None:
    user = USER.replace("return x", "return os.sep")
    c = A.replace("step9(x, 9)", "step9(x, 99)")
    inputs = [
        *series(BASE, A),
        PatchInput("B", diff(USER, user, OTHER), left_out=None),
        PatchInput("C", diff(A, c)),
    ]
    trees = {PATH: BASE, OTHER: USER}, {PATH: BASE, OTHER: USER}
    result = move(inputs, *trees)
    assert result.patches[2].base.files[OTHER].decode() == USER
    assert result.patches[2].base.files[PATH].decode() == A
    top = rebase_series(
        [PatchInput("D", diff(c, c.replace("step9(x, 99)", "step9(x, 98)")))],
        SourceTree({PATH: c.encode(), OTHER: user.encode()}), result.tree, below=("low", result),
    )  # fmt: skip
    assert told(top) == [("D#1", "placed", ())]
    assert top.patches[0].base.files[OTHER].decode() == USER


def test_two_sections_for_one_file_stay_as_they_are() -> None:
    two = A.replace("step5(x, 5)", "step5(x, 55)")
    three = two.replace("step11(x, 11)", "step11(x, 111)")
    both = diff(A, two) + diff(two, three)
    result = move(
        [PatchInput("A", diff(BASE, A), left_out=None), PatchInput("B", both)], BASE, BASE
    )
    assert told(result)[1:] == [("B#1", "placed", ()), ("B#2", "placed", ())]
    assert text(result) == three.replace("step1(x, 11)", "step1(x, 1)")


def test_what_waits_is_placed_by_what_a_person_made_of_it() -> None:
    c = B.replace("step5(x, 55)", "step5(x, 56)")
    a, b, c_patch = series(BASE, A, B, c)
    left = PatchInput("B", b.data, left_out=None)
    plan = move([a, left, c_patch], BASE, BASE).patches[2].plan
    change = hunk_of(plan, 1)
    assert change is not None
    adaptation = make_adaptation(
        release="0.29.0", path=PATH, hunks=[(1, change)], reason="B is not wanted here",
        before=A.encode(), after=A.replace("step5(x, 5)", "step5(x, 58)").encode(),
    )  # fmt: skip
    assert fingerprint_definition(A.encode(), "f") is not None
    result = move([a, left, PatchInput("C", c_patch.data, (adaptation,))], BASE, BASE)
    assert told(result)[2] == ("C#1", "placed", ())
    assert text(result) == A.replace("step5(x, 5)", "step5(x, 58)")


def test_non_python_and_crlf_files_are_carried_back_alike() -> None:
    lines = [f"key{n}: {n}\r\n" for n in range(9)]
    base = "".join(lines)
    one = base.replace("key3: 3\r", "key3: 33\r")
    two = one.replace("key4: 4\r", "key4: 44\r")
    three = two.replace("key3: 33\r", "key3: 34\r")
    path = "vllm/config.yaml"
    inputs = [
        PatchInput("A", diff(base, one, path), left_out=None),
        PatchInput("B", diff(one, two, path)),
        PatchInput("C", diff(two, three, path)),
    ]
    result = move(inputs, {path: base}, {path: "top: 1\r\n" + base})
    assert told(result)[1:] == [("B#1", "placed", ()), ("C#1", "blocked", ("A#1",))]
    assert text(result, path) == "top: 1\r\n" + base.replace("key4: 4\r", "key4: 44\r")


def test_a_series_on_top_of_another_waits_for_what_did_not_land_of_that() -> None:
    lower = series(BASE, A, B)
    first = move([lower[0], PatchInput("B", lower[1].data, left_out=None)], BASE, BASE)
    changed, beside = B.replace("step5(x, 55)", "step5(x, 56)"), B.replace("step6(x, 6)", "b6(x)")
    for top, outcome in (
        (changed, ("A#1", "blocked", ("low/B#1",))),
        (beside, ("A#1", "placed", ())),
    ):
        result = rebase_series(
            series(B, top), SourceTree({PATH: B.encode()}), first.tree, below=("low", first)
        )
        assert told(result) == [outcome]
    assert text(result) == A.replace("step6(x, 6)", "b6(x)")


def test_a_series_on_top_waits_for_names_of_the_one_below() -> None:
    k = "class K:\n    def __init__(self):\n        self.a = 1\n"
    field = k.replace("self.a = 1\n", "self.a = 1\n        self.stride = 2\n")
    base = {PATH: k, OTHER: USER}
    first = move([PatchInput("A", diff(k, field), left_out=None)], base, base)
    low = SourceTree({PATH: field.encode(), OTHER: USER.encode()})
    top = [PatchInput("B", diff(USER, USER.replace("return x", "return x.stride"), OTHER))]
    result = rebase_series(top, low, first.tree, below=("low", first))
    assert told(result) == [("B#1", "blocked", ("low/A#1",))]
    assert hunk(result, "B#1").reason == (
        f"`K.stride` is defined by low/A#1 ({PATH}:4) and read in B#1 ({OTHER}:5); "
        "low/A#1 is left out on request"
    )
    # what another class has as well binds nothing, but a partner in the series may be meant
    base["vllm/z.py"] = "class L:\n    stride: int\n"
    first = move([PatchInput("A", diff(k, field), left_out=None)], base, base)
    low = low.with_changes({"vllm/z.py": base["vllm/z.py"].encode()})
    result = rebase_series(top, low, first.tree, below=("low", first))
    assert told(result) == [("B#1", "blocked", ("low/A#1",))]
    assert hunk(result, "B#1").reason == "attribute `stride` needs what low/A#1 would have added"


def test_a_third_series_knows_the_first() -> None:
    c = B.replace("step9(x, 9)", "step9(x, 99)")
    d = c.replace("step5(x, 55)", "step5(x, 56)")
    lower = series(BASE, A, B)
    first = move([lower[0], PatchInput("B", lower[1].data, left_out=None)], BASE, BASE)
    second = rebase_series(
        series(B, c), SourceTree({PATH: B.encode()}), first.tree, below=("low", first)
    )
    third = rebase_series(
        series(c, d), SourceTree({PATH: c.encode()}), second.tree, below=("mid", second)
    )
    assert told(second) == [("A#1", "placed", ())]
    assert told(third) == [("A#1", "blocked", ("low/B#1",))]
    assert hunk(third, "A#1").reason == (
        f"A#1 changes lines that low/B#1 adds ({PATH}:10); low/B#1 is left out on request"
    )


def test_an_adapted_hunk_stays_what_was_fingerprinted_when_others_beside_it_are_gone() -> None:
    b = A.replace("step5(x, 5)", "step5(x, 55)")
    c = b.replace("step7(x, 7)", "step7(x, 77)")
    d = c.replace("step5(x, 55)", "step5(x, 56)")
    a, *middle, last = series(BASE, A, b, c, d)
    left = [PatchInput(p.name, p.data, left_out=None) for p in middle]
    change = hunk_of(move([a, *left, last], BASE, BASE).patches[3].plan, 1)
    assert change is not None
    adaptation = make_adaptation(
        release="0.29.0", path=PATH, hunks=[(1, change)], reason="neither is wanted here",
        before=A.encode(), after=A.replace("step5(x, 5)", "step5(x, 58)").encode(),
    )  # fmt: skip
    result = move([a, *left, PatchInput("D", last.data, (adaptation,))], BASE, BASE)
    assert told(result)[3] == ("D#1", "placed", ())


def test_a_hunk_that_waits_keeps_nothing_for_the_others_of_its_patch() -> None:
    base, path = "".join(f"key{n}: {n}\n" for n in range(9)), "vllm/config.yaml"
    one = base.replace("key2: 2", "key2: 22").replace("key5: 5", "key5: 55")
    two = one.replace("key2: 22", "key2: 23").replace("key6: 6", "key6: 66")
    inputs = [
        PatchInput("A", diff(base, one, path), left_out=None),
        PatchInput("B", diff(one, two, path, context=1)),
    ]
    result = move(inputs, {path: base}, {path: base})
    assert told(result)[1:] == [("B#1", "blocked", ("A#1",)), ("B#2", "placed", ())]
    assert text(result, path) == base.replace("key6: 6", "key6: 66")


# Properties --------------------------------------------------------------------------------------


def drawn(rng: random.Random, count: int) -> list[str]:
    """The versions of a module over several patches, each with words that no other has."""
    lines = [f"    step{n}(x, {n})\n" for n in range(30)]
    versions = ["def f(x):\n" + "".join(lines) + "    return x\n"]
    for patch in range(count):
        for change in range(rng.randrange(1, 4)):
            at, mine = rng.randrange(len(lines)), f"    own{patch}_{change}(x)\n"
            lines[at : at + 1] = rng.choice([[mine], [mine, lines[at]], [lines[at], mine], []])
        versions.append("def f(x):\n" + "".join(lines) + "    return x\n")
    return versions


@pytest.mark.parametrize("seed", range(40))
def test_without_a_patch_every_other_hunk_lands_or_waits_for_it(seed: int) -> None:
    rng = random.Random(seed)
    patches = series(*(versions := drawn(rng, 4)), context=rng.randrange(1, 4))
    patches = [p for p in patches if p.data]
    gone = rng.randrange(len(patches))
    patches[gone] = PatchInput(patches[gone].name, patches[gone].data, left_out=None)
    result = move(patches, versions[0], "import os\n" + versions[0])
    others = [o for o in result.outcomes if o.patch != patches[gone].name]
    assert {o.status for o in others} <= {Status.PLACED, Status.BLOCKED}
    assert all(o.blocked_by for o in others if o.status is Status.BLOCKED)
    # what is there is in the order that the whole series has
    every = [line for line in versions[-1].split("\n") if line.strip()]
    there = [line for line in text(result).split("\n") if line in every]
    assert there == [line for line in every if line in there]
    lost = [o for o in result.outcomes if not o.landed]
    words = {w for o in lost for w in added(patches, o)}
    assert not any(word in text(result) for word in words)


def added(patches: Sequence[PatchInput], outcome: HunkOutcome) -> set[str]:
    """The words that only this hunk brings."""
    from patchkit.diff import parse_patch

    data = next(p.data for p in patches if p.name == outcome.patch)
    hunks = [h for f in parse_patch(data, "p").files for h in f.hunks]
    lines = hunks[outcome.hunk - 1].lines
    return {ln.text.decode().strip() for ln in lines if ln.kind == "+"} - {
        ln.text.decode().strip() for ln in lines if ln.kind != "+"
    }


@pytest.mark.parametrize("seed", range(40))
def test_patches_that_commute_give_one_tree_in_either_order(seed: int) -> None:
    """The second patch without the first, and then the first: the same as the two in order."""
    rng = random.Random(seed)
    base, one, two = (versions := drawn(rng, 2))
    first, second = series(*versions, context=rng.randrange(1, 4))
    target = "import os\n" + base
    both = move([first, second], base, target)
    assert both.ok
    alone = move([PatchInput("A", first.data, left_out=None), second], base, target)
    tree = SourceTree({PATH: base.encode()})
    if any(n.kind != "context" for n in dependencies(plan_all([first, second], tree)[0], tree)):
        return
    assert not any(o.status is Status.BLOCKED for o in alone.outcomes)
    swapped = move([first], base, text(alone))
    assert swapped.ok
    assert text(swapped) == text(both)
    assert one != two


@pytest.mark.parametrize("seed", range(20))
def test_a_series_moved_patch_by_patch_is_the_series_moved_at_once(seed: int) -> None:
    rng = random.Random(seed)
    versions = drawn(rng, 4)
    target = versions[0].replace("return x", "return x + 1")
    whole = move(series(*versions), versions[0], target)
    now = target
    for old, new in pairwise(versions):
        if old != new:
            step = move([PatchInput("A", diff(old, new))], old, now)
            assert step.ok == all(o.landed for o in step.outcomes)
            now = text(step)
    assert whole.ok
    assert now == text(whole)


def test_a_hunk_of_a_patch_waits_for_one_of_its_own_that_waits_for_an_earlier_patch() -> None:
    work, other = "def work(x):\n    a = x\n    b = a\n    return b\n", "vllm/other.py"
    use = "def go(x):\n    return work(x)\n"
    one = work.replace("def work(x)", "def work(x, p=0)")
    two = one.replace("p=0)", "p=0, q=0)")
    first = PatchInput("1", diff(work, one))
    second = PatchInput(
        "2", diff(one, two) + diff(use, use.replace("work(x)", "work(x, q=1)"), other)
    )
    base = {PATH: work.encode(), other: use.encode()}
    target = {PATH: work.replace("work(x)", "work(x, *rest)").encode(), other: use.encode()}
    result = rebase_series(
        [first, second], SourceTree(base, partial=True), SourceTree(target, partial=True)
    )
    assert [str(o.status) for o in result.outcomes] == ["conflicted", "blocked", "blocked"]
    assert result.outcomes[2].blocked_by == ("2#1",)
    assert result.tree.files[other] == use.encode()
