"""The kinds of cases: which refactoring goes onto target and truth."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from random import Random

from tests.bench_rebase.draw import shuffled
from tests.bench_rebase.refactors.copying import decoy
from tests.bench_rebase.refactors.formatting import reformat
from tests.bench_rebase.refactors.ground import Ground, InapplicableError
from tests.bench_rebase.refactors.moving import move_to_end, move_to_file
from tests.bench_rebase.refactors.naming import rename_definition, rename_local
from tests.bench_rebase.refactors.neighbours import surround
from tests.bench_rebase.refactors.parameter import add_parameter
from tests.bench_rebase.refactors.wrapping import wrap

Refactoring = Callable[[Ground, Random], Ground]

# In the order in which two of them are done.
REFACTORINGS: dict[str, Refactoring] = {
    "insert": surround,
    "local": rename_local,
    "rename": rename_definition,
    "parameter": add_parameter,
    "wrap": wrap,
    "decoy": decoy,
    "move": move_to_end,
    "move-file": move_to_file,
    "reformat": reformat,
}
COMBINED = "combined"
KINDS = (
    "none", "reformat", "move", "move-file", "rename", "local", "wrap", "insert", "parameter",
    "decoy", COMBINED,
)  # fmt: skip

_PAIRS = [pair for pair in combinations(REFACTORINGS, 2) if pair != ("move", "move-file")]
_MOST_TRIES = 6


def refactor(kind: str, ground: Ground, rng: Random) -> Ground:
    """Return the ground with the refactoring of a kind done to both sides."""
    if kind == "none":
        return ground
    if kind == COMBINED:
        return _combined(ground, rng)
    return REFACTORINGS[kind](ground, rng)


def _combined(ground: Ground, rng: Random) -> Ground:
    """Return the ground with two refactorings done: the first pair drawn that applies."""
    for first, second in shuffled(rng, _PAIRS)[:_MOST_TRIES]:
        try:
            return REFACTORINGS[second](REFACTORINGS[first](ground, rng), rng)
        except InapplicableError:
            continue
    raise InapplicableError("no two refactorings apply")
