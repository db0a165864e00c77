"""Any source of an upstream tree, by one spelling."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree
from patchkit.upstream.archives import sdist_file_contents, wheel_file_contents
from patchkit.upstream.cache import Cache
from patchkit.upstream.packed import Contents, PackedFiles
from patchkit.upstream.pins import Artifact, Pins, normalise_version, parse_pins
from patchkit.upstream.progress import Progress, silent

if TYPE_CHECKING:
    from patchkit.upstream.index import Index

PINS_FILE = "upstream_pins.toml"
GIT_PREFIX = "git:"
_FORMS = "v0.29.0, a folder, a .whl, a .tar.gz or git:REPO@REF"


def shipped_pins() -> Pins:
    """Return the pins that come with patchkit."""
    here = Path(__file__).parent
    # in a wheel beside this module, in a checkout at the top
    for folder in (here, here.parent.parent):
        path = folder / PINS_FILE
        if path.is_file():
            return parse_pins(path.read_text(encoding="utf-8"), PINS_FILE)
    return Pins()


def open_tree(
    spec: str,
    *,
    pins: Pins | None = None,
    cache: Cache | None = None,
    index: Index | Callable[[], Index] | None = None,
    progress: Progress | None = None,
    distribution: str = "vllm",
) -> SourceTree:
    """Return the tree that a spelling names: a release, a folder, a wheel, an sdist, a git ref.

    A version is always a release, also where a folder has that name (`./v0.29.0` is the folder).
    The name of a pinned file is that file, whatever the rule among a release's wheels would take.
    An index that is made when it is called for costs nothing where the cache has the tree.
    """
    if spec.startswith(GIT_PREFIX):
        from patchkit.upstream.gitrepo import open_git_tree

        return open_git_tree(spec.removeprefix(GIT_PREFIX), cache or Cache(), progress or silent)
    pins = shipped_pins() if pins is None else pins
    cache = cache or Cache()
    path = Path(spec).expanduser()
    artifact, name = None, spec
    if spec.endswith((".whl", ".tar.gz")):
        if path.is_file():
            return _open_archive(path, cache, progress or silent)
        artifact = pins.artifact(spec)
    elif spec and not _is_version(spec) and path.is_dir():
        from patchkit.upstream.folder import open_folder

        return open_folder(path)
    elif "/" not in spec:
        release = pins.release(spec)
        artifact, name = release.choose(distribution), f"{distribution} {release.version}"
    if artifact is None:
        raise PatchkitError("there is nothing of that name", place=spec, expected=_FORMS)
    return _open_artifact(artifact, name, cache, index, progress or silent)


def _is_version(spec: str) -> bool:
    try:
        normalise_version(spec)
    except PatchkitError:
        return False
    return True


def _open_artifact(
    artifact: Artifact,
    name: str,
    cache: Cache,
    index: Index | Callable[[], Index] | None,
    progress: Progress,
) -> SourceTree:
    def build() -> Contents:
        # a warm cache needs no HTTP library, whose import takes longer than opening the tree
        from patchkit.upstream.fetch import artifact_contents
        from patchkit.upstream.index import Index

        found = index() if callable(index) else index or Index()
        return artifact_contents(artifact, found, cache, progress)

    # RECORD holds the digest of every file of the tree, so its own digest names the tree
    key = artifact.record_sha256 or artifact.sha256
    return _tree(cache.tree(key, build), name)


def _open_archive(path: Path, cache: Cache, progress: Progress) -> SourceTree:
    """Return the tree of an archive on this machine, cached under the archive's digest."""
    with path.open("rb") as file:
        key = hashlib.file_digest(file, "sha256").hexdigest()
    if path.suffix == ".whl":
        return _tree(cache.tree(key, lambda: wheel_file_contents(path)), str(path))
    return _tree(cache.tree(key, lambda: sdist_file_contents(path, progress)), str(path))


def _tree(files: PackedFiles, name: str) -> SourceTree:
    return SourceTree(files, MappingProxyType(files.modes), name, files.version)
