"""What `vllm serve` takes for what it is not told; figures of EngineArgs.get_batch_defaults."""

from __future__ import annotations

from decimal import Decimal

import pytest

from patchkit.kv.amounts import GIB
from patchkit.kv.serving import Batch, default_batch, default_utilisation


def test_an_engine_takes_its_share_of_a_card() -> None:
    assert default_utilisation() == Decimal("0.92")


@pytest.mark.parametrize(("release", "card_gib", "tokens", "seqs", "ground"), [
    ("0.28.0", 24, 2048, 256, "on cards below 70 GiB"),
    ("0.28.0", 0, 2048, 256, "on cards below 70 GiB"),
    ("0.28.0", 70, 8192, 1024, "on cards from 70 GiB but A100"),
    ("0.28.0", 160, 16384, 1024, "on cards from 160 GiB"),
    ("0.32.0", 70, 8192, 1024, "on cards from 70 GiB but A100"),
    ("0.33.0", 70, 8192, 1024, "on cards from 70 GiB but A100 and GB10"),
    ("0.33.0", 69, 2048, 256, "on cards below 70 GiB"),
    ("0.27.1", 160, 8192, 1024, "on cards from 70 GiB but A100"),
    ("0.21.0", 69, 2048, 256, "on cards below 70 GiB"),
])  # fmt: skip
def test_the_batch_goes_by_the_card(
    release: str, card_gib: int, tokens: int, seqs: int, ground: str
) -> None:
    assert default_batch(release, "cuda", card_gib * GIB, 1) == Batch(tokens, seqs, ground)


def test_on_a_cpu_it_goes_by_the_ranks() -> None:
    assert default_batch("0.28.0", "cpu", 160 * GIB, 2) == Batch(4096, 256, "on a CPU")
