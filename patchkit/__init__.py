"""patchkit: keeps patches on vLLM alive.

The library's door is `port`: it moves plain patches from one tree to another and says, hunk by
hunk, what became of each. Everything else is for the command line and lives in its modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError

if TYPE_CHECKING:
    from patchkit.outcome import HunkOutcome, Status
    from patchkit.stacking.rebase import RebaseResult, port
    from patchkit.tree import SourceTree

__all__ = ["HunkOutcome", "PatchkitError", "RebaseResult", "SourceTree", "Status", "port"]

_HOMES = {
    "HunkOutcome": "patchkit.outcome",
    "Status": "patchkit.outcome",
    "RebaseResult": "patchkit.stacking.rebase",
    "port": "patchkit.stacking.rebase",
    "SourceTree": "patchkit.tree",
}


def __getattr__(name: str) -> object:
    # The engine is loaded when first used: `patchkit --help` must not wait for it.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
