"""What the compiler makes of the second stage of tile attention, for a GPU that need not be there.

Triton's interpreter runs a kernel as it is written; a GPU runs what the compiler made of it.
"""

from __future__ import annotations

import importlib.util

import pytest

if importlib.util.find_spec("triton") is None:
    pytest.skip("Triton is not installed", allow_module_level=True)

from tests.kernels.compiling import printed

pytestmark = pytest.mark.kernel

COMPILE = """
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from kvarn_port.kernels.tile_combine import combine_tiles

constants = dict(RATIO=6, D=256, LOW=16, BLOCK_M=64, ROWS=48, SPLITS=4, NATIVE=True)
pointers = dict(part_out_ptr="*fp32", part_max_ptr="*fp32", part_sum_ptr="*fp32",
                query_start_ptr="*i32", output_ptr="*fp32")
types = {name: pointers.get(name, "i32") for name in combine_tiles.arg_names}
types |= dict.fromkeys(constants, "constexpr")
made = compile(ASTSource(combine_tiles, types, constants), target=GPUTarget("cuda", 90, 32))
print(made.asm["ttir"])
"""


def test_sums_of_float32_stay_sums_of_float32() -> None:
    """Caught: signs multiplied, of whose sum Triton makes a dot in TF32, 11 bits of each output."""
    code = printed(COMPILE)
    assert "tt.reduce" in code
    assert "tt.dot" not in code
