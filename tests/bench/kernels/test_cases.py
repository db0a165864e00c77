"""Bytes, blocks and tables of a case; all numbers by hand."""

from tests.bench.kernels import prefill, store_pack, tile_attention
from tests.bench.kernels.cases import Case, matrix, pool_blocks, pool_slots, tables_to_rotate
from tests.bench.kernels.verify_attention import SUITE

LONG = Case(batch=1, context=131_072, new_tokens=8)


def test_a_token_takes_keys_values_and_in_int8_two_scales_a_head() -> None:
    # 4 heads of 2 x 256 values; int8: 2(256 + 4) bytes a head
    assert LONG.token_bytes("bf16") == 4096
    assert LONG.token_bytes("fp8") == 2048
    assert LONG.token_bytes("int8") == 2080
    assert LONG.token_bytes("int4") == 1056  # 2(128 + 4) bytes a head
    assert LONG.token_bytes("k4v2") == 840  # 210 bytes a head


def test_the_bytes_of_128k_are_those_of_the_published_floors() -> None:
    assert LONG.cache_bytes("bf16") == 536_870_912
    assert LONG.cache_bytes("int8") == 272_629_760
    assert LONG.cache_bytes("int4") == 138_412_032
    assert LONG.cache_bytes("k4v2") == 110_100_480


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
    for case in (*SUITE.cases, *tile_attention.SUITE.cases):
        for kv_format in ("bf16", "fp8", "int8", "int4", "k4v2"):
            tables = tables_to_rotate(case, kv_format)
            assert tables * case.cache_bytes(kv_format) > 500_000_000


def test_a_pool_has_the_blocks_of_every_case_and_one_that_no_table_names() -> None:
    short, batch = Case(1, 1536, 8), Case(8, 131_072, 8)
    assert short.blocks == 4  # of 448 tokens
    assert batch.blocks == 8 * 293
    assert pool_blocks([short], "int8") == 1 + 157 * 4
    assert pool_blocks([short, batch], "int8") == 1 + 2 * 8 * 293


def test_each_request_of_each_table_has_a_ring() -> None:
    short, batch = Case(1, 4096, 1, block_size=128), Case(16, 131_072, 1, block_size=128)
    # 500,000,000 / (4,096 x 840 = 3,440,640) = 145.3; 2 of 16 x 110,100,480
    assert pool_slots([short], "k4v2") == 1 + 146
    assert pool_slots([batch], "k4v2") == 1 + 2 * 16


def test_the_suites_of_kvarn_are_what_is_asked_for() -> None:
    cases = tile_attention.SUITE.cases
    assert len(cases) == 30
    assert {case.batch for case in cases} == {1, 16}
    assert {case.context for case in cases} == {4096, 16384, 65536, 131_072, 245_760}
    assert {case.new_tokens for case in cases} == {1, 8, 16}
    assert {(c.context, c.new_tokens) for c in prefill.SUITE.cases} == {
        (16_384, 2048),
        (102_400, 2048),
    }
    stored = {(case.batch, case.new_tokens) for case in store_pack.SUITE.cases}
    assert stored == {(1, 2048), (1, 1), (1, 8), (16, 1), (16, 8)}
    for suite in (tile_attention.SUITE, prefill.SUITE, store_pack.SUITE):
        heads = {(c.num_query_heads, c.num_kv_heads, c.head_dim) for c in suite.cases}
        # the rotation of the query is attention's: it is in its time
        assert heads == {(0 if suite is store_pack.SUITE else 24, 4, 256)}
        assert {case.block_size for case in suite.cases} == {128}
        assert set(suite.columns) == set(suite.formats)


def test_a_chunk_fills_16_tiles_and_a_short_step_none() -> None:
    for case in store_pack.SUITE.cases:
        first = (case.context - case.new_tokens) // 128
        assert case.context // 128 - first == (16 if case.new_tokens == 2048 else 0)


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
