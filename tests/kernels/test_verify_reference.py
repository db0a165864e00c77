"""The torch truth of verify attention, on calls whose result is known without it."""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from kvarn_port.reference.verify_attention import verify_attention, visible_keys
from tests.kernels.caches import make, quantise
from tests.kernels.cases import Case

pytestmark = pytest.mark.kernel


def call(
    keys: list[float],
    values: list[float],
    queries: list[float],
    softmax_scale: float = 1.0,
    **more: object,
) -> list:
    """One request, one head of one channel, pages of one token in reverse order."""
    count = len(keys)
    pages = torch.arange(count - 1, -1, -1)
    cache = torch.tensor([keys, values], dtype=torch.float64)[:, pages, None, None, None]
    output = verify_attention(
        torch.tensor(queries, dtype=torch.float64)[:, None, None],
        cache[0],
        cache[1],
        pages[None].to(torch.int32),
        torch.tensor([0, len(queries)]),
        torch.tensor([count]),
        max_query_len=len(queries),
        softmax_scale=softmax_scale,
        **more,
    )
    return [round(x, 12) for x in output.flatten().tolist()]


def test_equal_scores_give_the_mean_of_what_each_query_sees() -> None:
    # A limit one later gives 4, 4; one earlier 2, 3.
    assert call([0, 0, 0], [2, 4, 6], [1, 1]) == [3, 4]


def test_a_window_of_two_is_the_key_before_and_the_query_itself() -> None:
    # A window one wider gives 3, 4; one narrower 4, 6.
    assert call([0, 0, 0], [2, 4, 6], [1, 1], window=2) == [3, 5]


def test_a_score_of_log_three_weighs_three_times() -> None:
    # exp without the softmax's sum gives 10; keys and values exchanged something else.
    log3 = 1.0986122886681098
    assert call([0, log3], [1, 3], [1]) == [2.5]


def test_scores_are_multiplied_by_the_scale_of_the_softmax() -> None:
    # without it the second weighs nine times: 2.8
    log3 = 1.0986122886681098
    assert call([0, 2 * log3], [1, 3], [1], softmax_scale=0.5) == [2.5]


def test_scales_of_one_tensor_multiply_keys_and_values_apart() -> None:
    # exchanged: keys times 10, whose weights are 1 to 59,049
    log3 = 1.0986122886681098
    scales = {"key_scale": torch.tensor([0.5]), "value_scale": torch.tensor([10.0])}
    assert call([0, 2 * log3], [1, 3], [1], **scales) == [25]


def test_scales_of_tokens_lie_at_the_tokens_page_and_slot() -> None:
    log3 = 1.0986122886681098
    key_scale = torch.tensor([0.5, 7.0])[:, None, None]  # page 0 holds token 1
    value_scale = torch.tensor([1.0, 5.0])[:, None, None]
    scales = {"key_scale": key_scale, "value_scale": value_scale}
    assert call([0, 2 * log3], [1, 3], [1], **scales) == [(5 + 9) / 4]


def test_a_query_before_the_first_key_is_zero() -> None:
    assert call([0], [7], [1, 1]) == [0, 7]


def test_more_query_tokens_than_the_maximum_are_refused() -> None:
    case = make(Case((5,), (3,)), "cpu")
    with pytest.raises(ValueError, match=r"^request 0 has 3 query tokens, over the maximum$"):
        verify_attention(
            case.query,
            case.key_cache,
            case.value_cache,
            case.block_table,
            case.query_start,
            case.seq_lens,
            max_query_len=2,
            softmax_scale=1.0,
        )


