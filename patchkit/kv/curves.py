"""What plans hold, as curves over the length of a request: tokens at once, requests at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from patchkit.kv.planned import Plan, blocks_of

_SHORTEST = 256  # tokens
_PER_OCTAVE = 8


@dataclass(frozen=True)
class Curve:
    """What requests of each length come to at once; formats that come to the same share it."""

    formats: tuple[str, ...]
    lengths: tuple[int, ...]  # tokens of one request, up to the longest that fits
    requests: tuple[float, ...]  # as the engine would log, if that were its maximum length

    @property
    def tokens(self) -> tuple[float, ...]:
        """Tokens that are held at once."""
        return tuple(n * many for n, many in zip(self.lengths, self.requests, strict=True))

    @property
    def name(self) -> str:
        """The formats by name."""
        return ", ".join(self.formats)


def curves(plans: Sequence[Plan]) -> tuple[Curve, ...]:
    """Return a curve for each plan of which a request fits, those that are the same as one."""
    found: dict[tuple[tuple[int, ...], tuple[float, ...]], list[str]] = {}
    for plan in plans:
        lengths = _lengths(plan.longest)
        if lengths:
            requests = tuple(plan.num_blocks / blocks_of(plan.kinds, n) for n in lengths)
            found.setdefault((lengths, requests), []).append(plan.format)
    return tuple(Curve(tuple(names), *points) for points, names in found.items())


def _lengths(longest: int) -> tuple[int, ...]:
    """Return lengths from the shortest on, evenly spread where each octave is as wide."""
    lengths = []
    step = 0
    while (n := round(_SHORTEST * 2 ** (step / _PER_OCTAVE))) < longest:
        lengths.append(n)
        step += 1
    return (*lengths, longest) if longest else ()
