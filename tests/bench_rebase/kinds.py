"""The kinds of cases: which refactoring goes onto target and truth."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.bench_rebase.refactors.copying import decoy
from tests.bench_rebase.refactors.formatting import reformat
from tests.bench_rebase.refactors.ground import Ground
from tests.bench_rebase.refactors.naming import rename_definition, rename_local
from tests.bench_rebase.refactors.wrapping import wrap

Refactoring = Callable[[Ground, Random], Ground]

REFACTORINGS: dict[str, Refactoring] = {
    "reformat": reformat,
    "rename": rename_definition,
    "local": rename_local,
    "wrap": wrap,
    "decoy": decoy,
}
KINDS = ("none", *REFACTORINGS)


def refactor(kind: str, ground: Ground, rng: Random) -> Ground:
    """Return the ground with the refactoring of a kind done to both sides."""
    if kind == "none":
        return ground
    return REFACTORINGS[kind](ground, rng)
