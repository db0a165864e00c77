"""A padded page and the scales in it: the release's own views, byte by byte.

Head sizes 256 and 512 with 256 token-heads a block and one float32 scale per token and head for
keys and for values take pages of 133,120 and 264,192 bytes, which do not divide. The smaller one is
padded to the larger, so that its blocks no longer touch: what is written through the views of the
release's Triton backend must lie where the padded stride says, and nowhere else. A view with the
stride of the unpadded page puts block 1 in the padding of block 0.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import torch
    from vllm.v1 import kv_cache_interface
    from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend, TritonAttentionImpl
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVQuantMode

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(
        not hasattr(TritonAttentionBackend, "customize_spec"),
        reason="before 0.28.0 keys and values of a page are two tensors",
    ),
]

BLOCK, HEADS, SIZE = 64, 4, 256  # 256 token-heads a block
CONTENT = 2 * (SIZE + 4)  # bytes of one token and head: keys, their scale, values, their scale
PAGE, PADDED = 133_120, 264_192  # bytes; the second is the page of heads of 512
BLOCKS = 3
UNTOUCHED = 0x5A


def spec_of(size: int) -> FullAttentionSpec:
    mode = KVQuantMode.INT8_PER_TOKEN_HEAD
    plain = FullAttentionSpec(
        block_size=BLOCK,
        num_kv_heads=HEADS,
        head_size=size,
        dtype=torch.int8,
        kv_quant_mode=mode,
    )
    return TritonAttentionBackend.customize_spec(plain)


def view(raw: torch.Tensor, spec: FullAttentionSpec) -> torch.Tensor:
    """The release's view of one layer: `[blocks, heads, tokens, content]`, tokens before heads."""
    if hasattr(kv_cache_interface, "create_kv_cache_views"):
        from vllm.v1.kv_cache_layout import KVCacheLayout

        layout = KVCacheLayout.LBNHC
        tensor = SimpleNamespace(
            layers=["layer"], layer_stride=BLOCKS * PADDED, block_stride=PADDED, offset=0
        )
        create = kv_cache_interface.create_kv_cache_views
        return create(raw, spec, BLOCKS, layout, tensor, BLOCK)[0]
    from vllm.v1.attention.backends.utils import set_kv_cache_layout
    from vllm.v1.worker.gpu.attn_utils import _reshape_kv_cache

    set_kv_cache_layout("NHD")
    group = SimpleNamespace(
        kv_cache_group_id=0,
        kv_cache_spec=spec,
        backend=TritonAttentionBackend,
        layer_names=["layer"],
    )
    made = _reshape_kv_cache([group], {"layer": raw}, "int8_per_token_head", [BLOCK], {})
    return made["layer"]


def test_scales_of_a_padded_page_lie_where_its_stride_says() -> None:
    assert (spec_of(256).page_size_bytes, spec_of(512).page_size_bytes) == (PAGE, PADDED)
    raw = torch.full((BLOCKS * PADDED,), UNTOUCHED, dtype=torch.int8)
    cache = view(raw, replace(spec_of(SIZE), page_size_padded=PADDED))
    assert tuple(cache.shape) == (BLOCKS, HEADS, BLOCK, CONTENT)
    backend = SimpleNamespace(_k_scale_cache=None, _v_scale_cache=None)
    TritonAttentionImpl._ensure_scale_caches(backend, cache)
    order = (BLOCKS, BLOCK, HEADS)
    keys = torch.arange(1, 1 + BLOCKS * BLOCK * HEADS, dtype=torch.float32).view(order)
    backend._k_scale_cache.copy_(keys)
    backend._v_scale_cache.copy_(-keys)
    cache[..., :SIZE] = 1
    cache[..., SIZE + 4 : CONTENT - 4] = 2

    # what must be there, put together from nothing but the sizes above
    token = torch.empty((*order, CONTENT), dtype=torch.int8)
    token[..., :SIZE], token[..., SIZE + 4 : CONTENT - 4] = 1, 2
    token[..., SIZE : SIZE + 4] = keys[..., None].view(torch.int8)
    token[..., CONTENT - 4 :] = (-keys)[..., None].view(torch.int8)
    expected = torch.full((BLOCKS, PADDED), UNTOUCHED, dtype=torch.int8)
    expected[:, :PAGE] = token.view(BLOCKS, PAGE)
    assert torch.equal(raw.view(BLOCKS, PADDED), expected)
