"""Whether two greedy runs say the same wherever the reference is sure enough, as values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.gpu.engine.model import CODE, Shape, largest_logit, largest_value

# Each run's attention is off by at most this relative RMS (tests/kernels hold it on both paths).
ATTENTION = 4e-3
BF16 = 2**-9  # of a rounding
# The roundings behind attention in each layer and before the logits: output projection, residual
# sum, norm, logits.
ROUNDINGS = 4
LAYERS = 2
RUNS = 2
# Where queries are in e4m3, unified attention rounds the weights of the keys to it, too: what a
# number loses by that, as root mean square, in each layer.
E4M3 = 2.6e-2
MOST_EXCLUDED = 0.05
# An error that lies in no direction has 1/sqrt(CODE) of the bound's share in the difference of two
# codes, as root mean square; half as much again for what is not independent. One head that is left
# out moves margins by more (test_model.py), and turns no token.
USUAL = 1.5 / CODE**0.5


def error_bound(shape: Shape, cache: str) -> float:
    """By how much the top-2 margin may differ between two runs of the model of this shape.

    The difference of two logits is the hidden state times the difference of two rows of the head,
    whose norm is the root of two times that of one; the best row lies along the hidden state, so
    that |error of the margin| <= sqrt(2) * best logit * the relative error of the hidden state.
    """
    relative = RUNS * LAYERS * (ATTENTION + ROUNDINGS * BF16 / 2)
    relative += {
        "auto": 0.0,
        "fp8": LAYERS * E4M3,
        "int8_per_token_head": int8_codes(largest_value(shape)),
    }[cache]
    return math.sqrt(2) * largest_logit(shape) * relative


def int8_codes(largest: float) -> float:
    """What part of its norm the code in a key or value may lose by int8 codes that are others.

    Keys and values that verify steps write follow from activations that differ by ATTENTION: that
    part of a step is the share of codes that are others by one, and each moves by a step, which is
    1/127 of the largest channel. largest: its size, counted in channels of the code
    """
    step = largest / 127
    return step * math.sqrt(ATTENTION / step)


@dataclass(frozen=True)
class Difference:
    """Another token, or another margin by more than the bound, where the reference was sure."""

    request: str
    position: int
    reference: int
    other: int
    margin: float
    other_margin: float


@dataclass(frozen=True)
class Comparison:
    """What became of every position of the reference.

    `excluded` are those that prove nothing: the margin is within the bound, or another token was
    taken at such a position before. `behind` are those behind a difference, which is a fault.
    """

    equal: int
    excluded: int
    behind: int
    differences: tuple[Difference, ...]
    moved: tuple[Difference, ...]
    largest_move: float
    squares: float  # the sum over equal positions of the squared move of the margin
    bound: float

    @property
    def positions(self) -> int:
        """How many there are."""
        return self.equal + self.excluded + self.behind + len(self.differences)

    @property
    def usual_move(self) -> float:
        """The root mean square of how far margins of equal positions are apart."""
        return (self.squares / self.equal) ** 0.5 if self.equal else 0.0

    @property
    def problems(self) -> list[str]:
        """What is wrong, one line each; none where the runs say the same."""
        found = [
            f"{d.request!r} at {d.position}: {d.other} for {d.reference}, margin {d.margin:.2f}"
            for d in self.differences
        ]
        found += [
            f"{d.request!r} at {d.position}: margin {d.other_margin:.2f} for {d.margin:.2f}"
            for d in self.moved
        ]
        if self.usual_move > USUAL * self.bound:
            found.append(f"margins move by {self.usual_move:.3f} on the whole")
        if self.positions == 0:
            found.append("nothing was generated")
        elif self.excluded >= MOST_EXCLUDED * self.positions:
            found.append(f"{self.excluded} of {self.positions} positions are excluded")
        return found


def compare(reference: Mapping[str, Any], other: Mapping[str, Any], bound: float) -> Comparison:
    """Return how a run differs from the reference; both have tokens and margins by request.

    Raises ValueError where a run lacks a request or a position that the other has.
    """
    if reference["tokens"].keys() != other["tokens"].keys():
        raise ValueError(f"requests {[*reference['tokens']]} and {[*other['tokens']]}")
    parts = [
        _compare_request(
            name,
            list(zip(tokens, reference["margins"][name], strict=True)),
            list(zip(other["tokens"][name], other["margins"][name], strict=True)),
            bound,
        )
        for name, tokens in reference["tokens"].items()
    ]
    return Comparison(
        sum(part.equal for part in parts),
        sum(part.excluded for part in parts),
        sum(part.behind for part in parts),
        tuple(d for part in parts for d in part.differences),
        tuple(d for part in parts for d in part.moved),
        max((part.largest_move for part in parts), default=0.0),
        sum(part.squares for part in parts),
        bound,
    )


def _compare_request(
    name: str,
    reference: Sequence[tuple[int, float]],
    other: Sequence[tuple[int, float]],
    bound: float,
) -> Comparison:
    """The same for one request, up to where the runs go apart."""
    if len(reference) != len(other):
        raise ValueError(f"{name!r} has {len(reference)} and {len(other)} tokens")
    equal = excluded = behind = 0
    differences: list[Difference] = []
    moved: list[Difference] = []
    moves = [0.0]
    for position, ((token, margin), (found, found_margin)) in enumerate(
        zip(reference, other, strict=True)
    ):
        difference = Difference(name, position, token, found, margin, found_margin)
        rest = len(reference) - position - 1
        if token != found and margin <= bound:
            excluded += 1 + rest
            break
        if token != found:
            differences, behind = [difference], rest
            break
        if margin <= bound:
            excluded += 1
            continue
        equal += 1
        moves.append(abs(margin - found_margin))
        if moves[-1] > bound:
            moved.append(difference)
    squares = sum(move * move for move in moves)
    return Comparison(
        equal, excluded, behind, tuple(differences), tuple(moved), max(moves), squares, bound
    )


def faults_of_run(
    run: Mapping[str, Any], *, verify: bool, graphs: bool, share: float = 0.5
) -> list[str]:
    """What makes a run prove nothing: no accepted drafts, or another path than it was to take.

    share: of the eager decoding steps that go through verify, at least, and one in any case: a
        request that no longer copies drafts little
    """
    found = []
    drafting = run["drafting"]
    if not 0 < drafting["accepted_tokens"] < drafting["draft_tokens"]:
        found.append(f"drafts: {drafting}, where some are to be accepted and some refused")
    decoding = [step for step in run["steps"] if step["decoding"]]
    called = [step for step in decoding if step.get("verify")]
    silent = [step for step in decoding if not any(v for k, v in step.items() if k != "decoding")]
    captured = run["captured"].get("verify", 0)
    if verify and graphs and not (captured and silent):
        found.append(f"{captured} calls while capturing, {len(silent)} steps replayed")
    if verify and not graphs and len(called) < max(1, share * len(decoding)):
        found.append(f"{len(called)} of {len(decoding)} decoding steps went through verify")
    if not verify and (captured or any(step.get("verify") for step in run["steps"])):
        found.append("verify attention ran with the option off")
    return found
