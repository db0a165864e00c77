"""Stage 2 of attention over packed tiles on Hopper GPUs: what tile_combine.py computes, sooner.

out = (sum of 2^(part_max - top) part_out / sum of 2^(part_max - top) part_sum) H, in float32

Grid: (requests x longest query, query heads). Each group of warps reads every GROUPS-th split, a
thread 4 or 8 channels, the same of them all: no load waits for another, and splits add up in
registers. Groups meet once, in shared memory. Then every warp has all 256 channels, 8 in a lane; of
the sums of +-x over these 8 it takes those that are its own, and butterflies across lanes are the
rest of H: 8 roundings of 2^-24 at most.

Programmatic dependent launch: this kernel may start while stage 1 still runs, and the kernel behind
it while this one does. Each of ours waits in every program before its first access to memory that
another kernel writes or reads, and lets the next one start only then. A wait ends when the kernel
before is complete and its writes are seen; that one has waited itself, so that everything before it
is complete too: no part is read before it is there, nor overwritten by the next call while this one
reads it. A kernel that is launched plainly waits for all of ours.

That holds where every kernel between two of ours is launched plainly or waits as ours do: one that
is launched dependently and ends without having waited is complete before the kernel in front of it
may be, and what waits behind it then reads too soon. It holds within one stream: nothing orders two
streams, so that a scratch serves one at a time.
"""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from .tile_call import TileCall
from .verify_plan import Plan
from .verify_scratch import Scratch

WARPS, GROUPS = 4, 4
# Splits of a group that a thread reads at a time, the fewest that cover a plan's: few, so that a
# server compiles few variants. One request on an H200 has up to 66, 17 for each of 4 groups.
AT_ONCE = (1, 3, 5, 9, 17)


@gluon.constexpr_function
def _bits(n):
    """Return 1, 2, 4 … below n."""
    return [1 << bit for bit in range(n.bit_length() - 1)]


@gluon.constexpr_function
def _group_layout(groups, w):
    """[groups, 256]: a group's warps share its channels, 4 or 4 + 4 of which a thread has."""
    far = [[0, 128]]
    registers = [[0, 1], [0, 2]] + (far if groups == w else [])
    warps = ([] if groups == w else far) + [[bit, 0] for bit in _bits(groups)]
    lanes = [[0, 4 * bit] for bit in _bits(32)]
    return gl.DistributedLinearLayout(registers, lanes, warps, [], [groups, 256])


@gluon.constexpr_function
def _whole_layout(groups, w):
    """[groups, 256]: 8 channels of every group in a lane, the same in each warp."""
    registers = [[0, 1], [0, 2], [0, 128]] + [[bit, 0] for bit in _bits(groups)]
    lanes = [[0, 4 * bit] for bit in _bits(32)]
    return gl.DistributedLinearLayout(registers, lanes, [[0, 0]] * len(_bits(w)), [], [groups, 256])


@gluon.constexpr_function
def _sum_layout(w):
    """[8, 8, 32]: the 8 sums over the 8 channels of a lane, shared out over warps."""
    sums = [[bit, 0, 0] for bit in _bits(8)]
    mine = 3 - len(_bits(w))
    terms = [[0, bit, 0] for bit in _bits(8)]
    lanes = [[0, 0, bit] for bit in _bits(32)]
    return gl.DistributedLinearLayout(sums[:mine] + terms, lanes, sums[mine:], [], [8, 8, 32])


