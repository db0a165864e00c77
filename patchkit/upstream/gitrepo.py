"""The source tree of a commit in a git repository; the one module that knows GitPython."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from patchkit.errors import PatchkitError
from patchkit.tree import REGULAR, SourceTree
from patchkit.upstream.members import VERSION_FILE, is_text, parse_version

try:
    import git
except ImportError as err:  # GitPython looks for the program when it is imported
    raise PatchkitError("git is not installed", hint="install git, or give a folder") from err

_REGULAR_MODES = {"100644": REGULAR, "100755": 0o100755}


@dataclass(frozen=True)
class Blob:
    """One file of a commit."""

    object_id: str
    mode: int


class GitFiles(Mapping[str, bytes]):
    """The files of a commit, each read from the object database when it is asked for."""

    def __init__(
        self, repo: git.Repo, commit: str, blobs: Mapping[str, Blob], left_out: frozenset[str]
    ) -> None:
        self._repo, self._commit, self._blobs = repo, commit, blobs
        self.left_out = left_out

    def __getitem__(self, path: str) -> bytes:
        blob = self._blobs[path]
        try:
            content: bytes = self._repo.git.get_object_data(blob.object_id)[3]
        except (ValueError, OSError) as err:
            raise PatchkitError(
                f"{path}: object {blob.object_id} cannot be read", place=str(self._repo.git_dir)
            ) from err
        return content

    def __contains__(self, path: object) -> bool:
        return path in self._blobs

    def __iter__(self) -> Iterator[str]:
        return iter(self._blobs)

    def __len__(self) -> int:
        return len(self._blobs)

    def search(self, word: bytes) -> list[str]:
        """Return the paths of the files that hold a word."""
        if not word or set(word) & set(b"\n\0"):  # git looks for words within a line
            return [path for path in self._blobs if word in self[path]]
        options = ["-l", "-z", "-a", "-F", "--no-color", "--full-name", "-e", os.fsdecode(word)]
        try:
            found = self._repo.git.grep(*options, self._commit, stdout_as_string=False)
        except git.GitCommandError as err:
            if err.status == 1:  # nothing found
                return []
            raise
        start = len(self._commit) + 1
        paths = [os.fsdecode(row[start:]) for row in found.split(b"\0") if row]
        return [path for path in paths if path in self._blobs]


def open_git_tree(spec: str) -> SourceTree:
    """Return the tree of `REPO@REF`, or of HEAD where no ref is given.

    The repository is the one that lies at REPO, bare or not, whatever the working directory or
    GIT_DIR say. Links and submodules are no part of the tree.
    """
    path, ref = _split(spec)
    repo = _open_repo(path)
    commit = _resolve(repo, path, ref)
    listing = repo.git.ls_tree("-r", "-z", "--long", commit, stdout_as_string=False)
    blobs: dict[str, Blob] = {}
    left_out: set[str] = set()
    for row in listing.split(b"\0"):
        if not row:
            continue
        head, _, name = row.partition(b"\t")
        mode, _, object_id, size = head.decode().split()
        file = os.fsdecode(name)
        if mode not in _REGULAR_MODES:
            continue
        if is_text(file, int(size)):
            blobs[file] = Blob(object_id, _REGULAR_MODES[mode])
        else:
            left_out.add(file)
    modes = {file: blob.mode for file, blob in blobs.items() if blob.mode != REGULAR}
    files = GitFiles(repo, commit, blobs, frozenset(left_out))
    version = parse_version(files.get(VERSION_FILE))
    return SourceTree(files, MappingProxyType(modes), f"git:{path}@{ref}", version)


def _split(spec: str) -> tuple[Path, str]:
    """Return repository and ref; both may hold an @, so the repository is what exists."""
    whole = Path(spec).expanduser()
    if whole.exists():
        return whole, "HEAD"
    parts = spec.split("@")
    for count in range(1, len(parts)):
        path = Path("@".join(parts[:count])).expanduser()
        if path.exists():
            return path, "@".join(parts[count:]) or "HEAD"
    raise PatchkitError(
        "there is no repository",
        place=spec,
        expected="REPO@REF with the path of a repository",
        hint="clone it first" if "://" in spec else None,
    )


def _open_repo(path: Path) -> git.Repo:
    try:
        repo = git.Repo(path, search_parent_directories=False, expand_vars=False)
    except (git.InvalidGitRepositoryError, git.NoSuchPathError) as err:
        raise PatchkitError(
            "is not a git repository",
            place=str(path),
            expected="the top of a work tree, or a bare repository",
        ) from err
    # A hook, or a shell inside another repository, may have set these for that one.
    repo.git.update_environment(
        GIT_DIR=str(Path(repo.git_dir).absolute()),
        GIT_COMMON_DIR=str(Path(repo.common_dir).absolute()),
        GIT_OBJECT_DIRECTORY=str(Path(repo.common_dir, "objects").absolute()),
    )
    return repo


def _resolve(repo: git.Repo, path: Path, ref: str) -> str:
    """Return the id of the commit that a ref names."""
    try:
        options = ["--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"]
        return str(repo.git.rev_parse(*options))
    except git.GitCommandError as err:
        if err.status != 1 and "dubious" in str(err.stderr):
            raise PatchkitError(str(err.stderr).strip(), place=str(path)) from err
        names = repo.git.for_each_ref("--format=%(refname:short)").split("\n")
        near = difflib.get_close_matches(ref, names, n=3, cutoff=0.4)
        raise PatchkitError(
            f"there is no commit {ref!r}",
            place=str(path),
            hint=f"near: {', '.join(near)}" if near else "fetch it first",
        ) from err
