"""Decisions on hunks that get other numbers, or another patch, or are there no more."""

from collections.abc import Mapping

from patchkit.diff import Patch, diff_files
from patchkit.editing.decisions import Decided, move_decisions
from patchkit.placing.acceptance import Acceptance
from patchkit.placing.adaptation import Adaptation, fingerprint_hunk
from patchkit.placing.plan import PatchPlan, plan_patch
from patchkit.series.override import Overrides
from patchkit.tree import SourceTree

OLD = {"vllm/a.py": b"x = 1\n", "vllm/b.py": b"x = 1\n", "vllm/c.py": b"y = 1\n"}


def plan(new: Mapping[str, bytes]) -> PatchPlan:
    """Return a patch that makes these of the three files."""
    files = diff_files(OLD, {**OLD, **new})
    return plan_patch(Patch("p", b"", files), SourceTree(OLD))


ALL = plan({"vllm/a.py": b"x = 2\n", "vllm/b.py": b"x = 2\n", "vllm/c.py": b"y = 2\n"})
MARKS = {job.number: fingerprint_hunk(job.hunk) for file in ALL.files for job in file.jobs}


def adaptation(*hunks: int) -> Adaptation:
    marks = tuple(MARKS[number] for number in hunks)
    return Adaptation("0.29.0", "vllm/a.py", hunks, "so it is", marks, {}, "diff")


def accepted(hunk: int) -> Acceptance:
    return Acceptance("0.29.0", hunk, MARKS[hunk], "call", "f", "1:ab", "f takes more", "fine")


def test_a_hunk_of_which_there_are_two_keeps_its_number() -> None:
    decided = Decided("p", Overrides((adaptation(2),), (accepted(2),)), (0,))
    assert MARKS[1] == MARKS[2]
    assert move_decisions([decided], [ALL]) == ((decided.overrides,), ())


def test_a_hunk_of_which_one_of_two_is_left_is_that_one() -> None:
    decided = Decided("p", Overrides((), (accepted(2),)), (0,))
    (kept,), lost = move_decisions([decided], [plan({"vllm/b.py": b"x = 2\n"})])
    assert [one.hunk for one in kept.acceptances] == [1]
    assert lost == ()


def test_an_adaptation_of_several_hunks_needs_all_of_them_in_one_patch() -> None:
    parts = [plan({"vllm/a.py": b"x = 2\n"}), plan({"vllm/c.py": b"y = 2\n"})]
    decided = Decided("p", Overrides((adaptation(1, 3),)), (0, 1))
    assert move_decisions([decided], parts) == (
        (Overrides(), Overrides()),
        ("p: hunks 1, 3: the adaptation to 0.29.0 (so it is)",),
    )
    (kept,), lost = move_decisions([Decided("p", decided.overrides, (0,))], [ALL])
    assert (kept.adaptations, lost) == ((adaptation(1, 3),), ())


def test_a_decision_goes_to_no_patch_that_did_not_come_of_its_own() -> None:
    decided = Decided("p", Overrides((), (accepted(3),)), (0,))
    parts = [plan({"vllm/a.py": b"x = 2\n"}), plan({"vllm/c.py": b"y = 2\n"})]
    assert move_decisions([decided], parts) == (
        (Overrides(), Overrides()),
        ("p: hunk 3: the drift of `f` accepted for 0.29.0",),
    )
