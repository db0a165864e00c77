"""Upstream trees: from the cache, the index, an archive, a folder or a git repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from patchkit.upstream.cache import Cache
    from patchkit.upstream.progress import Progress
    from patchkit.upstream.source import open_tree, shipped_pins

__all__ = ["Cache", "Progress", "open_tree", "shipped_pins"]

_HOMES = {"Cache": "cache", "Progress": "progress", "open_tree": "source", "shipped_pins": "source"}


def __getattr__(name: str) -> object:
    # What only says how versions are written must not wait for what reads archives.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"patchkit.upstream.{_HOMES[name]}"), name)
