"""The suites of KVarN go the whole way without a GPU: pools, gates and kernels, interpreted."""

from __future__ import annotations

import os
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from kvarn_port.reference.rotate import hadamard  # noqa: E402
from tests.bench.kernels.bench import Bench  # noqa: E402
from tests.bench.kernels.caches import gathered, make_inputs, make_pool  # noqa: E402
from tests.bench.kernels.cases import Case  # noqa: E402
from tests.bench.kernels.peers import imported, storing  # noqa: E402
from tests.bench.kernels.peers.storing import Storing  # noqa: E402
from tests.bench.kernels.store_pack import SUITE as STORE_PACK  # noqa: E402
from tests.bench.kernels.suites import suite  # noqa: E402
from tests.bench.kernels.tile_attention import TINY  # noqa: E402

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="interpreted alone"),
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

CELLS = [
    (name, case, column)
    for name in ("tile_attention", "store_pack", "prefill")
    for case in suite(name).tiny
    for column in suite(name).columns
    if column.startswith("ours")
]
IDS = [f"{column}: {case.name}" for _, case, column in CELLS]


@pytest.mark.parametrize(("name", "case", "column"), CELLS, ids=IDS)
def test_a_tiny_case_is_right_and_is_timed(name: str, case: Case, column: str) -> None:
    bench = Bench(suite(name), [case], "cpu", replays=1)
    (row,) = bench.measure(case, [column], lambda *_: None)
    assert (row.status, row.reason) == ("timed", "")
    assert row.us > 0


@pytest.mark.parametrize("wrong", ["a head", "another block", "a row of the ring"])
def test_what_stores_something_wrong_is_not_timed(
    monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Broken: pages alone compared, or the pages of the request alone."""
    module, pack = imported(storing.PACK)[0], imported(storing.PACK)[0].pack

    def broken(tiles: Any, ring_keys: Any, *rest: Any, **more: Any) -> None:
        if wrong == "a head":
            before = tiles[:, 1].clone()
        pack(tiles, ring_keys, *rest, **more)
        if wrong == "a head":
            tiles[:, 1] = before
        elif wrong == "another block":
            tiles[0, 0, 0] += 1  # which no table names
        else:
            ring_keys[int(more["ring_slot"][0]), 7] = 0

    monkeypatch.setattr(module, "pack", broken)
    case = STORE_PACK.tiny[0]
    bench = Bench(STORE_PACK, [case], "cpu", replays=1)
    (row,) = bench.measure(case, [Storing(False).name], lambda *_: None)
    assert row.status == "failed"
    assert row.reason.startswith("relative error ")


def test_rows_of_int4_are_those_whose_rotation_is_stored() -> None:
    case = Case(1, 40, 2, **{**TINY, "block_size": 16})
    pool = make_pool(case, "int4", 9, 1, "cpu")
    inputs = make_inputs(case, pool, 1)
    keys, _ = gathered(inputs, 0, 0)
    draw = torch.Generator().manual_seed(0x9E3779B9)
    signs = 2 * torch.bernoulli(torch.full((64,), 0.5), generator=draw) - 1
    rotated = (keys * signs) @ hadamard(64) * 8  # ±1: the root of 64 times the matrix
    block, slot = pool.packed[int(inputs.tables[0, 0, 2])], 39 - 32
    codes, bits = block[slot, 1, :32], block[slot, 1, 32:36].view(torch.int32)
    scale = (bits & -16).view(torch.float32).double()
    assert torch.allclose(rotated[39, 1, 0::2], ((codes & 15).double() - (bits & 15)) * scale)
    assert torch.allclose(rotated[39, 1, 1::2], ((codes >> 4).double() - (bits & 15)) * scale)


def test_blocks_that_are_no_tiles_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^block_size is 16, tiles have 128 tokens$"):
        make_pool(Case(1, 40, 2, **{**TINY, "block_size": 16}), "k4v2", 9, 1, "cpu")
