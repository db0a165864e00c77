"""Writes a release's text files into a folder: `python -m tests.engine.lay_out v0.28.0 DIR`."""

from __future__ import annotations

import sys
from pathlib import Path

from patchkit.upstream import open_tree


def lay_out(release: str, folder: Path) -> None:
    """Write every file of the release's tree below `folder`, unless it is there already."""
    tree = open_tree(release)
    for path, content in tree.files.items():
        target = folder / path
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)


if __name__ == "__main__":
    lay_out(sys.argv[1], Path(sys.argv[2]))
