"""How a transfer tells the outside of its progress; nothing here knows a terminal."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called as bytes arrive, from any thread; `total_bytes` is None while it is unknown.

    One label is one transfer: it ends when done equals total, or when another label starts.
    """

    def __call__(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        """Take note of the state of a transfer."""


def silent(label: str, done_bytes: int, total_bytes: int | None) -> None:
    """Take no note at all."""