def test_it_is_torchs_own_attention_where_a_request_is_all_asked() -> None:
    # Six query heads a key head, in order; head h % kv_heads instead differs by 0.5 and more.
    made = make(Case((33,), (33,), format="fp32", layout="HND odd"), "cpu")
    output = verify_attention(
        made.query, made.key_cache, made.value_cache, made.block_table, made.query_start,
        made.seq_lens, max_query_len=33, softmax_scale=0.125,
    )  # fmt: skip
    page, slot = made.block_table[0, torch.arange(33) // 16].long(), torch.arange(33) % 16
    keys, values = (x[page, slot].double() for x in (made.key_cache, made.value_cache))
    expected = torch.nn.functional.scaled_dot_product_attention(
        made.query[:33].double().transpose(0, 1),
        keys.transpose(0, 1),
        values.transpose(0, 1),
        is_causal=True,
        enable_gqa=True,
    )
    assert (output[:33] - expected.transpose(0, 1)).abs().max() < 1e-12
    assert output[33:].abs().max() == 0  # rows of no request


def test_visible_keys_of_three_queries_over_five_tokens() -> None:
    assert visible_keys(3, 5, 2, "cpu").int().tolist() == [
        [0, 1, 1, 0, 0],
        [0, 0, 1, 1, 0],
        [0, 0, 0, 1, 1],
    ]


def test_codes_are_rounded_half_away_from_zero_and_the_scale_has_a_floor() -> None:
    tokens = torch.tensor([[[127.0, 0.5, -0.5, 1.5, -2.5, 0.49]], [[0.0, 5e-7, 0, 0, 0, -4e-7]]])
    codes, scale = quantise(tokens)
    assert codes.tolist() == [[[127, 1, -1, 2, -3, 0]], [[0, 1, 0, 0, 0, 0]]]
    assert scale.tolist() == [[1.0], [pytest.approx(1e-6, rel=1e-6)]]


def test_a_cache_is_packed_as_the_engine_packs_it() -> None:
    """K | K scale | V | V scale of one token and head lie together, 2(D + 4) bytes."""
    made = make(Case((40,), (1,), format="int8, bf16 query", kv_heads=3, layout="HND"), "cpu")
    key = made.key_cache
    assert made.value_cache.data_ptr() - key.data_ptr() == 68
    assert made.key_scale is not None
    assert made.value_scale is not None
    assert made.key_scale.data_ptr() - key.data_ptr() == 64
    assert made.value_scale.data_ptr() - key.data_ptr() == 132
    assert key.stride() == (16 * 3 * 136, 136, 16 * 136, 1)
    assert made.key_scale.stride() == (16 * 3 * 34, 34, 16 * 34)


@pytest.mark.parametrize("name", ["bf16", "fp16", "fp8, bf16 query", "int8, bf16 query", "fp32"])
def test_what_belongs_to_no_token_is_garbage(name: str) -> None:
    made = make(Case((20, 0), (1, 0), format=name), "cpu")
    owned = made.block_table[0, :2].tolist()
    free = [page for page in range(made.key_cache.shape[0]) if page not in owned]
    assert len(free) == 3
    assert made.block_table[:, 2:].unique().tolist() == [made.block_table[1, 0]]
    scales = (made.key_scale, made.value_scale)
    for cache, scale in zip((made.key_cache, made.value_cache), scales, strict=True):
        outside = [cache[owned[1], 4:], *(cache[page] for page in free)]
        if cache.dtype == torch.int8:
            assert all((part == -128).all() for part in outside)
            assert scale is not None
            outside = [scale[owned[1], 4:], *(scale[page] for page in free)]
        assert all(part.float().isnan().all() for part in outside)
        inside = cache[owned[0]].float()
        assert inside.isfinite().all()


@pytest.mark.parametrize("layout", ["NHD padded", "HND odd"])
def test_padded_pages_do_not_touch(layout: str) -> None:
    made = make(Case((20,), (1,), kv_heads=3, layout=layout), "cpu")
    page_bytes = made.key_cache.stride(0) * 2
    assert page_bytes - 16 * 3 * 256 == {"NHD padded": 1024, "HND odd": 24}[layout]
    assert made.key_cache.storage_offset() * 2 == {"NHD padded": 4096, "HND odd": 8}[layout]
