"""Packing a step held against the plain torch of the same name, on a GPU or interpreted.

Each comparison names mutations of `mutations_kvarn_pack.py` that it is to catch; `mutate.py` tries
them. Bounds: the normaliser sums in another order than torch, so that a scale, rounded to float16,
may be one unit in the last place off, one in 1,000 of them, and a code one off, one in 100,000
(kvarn.md 13: 0 of 4.9 million codes, 11 of 108,000 scales); a few more, since a case has few. What
is fitted to a row is held against that of the codes that it has.
Rings are copies, and records that are not written stay: both equal to the byte.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch

from kvarn_port.kernels.pack import pack
from kvarn_port.layout import PRESETS, tile_layout
from kvarn_port.reference import pack as reference
from kvarn_port.reference.tiles import dequantise
from tests.kernels.golden_tiles import GOLDEN, Golden, golden_tile
from tests.kernels.records import Apart, Half, apart, halves, tied, tile_of
from tests.kernels.steps import (
    VERIFY,
    Case,
    Step,
    all_cases,
    filled_blocks,
    lengths_for,
    make,
    pairwise_cases,
)

pytestmark = [
    pytest.mark.kernel,
    # Triton's interpreter makes scalars of arrays of one element
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

PATTERNS = (0xA5, 0x5A)  # of poisoned bytes: none of a record is left in both


def check(step: Step, device: str) -> None:
    """Hold one step against the truth: records, the bytes around them, and rings."""
    done = [step.copy(device, byte) for byte in PATTERNS]
    for each in done:
        pack(**each.arguments())
    one, other = (each.copy("cpu") for each in done)
    right = step.copy("cpu", PATTERNS[0])
    reference.pack(**right.arguments())
    blocks = filled_blocks(right)
    written = torch.zeros_like(right.tiles, dtype=torch.bool)
    written[blocks, :, : step.layout.tile_bytes] = True
    # record-of-block-0, head-0-for-all, packs-open-tiles, stores-padded-rows, packs-without-a-page,
    # scales-not-written, first-tile-only: bytes that are poison in both, or in neither
    assert torch.equal(one.tiles == other.tiles, written)
    for name in ("ring_keys", "ring_values"):
        # row-of-the-next-position, rows-without-wrap, first-rows-of-a-long-step,
        # stores-without-a-page, stores-padded-rows, every-second-request: another row of the ring
        got, expected = getattr(one, name), getattr(right, name)
        assert torch.equal(got.view(torch.int16), expected.view(torch.int16))
    check_records(step.copy("cpu"), one.tiles, right.tiles, blocks)


def check_records(step: Step, got: torch.Tensor, right: torch.Tensor, blocks: list[int]) -> None:
    """Hold the records of some blocks against those of the reference, or what ties with them."""
    layout, total, elements = step.layout, Apart(), 0
    for block in blocks:
        for head in range(got.shape[1]):
            pairs = zip(
                halves(got[block, head], layout), halves(right[block, head], layout), strict=True
            )
            for number, (one, other) in enumerate(pairs):
                found = apart(one, other)
                if found != Apart():
                    tile = tile_of(step, block, head)[number]
                    found = min(found, nearest(one, tile, number, step), key=how_far)
                total, elements = total + found, elements + one.codes.numel()
    scales = len(blocks) * got.shape[1] * (3 * layout.head_dim + 3 * layout.group)
    # store-before-pack, ring-row-without-wrap, tile-of-new-rows, new-rows-late: other rows;
    # rows-first, ties-refused, floor-dropped, no-limit-of-scales, all and more: other scales
    assert total.further == 0
    assert total.codes <= 1 + elements / 1e5
    assert total.scales <= 4 + scales / 1e3


def nearest(got: Half, tile: torch.Tensor, number: int, step: Step) -> Apart:
    """Return how far a half is from the nearest of those that any order of sums may leave."""
    layout = step.layout
    rows = tile.T if number == 0 else tile
    bits = layout.key_bits if number == 0 else layout.value_bits
    found = [apart(got, each) for each in tied(rows, step.mode, bits, got)]
    return min(found, key=how_far)


def how_far(found: Apart) -> tuple[int, int]:
    """Return what orders halves that are apart: by what no rounding explains before the rest."""
    return found.further, found.codes + found.scales


@pytest.mark.parametrize("case", pairwise_cases(), ids=str)
def test_a_step_writes_the_records_of_the_reference_and_nothing_else(
    case: Case, device: str
) -> None:
    check(make(case, device), device)


@pytest.mark.gpu
@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_every_preset_packs_every_step_at_every_head_dim(case: Case, gpu: str) -> None:
    check(make(case, gpu), gpu)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["reference", "prescaled", "fitted"])
@pytest.mark.parametrize("head_dim", [128, 256])
def test_many_uneven_tiles_are_as_near_as_two_orders_of_sums(
    head_dim: int, mode: str, gpu: str
) -> None:
    tokens = (128 * 30,)
    case = Case(tokens, tokens, "kvarn_k4v2_g128", head_dim, 4, inputs="uneven", mode=mode, seed=12)
    step = make(case, gpu).copy(gpu, PATTERNS[0])
    pack(**step.arguments())
    right = step.copy("cpu", PATTERNS[0])
    reference.pack(**right.arguments())
    got, total = step.copy("cpu"), Apart()
    for block in filled_blocks(right):
        for head in range(4):
            pairs = (halves(each.tiles[block, head], step.layout) for each in (got, right))
            for number, (one, other) in enumerate(zip(*pairs, strict=True)):
                found = apart(one, other)
                if mode == "fitted" and found.codes:
                    found = nearest(one, tile_of(got, block, head)[number], number, got)
                total += found
    # fast-quotients, single-pass-variance, ties-refused: another iteration is kept, or scales move
    assert total.further == 0
    assert total.codes <= 2 * 120 * 128 * head_dim / 1e5
    assert total.scales <= 120 * 3 * (128 + head_dim) / 1e3


def test_tokens_without_a_page_are_written_nowhere(device: str) -> None:
    case = Case(*lengths_for(64)["a chunk over three tiles"], seed=1)
    step = make(case, device)
    begin = 64 * 3 + 7 - step.slot_mapping.shape[0] + 3  # the position of the first new token
    for position in (2 * 64 - 1, 3 * 64 - 5, 3 * 64 + 2):
        step.slot_mapping[position - begin] = -1
    assert len(filled_blocks(step)) == 2  # of three: the last token of one has no page
    check(step, device)


def test_a_request_without_a_ring_slot_writes_nothing(device: str) -> None:
    step = make(Case((64, 64), (64, 64), heads=1, seed=13), device)
    # views that begin at slot 1, so that slot -1 is memory of the test's own
    rings = {name: getattr(step, name)[1:] for name in ("ring_keys", "ring_values")}
    slots = torch.tensor([-1, 2]).to(step.ring_slot)
    step = replace(step, ring_slot=slots, **rings)
    assert len(filled_blocks(step)) == 1
    # stores-padded-rows: a record of a padded request
    check(step, device)


def test_more_requests_than_are_looked_at_at_once_find_their_tiles(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvarn_port.kernels.pack.REQUESTS_AT_ONCE", 4)
    seq_lens, query_lens = (70, 3, 64, 1, 200, 64, 2, 64, 130), (66, 1, 64, 1, 200, 1, 2, 64, 2)
    step = make(Case(seq_lens, query_lens, heads=1, seed=2), device)
    assert len(filled_blocks(step)) == 7
    # requests-counted-anew: programs of other requests or none
    check(step, device)


def test_a_launch_for_longer_queries_writes_the_same_bytes(device: str) -> None:
    case = Case(*lengths_for(64)["a verify step over a tile's end"], seed=3)
    one = make(case, device).copy(device, PATTERNS[0])
    other = one.copy(device)
    pack(**one.arguments())
    pack(**replace(other, max_query_len=2048).arguments())
    # first-tile-only: the programs of requests and tiles are found in another way
    assert torch.equal(one.tiles, other.tiles)
    assert torch.equal(one.ring_keys.view(torch.int16), other.ring_keys.view(torch.int16))


def test_a_tile_has_the_same_bytes_whichever_rows_came_in_this_step(device: str) -> None:
    case = Case((128,), (128,), heads=1, seed=4)
    whole = make(case, device).copy(device, PATTERNS[0])
    parts = whole.copy(device)
    pack(**whole.arguments())
    page = int(parts.slot_mapping[64]) // 64
    for begin, end in ((0, 40), (40, 70), (70, 71), (71, 120), (120, 128)):
        pack(**piece(parts, begin, end).arguments())
    # ring-row-without-wrap, new-rows-late: a tile of rows of four steps, two of them in the ring
    assert torch.equal(parts.tiles[page], whole.tiles[page])
    assert torch.equal(parts.tiles, whole.tiles)


def piece(step: Step, begin: int, end: int) -> Step:
    """Return the step of tokens begin … end - 1 of a step that is one request from its start."""
    return replace(
        step,
        rotated_key=step.rotated_key[begin:end],
        rotated_value=step.rotated_value[begin:end],
        query_start=torch.tensor([0, end - begin]).to(step.query_start),
        seq_lens=torch.tensor([end]).to(step.seq_lens),
        slot_mapping=step.slot_mapping[begin:end],
        max_query_len=end - begin,
    )


def test_a_tile_that_drafts_filled_is_packed_again_when_it_is_committed(device: str) -> None:
    case = Case((128,), (VERIFY,), heads=1, seed=5)  # drafts up to the tile's end
    step = make(case, device).copy(device, PATTERNS[0])
    pack(**step.arguments())
    second = make(replace(case, seed=6), device)
    # three tokens of the step were kept; new ones come at their positions and pass the tile's end
    new = replace(
        step,
        rotated_key=second.rotated_key[:6],
        rotated_value=second.rotated_value[:6],
        query_start=torch.tensor([0, 5]).to(step.query_start),
        seq_lens=step.seq_lens * 0 + 128,
        slot_mapping=step.slot_mapping[3:9],
        max_query_len=VERIFY,
    )
    check(new, device)


@pytest.mark.gpu
@pytest.mark.parametrize("what", ["blocks", "ring", "tokens"])
def test_addresses_past_two_to_the_31_give_the_same_bytes(what: str, gpu: str) -> None:
    case = Case(*lengths_for(64)["a chunk over three tiles"], seed=10)
    near = make(case, gpu).copy(gpu, PATTERNS[0])
    far = spread_out(near, what, gpu)
    pack(**near.arguments())
    pack(**far.arguments())
    # offsets in 32 bits: other bytes, or a crash
    assert torch.equal(far.tiles, near.tiles)
    for name in ("ring_keys", "ring_values"):
        got, expected = getattr(far, name), getattr(near, name)
        assert torch.equal(got.view(torch.int16), expected.view(torch.int16))


def spread_out(step: Step, what: str, device: str) -> Step:
    """Return a copy whose blocks, ring slots or tokens are so far apart that 2^31 is passed."""
    slot = int(step.ring_slot[0])
    assert slot > 0
    assert max(filled_blocks(step.copy("cpu"))) >= 2
    # the first index that lies past 2^31 elements, bytes in records
    names = {
        "blocks": {"tiles": 2},
        "ring": {"ring_keys": slot, "ring_values": slot},
        "tokens": {"rotated_key": 64, "rotated_value": 64},
    }[what]
    moved = {}
    for name in ("tiles", "ring_keys", "ring_values", "rotated_key", "rotated_value"):
        x = getattr(step, name)
        if name in names:
            stride = (2**31 // names[name] // 128 + 1) * 128
            count = (x.shape[0] - 1) * stride + x[0].numel()
            storage = torch.empty(count, dtype=x.dtype, device=device)
            moved[name] = storage.as_strided(x.shape, (stride, *x[0].contiguous().stride()))
            moved[name].copy_(x)
        else:
            moved[name] = x.clone()
    return replace(step, **moved)


def one_tile(key: torch.Tensor, value: torch.Tensor, device: str, preset: str, mode: str) -> Step:
    """Return the step that packs one tile, given as [group, head_dim], from new rows."""
    group, head_dim = key.shape
    case = Case((group,), (group,), preset, head_dim, heads=1, mode=mode)
    step = make(case, "cpu")
    step.rotated_key[:group, 0], step.rotated_value[:group, 0] = key.half(), value.half()
    return step.copy(device, PATTERNS[0])


def record_of(step: Step, **more: int) -> torch.Tensor:
    """Return the record of a step of one tile, packed, on the CPU: [1, record bytes]."""
    pack(**step.arguments(), **more)
    return step.tiles[filled_blocks(step)[0]].cpu()


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g.tile}-{g.iterations}")
def test_golden_tiles_have_their_codes_and_scales(golden: Golden, device: str) -> None:
    tile = golden_tile(golden.tile)
    key, value = (tile.T, torch.zeros(128, 128)) if golden.tile == "key" else (tile.T * 0, tile)
    step = one_tile(key, value, device, "kvarn_k4v2_g128", "reference")
    record = record_of(step, iterations=golden.iterations)
    layout = step.layout
    of_key = golden.tile == "key"
    half = halves(record[0], layout)[0 if of_key else 1]
    # nibbles-exchanged, pairs-exchanged, iterations-ignored: other bytes
    octets = record[0, (layout.key_codes if of_key else layout.value_codes) :][:8]
    assert tuple(octets.tolist()) == golden.packed
    assert abs(int(half.codes.sum()) - golden.sum_of_codes) <= 2
    for got, expected in (
        (half.scale, golden.scale),
        (half.zero_point, golden.zero_point),
        (half.column_scale, golden.column_scale),
    ):
        # scales-exchanged, zero-point-unscaled: beyond half a unit in the last printed place, or
        # one in the last place of float16
        limit = torch.tensor(expected).abs() * 2**-10 + 6e-6
        assert ((got[:4].float() - torch.tensor(expected)).abs() <= limit).all()
    found = dequantise(record, layout)[0 if of_key else 1][0]
    truth = (tile.T if of_key else tile).double()
    error = ((found - truth).square().sum() / truth.square().sum()).sqrt()
    assert abs(float(error) - golden.error) <= 1e-4


@pytest.mark.parametrize("mode", ["reference", "prescaled", "fitted"])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_tile_of_zeros_comes_back_as_zeros(preset: str, mode: str, device: str) -> None:
    group = tile_layout(preset, 64).group
    zeros = torch.zeros(group, 64)
    step = one_tile(zeros, zeros, device, preset, mode)
    record = record_of(step)
    for half in halves(record[0], step.layout):
        assert (half.codes == 0).all()
        assert (half.scale == 0).all()  # 0.74 · 1e-10 is no float16
        # ties-refused: the scales of no iteration, 1
        assert (half.column_scale == torch.tensor(0.7408182).half()).all()
    assert all(bool((x == 0).all()) for x in dequantise(record, step.layout))


def test_constant_tiles_and_rows_come_back_within_the_rounding_of_their_scales(device: str) -> None:
    constant = torch.full((128, 128), 3.7).half().float()
    lines = torch.linspace(-4, 4, 128).half().float()[None, :].expand(128, 128)
    for key, value in ((constant, constant), (lines, lines.T)):
        record = record_of(one_tile(key, value, device, "kvarn_k4v4_g128", "reference"))
        for found, truth in zip(
            dequantise(record, tile_layout("kvarn_k4v4_g128", 128)), (key, value), strict=True
        ):
            # a zero point and a scale of float16, 2^-11 each, and what is left of a step of 1e-10
            assert ((found[0] - truth).abs() <= truth.abs() * 2**-10 + 1e-3 * 2**-10).all()


@pytest.mark.parametrize("mode", ["reference", "prescaled", "fitted"])
@pytest.mark.parametrize("powers", [1, 10])
def test_two_bits_stay_within_the_range_of_their_token(powers: int, mode: str, device: str) -> None:
    random = torch.Generator().manual_seed(11)
    lines = torch.randn(128, 1, generator=random).half().float() * 2.0 ** (
        torch.arange(128) % powers
    )
    step = one_tile(lines, lines, device, "kvarn_k4v2_g128", mode)
    record = record_of(step)
    channel = halves(record[0], step.layout)[1].column_scale.double()
    balanced, found = lines / channel, dequantise(record, step.layout)[1][0] / channel
    # fitted-step-not-cut-above, fitted-step-not-cut-below, fitted-mean-forgotten
    lost = balanced.abs().amax(1, keepdim=True) * 2**-9
    assert (found >= balanced.amin(1, keepdim=True) - lost).all()
    assert (found <= balanced.amax(1, keepdim=True) + lost).all()


def test_a_constant_row_in_a_tile_is_carried_by_its_zero_point(device: str) -> None:
    random = torch.Generator().manual_seed(8)
    key, value = (torch.randn(64, 64, generator=random).half().float() for _ in range(2))
    key[:, 5], value[9] = 0.0, 0.0
    step = one_tile(key, value, device, "kvarn_k4v2_g64", "reference")
    record = record_of(step)
    keys, values = dequantise(record, step.layout)
    # step-without-a-floor: 0 / 0
    assert (keys[0, :, 5] == 0).all()
    assert (values[0, 9] == 0).all()
    assert keys.isfinite().all()
    assert values.isfinite().all()


@pytest.mark.parametrize("mode", ["reference", "prescaled", "fitted"])
def test_the_largest_rows_of_float16_give_finite_scales(mode: str, device: str) -> None:
    random = torch.Generator().manual_seed(9)
    sign = torch.randint(2, (128, 128), generator=random) * 2.0 - 1
    key, value = sign * 65504, torch.randn(128, 128, generator=random)
    value[:, 3] = 65504 * sign[:, 3]
    step = one_tile(key, value, device, "kvarn_k4v2_g128", mode)
    record = record_of(step)
    # scales-not-clamped: infinite, and NaN of what is read
    for half in halves(record[0], step.layout):
        for scale in (half.scale, half.zero_point, half.column_scale):
            assert scale.isfinite().all()
    assert all(bool(x.isfinite().all()) for x in dequantise(record, step.layout))


@pytest.mark.parametrize("mode", ["reference", "prescaled", "fitted"])
@pytest.mark.parametrize("edge", ["zeros", "nan token", "huge token", "one channel"])
def test_steps_with_an_edge_match_the_reference(edge: str, mode: str, device: str) -> None:
    random = torch.Generator().manual_seed(10)
    key, value = (torch.randn(64, 128, generator=random) for _ in range(2))
    if edge == "zeros":
        key[:, ::2], value[::3] = 0, 0
    elif edge == "nan token":  # what rotate makes of one
        key[7], value[7] = 0, 0
    elif edge == "huge token":
        key[7], value[7] = key[7] * 1e4, value[7] * 1e4
    else:
        key[:, 3], value[:, 3] = key[:, 3] + 300, value[:, 3] + 300
    step = one_tile(key, value, device, "kvarn_k4v2_g64", mode)
    # single-pass-variance: the channel whose mean is 300 deviations
    check(step, device)


def test_nothing_to_do_launches_nothing(device: str) -> None:
    step = make(Case((64,), (64,), seed=11), device)
    before = step.copy(device)
    pack(**replace(step, max_query_len=0).arguments())
    none = {"seq_lens": step.seq_lens[:0], "ring_slot": step.ring_slot[:0]}
    pack(**replace(step, query_start=step.query_start[:1], **none).arguments())
    assert torch.equal(step.tiles, before.tiles)
    assert torch.equal(step.ring_keys.view(torch.int16), before.ring_keys.view(torch.int16))
