"""Every run that any test makes is held against its own trees: its evidence has to be true."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from patchkit.stacking import rebase
from patchkit.stacking.rebase import RebaseResult
from tests.evidence.truth import problems

# How long an example takes says how busy the machine is.
settings.register_profile("patchkit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patchkit")


@pytest.fixture(scope="session", autouse=True)
def _true_evidence() -> Iterator[None]:
    """Fail where a run says something of its hunks that is not so."""
    run = rebase._rebase

    def checked(*args: Any) -> RebaseResult:
        result = run(*args)
        assert problems(result) == []
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebase, "_rebase", checked)
        yield
