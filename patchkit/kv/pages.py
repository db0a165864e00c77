"""The page of a layer: what one block takes in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from patchkit.kv.rules import Backend

FULL, WINDOW, STATE = "full", "window", "state"


@dataclass(frozen=True)
class Page:
    """What one layer asks for. Layers with equal pages can share a block table.

    `shape` is heads and head sizes on one rank, or the elements of a state's tensors: layers of
    another shape are not the same to a release, though their bytes may be.
    """

    kind: str
    format: str  # "" for states
    shape: tuple[object, ...]
    block: int  # tokens
    token_bytes: int  # of attention; 0 for states
    state_bytes: int = 0
    window: int | None = None  # tokens
    backend: Backend | None = None  # None for states
    padded_bytes: int | None = None

    @property
    def content_bytes(self) -> int:
        """What is stored in it."""
        return self.state_bytes + self.block * self.token_bytes

    @property
    def page_bytes(self) -> int:
        """What it takes."""
        return self.content_bytes if self.padded_bytes is None else self.padded_bytes

    def with_block(self, block: int) -> Page:
        """Return it with blocks of so many tokens."""
        return replace(self, block=block)

    def padded(self, page_bytes: int) -> Page:
        """Return it with so many bytes, of which the last stay unused."""
        return replace(self, padded_bytes=page_bytes)
