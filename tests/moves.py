"""One patch moved from a small base to a small target, as most tests of placing need it."""

from __future__ import annotations

from difflib import unified_diff

import patchkit
from patchkit import RebaseResult

PATH = "vllm/mod.py"


def diff(old: str, new: str, path: str = PATH, context: int = 3) -> bytes:
    """Return the patch between two texts of one file."""
    lines = unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
        n=context,
    )
    return "".join(lines).encode()


def move(base: str, authored: str, target: dict[str, str] | str) -> RebaseResult:
    """Return a patch of `PATH` moved to a target: its text, or the texts of several files."""
    goal = {PATH: target} if isinstance(target, str) else target
    files = {path: content.encode() for path, content in goal.items()}
    return patchkit.port([diff(base, authored)], {PATH: base.encode()}, files)
