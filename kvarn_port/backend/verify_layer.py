"""Which steps of which layers of vLLM go through verify attention, and with what.

A wheel has this file at vllm/v1/attention/ops/verify_attention/layer.py, beside the kernels. It
imports none of them before a layer can use them, so that a build without Triton can import it.

CUDA graphs. What is decided for a layer holds for the life of the server. What is decided for a
step follows from its longest query, its number of requests, and which masks it has: a captured
graph is replayed with what it was captured with. A graph of uniform decode is captured with queries
of 1 + num_speculative_tokens, which the limit always allows, and is replayed with as many or with
none (padding: query length 0, and perhaps seq_len 0); a graph of varying decode is captured with
the longest query that it takes. A graph of mixed batches is captured by the V2 runner of 0.28.0 to
0.30.0 with its tokens spread evenly, so that a replay may hold longer queries than the kernel was
launched for: where mixed batches are captured whole, every layer goes the old way. The scratch is
allocated while layers are made, before memory is profiled and before anything is captured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import torch
import vllm.envs as envs
from vllm.config import CUDAGraphMode, VllmConfig, get_current_vllm_config_or_none
from vllm.logger import init_logger
from vllm.platforms import current_platform

logger = init_logger(__name__)

# A step whose longest query is shorter goes the old way: both backends split one token themselves.
MIN_QUERY_LEN = 2
# Steps of longer queries are prefills, for which the old way is better; raised to
# 1 + num_speculative_tokens where that is more.
LEAST_LIMIT = 16
# Steps of more requests fill the card without being split; the scratch grows with them.
MOST_REQUESTS = 256
# Whether verify attention takes the steps that the release splits over the KV itself, too.
FASTER_THAN_UPSTREAM_SPLIT = True

HEAD_SIZES = (64, 128, 256)
UNQUANTISED = ("auto", "float16", "bfloat16")
FP8 = ("fp8", "fp8_e4m3")
INT8 = "int8_per_token_head"
# Below 8.0 the tiles are larger than the shared memory of an SM.
LEAST_CAPABILITY = 80
OUTPUTS = (torch.bfloat16, torch.float16, torch.float32)

# Layers of one shape share a scratch, since they run one after another.
_SCRATCHES: WeakValueDictionary[tuple[object, ...], Any] = WeakValueDictionary()


@dataclass(frozen=True)
class VerifyLayer:
    """A layer whose verify steps are split over its cached keys.

    `window` is the number of keys that a query sees, itself included; 0 is all.
    """

    kv_cache_dtype: str
    window: int
    shortest: int
    longest: int
    most_requests: int
    scratch: Any

    def takes(
        self,
        query: torch.Tensor,
        key_cache: torch.Tensor,
        output: torch.Tensor,
        query_start: torch.Tensor,
        seq_lens: torch.Tensor,
        max_query_len: int,
        causal: bool | torch.Tensor,
        key_scale: torch.Tensor | None,
        value_scale: torch.Tensor | None,
    ) -> bool:
        """Return whether a step goes through verify attention; looks at no element of a tensor.

        `key_scale` and `value_scale` are the layer's, or the views of those of each token and head.
        """
        if not self.shortest <= max_query_len <= self.longest or causal is not True:
            return False
        requests = query_start.shape[0] - 1
        if requests > self.most_requests or seq_lens.shape[0] != requests:
            return False
        if output.dtype not in OUTPUTS:
            return False
        if self.kv_cache_dtype in UNQUANTISED:
            return query.dtype == key_cache.dtype == output.dtype
        if key_scale is None or value_scale is None:
            return False
        if self.kv_cache_dtype == INT8:
            return key_cache.dtype == torch.int8 and query.dtype == output.dtype
        # One scale a layer; FlashAttention takes one a head, too.
        fp8 = torch.float8_e4m3fn
        return (
            key_cache.dtype == fp8
            and key_scale.numel() == value_scale.numel() == 1
            and query.dtype in (fp8, output.dtype)
        )

    def attend(
        self,
        query: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        output: torch.Tensor,
        block_table: torch.Tensor,
        query_start: torch.Tensor,
        seq_lens: torch.Tensor,
        max_query_len: int,
        key_scale: torch.Tensor | None,
        value_scale: torch.Tensor | None,
        *,
        softmax_scale: float,
        query_scale: torch.Tensor,
    ) -> None:
        """Write the attention of a step that `takes` accepts into `output`.

        `softmax_scale` is the layer's at this step: the Transformers backend sets it in forward.
        `query_scale` is the layer's, and counts where the layer has quantised its queries: a query
        in e4m3 is exact in 16 bits, and its scale goes with that of the keys.
        """
        from vllm.v1.attention.ops.verify_attention.verify_attention import verify_attention

        if self.kv_cache_dtype in UNQUANTISED:
            key_scale = value_scale = None
        elif key_cache.dtype == torch.int8:
            # The head's codes without the scale that lies behind them.
            key_cache = key_cache[..., : query.shape[-1]]
            value_cache = value_cache[..., : query.shape[-1]]
        elif query.dtype != output.dtype:
            query = query.to(output.dtype)
            key_scale = key_scale * query_scale
        verify_attention(
            query,
            key_cache,
            value_cache,
            output,
            block_table[: seq_lens.shape[0]],
            query_start,
            seq_lens,
            max_query_len=max_query_len,
            softmax_scale=softmax_scale,
            scratch=self.scratch,
            key_scale=key_scale,
            value_scale=value_scale,
            window=self.window,
        )


def verify_layer(
    *,
    num_heads: int,
    num_kv_heads: int,
    head_size: int,
    sliding_window: tuple[int, int] | None,
    kv_cache_dtype: str,
    formats: tuple[str, ...],
    plain: bool,
    upstream_splits_up_to: int = 1,
) -> VerifyLayer | None:
    """Return a layer with its scratch, or None where its steps all go the old way.

    `plain` is whether the backend's own terms hold: decoder attention without softcap, ALiBi,
    sinks, lookback of chunks and context parallelism. `upstream_splits_up_to` is the longest query
    that the backend splits over the KV itself.
    """
    if not envs.VLLM_SPEC_DECODE_VERIFY:
        return None
    config = get_current_vllm_config_or_none()
    window = _window(sliding_window)
    fits = head_size in HEAD_SIZES and num_heads % num_kv_heads == 0 and kv_cache_dtype in formats
    if not plain or not fits or window is None or config is None or not _serves(config):
        logger.info_once(
            "VLLM_SPEC_DECODE_VERIFY: layers of head size %d with a %s cache go the old way",
            head_size,
            kv_cache_dtype,
        )
        return None
    shortest, longest = _query_lens(config, upstream_splits_up_to)
    requests = min(config.scheduler_config.max_num_seqs, MOST_REQUESTS)
    scratch = _scratch(requests, longest, num_heads, num_kv_heads, head_size)
    return VerifyLayer(kv_cache_dtype, window, shortest, longest, requests, scratch)


def _serves(config: VllmConfig) -> bool:
    """Whether layers of this server may go through verify attention at all."""
    return (
        current_platform.is_cuda()
        and current_platform.has_device_capability(LEAST_CAPABILITY)
        and not envs.VLLM_BATCH_INVARIANT  # the number of splits follows from the step
        and _captures_long_queries(config)
    )


def _query_lens(config: VllmConfig, upstream_splits_up_to: int) -> tuple[int, int]:
    """The longest query of a step is from the first to the second of these."""
    speculative = config.speculative_config
    drafted = (speculative.num_speculative_tokens or 0) if speculative is not None else 0
    shortest = MIN_QUERY_LEN
    if not FASTER_THAN_UPSTREAM_SPLIT:
        shortest = max(shortest, upstream_splits_up_to + 1)
    return shortest, max(LEAST_LIMIT, 1 + drafted)


def _window(sliding_window: tuple[int, int] | None) -> int | None:
    """The keys that a query sees, itself included; 0: all; None: more than those before it."""
    if sliding_window is None or tuple(sliding_window) == (-1, -1):
        return 0
    before, behind = sliding_window
    return before + 1 if before >= 0 and behind == 0 else None


def _captures_long_queries(config: VllmConfig) -> bool:
    """Whether every graph is captured with the longest query that it is replayed with."""
    mode = config.compilation_config.cudagraph_mode
    return mode is None or mode.mixed_mode() != CUDAGraphMode.FULL


def _scratch(requests: int, longest: int, num_heads: int, num_kv_heads: int, head_size: int) -> Any:
    """The scratch of all layers of one shape on this device, allocated with the first of them."""
    from vllm.v1.attention.ops.verify_attention.verify_attention import Scratch

    # Not the default device: layers are made on "meta", too.
    device = torch.empty(0, device=current_platform.device_type).device
    key = (requests, longest, num_heads, num_kv_heads, head_size, device)
    scratch = _SCRATCHES.get(key)
    if scratch is None:
        scratch = Scratch.allocate(
            max_requests=requests,
            max_query_len=longest,
            num_query_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_size,
            device=device,
        )
        _SCRATCHES[key] = scratch
    return scratch
