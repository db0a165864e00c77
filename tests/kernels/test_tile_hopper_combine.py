"""Both second stages of tile attention, on parts that nothing has computed; what overlaps waits.

A GPU with compute capability 9 runs both; Triton's interpreter runs one.
"""

from __future__ import annotations

import importlib.util
import re
from types import SimpleNamespace

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

import torch
from triton.experimental.gluon import language as gl

from kvarn_port.kernels import tile_attention as paths
from kvarn_port.kernels import tile_combine
from kvarn_port.kernels.rotate import rotate
from kvarn_port.kernels.verify_plan import Plan
from kvarn_port.reference.rotate import hadamard
from tests.kernels.compiling import printed
from tests.kernels.run_tile_kernel import scratch_for
from tests.kernels.tile_caches import make
from tests.kernels.tile_cases import TileCase

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning"),
]

RATIO, HEADS, ROWS, BLOCK_M, D = 3, 2, 6, 8, 256
QUERIES = (2, 0, 3)  # of three requests; two query tiles of 2 tokens each
# The last needs several trips of either.
SPLITS = (2, 5, 33, 66, 150)


def combine_of(path: str, device: str):
    """Return the second stage of a path, or skip."""
    if path == "pointer":
        return tile_combine.combine
    if device == "cpu" or torch.cuda.get_device_capability(device)[0] != 9:
        pytest.skip("the path for Hopper needs a Hopper GPU")
    return paths.PATHS[path].combine


def made(splits: int, device: str) -> tuple[SimpleNamespace, Plan, SimpleNamespace]:
    """Return a call of QUERIES, its plan and scratch; empty splits have outputs of NaN."""
    random = torch.Generator().manual_seed(splits)
    plan = Plan(
        block_m=BLOCK_M, block_n=128, rows=ROWS, tiles=2, splits=splits, warps=4, stages=2
    )  # fmt: skip
    cells = (plan.programs(len(QUERIES), HEADS), BLOCK_M)
    top = 20 * torch.randn(cells, generator=random)
    total = 1 + torch.rand(cells, generator=random)
    out = torch.randn((*cells, D), generator=random)
    empty = torch.rand(cells[:1], generator=random) < 0.3
    top[empty], total[empty], out[empty] = float("-inf"), float("nan"), float("nan")
    # all of the first query tile of the first request is empty: its rows are 0
    top[: HEADS * splits] = float("-inf")
    scratch = SimpleNamespace(
        part_out=out.flatten().to(device),
        part_max=top.flatten().to(device),
        part_sum=total.flatten().to(device),
    )
    starts = torch.tensor([0, *QUERIES]).cumsum(0).int()
    call = SimpleNamespace(
        shape=SimpleNamespace(num_query_heads=RATIO * HEADS, ratio=RATIO, head_dim=D),
        output=torch.full((sum(QUERIES) + 1, RATIO * HEADS, D), 7.0, device=device),
        query_start=starts.to(device),
        requests=len(QUERIES),
        max_query_len=max(QUERIES),
    )
    return call, plan, scratch


