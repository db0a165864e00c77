"""What the compiler makes of the first stage of tile attention, for a GPU that need not be there.

Triton's interpreter runs a kernel as it is written; a GPU runs what the compiler made of it.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

if None in (importlib.util.find_spec("torch"), importlib.util.find_spec("triton")):
    pytest.skip("torch or Triton is not installed", allow_module_level=True)

from kvarn_port.layout import PRESETS
from tests.kernels import sass
from tests.kernels.compiling import printed

pytestmark = pytest.mark.kernel

# The kernel with the arguments of real calls, which are recorded where it would be launched.
COMPILE = """
import sys
from pathlib import Path
import torch
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from kvarn_port.kernels import tile_attend
from kvarn_port.kernels.tile_call import TileCall
from kvarn_port.kernels.verify_plan import Device
from tests.kernels.run_tile_kernel import scratch_for
from tests.kernels.tile_caches import make
from tests.kernels.tile_cases import TileCase

preset, query_len, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
H200 = Device(sm_count=132, shared_bytes=227 << 10, has_tma=True)
POINTERS = {torch.float16: "*fp16", torch.float32: "*fp32", torch.int32: "*i32",
            torch.uint8: "*u8"}
kernel = tile_attend.attend_tiles

class Recorded:
    def __getitem__(self, grid):
        return self

    def __call__(self, *values, num_warps, **constants):
        types, attributes = dict.fromkeys(constants, "constexpr"), {}
        for place, (value, parameter) in enumerate(zip(values, kernel.params)):
            tensor = isinstance(value, torch.Tensor)
            types[parameter.name] = (
                POINTERS[value.dtype] if tensor else "fp32" if isinstance(value, float) else "i32")
            fixed = parameter.do_not_specialize or parameter.do_not_specialize_on_alignment
            if not fixed and (tensor or isinstance(value, int) and value % 16 == 0):
                attributes[place,] = [["tt.divisibility", 16]]
        source = ASTSource(kernel, types, constants, attributes)
        made = compile(source, GPUTarget("cuda", 90, 32), {"num_warps": num_warps})
        (folder / f"D{constants['D']}.cubin").write_bytes(made.asm["cubin"])

tile_attend.attend_tiles = Recorded()
for head_dim in (64, 128, 256):
    call = make(TileCase((query_len,), (query_len,), preset, head_dim), "cpu").call
    asked = TileCall(**vars(call), output=call.query, precise=False)
    tile_attend.attend(asked, tile_attend.choose_plan(asked, H200), scratch_for(call))
"""


# The kernel for many rows on Hopper, in the same way; each query_len,ratio,causal that is named.
COMPILE_WIDE = """
import sys
from pathlib import Path
import torch
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.experimental.gluon._runtime import GluonASTSource
from kvarn_port.kernels import tile_hopper, tile_hopper_wide
from kvarn_port.kernels.tile_call import TileCall
from kvarn_port.kernels.verify_plan import Device
from tests.kernels.run_tile_kernel import scratch_for
from tests.kernels.tile_caches import make
from tests.kernels.tile_cases import TileCase

H200 = Device(sm_count=132, shared_bytes=227 << 10, has_tma=True)
POINTERS = {torch.float16: "*fp16", torch.float32: "*fp32", torch.int32: "*i32"}
kernel, file = tile_hopper_wide.attend_wide, None

def typed(value):
    if isinstance(value, torch.Tensor):
        return POINTERS[value.dtype]
    if isinstance(value, (int, float)):
        return "i32" if isinstance(value, int) else "fp32"
    box = ",".join(map(str, value.block_shape))
    return f"tensordesc<u8[{box}],{value.layout!r}>"

class Recorded:
    def __getitem__(self, grid):
        return self

    def __call__(self, *values, num_warps, launch_pdl, **constants):
        types, attributes = dict.fromkeys(constants, "constexpr"), {}
        for place, (value, parameter) in enumerate(zip(values, kernel.params)):
            types[parameter.name] = typed(value)
            fixed = parameter.do_not_specialize or parameter.do_not_specialize_on_alignment
            whole = types[parameter.name][0] == "*" or isinstance(value, int) and value % 16 == 0
            if whole and not fixed:
                attributes[place,] = [["tt.divisibility", 16]]
        source = GluonASTSource(kernel, types, constants, attributes)
        made = compile(source, GPUTarget("cuda", 90, 32), {"num_warps": num_warps})
        file.write_bytes(made.asm["cubin"])

