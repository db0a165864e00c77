"""The seven published token counts, by the functions of the release that they were counted with.

The model: 16 full layers of 4 x 256, 48 gated delta nets with a 16-bit state, a drafter's 5 windows
of 8 x 128. Its groups hold eight layers, as the port that published them makes them: 2, 6 and 1.
"""

from __future__ import annotations

import importlib.util
import warnings

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import torch
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.kv_cache_interface import (
        FullAttentionSpec,
        KVCacheGroupSpec,
        MambaSpec,
        SlidingWindowSpec,
    )

from patchkit.kv.formats import read_formats
from patchkit.kv.layers import AttentionLayer, Model, StateLayer, StateTensor
from patchkit.kv.planned import Options
from tests.engine.conftest import package_folder, release_version
from tests.engine.startup import Engine

pytestmark = pytest.mark.engine

COUNTED_WITH = "0.28.0"
if release_version(package_folder()) != COUNTED_WITH:
    pytest.skip(f"the counts are those of {COUNTED_WITH}", allow_module_level=True)

SIZE = 8  # layers of a group
BF16, INT8, KVARN = (1024, 512), (520, 264), (210, 512)  # bytes of a head's token: full, window
TARGET = Model(
    name="published",
    architecture="Published",
    dtype="bfloat16",
    num_layers=2,
    num_attention_heads=24,
    max_model_len=262_144,
    layers=(
        StateLayer(0, (StateTensor("recurrent", 48, 128 * 128, "float16"),)),
        AttentionLayer(1, 4, 256, 256),
    ),
)
SMALL, LARGE = 5_261_334_938, 5_583_457_484  # bytes for pages


def groups(
    packing: tuple[int, int], blocks: tuple[int, int], page: int, draft_tokens: int
) -> list[KVCacheGroupSpec]:
    """Two groups of full layers, six of states, one of windows, all with pages of one size."""
    full = FullAttentionSpec(
        block_size=blocks[0],
        num_kv_heads=4,
        head_size=256,
        dtype=torch.uint8,
        state_content_bytes=packing[0],
        page_size_padded=page,
    )
    state = MambaSpec(
        block_size=blocks[0],
        shapes=((10240, 3 + draft_tokens), (48, 128, 128)),
        dtypes=(torch.float16, torch.float16),
        page_size_padded=page,
        num_speculative_blocks=draft_tokens,
    )
    window = SlidingWindowSpec(
        block_size=blocks[1],
        num_kv_heads=8,
        head_size=128,
        dtype=torch.uint8,
        state_content_bytes=packing[1],
        page_size_padded=page,
        sliding_window=2048,
    )
    specs = [*[full] * 2, *[state] * 6]
    made = [
        KVCacheGroupSpec([f"{at}.{n}" for n in range(SIZE)], spec) for at, spec in enumerate(specs)
    ]
    return [*made, KVCacheGroupSpec([f"8.{n}" for n in range(5)], window)]


def configured(engine: Engine, mode: str, draft_tokens: int, length: int, overlapped: bool):
    options = Options(
        memory_bytes=0,
        max_model_len=length,
        draft_tokens=draft_tokens,
        prefix_caching=mode != "none",
        max_num_batched_tokens=2048,
        async_scheduling=overlapped,
    )
    engine.configure(TARGET, read_formats().get("auto"), options)
    engine.config.cache_config.mamba_cache_mode = mode
    return engine.config


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(kv_cache_utils)


@pytest.mark.parametrize(
    ("packing", "drafts", "length", "mode", "overlapped", "memory", "page", "blocks", "tokens"),
    [
        (BF16, 7, 65_536, "none", True, LARGE, 1_835_008, (448, 448), 69_758),
        (INT8, 7, 131_072, "none", True, LARGE, 1_824_768, (864, 864), 138_696),
        (INT8, 7, 131_072, "align", True, LARGE, 1_824_768, (864, 864), 136_429),
        (KVARN, 7, 245_760, "align", True, SMALL, 1_827_840, (2176, 128), 268_169),
        (KVARN, 15, 221_184, "align", False, SMALL, 2_042_880, (2432, 128), 223_974),
        (BF16, 15, 57_344, "align", False, LARGE, 1_966_080, (480, 480), 57_669),
        (INT8, 15, 114_224, "align", False, LARGE, 1_993_728, (944, 944), 114_224),
    ],
)
def test_the_release_counts_the_published_tokens(
    engine, packing, drafts, length, mode, overlapped, memory, page, blocks, tokens
) -> None:
    config = configured(engine, mode, drafts, length, overlapped)
    made = groups(packing, blocks, page, drafts)
    cache = kv_cache_utils.get_kv_cache_config_from_groups(config, made, memory)
    assert kv_cache_utils.get_kv_cache_capacity(config, cache)[0] == tokens


def test_the_release_estimates_the_published_longest_request(engine) -> None:
    config = configured(engine, "align", 15, 262_144, overlapped=False)
    made = groups(INT8, (944, 944), 1_993_728, 15)
    longest = kv_cache_utils._estimate_max_model_len_from_groups(config, made, LARGE)
    assert longest == 114_224 == 121 * 944


def test_a_request_needs_the_published_gib(engine) -> None:
    made = groups(KVARN, (2432, 128), 2_042_880, 15)
    needed = []
    for length in (245_760, 229_376):
        config = configured(engine, "align", 15, length, overlapped=False)
        needed.append(kv_cache_utils._max_memory_usage_bytes_from_groups(config, made))
    assert [round(size / (1 << 30), 3) for size in needed] == [5.16, 4.947]