def truth(plan: Plan, scratch: SimpleNamespace) -> torch.Tensor:
    """Return the rows of all tokens in float64."""
    shape = (len(QUERIES), plan.tiles, HEADS, plan.splits, BLOCK_M)
    top = scratch.part_max.cpu().double().view(shape)
    seen = top > float("-inf")
    most = top.amax(3, keepdim=True).clamp(min=-1e30)
    weight = torch.where(seen, torch.exp2(top - most), 0.0)
    total = (torch.where(seen, scratch.part_sum.cpu().double().view(shape), 0.0) * weight).sum(3)
    out = scratch.part_out.cpu().double().view(*shape, D)
    out = (torch.where(seen[..., None], out, 0.0) * weight[..., None]).sum(3)
    out = out / total.clamp(min=1e-30)[..., None] @ hadamard(D)
    out = out[:, :, :, :ROWS].reshape(len(QUERIES), plan.tiles, HEADS, ROWS // RATIO, RATIO, D)
    out = out.permute(0, 1, 3, 2, 4, 5).reshape(len(QUERIES), -1, HEADS * RATIO, D)
    return torch.cat([out[request, :length] for request, length in enumerate(QUERIES)])


@pytest.mark.parametrize("splits", SPLITS)
@pytest.mark.parametrize("path", ["pointer", "hopper"])
def test_parts_are_weighed_and_rotated_back(path: str, splits: int, device: str) -> None:
    call, plan, scratch = made(splits, device)
    combine_of(path, device)(call, plan, scratch)
    output = call.output.cpu()
    exact = truth(plan, scratch)
    # Sums of up to 150 and 256 terms of float32, exp2 and a quotient: below 2^-20 of a row's norm.
    # Caught: splits that are left out or twice, an empty split's NaN, a wrong sign of H.
    error = (output[:-1].double() - exact).norm(dim=-1)
    assert (error <= 2**-20 * exact.norm(dim=-1)).all()
    assert (exact[0] == 0).all()
    # a token of no request is left as it was
    assert (output[-1] == 7).all()


@pytest.mark.gpu
@pytest.mark.parametrize(("seq_len", "query_len"), [(4100, 1), (1500, 8), (300, 16)])
def test_layers_of_a_graph_over_one_scratch_have_the_bits_of_each_alone(
    seq_len: int, query_len: int, gpu: str
) -> None:
    """Caught: a wait that is left out: a query, or parts, of the layer before or behind."""
    layers = []
    for seed in range(12):
        case = TileCase((seq_len,), (query_len,), head_dim=D, kv_heads=4, ratio=6, seed=seed)
        call = make(case, gpu).call
        random = torch.Generator(gpu).manual_seed(seed)
        shape = (query_len, 32, D)
        x = torch.randn(shape, generator=random, device=gpu, dtype=torch.float32).bfloat16()
        layers.append((call, x.split((24, 4, 4), 1)))
    scratch = scratch_for(layers[0][0])
    # one query and one scratch for all, as layers of a model have them
    shared = torch.empty_like(x, dtype=torch.float16).split((24, 4, 4), 1)

    def attend(layer: int, output: torch.Tensor) -> None:
        call, x = layers[layer]
        rotate(*x, *shared)
        arguments = vars(call) | {"query": shared[0]}
        paths.tile_attention(**arguments, output=output, scratch=scratch)

    alone = [torch.empty((query_len, 24, D), device=gpu) for _ in layers]
    for layer, output in enumerate(alone):
        attend(layer, output)
        torch.cuda.synchronize()
    together = [torch.full_like(output, torch.nan) for output in alone]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer, output in enumerate(together):
            attend(layer, output)
    for _ in range(20):
        graph.replay()
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one, other)


