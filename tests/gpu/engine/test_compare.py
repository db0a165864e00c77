"""Comparing runs, with literal values. Each test names a mutation of compare.py that it catches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gpu.engine.compare import (
    Comparison,
    Difference,
    compare,
    error_bound,
    faults_of_run,
    int8_codes,
)
from tests.gpu.engine.model import Shape


def run(**requests: list[tuple[int, float]]) -> dict[str, Any]:
    return {
        "tokens": {name: [token for token, _ in row] for name, row in requests.items()},
        "margins": {name: [margin for _, margin in row] for name, row in requests.items()},
    }


def test_equal_tokens_within_the_bound_are_equal() -> None:
    """Caught: margins of the two runs added instead of subtracted."""
    reference, other = run(a=[(5, 9.0), (6, 8.0)]), run(a=[(5, 9.25), (6, 7.5)])
    found = compare(reference, other, 4.0)
    assert found == Comparison(2, 0, 0, (), (), 0.5, 0.3125, 4.0)
    assert found.problems == []
    assert found.positions == 2


def test_another_token_where_the_reference_is_sure_is_a_difference_and_hides_the_rest() -> None:
    """Caught: the other run's margin asked instead of the reference's; the rest counted equal."""
    reference = run(a=[(5, 9.0), (6, 8.0), (7, 8.0), (8, 8.0)], b=[(1, 3.0)])
    other = run(a=[(5, 9.0), (9, 0.5), (7, 8.0), (8, 8.0)], b=[(1, 3.0)])
    found = compare(reference, other, 1.0)
    assert found.differences == (Difference("a", 1, 6, 9, 8.0, 0.5),)
    assert (found.equal, found.excluded, found.behind, found.positions) == (2, 0, 2, 5)
    assert found.problems == ["'a' at 1: 9 for 6, margin 8.00"]


def test_another_token_within_the_bound_excludes_what_follows() -> None:
    """Caught: going on behind the place where contexts differ; `<` for `<=` at the bound."""
    row = [(n, 8.0) for n in range(97)]
    reference = run(a=[*row, (5, 1.0), (6, 8.0), (7, 8.0)])
    other = run(a=[*row, (4, 8.0), (9, 8.0), (7, 8.0)])
    found = compare(reference, other, 1.0)
    assert (found.equal, found.excluded, found.behind) == (97, 3, 0)
    assert found.differences == ()
    assert found.problems == []


def test_equal_tokens_within_the_bound_are_excluded_and_the_rest_is_compared() -> None:
    """Caught: `return` for `continue` at a position that proves nothing."""
    reference, other = run(a=[(5, 0.5), (6, 8.0)]), run(a=[(5, 0.25), (7, 8.0)])
    found = compare(reference, other, 1.0)
    assert (found.equal, found.excluded) == (0, 1)
    assert [d.position for d in found.differences] == [1]


def test_a_margin_that_moves_by_more_than_the_bound_is_a_problem() -> None:
    """Caught: no look at margins, so that a head that is wrong without turning a token passes."""
    row = [(n, 9.0) for n in range(1000)]
    found = compare(run(a=[(5, 9.0), *row]), run(a=[(5, 6.5), *row]), 1.0)
    assert (found.equal, found.largest_move) == (1001, 2.5)
    assert found.problems == ["'a' at 0: margin 6.50 for 9.00"]


def test_margins_that_all_move_a_little_are_a_problem() -> None:
    """0.16 of a bound of 1 is over 1.5/sqrt(96) = 0.153. Caught: the mean square taken for it."""
    rows = [[(n, 9.0 + 0.25 * size) for n in range(8)] for size in (0.0, 0.64, 0.6)]
    found = compare(run(a=rows[0], b=rows[0]), run(a=rows[1], b=rows[1]), 1.0)
    assert found.usual_move == pytest.approx(0.16)
    assert found.problems == ["margins move by 0.160 on the whole"]
    assert compare(run(a=rows[0], b=rows[0]), run(a=rows[2], b=rows[2]), 1.0).problems == []


def test_a_run_of_which_a_twentieth_is_excluded_proves_too_little() -> None:
    """Caught: `>` for `>=`; the share taken of the equal positions."""
    few = run(a=[(1, 0.5), *((n, 8.0) for n in range(20))])
    many = run(a=[(1, 0.5), *((n, 8.0) for n in range(19))])
    assert compare(few, few, 1.0).problems == []
    assert compare(many, many, 1.0).problems == ["1 of 20 positions are excluded"]


def test_nothing_generated_is_a_problem() -> None:
    """Caught: an empty run taken for an equal one."""
    assert compare(run(), run(), 1.0).problems == ["nothing was generated"]


def test_runs_of_other_requests_or_lengths_are_refused() -> None:
    """Caught: `zip` without `strict`, which would compare the shorter run."""
    with pytest.raises(ValueError, match=r"requests \['a'\] and \['b'\]"):
        compare(run(a=[(1, 2.0)]), run(b=[(1, 2.0)]), 1.0)
    with pytest.raises(ValueError, match="'a' has 1 and 0 tokens"):
        compare(run(a=[(1, 2.0)]), run(a=[]), 1.0)


def test_the_bound_follows_from_the_shape_and_from_the_rounding_of_a_cache() -> None:
    """sqrt(2)·24.98·(4·(0.004 + 2·2⁻⁹)) = 1.117, and 0.01821 or 2·0.026 more in the brackets.

    24 heads write more beside the code than 8: a logit of 26.07; a head of 256 has larger channels
    than one of 128: 0.02003. Caught: a layer or a run dropped; the same logit, or the same codes,
    for every shape.
    """
    small, wide = Shape(), Shape(heads=24, kv_heads=4, head_dim=256)
    assert error_bound(small, "auto") == pytest.approx(1.1174, abs=2e-4)
    assert error_bound(small, "int8_per_token_head") == pytest.approx(1.7609, abs=2e-4)
    assert error_bound(small, "fp8") == pytest.approx(2.9547, abs=2e-4)
    assert error_bound(wide, "int8_per_token_head") == pytest.approx(1.9049, abs=2e-4)


def test_a_step_of_ten_127ths_loses_a_56th() -> None:
    """sqrt(0.004·10/127) = 0.01775. Caught: the share of codes that move left out."""
    assert int8_codes(10.0) == pytest.approx(0.01775, abs=1e-5)


GOOD = {"drafts": 3, "draft_tokens": 21, "accepted_tokens": 20}


def steps(*calls: int) -> list[dict[str, Any]]:
    return [{"decoding": n > 0, "verify": count, "unified": 0} for n, count in enumerate(calls)]


def test_a_run_through_verify_is_without_fault() -> None:
    """Caught: prefills counted among the steps."""
    found = {"drafting": GOOD, "captured": {"verify": 0}, "steps": steps(0, 2, 2)}
    assert faults_of_run(found, verify=True, graphs=False) == []
    found = {"drafting": GOOD, "captured": {"verify": 4}, "steps": steps(0, 2, 0)}
    assert faults_of_run(found, verify=True, graphs=True) == []


def test_a_run_past_verify_is_a_fault() -> None:
    """Caught: calls of the prefill, or none captured, taken for the path."""
    found = {"drafting": GOOD, "captured": {"verify": 0}, "steps": steps(2, 2, 0, 0)}
    said = ["1 of 3 decoding steps went through verify"]
    assert faults_of_run(found, verify=True, graphs=False) == said
    # the control asks for one step, whatever share that is
    assert faults_of_run(found, verify=True, graphs=False, share=0.0) == []
    none = found | {"steps": steps(2, 0, 0)}
    said = ["0 of 2 decoding steps went through verify"]
    assert faults_of_run(none, verify=True, graphs=False, share=0.0) == said
    said = ["0 calls while capturing, 2 steps replayed"]
    assert faults_of_run(found, verify=True, graphs=True) == said
    found = {"drafting": GOOD, "captured": {"verify": 4}, "steps": steps(2, 2, 2)}
    said = ["4 calls while capturing, 0 steps replayed"]
    assert faults_of_run(found, verify=True, graphs=True) == said


def test_a_run_with_the_option_off_takes_the_old_way() -> None:
    """Caught: the counter of the other function read."""
    found = {"drafting": GOOD, "captured": {}, "steps": [{"decoding": True, "unified": 2}]}
    assert faults_of_run(found, verify=False, graphs=False) == []
    found = {"drafting": GOOD, "captured": {"verify": 0}, "steps": steps(0, 2)}
    said = ["verify attention ran with the option off"]
    assert faults_of_run(found, verify=False, graphs=False) == said


@pytest.mark.parametrize("accepted", [0, 21])
def test_drafts_are_accepted_and_refused(accepted: int) -> None:
    """Caught: `<=` on either side."""
    drafting = {"drafts": 3, "draft_tokens": 21, "accepted_tokens": accepted}
    found = {"drafting": drafting, "captured": {}, "steps": steps(0, 0)}
    said = [f"drafts: {drafting}, where some are to be accepted and some refused"]
    assert faults_of_run(found, verify=False, graphs=False) == said
