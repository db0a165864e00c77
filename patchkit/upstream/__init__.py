"""Upstream trees: from the cache, the index, an archive, a folder or a git repository."""

from patchkit.upstream.cache import Cache
from patchkit.upstream.progress import Progress
from patchkit.upstream.source import open_tree, shipped_pins

__all__ = ["Cache", "Progress", "open_tree", "shipped_pins"]
