"""What is wrong is not timed: the gate before the timing, tried with kernels that are broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.bench.kernels import bench, oracle  # noqa: E402
from tests.bench.kernels.caches import Inputs  # noqa: E402
from tests.bench.kernels.cases import Case  # noqa: E402
from tests.bench.kernels.rows import Row  # noqa: E402
from tests.bench.kernels.verify_attention import SUITE, TINY  # noqa: E402

pytestmark = pytest.mark.kernel

# so many keys that one of them is 2e-3 of the output
LONG = Case(1, 200_000, 2, **{**TINY, "num_query_heads": 8, "num_kv_heads": 1, "block_size": 512})


@dataclass(frozen=True)
class Broken:
    """The oracle as a kernel, with one thing wrong."""

    wrong: str
    name: str = "broken"
    kv_format: str = "bf16"
    compiles: bool = False
    follows_lengths: bool = True
    bound: float = 4e-3

    def available(self) -> str | None:
        """None: it is here."""

    def skips(self, case: Case, free_bytes: int) -> str | None:
        """None: every case is for it."""

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """One call a table."""
        return [lambda table=table: self.called(inputs, table) for table in range(2)]

    def called(self, inputs: Inputs, table: int) -> Any:
        """The output, of as many tokens as the lengths say."""
        case = replace(inputs.case, context=int(inputs.seq_lens[0]))
        if self.wrong == "a key":  # the first one is passed over
            return without_first_key(replace(inputs, case=case), table)
        right = oracle.expected(replace(inputs, case=case), table, 0)
        if self.wrong == "a head":
            right[:, 1] = 0
        return right.bfloat16()


def without_first_key(inputs: Inputs, table: int) -> Any:
    """What a split that begins one key late gives."""
    case = inputs.case
    keys, values = oracle.gathered(inputs, table, 0)
    query = inputs.query.double() * inputs.softmax_scale
    scores = torch.einsum("qhd,kd->hqk", query, keys[1:, 0])
    own = case.context - case.new_tokens + torch.arange(case.new_tokens)
    hidden = torch.arange(1, case.context)[None, :] > own[:, None]
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    return torch.einsum("hqk,kd->qhd", weights, values[1:, 0]).bfloat16()


@pytest.mark.parametrize(("wrong", "status", "reason"), [
    ("", "timed", ""),
    ("a head", "failed", "relative error 0."),
    ("a key", "failed", "of few tokens, at most 0.01 is right"),
])  # fmt: skip
def test_what_leaves_out_a_head_or_a_key_is_not_timed(
    monkeypatch: pytest.MonkeyPatch, wrong: str, status: str, reason: str
) -> None:
    """Broken: no check of few keys: one key of 200,000 is within the bound."""
    peer = Broken(wrong)
    monkeypatch.setitem(bench.PEERS, "broken", peer)
    rows: list[Row] = list(
        bench.Bench(SUITE, [LONG], "cpu", replays=1).measure(LONG, ["broken"], lambda *_: None)
    )
    assert [row.status for row in rows] == [status]
    assert reason in rows[0].reason
