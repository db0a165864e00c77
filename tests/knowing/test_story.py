"""Which hunk is which in another version of a patch, and what is to be done next."""

from __future__ import annotations

import pytest

from patchkit.diff import diff_files, format_files, parse_patch
from patchkit.diff.header import Header
from patchkit.knowing.anchored import anchors_of
from patchkit.knowing.next_step import next_steps
from patchkit.knowing.registry import KnownVerdict
from patchkit.knowing.story import Asked, Passage, Story, Trial, counterpart, is_release
from patchkit.knowing.survival import Step
from patchkit.outcome import Drift, HunkOutcome, Status
from patchkit.placing.plan import plan_patch
from patchkit.series.contents import PatchContents
from patchkit.series.graph import Link
from patchkit.series.verdict import Colour, StoredVerdict, Verdict
from patchkit.stacking.dependencies import Dependency
from patchkit.stacking.weave import HunkId
from patchkit.tree import SourceTree

LINES = [f"line {number}\n" for number in range(40)]


def patch(changes: dict[int, str]) -> bytes:
    after = "".join(changes.get(at, line) for at, line in enumerate(LINES))
    old = {"vllm/a.py": "".join(LINES).encode()}
    return format_files(diff_files(old, {"vllm/a.py": after.encode()}))


def test_a_hunk_is_the_one_with_the_most_of_its_lines() -> None:
    both = patch({5: "five\n", 30: "thirty\n"})
    assert counterpart(both, 1, both) == 1
    assert counterpart(both, 2, both) == 2
    assert counterpart(patch({30: "thirty\n"}), 1, both) == 2
    assert counterpart(both, 1, patch({30: "thirty\n"})) is None


def test_of_two_equal_hunks_the_first_is_it() -> None:
    twice = patch({5: "x\n", 30: "x\n"})
    one = patch({5: "x\n"}).replace(b"-line 5\n", b"-line 9\n")
    assert counterpart(one, 1, twice) == 1


def test_a_hunk_without_lines_goes_by_its_number() -> None:
    mode = b"diff --git a/vllm/a.py b/vllm/a.py\nold mode 100644\nnew mode 100755\n"
    assert counterpart(mode, 1, mode) == 1
    assert counterpart(patch({5: "x\n"}) + mode.replace(b"a.py", b"b.py"), 2, mode) is None


def outcome(
    status: Status = Status.PLACED, *, drifted: bool = False, blocked_by: tuple[str, ...] = ()
) -> HunkOutcome:
    drifts = (Drift("name", "x", "a:1", "gone"),) if drifted else ()
    return HunkOutcome("a.patch", 1, status, "vllm/a.py", drifts=drifts, blocked_by=blocked_by)


def verdict(kind: Verdict, *, fresh: bool = True) -> KnownVerdict:
    stored = StoredVerdict(
        "0.30.0", "a.patch", kind, Colour.GREEN, None, "x", "0.29.0", ("a.py",), "", "", ""
    )
    return KnownVerdict(stored, fresh)


def steps(
    *outcomes: HunkOutcome,
    target: str = "v0.30.0",
    in_range: bool | None = True,
    known: KnownVerdict | None = None,
    stopped: str | None = None,
) -> tuple[str, ...]:
    trial = Trial(target, is_release(target), False, "0.29.0", outcomes, in_range, known)
    contents = PatchContents("a.patch", Header(), ())
    asked = Asked("patches", "a.patch", "0.29.0")
    return next_steps(Story(asked, contents, (), (), (), (), (), trial, stopped))


