"""What `vllm serve` takes for what it is not told: its share of a card, and the size of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from packaging.version import Version

from patchkit.kv.amounts import GIB
from patchkit.kv.shipped import shipped_table


@dataclass(frozen=True)
class Batch:
    """What one step takes at most, and on which grounds that is so."""

    max_num_batched_tokens: int
    max_num_seqs: int
    ground: str


def _table() -> Mapping[str, Any]:
    return shipped_table("patchkit.vllm", "serve_defaults.toml")


def default_utilisation() -> Decimal:
    """Return the share of a card that an engine takes."""
    return Decimal(_table()["gpu_memory_utilization"])


def default_batch(release: str, platform: str, card_bytes: int, ranks: int) -> Batch:
    """Return the batch of an engine on cards of a size, or on CPUs."""
    if platform == "cpu":
        row = _table()["cpu"]
        tokens, seqs = row["max_num_batched_tokens"] * ranks, row["max_num_seqs"] * ranks
        return Batch(tokens, seqs, "on a CPU")
    rows = [row for row in _table()["batch"] if Version(row["since"]) <= Version(release)]
    row = next(row for row in rows if card_bytes >= row["card_gib"] * GIB)
    return Batch(row["max_num_batched_tokens"], row["max_num_seqs"], f"on {row['cards']}")
