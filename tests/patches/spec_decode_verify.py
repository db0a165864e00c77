"""Whether verify steps are split over the cached keys: run by `patchkit test`, with and without it.

Nothing here asks for a version. A step of 16 tokens over an int8 cache of 131,072 is given to the
release's own Triton backend, and what that launches is looked at: programs for parts of the keys,
or one for all of them. No kernel runs, and none is imported.
"""

import dataclasses
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.platforms import current_platform
from vllm.v1.attention.backends.triton_attn import TritonAttentionImpl, TritonAttentionMetadata
from vllm.v1.attention.ops import triton_unified_attention

OPTION = "VLLM_SPEC_DECODE_VERIFY"
KERNELS = "vllm.v1.attention.ops.verify_attention.verify_attention"
HEADS, KV_HEADS, SIZE, BLOCK, TOKENS = 24, 4, 256, 64, 131_072
# What upstream keeps of the parts of split keys: enough rows that it could split every step here.
ROWS, SEGMENTS = 128, 16


class Launches:
    """A Triton kernel that notes the grids it is launched with."""

    def __init__(self):
        self.grids = []

    def __getitem__(self, grid):
        self.grids.append(grid)
        return lambda **_: None


@pytest.fixture
def unified(monkeypatch):
    """The launches of the release's own unified attention, on a platform that says it is CUDA."""
    kernel = Launches()
    monkeypatch.setattr(type(current_platform), "is_cuda", lambda _: True)
    monkeypatch.setattr(type(current_platform), "has_device_capability", lambda *_: True)
    monkeypatch.setattr(type(current_platform), "get_device_name", lambda *_: "a GPU")
    monkeypatch.setattr(triton_unified_attention, "kernel_unified_attention", kernel)
    monkeypatch.setattr(triton_unified_attention, "reduce_segments", Launches())
    arithmetic = SimpleNamespace(
        cdiv=lambda a, b: -(-a // b), next_power_of_2=lambda n: 1 << (n - 1).bit_length()
    )
    monkeypatch.setattr(triton_unified_attention, "triton", arithmetic)
    return kernel


@pytest.fixture
def verified(monkeypatch):
    """The calls of the patch's kernel, which needs a Triton to be imported."""
    module, calls = ModuleType(KERNELS), []
    module.Scratch = SimpleNamespace(allocate=lambda **_: torch.empty(0))
    module.verify_attention = lambda *_, **given: calls.append(given)
    monkeypatch.setitem(sys.modules, KERNELS, module)
    return calls


def metadata(query_len):
    """One request's step with that many new tokens; what only some releases have is None."""
    known = {
        "num_actual_tokens": query_len,
        "max_query_len": query_len,
        "query_start_loc": torch.tensor([0, query_len], dtype=torch.int32),
        "max_seq_len": TOKENS,
        "seq_lens": torch.tensor([TOKENS], dtype=torch.int32),
        "block_table": torch.zeros(1, TOKENS // BLOCK, dtype=torch.int32),
        "seq_threshold_3D": 32,
        "num_par_softmax_segments": SEGMENTS,
        "softmax_segm_output": torch.empty(ROWS, HEADS, SEGMENTS, SIZE),
        "softmax_segm_max": torch.empty(ROWS, HEADS, SEGMENTS),
        "softmax_segm_expsum": torch.empty(ROWS, HEADS, SEGMENTS),
        "causal": True,
        "use_cascade": False,
    }
    names = [field.name for field in dataclasses.fields(TritonAttentionMetadata)]
    return TritonAttentionMetadata(**{name: known.get(name) for name in names})


def attend(query_len):
    """Attention of one layer for a step with that many new tokens."""
    with set_current_vllm_config(VllmConfig(device_config=DeviceConfig(device="cpu"))):
        layer = TritonAttentionImpl(
            HEADS, SIZE, SIZE**-0.5, KV_HEADS, None, None, "int8_per_token_head"
        )
    cache = torch.zeros(2, KV_HEADS, BLOCK, 2 * (SIZE + 4), dtype=torch.int8)
    query = torch.zeros(query_len, HEADS, SIZE, dtype=torch.bfloat16)
    scales = SimpleNamespace(_q_scale=None, _k_scale=None, _v_scale=None)
    layer.forward(scales, query, query, query, cache, metadata(query_len), torch.empty_like(query))


def is_split(unified, verified):
    """Whether more than one program goes over the keys of a query block and head."""
    return bool(verified) or any(len(grid) > 2 and grid[2] > 1 for grid in unified.grids)


def test_a_verify_step_of_sixteen_tokens_is_split_over_the_cached_keys(
    monkeypatch, unified, verified
):
    monkeypatch.setenv(OPTION, "1")
    attend(16)
    assert is_split(unified, verified), f"it launches {unified.grids}"


def test_a_step_of_one_token_is_split_with_and_without_the_option(monkeypatch, unified, verified):
    attend(1)
    monkeypatch.setenv(OPTION, "1")
    attend(1)
    assert [len(grid) for grid in unified.grids] == [3, 3]
    assert verified == []


def test_a_prefill_is_not_split(monkeypatch, unified, verified):
    monkeypatch.setenv(OPTION, "1")
    attend(512)
    assert not is_split(unified, verified)
    assert len(unified.grids) == 1


def test_without_the_option_nothing_else_is_launched(unified, verified):
    attend(16)
    assert verified == []
    assert len(unified.grids) == 1