MOVE = "`patchkit rebase v0.30.0`"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (steps(outcome()), (f"{MOVE} stores it so",)),
        (
            steps(outcome(), outcome(Status.ALREADY_UPSTREAM)),
            (f"{MOVE} stores it so",),
        ),
        (
            steps(outcome(Status.ALREADY_UPSTREAM)),
            (f"upstream has all of it: {MOVE} drops it; say so in the series file",),
        ),
        (
            steps(outcome(drifted=True)),
            (
                f"read what drifted; {MOVE} stops at it, and `--continue --accept-drift` or an "
                "edit goes on",
            ),
        ),
        (
            steps(outcome(), outcome(Status.ORPHANED)),
            (f"{MOVE} stops at it, with the files to edit and all that landed in them",),
        ),
        (
            steps(outcome(Status.BLOCKED, blocked_by=("b.patch#1",))),
            ("settle b.patch#1 first: what waits for that lands with it",),
        ),
        (
            steps(outcome(Status.CONFLICTED), known=verdict(Verdict.SUPERSEDED)),
            (f"nothing: its tests pass there without it, so that {MOVE} leaves it out",),
        ),
        (
            steps(outcome(), known=verdict(Verdict.SUPERSEDED, fresh=False)),
            (f"{MOVE} stores it so",),
        ),
        (steps(outcome(), known=verdict(Verdict.NEEDED)), (f"{MOVE} stores it so",)),
        (
            steps(outcome(), in_range=False),
            (
                f"its header does not mean it for v0.30.0: {MOVE} and `--skip` leaves it out, or "
                "widen Applies-To",
                f"{MOVE} stores it so",
            ),
        ),
        (
            steps(outcome(Status.ALREADY_UPSTREAM), in_range=False),
            (f"upstream has all of it: {MOVE} drops it; say so in the series file",),
        ),
        (
            steps(outcome(), stopped="v0.30.0"),
            ("a rebase to v0.30.0 has stopped: `patchkit rebase --continue` or `--abort`",),
        ),
        (steps(outcome(), stopped="v0.31.0"), (f"{MOVE} stores it so",)),
        (
            steps(outcome(), target="../vllm", in_range=None),
            ("`patchkit rebase --target ../vllm --output moved` stores it so",),
        ),
        (steps(), ()),
    ],
)
def test_the_next_step_follows_from_what_would_happen(
    found: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert found == expected


def told(
    release: str,
    known: KnownVerdict,
    *,
    needs: tuple[Link, ...] = (),
) -> tuple[str, ...]:
    """The steps for a patch that is stored for one release, without a trial."""
    asked = Asked("patches", "a.patch", "0.29.0")
    contents = PatchContents("a.patch", Header(), ())
    passages = (Passage(Step(release, "first")), Passage(Step("0.31.0", "left out")))
    return next_steps(Story(asked, contents, (), needs, (), passages, (known,)))


def test_a_verdict_on_what_is_not_stored_asks_for_nothing() -> None:
    superseded, stale = verdict(Verdict.SUPERSEDED), verdict(Verdict.NEEDED, fresh=False)
    assert told("0.29.0", superseded) == ()
    assert told("0.29.0", stale) == ()
    assert told("0.30.0", stale) == ("`patchkit test v0.30.0 a` makes its verdict anew",)
    assert told("0.30.0", superseded) == (
        "leave it out of v0.30.0: its tests pass there without it",
    )


def test_a_need_that_is_declared_is_no_step() -> None:
    known = verdict(Verdict.NEEDED)
    reason = Dependency(HunkId("a.patch", 1), HunkId("b.patch", 1), "lines", "x")
    close = Dependency(HunkId("a.patch", 1), HunkId("b.patch", 1), "context", "x")
    link = Link("a.patch", "b.patch", (reason,))
    assert told("0.30.0", known, needs=(link,)) == ("declare `Depends-On: b` in its header",)
    for other in (
        Link("a.patch", "b.patch", (reason,), declared=True),
        Link("a.patch", "b.patch", (reason,), implied=True),
        Link("a.patch", "b.patch", (close,)),
    ):
        assert told("0.30.0", known, needs=(other,)) == ()


def test_a_hunk_that_also_lays_code_out_anew_is_anchored_by_what_it_changes() -> None:
    before = {"vllm/a.py": b"a = f(1, 2)\nb = g(1)\n"}
    after = {"vllm/a.py": b"a = f(\n    1,\n    2,\n)\nb = g(2)\n"}
    data = format_files(diff_files(before, after))
    plan = plan_patch(parse_patch(data, "a.patch"), SourceTree(before))
    (anchor,) = anchors_of(plan)
    assert [edit.kind for edit in anchor.edits] == ["argument replaced"]
    assert anchor.edits[0].removes == ("1",)


def test_a_long_line_of_code_is_cut() -> None:
    before = {"vllm/a.py": b"x = 1\n" + b"y = " + b"1 + " * 30 + b"1\n"}
    after = {"vllm/a.py": b"x = 1\nz = 3\n" + before["vllm/a.py"].split(b"\n", 1)[1]}
    plan = plan_patch(parse_patch(format_files(diff_files(before, after)), "a"), SourceTree(before))
    ((edit,),) = (anchor.edits for anchor in anchors_of(plan))
    assert (edit.after, edit.before) == ("x = 1", "y = " + "1 + " * 15 + "1…")


def test_a_file_that_is_no_python_has_no_edits() -> None:
    before, after = {"vllm/a.txt": b"a b\n"}, {"vllm/a.txt": b"b a\n"}
    plan = plan_patch(parse_patch(format_files(diff_files(before, after)), "a"), SourceTree(before))
    (anchor,) = anchors_of(plan)
    assert (anchor.number, anchor.edits, dict(anchor.definitions)) == (1, (), {})
