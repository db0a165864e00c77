"""What a cache format stores of one token, layer and head, in bytes.

Keys and values are packed each by itself, one head after the other; both together are a slot. All
formats are these few words with other numbers, so that a table can hold them.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchkit.errors import PatchkitError
from patchkit.kv.layers import ITEM_BYTES

# How a slot ends: as it comes out, at an even byte, or at the next power of two.
SLOTS = ("exact", "even", "power of two")


@dataclass(frozen=True)
class Side:
    """How the keys of a head are stored, or its values.

    `bits` of one element; None are those of the model's own type. Beside the elements there are
    `token_bytes` for each token (scales, zero points, norms), `block_bytes` for every `block`
    elements of a token, and in a tile `channel_bytes` for each element of the head.
    """

    bits: int | None
    token_bytes: int = 0
    block: int | None = None
    block_bytes: int = 0
    channel_bytes: int = 0

    def size_bits(self, head_dim: int, tokens: int, dtype: str) -> int:
        """Return the bits of so many tokens that share their channels' values."""
        bits = 8 * ITEM_BYTES[dtype] if self.bits is None else self.bits
        beside = tokens * self.token_bytes + head_dim * self.channel_bytes
        if self.block is not None:
            beside += tokens * (head_dim // self.block) * self.block_bytes
        return tokens * head_dim * bits + 8 * beside


@dataclass(frozen=True)
class Packing:
    """How a format packs one head: both sides, and what it asks of the head.

    `tile` is the number of tokens that are packed together; None packs each by itself. A side that
    ends within a byte is refused, or that byte is filled up. `head_dims` are those that the format
    is made for, empty for any; with `same_head_dims` values are as wide as keys.
    """

    key: Side
    value: Side
    tile: int | None = None
    slot: str = "exact"
    fills_bytes: bool = False
    same_head_dims: bool = False
    head_dims: tuple[int, ...] = ()

    def slot_bytes(self, head_dim: int, head_dim_v: int, dtype: str) -> int:
        """Return the bytes of one token and head, keys and values together.

        Raises PatchkitError, with `head_dim` or `head_dim_v` named, where the format cannot hold
        such a head in whole bytes.
        """
        self._check("head_dim", head_dim, self.key)
        self._check("head_dim_v", head_dim_v, self.value)
        if self.same_head_dims and head_dim_v != head_dim:
            raise PatchkitError(
                f"head_dim_v is {head_dim_v}", expected=f"{head_dim}, as wide as the keys"
            )
        tokens = self.tile or 1
        whole = self._whole_bytes("head_dim", self.key.size_bits(head_dim, tokens, dtype))
        whole += self._whole_bytes("head_dim_v", self.value.size_bits(head_dim_v, tokens, dtype))
        exact, rest = divmod(whole, tokens)
        if rest:
            fact = f"a tile of {tokens} tokens takes {whole} bytes, {rest} more than {exact} each"
            raise PatchkitError(fact, expected="whole bytes for each token")
        if self.slot == "even":
            return exact + exact % 2
        return exact if self.slot == "exact" else 1 << (exact - 1).bit_length()

    def _check(self, field: str, value: int, side: Side) -> None:
        if self.head_dims and value not in self.head_dims:
            *first, last = map(str, self.head_dims)
            listed = f"{', '.join(first)} or {last}" if first else last
            raise PatchkitError(f"{field} is {value}", expected=listed)
        if side.block is not None and value % side.block:
            raise PatchkitError(f"{field} is {value}", expected=f"a multiple of {side.block}")

    def _whole_bytes(self, field: str, bits: int) -> int:
        if bits % 8 and not self.fills_bytes:
            fact = f"{field} makes {bits} bits, which end within a byte"
            raise PatchkitError(fact, expected="whole bytes")
        return -(-bits // 8)
