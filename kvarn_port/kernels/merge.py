"""Attention over segments of the keys joined by their log-sum-exp, then rotated back.

out = sum_s exp(lse_s - lse) out_s H, lse = log sum_s exp(lse_s), over segments in their order

Grid: (rows / ROWS,); one program joins ROWS rows (a token and query head each) of all segments.
H is ±1 over the root of D: ±1 is exact in 16 bits, and the root divides the float32 sum. What is
joined is rotated as the sum of two 16-bit terms, which leaves 2^-16 of it out, or less. More
segments than are held at a time go by `carry`: a running output in float32. Source: kvarn.md 1.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from .verify_attend import rounded

ROWS = 32  # a program's outputs and both of its terms fit into registers
COLUMNS = 64  # of H at a time
TRITON_DTYPES = {
    torch.bfloat16: tl.bfloat16,
    torch.float16: tl.float16,
    torch.float32: tl.float32,
}


@dataclass(frozen=True)
class Carried:
    """What was joined so far, in the rotated frame.

    output: [tokens, num_query_heads, head_dim] float32
    lse: [num_query_heads, tokens] float32, natural logarithm; -inf where no key was seen
    """

    output: torch.Tensor
    lse: torch.Tensor


@triton.jit
def _odd(x):
    """Return the parity of the bits of x, below 2^8."""
    x = x ^ (x >> 4)
    x = x ^ (x >> 2)
    return (x ^ (x >> 1)) & 1


@triton.jit
def _weights_base(
    lse_ptr, lse_at, l_stride_segment, carried_lse_ptr, carried_lse_at, held, segments,
    CARRIED: tl.constexpr,
):  # fmt: skip
    """Return the largest log-sum-exp of each row, 0 where it saw nothing, and the sum of weights.

    A log-sum-exp of +inf, which FlashAttention 2 has where no key is seen, counts as -inf.
    """
    top = tl.full(held.shape, float("-inf"), tl.float32)
    if CARRIED:
        top = tl.load(carried_lse_ptr + carried_lse_at, mask=held, other=float("-inf"))
    at = lse_at
    for _ in range(segments):
        lse = tl.load(lse_ptr + at, mask=held, other=float("-inf"))
        top = tl.maximum(top, tl.where(lse < float("inf"), lse, float("-inf")))
        at += l_stride_segment
    base = tl.where(top > float("-inf"), top, 0.0)
    total = tl.zeros(held.shape, tl.float32)
    if CARRIED:
        total = _weight(carried_lse_ptr + carried_lse_at, held, base)
    at = lse_at
    for _ in range(segments):
        total += _weight(lse_ptr + at, held, base)
        at += l_stride_segment
    return base, total


@triton.jit
def _weight(at, held, base):
    """Return what a segment weighs, 0 where its row saw nothing."""
    lse = tl.load(at, mask=held, other=float("-inf"))
    return tl.where(lse < float("inf"), tl.exp(lse - base), 0.0)


@triton.jit
def _joined(
    out_ptr, out_at, o_stride_segment, lse_ptr, lse_at, l_stride_segment,
    carried_ptr, carried_at, carried_lse_ptr, carried_lse_at, base, total, held, segments, column,
    CARRIED: tl.constexpr,
):  # fmt: skip
    """Return some columns of the joined rows, [ROWS, COLUMNS] float32; 0 where nothing was seen."""
    joined = tl.zeros([held.shape[0], column.shape[0]], tl.float32)
    if CARRIED:
        weight = _weight(carried_lse_ptr + carried_lse_at, held, base)[:, None]
        carried = carried_ptr + carried_at[:, None] + column[None, :]
        joined = tl.load(carried, mask=weight > 0.0, other=0.0) * weight
    for _ in range(segments):
        weight = _weight(lse_ptr + lse_at, held, base)[:, None]
        part = out_ptr + out_at[:, None] + column[None, :]
        # what lies where no key was seen may be anything
        joined += tl.load(part, mask=weight > 0.0, other=0.0).to(tl.float32) * weight
        lse_at += l_stride_segment
        out_at += o_stride_segment
    return joined / tl.where(total > 0.0, total, 1.0)[:, None]


@triton.jit
def _rotated(xs, N: tl.constexpr, CHUNKS: tl.constexpr, signs, TERM: tl.constexpr,
             NATIVE: tl.constexpr):  # fmt: skip
    """Return the columns of chunk N of x H √D / CHUNKS, [ROWS, COLUMNS] float32.

    H is the Kronecker product of one of CHUNKS and one of COLUMNS: chunks are added or subtracted,
    then one product is for all of them. Their mean, not their sum: it is in float16's range.
    """
    x = xs[0]
    for k in tl.static_range(1, CHUNKS):
        x = x - xs[k] if ((k & N) ^ ((k & N) >> 1) ^ ((k & N) >> 2)) & 1 else x + xs[k]
    x = x * (1.0 / CHUNKS)
    if TERM == tl.float32:
        return tl.dot(x, signs, input_precision="tf32x3")  # 22 bits; "ieee" spills
    high = rounded(x, TERM, NATIVE)
    low = rounded(x - high.to(tl.float32), TERM, NATIVE)
    if NATIVE:
        return tl.dot(high, signs, tl.dot(low, signs))
    # the interpreter multiplies the bits of bfloat16, not its values
    wide = signs.to(tl.float32)
    return tl.dot(high.to(tl.float32), wide, tl.dot(low.to(tl.float32), wide))


@triton.jit(do_not_specialize=["rows", "segments"])
def merge_rows(
    out_ptr,  # [segments, tokens, heads, D] bf16 | fp16 | fp32
    lse_ptr,  # [segments, heads, tokens] float32
    carried_ptr, carried_lse_ptr,  # [tokens, heads, D], [heads, tokens] float32
    output_ptr,  # [tokens, heads, D] bf16 | fp16 | fp32
    output_lse_ptr,  # [heads, tokens] float32, with KEPT
    rows, heads, segments,
    o_stride_segment, o_stride_token, o_stride_head,
    l_stride_segment, l_stride_head, l_stride_token,
    c_stride_token, c_stride_head, cl_stride_head, cl_stride_token,
    y_stride_token, y_stride_head, root,
    ROWS: tl.constexpr, CHUNKS: tl.constexpr, COLUMNS: tl.constexpr, TERM: tl.constexpr,
    CARRIED: tl.constexpr, KEPT: tl.constexpr, ROTATED: tl.constexpr, NATIVE: tl.constexpr,
):  # fmt: skip
    """Write ROWS rows: rotated back, or as they are, with their log-sum-exp where it is KEPT."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    held = row < rows
    token = row // heads
    head = row % heads
    column = tl.arange(0, COLUMNS)
    out_at = token * o_stride_token + head * o_stride_head
    lse_at = head * l_stride_head + token * l_stride_token
    carried_at = token * c_stride_token + head * c_stride_head
    carried_lse_at = head * cl_stride_head + token * cl_stride_token
    base, total = _weights_base(
        lse_ptr, lse_at, l_stride_segment, carried_lse_ptr, carried_lse_at, held, segments, CARRIED
    )
    xs = ()
    for chunk in tl.static_range(CHUNKS):
        x = _joined(
            out_ptr, out_at, o_stride_segment, lse_ptr, lse_at, l_stride_segment,
            carried_ptr, carried_at, carried_lse_ptr, carried_lse_at, base, total, held, segments,
            chunk * COLUMNS + column, CARRIED,
        )  # fmt: skip
        xs = xs + (x,)  # noqa: RUF005 - Triton knows no starred tuple
    if KEPT:
        # warps read the same log-sum-exps: one must not store over what another is yet to read
        tl.debug_barrier()
        lse = tl.where(total > 0.0, base + tl.log(tl.where(total > 0.0, total, 1.0)), float("-inf"))
        tl.store(output_lse_ptr + carried_lse_at, lse, mask=held)
    signs = (1 - 2 * _odd(tl.arange(0, COLUMNS)[:, None] & column[None, :])).to(tl.float32).to(TERM)
    at = output_ptr + (token * y_stride_token + head * y_stride_head)[:, None] + column[None, :]
    for chunk in tl.static_range(CHUNKS):
        y = xs[chunk]
        if ROTATED:
            y = _rotated(xs, chunk, CHUNKS, signs, TERM, NATIVE) / root
        y = rounded(y, output_ptr.dtype.element_ty, NATIVE)
        tl.store(at + chunk * COLUMNS, y, mask=held[:, None])


