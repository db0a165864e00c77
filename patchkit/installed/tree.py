"""The source tree of an installed package, each file read when it is asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from patchkit.errors import PatchkitError
from patchkit.installed.site import Site
from patchkit.tree import PYTHON, REGULAR, SourceTree
from patchkit.upstream.members import VERSION_FILE, git_mode, is_skipped, is_text, parse_version


class InstalledFiles(Mapping[str, bytes]):
    """The files below the package's folder; `left_out` are those that are no text.

    `sizes` and `modes` are by path, `left_sizes` those of what is left out, in bytes.

    A link to a file is that file, as it is for Python: uv can install links into its cache. A link
    to a folder is not followed.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self.sizes: dict[str, int] = {}
        self.modes: dict[str, int] = {}
        self.left_sizes: dict[str, int] = {}
        for path, status in _walk(str(site.root / site.package), site.package):
            if is_text(path, status.st_size):
                self.sizes[path] = status.st_size
                self.modes[path] = status.st_mode
            else:
                self.left_sizes[path] = status.st_size
        self.left_out = frozenset(self.left_sizes)

    def __getitem__(self, path: str) -> bytes:
        if path not in self.sizes:
            raise KeyError(path)
        content = self.site.read(path)
        if content is None:
            raise PatchkitError("went away while it was read", place=str(self.site.root / path))
        return content

    def __contains__(self, path: object) -> bool:
        return path in self.sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self.sizes)

    def __len__(self) -> int:
        return len(self.sizes)

    def search(self, word: bytes, *, python: bool = False) -> list[str]:
        """Return the paths of the files, or of the Python files alone, that hold a word."""
        paths = [path for path in self.sizes if path.endswith(PYTHON) or not python]
        return [path for path in paths if word in self[path]]


def installed_tree(site: Site) -> SourceTree:
    """Return the package's tree; its version is what `_version.py` assigns, else METADATA's."""
    files = InstalledFiles(site)
    modes = {path: git_mode(mode) for path, mode in files.modes.items()}
    odd = {path: mode for path, mode in modes.items() if mode != REGULAR}
    version = parse_version(files.get(VERSION_FILE)) or site.version
    return SourceTree(files, MappingProxyType(odd), site.place, version)


def _walk(folder: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield path and status of the files below a folder, in a stable order."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as err:
        raise PatchkitError(f"cannot be read: {err.strerror}", place=folder) from err
    for entry in entries:
        path = f"{prefix}/{entry.name}"
        if is_skipped(path):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, path)
            continue
        try:
            status = entry.stat()
        except OSError:  # a link that leads nowhere
            continue
        if stat.S_ISREG(status.st_mode):
            yield path, status
