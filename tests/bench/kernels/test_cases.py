"""Bytes, blocks and tables of a case; all numbers by hand."""

from tests.bench.kernels.cases import Case, matrix, pool_blocks, tables_to_rotate
from tests.bench.kernels.verify_attention import SUITE

LONG = Case(batch=1, context=131_072, new_tokens=8)


def test_a_token_takes_keys_values_and_in_int8_two_scales_a_head() -> None:
    # 4 heads of 2 x 256 values; int8: 2(256 + 4) bytes a head
    assert LONG.token_bytes("bf16") == 4096
    assert LONG.token_bytes("fp8") == 2048
    assert LONG.token_bytes("int8") == 2080


def test_the_bytes_of_128k_are_those_of_the_published_floors() -> None:
    assert LONG.cache_bytes("bf16") == 536_870_912
    assert LONG.cache_bytes("int8") == 272_629_760


def test_tables_rotate_over_more_than_500_mb_and_are_never_one() -> None:
    assert tables_to_rotate(LONG, "bf16") == 2
    assert tables_to_rotate(LONG, "int8") == 2
    short = Case(batch=1, context=1536, new_tokens=8)
    # 500,000,000 / (1,536 x 2,080 = 3,194,880) = 156.5
    assert tables_to_rotate(short, "int8") == 157
    # exactly 500 MB a table are not more than 500 MB
    exact = Case(1, 250, 1, num_kv_heads=1, head_dim=500_000, block_size=16)
    assert exact.cache_bytes("bf16") == 500_000_000
    assert tables_to_rotate(exact, "bf16", 1_000_000_000) == 3
    for case in SUITE.cases:
        for kv_format in ("bf16", "fp8", "int8"):
            tables = tables_to_rotate(case, kv_format)
            assert tables * case.cache_bytes(kv_format) > 500_000_000


def test_a_pool_has_the_blocks_of_every_case_and_one_that_no_table_names() -> None:
    short, batch = Case(1, 1536, 8), Case(8, 131_072, 8)
    assert short.blocks == 4  # of 448 tokens
    assert batch.blocks == 8 * 293
    assert pool_blocks([short], "int8") == 1 + 157 * 4
    assert pool_blocks([short, batch], "int8") == 1 + 2 * 8 * 293


def test_the_suite_is_the_matrix_that_is_asked_for() -> None:
    assert len(SUITE.cases) == 50
    assert {case.batch for case in SUITE.cases} == {1, 8}
    assert {case.context for case in SUITE.cases} == {1536, 16384, 25600, 65536, 131_072}
    assert {case.new_tokens for case in SUITE.cases} == {1, 5, 8, 16, 32}
    heads = {(c.num_query_heads, c.num_kv_heads, c.head_dim) for c in SUITE.cases}
    assert heads == {(24, 4, 256)}


def test_names_tell_cases_apart() -> None:
    assert LONG.name == "b1-131072-q8"
    assert [c.name for c in matrix((1, 8), (16,), (1,))] == ["b1-16-q1", "b8-16-q1"]