def merge(
    outputs: torch.Tensor,
    lses: torch.Tensor,
    output: torch.Tensor,
    *,
    unrotate: bool = True,
    carried: Carried | None = None,
) -> torch.Tensor:
    """Return `output`, every element of which is written.

    outputs: [segments, tokens, num_query_heads, head_dim] bf16, fp16 or fp32, normalised each
    lses: [segments, num_query_heads, tokens] float32, natural logarithm, as FlashAttention has it;
        -inf or +inf where a row sees no key of the segment, whose output is not looked at then
    output: [tokens, num_query_heads, head_dim] bf16, fp16 or fp32
    unrotate: multiply by H at the end
    carried: what earlier segments gave, the first summand

    A row that sees no key in any segment is 0.

    Raises ValueError where an argument is not as above.
    """
    _check(outputs, lses, output, carried)
    _launch(outputs, lses, carried, output, None, rotated=unrotate)
    return output


def carry(outputs: torch.Tensor, lses: torch.Tensor, carried: Carried, *, first: bool) -> None:
    """Join segments with what is carried, or begin with them where they are the first.

    Shapes and errors as of `merge`; `carried` is read and written.
    """
    _check(outputs, lses, carried.output, carried)
    _launch(outputs, lses, None if first else carried, carried.output, carried.lse, rotated=False)