@gluon.jit
def _of_lane(x, difference):
    """x of the lane whose number differs by these bits."""
    return gl.inline_asm_elementwise(
        "shfl.sync.bfly.b32 $0, $1, $2, 0x1f, 0xffffffff;", "=r,r,r",
        [x, difference], dtype=gl.float32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def _rotated_back(x, W: gl.constexpr):
    """[256] float32 times H sqrt(256): [2, 4, 32], channel 128 high + 4 lane + low."""
    L: gl.constexpr = _sum_layout(W)
    x = x.reshape([2, 32, 4]).permute([0, 2, 1]).reshape([8, 32])
    x = gl.convert_layout(x, gl.SliceLayout(0, L), assert_trivial=True)[None, :, :]
    row = gl.arange(0, 8, layout=gl.SliceLayout(1, gl.SliceLayout(2, L)))
    column = gl.arange(0, 8, layout=gl.SliceLayout(0, gl.SliceLayout(2, L)))
    odd = row[:, None] & column[None, :]
    odd = odd ^ (odd >> 2) ^ (odd >> 1)
    x = gl.sum(gl.where(((odd & 1) > 0)[:, :, None], -x, x), 1)
    lane = gl.arange(0, 32, layout=gl.SliceLayout(0, x.type.layout))
    for i in gl.static_range(5):
        sign = gl.where((lane >> i & 1) > 0, -1.0, 1.0)
        x = x * sign[None, :] + _of_lane(x, 1 << i)
    return x.reshape([2, 4, 32])


@gluon.jit(
    do_not_specialize=["max_query_len", "query_tiles", "splits"],
    do_not_specialize_on_alignment=["query_start_ptr"],
)
def combine_parts(
    part_out_ptr,  # [programs, BLOCK_M, 256] float32
    part_max_ptr, part_sum_ptr,  # [programs, BLOCK_M] float32
    query_start_ptr,  # [requests + 1] int32
    output_ptr,  # [tokens, query heads, 256] bf16 | fp16 | fp32
    o_stride_token, o_stride_head,
    max_query_len, query_tiles, splits,
    RATIO: gl.constexpr, BLOCK_M: gl.constexpr, ROWS: gl.constexpr, EACH: gl.constexpr,
    GROUPS: gl.constexpr, W: gl.constexpr,
):  # fmt: skip
    """Write one row of the output; a row that sees no key is 0."""
    D: gl.constexpr = 256
    L: gl.constexpr = _group_layout(GROUPS, W)
    request = (gl.program_id(0) // max_query_len).to(gl.int64)
    i = gl.program_id(0) % max_query_len
    q_head = gl.program_id(1)
    flat = i * RATIO + q_head % RATIO
    program = (request * query_tiles + flat // ROWS) * (gl.num_programs(1) // RATIO)
    program = (program + q_head // RATIO) * splits
    group = gl.arange(0, GROUPS, layout=gl.SliceLayout(1, L))
    channel = gl.arange(0, D, layout=gl.SliceLayout(0, L))
    at = (program + group) * BLOCK_M + flat % ROWS
    max_at, sum_at = part_max_ptr + at, part_sum_ptr + at
    out_at = part_out_ptr + (at * D)[:, None] + channel[None, :]
    STEP: gl.constexpr = GROUPS * BLOCK_M
    gl.assume(splits > 0)
    gdc_wait()
    gdc_launch_dependents()
    start = gl.load(query_start_ptr + request)
    q_len = gl.load(query_start_ptr + request + 1) - start
    top = gl.full([GROUPS], -1.0e30, gl.float32, layout=gl.SliceLayout(1, L))
    denominator = gl.zeros([GROUPS], gl.float32, layout=gl.SliceLayout(1, L))
    out = gl.zeros([GROUPS, D], gl.float32, layout=L)
    for first in range(0, splits, GROUPS * EACH):
        maxima, sums, parts = (), (), ()
        # Volatile loads stay in this order, maxima last: what waits for them finds every part under
        # way. Parts of empty splits are read for nothing, which takes less than to wait.
        for j in gl.static_range(EACH):
            ok = (first + j * GROUPS + group < splits)[:, None]
            parts += (gl.load(out_at + j * STEP * D, mask=ok, volatile=True),)
        for j in gl.static_range(EACH):
            ok = first + j * GROUPS + group < splits
            m = gl.load(max_at + j * STEP, mask=ok, other=float("-inf"), volatile=True)
            maxima += (m,)
            sums += (gl.load(sum_at + j * STEP, mask=ok, volatile=True),)
        new = top
        for j in gl.static_range(EACH):
            new = gl.maximum(new, maxima[j])
        old = gl.exp2(top - new)
        denominator = denominator * old
        out = out * old[:, None]
        for j in gl.static_range(EACH):
            # a row that saw nothing in a split has about -1e30, an empty split -inf
            full = maxima[j] > -1.0e29
            weight = gl.where(full, gl.exp2(maxima[j] - new), 0.0)
            denominator += gl.where(full, sums[j], 0.0) * weight
            out += gl.where(full[:, None], parts[j], 0.0) * weight[:, None]
        top = new
        max_at += EACH * STEP
        sum_at += EACH * STEP
        out_at += EACH * STEP * D
    out = _joined(top, denominator, out, GROUPS, W)
    out = _rotated_back(out, W) * (1.0 / 16)
    out_at = (start + i).to(gl.int64) * o_stride_token + q_head.to(gl.int64) * o_stride_head
    S: gl.constexpr = out.type.layout
    high = gl.arange(0, 2, layout=gl.SliceLayout(1, gl.SliceLayout(2, S)))
    low = gl.arange(0, 4, layout=gl.SliceLayout(0, gl.SliceLayout(2, S)))
    lane = gl.arange(0, 32, layout=gl.SliceLayout(0, gl.SliceLayout(1, S)))
    channel = (high[:, None] * 128 + low[None, :])[:, :, None] + (lane * 4)[None, None, :]
    gl.store(output_ptr + out_at + channel, out.to(output_ptr.dtype.element_ty), mask=i < q_len)


@gluon.jit
def _joined(top, denominator, out, GROUPS: gl.constexpr, W: gl.constexpr):
    """[256] outputs of all groups, normalised, in every warp."""
    L: gl.constexpr = _whole_layout(GROUPS, W)
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [0])
    rows: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    tops = gl.allocate_shared_memory(gl.float32, [GROUPS], flat, top)
    sums = gl.allocate_shared_memory(gl.float32, [GROUPS], flat, denominator)
    outs = gl.allocate_shared_memory(gl.float32, [GROUPS, 256], rows, out)
    gl.thread_barrier()
    top = tops.load(gl.SliceLayout(1, L))
    weight = gl.exp2(top - gl.max(top, 0))
    weight = weight / gl.maximum(gl.sum(sums.load(gl.SliceLayout(1, L)) * weight, 0), 1.0e-30)
    return gl.sum(outs.load(L) * weight[:, None], 0)


def combine(call: TileCall, plan: Plan, scratch: Scratch) -> None:
    """Write the output of a call from its parts in scratch."""
    shape, output = call.shape, call.output
    needed = -(-plan.splits // GROUPS)
    combine_parts[(call.requests * call.max_query_len, shape.num_query_heads)](
        scratch.part_out, scratch.part_max, scratch.part_sum, call.query_start, output,
        output.stride(0), output.stride(1), call.max_query_len, plan.tiles, plan.splits,
        RATIO=shape.ratio, BLOCK_M=plan.block_m, ROWS=plan.rows,
        EACH=next((n for n in AT_ONCE if n >= needed), AT_ONCE[-1]),
        GROUPS=GROUPS, W=WARPS, num_warps=WARPS, launch_pdl=True,
    )  # fmt: skip
