"""Which hunk is which in another version of a patch, and what is to be done next."""

from __future__ import annotations

import pytest

from patchkit.diff import diff_files, format_files
from patchkit.diff.header import Header
from patchkit.knowing.next_step import next_steps
from patchkit.knowing.registry import KnownVerdict
from patchkit.knowing.story import Asked, Story, Trial, counterpart, is_release
from patchkit.outcome import Drift, HunkOutcome, Status
from patchkit.series.contents import PatchContents
from patchkit.series.verdict import Colour, StoredVerdict, Verdict

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