COMPILE = """
import importlib
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.experimental.gluon._runtime import GluonASTSource

module, name, source, constants, pointers = {kernel!r}
kernel = getattr(importlib.import_module("kvarn_port.kernels." + module), name)
types = {{name: pointers.get(name, "i32") for name in kernel.arg_names}}
types |= dict.fromkeys(constants, "constexpr")
made = compile(globals()[source](kernel, types, constants), target=GPUTarget("cuda", 90, 32))
print(made.asm["ptx"])
"""
COMBINE = (
    "tile_hopper_combine", "combine_parts", "GluonASTSource",
    {"RATIO": 6, "BLOCK_M": 64, "ROWS": 48, "EACH": 1, "GROUPS": 4, "W": 4},
    {"part_out_ptr": "*fp32", "part_max_ptr": "*fp32", "part_sum_ptr": "*fp32",
     "query_start_ptr": "*i32", "output_ptr": "*bf16"},
)  # fmt: skip
ROTATE = (
    "rotate", "rotate_rows", "ASTSource",
    {"D": 256, "BLOCK_M": 16, "GRAIN": 16, "LIMIT": 65536.0, "NATIVE": True, "HOPPER": True,
     "OVERLAPS": True},
    {**{f"{name}_ptr": "*bf16" for name in ("query", "key", "value")},
     **{f"rotated_{name}_ptr": "*fp16" for name in ("query", "key", "value")}},
)  # fmt: skip
PACK = (
    "pack", "pack_step", "ASTSource",
    {"D": 256, "GROUP": 128, "KEY_BITS": 4, "VALUE_BITS": 2, "KEY_CODES": 0,
     "KEY_CHANNEL_SCALE": 16384, "KEY_ZERO_POINT": 16896, "KEY_TOKEN_SCALE": 17408,
     "VALUE_CODES": 17664, "VALUE_CHANNEL_SCALE": 25856, "VALUE_TOKEN_SCALE": 26368,
     "VALUE_ZERO_POINT": 26624, "MODE": "fitted", "HELD": True, "LINES": 16, "ROWS": 8,
     "AT_ONCE": 32, "GRAIN": 16, "NATIVE": True, "OVERLAPS": True},
    {"tiles_ptr": "*u8", "slot_mapping_ptr": "*i64",
     **{f"{name}_ptr": "*i32" for name in ("query_start", "seq_lens", "ring_slot")},
     **{f"ring_{name}_ptr": "*fp16" for name in ("keys", "values")},
     **{f"rotated_{name}_ptr": "*fp16" for name in ("key", "value")}},
)  # fmt: skip
# Tiles of 8 rows, and of 48. Codes are copied by descriptors, which "cp.async.bulk" reads through.
BOX = gl.NVMMASharedLayout(64, 8, rank=4)
ATTEND = (
    "tile_hopper", "attend_tiles", "GluonASTSource",
    {"RATIO": 6, "ROWS": 6, "N": 8, "M": 16, "A_K": 16384, "Z_K": 16896, "T_K": 17408,
     "C_V": 25856, "A_V": 26368, "STAGES": 2, "KC": 64, "TC": 64, "CAUSAL": True,
     "RING_HALVINGS": 2},
    {"q_ptr": "*fp16", "tiles_ptr": "*u8", "scale": "fp32",
     "key_desc": f"tensordesc<u8[1,1,256,64],{BOX!r}>",
     "value_desc": f"tensordesc<u8[1,1,128,64],{BOX!r}>",
     **{f"ring_{name}_ptr": "*fp16" for name in ("keys", "values")},
     **{f"{name}_ptr": "*i32" for name in ("block_table", "query_start", "seq_lens", "ring_slot")},
     **{f"part_{name}_ptr": "*fp32" for name in ("out", "max", "sum")}},
)  # fmt: skip
WIDE = (
    "tile_hopper_wide", "attend_wide", "GluonASTSource",
    {"RATIO": 6, "ROWS": 48, "RINGS": 2, "RING_ROWS": 32, "CAUSAL": True, "REGISTERS": (112, 112)},
    ATTEND[4] | {f"{name}_desc": f"tensordesc<u8[1,1,{rows},64],{BOX!r}>"
                 for name, rows in (("key", 256), ("value", 128), ("scale", 16), ("token", 8))},
)  # fmt: skip


@pytest.mark.parametrize(
    "kernel", [COMBINE, ROTATE, PACK, ATTEND, WIDE], ids=lambda kernel: kernel[1]
)
def test_a_kernel_that_may_start_early_waits_before_it_reads_or_writes(kernel: tuple) -> None:
    """Caught: a load moved before the wait, or the next kernel let go before it."""
    code = printed(COMPILE.format(kernel=kernel))
    found = re.findall(
        r"^\s*(?:@!?%p\d+ )?(griddepcontrol\.\w+|cp\.async\.bulk"
        r"|(?:ld|st|red|atom|cp\.async)\.(?:\w+\.)*?global)",
        code,
        re.MULTILINE,
    )
    assert found[:2] == ["griddepcontrol.wait", "griddepcontrol.launch_dependents"]
    assert len(found) > 4
    assert ("cp.async.bulk" in found) == (kernel in (ATTEND, WIDE))
    assert not any(each.startswith("griddep") for each in found[2:])
