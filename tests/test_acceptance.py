"""A drift that was accepted holds for one hunk and one change of the ground, and no other."""

from __future__ import annotations

from dataclasses import replace
from difflib import unified_diff

import pytest

from patchkit import PatchkitError, SourceTree
from patchkit.diff import parse_patch
from patchkit.outcome import Accepted, Drift
from patchkit.placing.acceptance import Acceptance, accept, split_accepted
from patchkit.placing.plan import plan_patch
from patchkit.series.anchor import format_anchors, generate_anchors, parse_anchors
from patchkit.series.anchoring import with_overrides
from patchkit.series.override import Overrides, contradictions
from patchkit.stacking.rebase import PatchInput, RebaseResult, rebase_series

PATH = "vllm/mod.py"
SPEC = "vllm/spec.py"
BASE = "def f(spec):\n    total = 1\n    return total\n\n\ndef g(spec):\n    return spec\n"
AUTHORED = BASE.replace("total = 1", "total = spec.stride").replace(
    "    return spec\n", "    return spec.stride\n"
)
DRIFT = Drift("call", "f", "vllm/mod.py:2", "f changed (a.py:3)", "f(a)", "f(b, a)")


def diff(old: str, new: str) -> bytes:
    lines = unified_diff(old.splitlines(True), new.splitlines(True), f"a/{PATH}", f"b/{PATH}", n=1)
    return "".join(lines).encode()


PATCH = diff(BASE, AUTHORED)
HUNKS = parse_patch(PATCH, "p").files[0].hunks


def tree(spec: str) -> SourceTree:
    files = {PATH: BASE.encode(), SPEC: spec.encode()}
    return SourceTree(files, name="0.29.0", version="0.29.0")


def move(*stored: Acceptance) -> RebaseResult:
    base = replace(tree("class Spec:\n    stride = 1\n"), name="0.28.0", version="0.28.0")
    return rebase_series(
        [PatchInput("p", PATCH, acceptances=stored)], base, tree("class Spec:\n    size = 1\n")
    )


def test_an_acceptance_is_of_what_changed_wherever_it_stands() -> None:
    (stored,) = accept([DRIFT], 1, HUNKS[0], "0.29.0", " it is meant ")
    assert stored == Acceptance(
        release="0.29.0",
        hunk=1,
        base_hunk=stored.base_hunk,
        kind="call",
        name="f",
        surface=DRIFT.surface,
        text="f changed (a.py:3)",
        reason="it is meant",
    )
    elsewhere = replace(DRIFT, read_at="vllm/mod.py:9", text="f changed (b.py:7)")
    assert split_accepted([elsewhere], 1, HUNKS[0], [stored]) == (
        (),
        (Accepted(elsewhere, "it is meant"),),
    )


@pytest.mark.parametrize(
    "other",
    [
        replace(DRIFT, after="f(c, a)"),
        replace(DRIFT, before="f(a, *)"),
        replace(DRIFT, name="g"),
        replace(DRIFT, kind="keyword"),
    ],
)
def test_another_change_of_the_ground_is_a_drift_again(other: Drift) -> None:
    stored = accept([DRIFT], 1, HUNKS[0], "0.29.0", "meant")
    assert split_accepted([other], 1, HUNKS[0], stored) == ((other,), ())


def test_an_acceptance_is_for_its_own_hunk_as_it_was() -> None:
    stored = accept([DRIFT], 1, HUNKS[0], "0.29.0", "meant")
    assert split_accepted([DRIFT], 2, HUNKS[1], stored) == ((DRIFT,), ())
    assert split_accepted([DRIFT], 1, HUNKS[1], stored) == ((DRIFT,), ())
    assert split_accepted([DRIFT], 2, HUNKS[0], stored) == ((DRIFT,), ())
    assert split_accepted([DRIFT], 1, None, stored) == ((DRIFT,), ())


def test_a_run_takes_accepted_drifts_out_and_leaves_the_others() -> None:
    first, second = move().outcomes
    assert [d.name for d in (*first.drifts, *second.drifts)] == ["stride", "stride"]
    stored = accept(first.drifts, 1, HUNKS[0], "0.29.0", "set elsewhere")
    result = move(*stored)
    assert [o.drifted for o in result.outcomes] == [False, True]
    assert result.outcomes[0].accepted == (Accepted(first.drifts[0], "set elsewhere"),)
    assert result.drifted
    both = [*stored, *accept(second.drifts, 2, HUNKS[1], "0.29.0", "as well")]
    assert not move(*both).drifted


def test_the_same_drift_twice_in_a_hunk_is_accepted_once() -> None:
    twice = [DRIFT, replace(DRIFT, read_at="vllm/mod.py:9")]
    assert len(accept(twice, 1, HUNKS[0], "0.29.0", "meant")) == 1


def test_accepting_needs_a_reason_and_a_hunk() -> None:
    with pytest.raises(PatchkitError, match="accepting a drift needs a reason"):
        accept([DRIFT], 1, HUNKS[0], "0.29.0", "  ")
    with pytest.raises(PatchkitError, match="hunk 1 is a change of name or mode"):
        accept([DRIFT], 1, None, "0.29.0", "meant")


def test_acceptances_are_kept_in_the_anchors_file() -> None:
    plan = plan_patch(parse_patch(PATCH, "p"), tree("class Spec:\n    stride = 1\n"))
    (stored,) = accept([DRIFT], 1, HUNKS[0], "0.29.0", 'it\'s "so"\nindeed')
    data = format_anchors(generate_anchors(plan), Overrides((), (stored,)))
    assert parse_anchors(data, "p").overrides == Overrides((), (stored,))
    (other,) = accept([replace(DRIFT, name="g")], 1, HUNKS[0], "0.29.0", "too")
    grown = with_overrides(data, plan, Overrides((), (other,)), "p")
    assert grown.startswith(data)
    assert parse_anchors(grown, "p").overrides.acceptances == (stored, other)
    again = replace(stored, reason="anew")
    renewed = with_overrides(grown, plan, Overrides((), (again,)), "p")
    assert parse_anchors(renewed, "p").overrides.acceptances == (other, again)


def test_an_acceptance_for_a_hunk_that_is_gone_contradicts_the_patch() -> None:
    plan = plan_patch(parse_patch(PATCH, "p"), tree("class Spec:\n    stride = 1\n"))
    (stored,) = accept([DRIFT], 1, HUNKS[0], "0.29.0", "meant")
    assert contradictions(Overrides((), (stored,)), plan, "p") == ()
    gone = replace(stored, hunk=3)
    assert contradictions(Overrides((), (gone,)), plan, "p") == (
        "p: an accepted drift names hunk 3, of 2",
    )
    changed = replace(stored, hunk=2)
    assert contradictions(Overrides((), (changed,)), plan, "p") == (
        "p: hunk 2 has changed since its drift of `f` was accepted",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("drift = 1\n", "p: override.drift is not a list of tables"),
        ("drift = [1]\n", "p: accepted drift 1: not a table"),
        ("drift = [{ release = '0.29.0' }]\n",
         "p: accepted drift 1: field `hunk` is missing or not a int"),
        ("other = 1\n",
         "p: unknown field `override.other`, expected override.adaptation or override.drift"),
    ],
)  # fmt: skip
def test_damaged_overrides_are_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_anchors(b"format = 1\n[override]\n" + text.encode(), "p")
    assert str(caught.value) == message
