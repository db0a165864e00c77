"""Attention of the last few tokens of each request over a paged cache, in one pass over it.

out[i] = softmax(scale q[i] K^T, causal and within the window) V, keys read through a block table.

Two kernels: `attend` (verify_attend.py) leaves a part for every split of the keys; `combine` below
weighs the parts of a row in the order of the splits and skips those whose maximum is -inf. Another
first stage may stand for `attend` that leaves such parts: verify_int8.py, for Hopper, with `fits`
(call, device), `choose_plan` (as here) and `launch` (call, plan, scratch).

Grid of `combine`: (requests x longest query, query heads, parts of D); one program a query token,
head and DIMS dimensions. Source: kvarn.md 8.1, 8.2.
"""

from __future__ import annotations

from math import log2

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from .verify_attend import attend, rounded
from .verify_call import Call, grain_bytes
from .verify_plan import Plan, choose_plan
from .verify_scratch import Scratch

try:  # Gluon is in Triton 3.6 and later
    from . import verify_int8
except ImportError:
    verify_int8 = None

__all__ = ["Scratch", "verify_attention"]

PATHS = ("tma", "pointer", "int8")
# Splits that a program of `combine` reads at a time, the smallest that covers a plan's: three
# variants, so that a server compiles no more. 33 splits, an H200's with 4 KV heads, are one read.
SPLITS_AT_ONCE = (4, 16, 64)
# Of the parts: 32 registers a thread, so that several programs share a multiprocessor.
COMBINED_ELEMENTS = 4096
TRITON_DTYPES = {
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
    torch.float32: tl.float32,
}


