"""Codes of packed tiles as operands of a matrix product, on the device.

Keys: (code - 8) A + Z', Z' = Z + 8 A, of even tokens (low nibbles) and of odd ones. Values: codes,
one operand for each of the 2 or 4 neighbouring channels of a byte; their scales go on the weights.

With NATIVE, inline assembly; Triton's interpreter takes the plain branch. Source: kvarn.md 13.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _keys_as_half(codes, scale, low):
    # 0x64 before a byte is 1024 + byte in float16: a low nibble gives 1024 + code, a high one
    # 1024 + 16 code, from both of which (code - 8) / 2 follows exactly
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 a, b, t, half, part, c, d;
        mov.b32 half, 0x38003800;
        mov.b32 c, 0xe008e008;
        mov.b32 part, 0x28002800;
        mov.b32 d, 0xd080d080;
        prmt.b32 a, $4, 0x64646464, 0x4140;
        prmt.b32 b, $4, 0x64646464, 0x4342;
        and.b32 t, a, 0xff0fff0f;
        fma.rn.f16x2 t, t, half, c;
        fma.rn.f16x2 $0, t, $5, $7;
        and.b32 t, b, 0xff0fff0f;
        fma.rn.f16x2 t, t, half, c;
        fma.rn.f16x2 $1, t, $6, $8;
        and.b32 t, a, 0xfff0fff0;
        fma.rn.f16x2 t, t, part, d;
        fma.rn.f16x2 $2, t, $5, $7;
        and.b32 t, b, 0xfff0fff0;
        fma.rn.f16x2 t, t, part, d;
        fma.rn.f16x2 $3, t, $6, $8;
        }
        """,
        "=&r,=&r,=&r,=&r,r,r,r,r,r",
        [codes, scale, low],
        dtype=(tl.float16, tl.float16),
        is_pure=True,
        pack=4,
    )


@triton.jit
def _middle_as_half(scale, zero):
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 t, half, four;
        mov.b32 half, 0x38003800;
        mov.b32 four, 0x44004400;
        mul.rn.f16x2 t, $2, half;
        fma.rn.f16x2 $0, $1, four, t;
        }
        """,
        "=r,r,r",
        [scale, zero],
        dtype=tl.float16,
        is_pure=True,
        pack=2,
    )


@triton.jit
def _quarters_as_half(codes):
    # the bits of a code in an else empty float16 are its 2^24th part, 4 and 16 and 64 times that
    # where they lie higher: exact, and the matrix units take such numbers as they are
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 a, b;
        prmt.b32 a, $8, 0, 0x4140;
        prmt.b32 b, $8, 0, 0x4342;
        and.b32 $0, a, 0x00030003;
        and.b32 $1, b, 0x00030003;
        and.b32 $2, a, 0x000c000c;
        and.b32 $3, b, 0x000c000c;
        and.b32 $4, a, 0x00300030;
        and.b32 $5, b, 0x00300030;
        and.b32 $6, a, 0x00c000c0;
        and.b32 $7, b, 0x00c000c0;
        }
        """,
        "=&r,=&r,=&r,=&r,=&r,=&r,=&r,=&r,r",
        [codes],
        dtype=(tl.float16, tl.float16, tl.float16, tl.float16),
        is_pure=True,
        pack=4,
    )


@triton.jit
def _halves_as_half(codes):
    return tl.inline_asm_elementwise(
        """
        {
        .reg .b32 a, b;
        prmt.b32 a, $4, 0, 0x4140;
        prmt.b32 b, $4, 0, 0x4342;
        and.b32 $0, a, 0x000f000f;
        and.b32 $1, b, 0x000f000f;
        and.b32 $2, a, 0x00f000f0;
        and.b32 $3, b, 0x00f000f0;
        }
        """,
        "=&r,=&r,=&r,=&r,r",
        [codes],
        dtype=(tl.float16, tl.float16),
        is_pure=True,
        pack=4,
    )


@triton.jit
def keys_of(codes, scale, zero, DTYPE: tl.constexpr, NATIVE: tl.constexpr):
    """Half of code x scale + zero, of the low nibbles and of the high ones; [D] float16 each.

    Halved, a key over its token's scale, which is at least 0.74, never leaves float16's range.
    """
    if NATIVE:
        middle = _middle_as_half(scale, zero)
        even, odd = _keys_as_half(codes, scale[:, None], middle[:, None])
    else:
        scale = scale.to(tl.float32)
        middle = (zero.to(tl.float32) * 0.5 + scale * 4.0).to(DTYPE).to(tl.float32)
        even = ((codes & 15).to(tl.float32) * 0.5 - 4.0) * scale[:, None] + middle[:, None]
        odd = ((codes >> 4).to(tl.float32) * 0.5 - 4.0) * scale[:, None] + middle[:, None]
        even = even.to(DTYPE)
        odd = odd.to(DTYPE)
    return even, odd


@triton.jit
def values_of(codes, BITS: tl.constexpr, DTYPE: tl.constexpr, NATIVE: tl.constexpr):
    """The codes of each of the 8 / BITS channels of a byte, each in units of `lift` of its own."""
    if BITS == 2:
        if NATIVE:
            values = _quarters_as_half(codes)
        else:
            values = (
                (codes & 3).to(DTYPE),
                (codes >> 2 & 3).to(DTYPE),
                (codes >> 4 & 3).to(DTYPE),
                (codes >> 6).to(DTYPE),
            )
    elif NATIVE:
        values = _halves_as_half(codes)
    else:
        values = ((codes & 15).to(DTYPE), (codes >> 4).to(DTYPE))
    return values


@triton.constexpr_function
def lift(place, bits, native):
    """What `values_of` gives for the channel at a place of its byte, times this, are codes."""
    return 2.0 ** (24 - place * bits) if native else 1.0


@triton.jit
def pair(at):
    """Two neighbouring float16 of each place of an int32 pointer, as float32."""
    both = tl.load(at)
    one = (both & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True)
    two = (both >> 16 & 0xFFFF).to(tl.uint16).to(tl.float16, bitcast=True)
    return one.to(tl.float32), two.to(tl.float32)


def has_ptx() -> bool:
    """Return whether kernels run from PTX; the interpreter and other makers' GPUs have none."""
    return isinstance(values_of, triton.JITFunction) and torch.version.hip is None