tile_hopper_wide.attend_wide = Recorded()
for words in sys.argv[2:]:
    query_len, ratio, causal = map(int, words.split(","))
    case = TileCase((query_len,), (query_len,), head_dim=256, ratio=ratio, causal=bool(causal))
    call, file = make(case, "cpu").call, Path(sys.argv[1]) / f"{words}.cubin"
    asked = TileCall(**vars(call), output=call.query, precise=False)
    tile_hopper.attend(asked, tile_hopper.choose_plan(asked, H200), scratch_for(call))
"""


def test_the_products_of_many_rows_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Caught: REGISTERS = (128, 128), which spills, and a wait after each product, which is slow.

    And T times the score's scale beside T itself, for which registers do not suffice.
    """
    printed(COMPILE_WIDE, str(tmp_path), "8,6,1", "8,8,0", "64,1,1")
    files = sorted(tmp_path.glob("*.cubin"))
    assert len(files) == 3
    for file in files:
        code = sass.disassembled(file)
        found = [operation for operation, _ in sass.instructions(code)]
        count = {name: sum(one.startswith(name) for one in found) for name in WATCHED}
        # of tile 0's scores, the next scores and values of a loop, the last values
        assert count == {"HGMMA": 16 + 16 + 8 + 8, "WARPGROUP.DEPBAR": 4, "STL": 0, "LDL": 0}
        assert not sass.unwritten(code)


WATCHED = ("HGMMA", "WARPGROUP.DEPBAR", "STL", "LDL")


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_address_of_an_operand_is_set(preset: str, rows: int, tmp_path: Path) -> None:
    # tile-steps-of-64-pairs: descriptors of wgmma from registers that nothing has written
    printed(COMPILE, preset, str(rows // 4), str(tmp_path))
    for head_dim in (64, 128, 256):
        code = sass.disassembled(tmp_path / f"D{head_dim}.cubin")
        assert "HGMMA" in code
        assert not sass.unwritten(code)


WRITTEN = """
        /*0010*/                   R2UR UR4, R9 ;
        /*0020*/                   UMOV UR5, 0xc0000010 ;
        /*0030*/                   ULDC.64 UR6, c[0x0][0x208] ;
        /*0040*/              @!P0 LDG.E R2, desc[UR6][R2.64+UR4] ;
        /*0050*/                   UIMAD.WIDE UR8, UR4, 0x4, UR6 ;
        /*0060*/                   UMOV UR14, UR9 ;
        /*0070*/                   UIADD3.X UR15, UR5, URZ, URZ, UP0, !UPT ;
        /*0080*/                   HGMMA.64x16x16.F32 R48, R64, gdesc[UR12].tnspB, RZ, !UPT ;
"""


@pytest.mark.parametrize(
    "read",
    [
        "UIADD3 UR10, UP0, UR10, 0x20, URZ",
        "UIADD3.64 UR16, UR9, 0x20, URZ",
        "HGMMA.64x64x16.F32 R56, gdesc[UR12].tnspB, RZ, !UPT",
        "HGMMA.64x16x16.F32 R48, R64, gdesc[UR20].tnspB, R48",
        "UIMAD.WIDE UR16, UR4, 0x4, UR9",
        "STG.E desc[UR10][R2.64], R4",
        "FMUL R229, R229, UR10",
    ],
)
def test_what_reads_a_register_that_nothing_wrote_is_found(read: str) -> None:
    assert not sass.unwritten(WRITTEN)
    later = "        /*00a0*/                   ULDC.128 UR10, c[0x0][0x210] ;\n"
    line = f"        /*0090*/                   {read} ;\n"
    assert sass.unwritten(WRITTEN + line + later) == [read]