def _launch(
    outputs: torch.Tensor,
    lses: torch.Tensor,
    before: Carried | None,
    output: torch.Tensor,
    output_lse: torch.Tensor | None,
    *,
    rotated: bool,
) -> None:
    segments, tokens, heads, head_dim = outputs.shape
    if not tokens or not heads:
        return
    # a tensor that is not read or written still has an address
    carried = before or Carried(output, lses[0] if segments else lses.new_empty(heads, tokens))
    kept = carried.lse if output_lse is None else output_lse
    rows = tokens * heads
    merge_rows[(triton.cdiv(rows, ROWS),)](
        outputs, lses, carried.output, carried.lse, output, kept, rows, heads, segments,
        *outputs.stride()[:3], *lses.stride(),
        *carried.output.stride()[:2], *kept.stride(), *output.stride()[:2],
        COLUMNS / head_dim**0.5,
        ROWS=ROWS, CHUNKS=head_dim // COLUMNS, COLUMNS=COLUMNS, TERM=TRITON_DTYPES[outputs.dtype],
        CARRIED=before is not None, KEPT=output_lse is not None, ROTATED=rotated,
        NATIVE=isinstance(merge_rows, triton.JITFunction) and torch.version.hip is None,
        num_warps=8 if head_dim > 256 else 4,
    )  # fmt: skip


def _check(
    outputs: torch.Tensor, lses: torch.Tensor, output: torch.Tensor, carried: Carried | None
) -> None:
    """Raise ValueError where shapes, dtypes or strides are not those that the kernel reads."""
    if outputs.ndim != 4 or outputs.dtype not in TRITON_DTYPES or outputs.stride(3) != 1:
        raise ValueError(
            f"outputs are {outputs.dtype} {list(outputs.shape)} with strides {outputs.stride()}; "
            "expected bf16, fp16 or fp32 [segments, tokens, num_query_heads, head_dim], last 1"
        )
    segments, tokens, heads, head_dim = outputs.shape
    if head_dim < COLUMNS or head_dim & (head_dim - 1):
        raise ValueError(f"head_dim is {head_dim}; expected a power of two from {COLUMNS} on")
    floats = tuple(TRITON_DTYPES)
    wanted = [("lses", lses, [segments, heads, tokens], (torch.float32,))]
    wanted.append(("output", output, [tokens, heads, head_dim], floats))
    if carried is not None:
        whole, each = [tokens, heads, head_dim], [heads, tokens]
        wanted.append(("carried.output", carried.output, whole, (torch.float32,)))
        wanted.append(("carried.lse", carried.lse, each, (torch.float32,)))
    for name, found, shape, dtypes in wanted:
        if list(found.shape) != shape or found.dtype not in dtypes:
            raise ValueError(
                f"{name}: {found.dtype} {list(found.shape)}; expected "
                f"{' or '.join(str(dtype) for dtype in dtypes)} {shape}"
            )
    if output.stride(2) != 1 or (carried is not None and carried.output.stride(2) != 1):
        raise ValueError("the last stride of output or carried.output is not 1")