@triton.jit(
    do_not_specialize=["max_query_len", "tiles", "splits"],
    do_not_specialize_on_alignment=["query_start_ptr"],
)
def combine(
    part_out_ptr,  # [programs, BLOCK_M, D] float32
    part_max_ptr, part_sum_ptr,  # [programs, BLOCK_M] float32
    query_start_ptr,  # [requests + 1] int32
    output_ptr,  # [tokens, query heads, D] bf16 | fp16 | fp32
    o_stride_token, o_stride_head,
    max_query_len, tiles, splits,
    RATIO: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, ROWS: tl.constexpr,
    SPLITS: tl.constexpr, DIMS: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Write DIMS elements of one row of the output; a row that sees no key is 0."""
    request = (tl.program_id(0) // max_query_len).to(tl.int64)
    i = tl.program_id(0) % max_query_len
    q_head = tl.program_id(1)
    head = q_head // RATIO
    flat = i * RATIO + q_head % RATIO
    heads = tl.num_programs(1) // RATIO
    program = ((request * tiles + flat // ROWS) * heads + head) * splits
    split = tl.arange(0, SPLITS)
    dim = tl.program_id(2) * DIMS + tl.arange(0, DIMS)
    at = (program + split) * BLOCK_M + flat % ROWS
    # read before the query's length is known: nothing then waits for the one and the other
    m = tl.load(part_max_ptr + at, mask=split < splits, other=float("-inf"))
    total = tl.load(part_sum_ptr + at, mask=split < splits, other=0.0)
    start = tl.load(query_start_ptr + request)
    if i >= tl.load(query_start_ptr + request + 1) - start:
        return
    top = -1.0e30
    denominator = 0.0
    out = tl.zeros([DIMS], tl.float32)
    for first in range(0, splits, SPLITS):
        # a row that saw nothing in a split has about -1e30, an empty split -inf
        full = m > -1.0e29
        part = tl.load(part_out_ptr + at[:, None] * D + dim[None, :], mask=full[:, None], other=0.0)
        top_new = tl.maximum(top, tl.max(m, 0))
        weight = tl.where(full, tl.exp2(m - top_new), 0.0)
        old = tl.exp2(top - top_new)
        denominator = denominator * old + tl.sum(tl.where(full, total, 0.0) * weight, 0)
        out = out * old + tl.sum(part * weight[:, None], 0)
        top = top_new
        at += SPLITS * BLOCK_M
        later = first + SPLITS + split < splits
        m = tl.load(part_max_ptr + at, mask=later, other=float("-inf"))
        total = tl.load(part_sum_ptr + at, mask=later, other=0.0)
    out = out / tl.where(denominator == 0.0, 1.0, denominator)
    out_at = (start + i).to(tl.int64) * o_stride_token + q_head.to(tl.int64) * o_stride_head
    tl.store(output_ptr + out_at + dim, rounded(out, output_ptr.dtype.element_ty, NATIVE))


def verify_attention(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    output: torch.Tensor,
    block_table: torch.Tensor,
    query_start: torch.Tensor,
    seq_lens: torch.Tensor,
    *,
    max_query_len: int,
    softmax_scale: float,
    scratch: Scratch,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
    window: int = 0,
    precise: bool = False,
    path: str | None = None,
) -> torch.Tensor:
    """Return `output`, every query token of which is written.

    query, output: [tokens, num_query_heads, head_dim] bf16, fp16 or fp32; head_dim 64, 128, 256
    key_cache, value_cache: [num_blocks, block_size, num_kv_heads, head_dim] bf16, fp16, fp32,
        float8_e4m3fn or int8, of any strides but the last, usually views of one packed tensor
    block_table: [requests, max_blocks] int32; seq_lens: [requests] int32, query tokens included
    query_start: [requests + 1] int32; query i of a request sits at seq_len - query_len + i
    max_query_len: of this call at most; it decides the launch, lengths on the device do not
    key_scale, value_scale: int8: [num_blocks, block_size, num_kv_heads] float32, a scale a token
        and head; float8: float32 of one element; else None
    window: keys that a query sees, itself included; 0: all
    precise: compute in float32 without TF32, to be compared; else operands are of the cache's
        16-bit dtype, or the query's where the cache holds codes or float8
    path: None chooses; "tma" or "pointer": how the cache is read; "int8": the kernel for Hopper

    Raises ValueError where an argument is not as above, scratch is too small or a path unfit.
    """
    call = Call(
        query, key_cache, value_cache, output, block_table, query_start, seq_lens, max_query_len,
        softmax_scale, key_scale, value_scale, window, precise,
    )  # fmt: skip
    if not call.requests or not call.max_query_len or not query.shape[0]:
        return output
    path = choose_path(call, scratch, path)
    chosen = verify_int8.choose_plan if path == "int8" else choose_plan
    plan = chosen(call.shape, scratch.device, call.requests, max_query_len)
    scratch.check(plan, call.requests, call.shape.num_kv_heads, call.shape.head_dim)
    if path == "int8":
        verify_int8.launch(call, plan, scratch)
    else:
        _launch_attend(call, plan, scratch, path == "tma")
    _launch_combine(call, plan, scratch)
    return output


def choose_path(call: Call, scratch: Scratch, path: str | None) -> str:
    """Return the path that is asked for, or the fastest that reads this cache."""
    fits = {
        "int8": verify_int8 is not None
        and not call.precise
        and verify_int8.fits(call, scratch.device),
        "tma": scratch.device.has_tma and _tma_steps(call) is not None,
        "pointer": True,
    }
    if path is None:
        return next(name for name, fit in fits.items() if fit)
    if path not in PATHS:
        raise ValueError(f"path is {path!r}; expected None or one of {', '.join(PATHS)}")
    if not fits[path]:
        raise ValueError(
            f"path {path!r} does not read {call.key_cache.dtype} with strides "
            f"{call.key_cache.stride()} on this device; expected None or 'pointer'"
        )
    return path


def _tma_steps(call: Call) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return the steps of a head in boxes of keys and of values, or None where TMA cannot read.

    TMA takes addresses and strides of whole 16 bytes; codes of int8 have scales between them.
    """
    if call.key_cache.dtype == torch.int8:
        return None
    steps = _head_step(call.key_cache), _head_step(call.value_cache)
    return None if None in steps else steps


def _head_step(cache: torch.Tensor) -> tuple[int, int] | None:
    """Return by how many rows and columns of [blocks, rows, columns] the next head lies."""
    _, block_size, heads, head_dim = cache.shape
    _, stride_pos, stride_head, _ = cache.stride()
    if grain_bytes(cache) < 16 or stride_pos < head_dim:
        return None
    if heads == 1:
        return 0, 0
    if (heads - 1) * stride_head + head_dim <= stride_pos:
        return 0, stride_head
    if stride_head % stride_pos == 0 and stride_head // stride_pos >= block_size:
        return stride_head // stride_pos, 0
    return None


def _descriptor(cache: torch.Tensor, step: tuple[int, int], block_n: int) -> TensorDescriptor:
    """Return a cache as [blocks, rows, columns], read in boxes of block_n tokens of one head."""
    blocks, block_size, heads, head_dim = cache.shape
    shape = [blocks, (heads - 1) * step[0] + block_size, (heads - 1) * step[1] + head_dim]
    strides = [cache.stride(0), cache.stride(1), 1]
    return TensorDescriptor(cache, shape, strides, [1, block_n, head_dim])


def _launch_attend(call: Call, plan: Plan, scratch: Scratch, tma: bool) -> None:
    shape, key, value = call.shape, call.key_cache, call.value_cache
    descriptors = (None, None)
    strides = (*key.stride()[:3], *value.stride()[:3])
    if tma:
        steps = _tma_steps(call)
        descriptors = tuple(
            _descriptor(cache, step, plan.block_n)
            for cache, step in zip((key, value), steps, strict=True)
        )
        strides = (0, *steps[0], 0, *steps[1])
    scales, scale_strides = "none", (0, 0, 0, 0, 0, 0)
    if key.dtype == torch.float8_e4m3fn:
        scales = "tensor"
    elif key.dtype == torch.int8:
        scales = "token_head"
        scale_strides = (*call.key_scale.stride(), *call.value_scale.stride())
    dtype = TRITON_DTYPES[call.query_dtype]
    attend[(call.requests * plan.tiles, shape.num_kv_heads, plan.splits)](
        call.query, *descriptors, key, value, call.key_scale, call.value_scale,
        call.block_table, call.query_start, call.seq_lens,
        scratch.part_out, scratch.part_max, scratch.part_sum,
        call.softmax_scale * log2(torch.e), call.query.stride(0), call.query.stride(1),
        *strides, *scale_strides,
        call.block_table.stride(0), call.window, plan.tiles, plan.splits, plan.tiles_per_split,
        RATIO=shape.ratio, D=shape.head_dim, BLOCK_M=plan.block_m, ROWS=plan.rows,
        BLOCK_N=plan.block_n, BLOCK_SIZE=shape.block_size, SCALES=scales, QUERY=dtype,
        WEIGHT=dtype, PRECISION="ieee" if call.precise else "tf32", WINDOW=call.window > 0,
        TMA=tma, KEY_GRAIN=grain_bytes(key), VALUE_GRAIN=grain_bytes(value), NATIVE=_has_ptx(),
        STAGES=plan.stages, num_warps=plan.warps,
    )  # fmt: skip


def _has_ptx() -> bool:
    """Return whether kernels run from PTX; the interpreter and other makers' GPUs have none."""
    return isinstance(attend, triton.JITFunction) and torch.version.hip is None


def _launch_combine(call: Call, plan: Plan, scratch: Scratch) -> None:
    shape = call.shape
    at_once = next((n for n in SPLITS_AT_ONCE if n >= plan.splits), SPLITS_AT_ONCE[-1])
    dims = min(shape.head_dim, COMBINED_ELEMENTS // at_once)
    grid = (call.requests * call.max_query_len, shape.num_query_heads, shape.head_dim // dims)
    combine[grid](
        scratch.part_out, scratch.part_max, scratch.part_sum, call.query_start, call.output,
        call.output.stride(0), call.output.stride(1), call.max_query_len, plan.tiles, plan.splits,
        RATIO=shape.ratio, D=shape.head_dim, BLOCK_M=plan.block_m, ROWS=plan.rows, SPLITS=at_once,
        DIMS=dims, NATIVE=_has_ptx(), num_warps=max(1, at_once * dims // 1024),
    )  # fmt: skip
