"""What a clean checkout holds, for machines to which files are copied without `.git`.

python -m patchkit.records.manifest > manifest.json
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from patchkit.errors import ExitCode, PatchkitError

SCHEMA = "patchkit.manifest/1"
# What Python and its tools leave behind; where there is git, .gitignore says so.
_LEFT_BEHIND = ("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis")
_LISTED = ("ls-files", "-v", "-z")


@dataclass(frozen=True)
class Manifest:
    """A commit, and the sha256 of each file that it tracks, by posix path."""

    commit: str
    files: Mapping[str, str]


def git(root: Path, *words: str) -> str | None:
    """Return what a git command prints; None where it fails or there is no git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="surrogateescape") if done.returncode == 0 else None


def has_git(root: Path) -> bool:
    """Return whether a folder is the top of a git work tree.

    A folder inside some other repository is none: its commit would say nothing of the files.
    """
    top = git(root, "rev-parse", "--show-toplevel")
    return top is not None and Path(top.rstrip("\n")).resolve() == root.resolve()


def is_within(path: str, sources: Iterable[str]) -> bool:
    """Return whether a posix path is one of the sources or lies in one."""
    parts = PurePosixPath(path).parts
    return any(
        parts[: len(within)] == within for within in (PurePosixPath(s).parts for s in sources)
    )


def walk(root: Path, source: str) -> Iterator[str]:
    """Yield the posix paths of the files of a source, without what Python leaves behind."""
    start = root / source
    found = [start] if start.is_file() else sorted(start.rglob("*"))
    for path in found:
        within = path.relative_to(root)
        if path.is_file() and not any(part in _LEFT_BEHIND for part in within.parts):
            yield within.as_posix()


def file_sha256(path: Path) -> str | None:
    """Return a file's sha256; None where it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def tracked_changes(root: Path, sources: Sequence[str]) -> list[str]:
    """Return what differs from the commit, as git's two letters and the path.

    Files that git does not track and does not ignore count within the sources only.
    """
    shown = ("--untracked-files=all", "--no-renames", "--ignore-submodules=none")
    text, listed = git(root, "status", "--porcelain=v1", "-z", *shown), git(root, *_LISTED)
    if text is None or listed is None:
        raise PatchkitError("git status fails", place=str(root))
    found = [entry for entry in text.split("\0") if entry]
    found = [e for e in found if not e.startswith("??") or is_within(e[3:], sources)]
    # what git was told to take for unchanged it does not look at
    unseen = [e for e in listed.split("\0") if e[:1].islower() or e[:1] == "S"]
    return [*found, *(e for e in unseen if (root / e[2:]).exists())]


def make_manifest(root: Path) -> Manifest:
    """Return the manifest of a clean checkout; what is not committed refuses it."""
    if not has_git(root):
        raise PatchkitError(
            "not the top folder of a git checkout", place=str(root),
            expected="the checkout that is to be copied",
        )  # fmt: skip
    if changed := tracked_changes(root, ()):
        raise dirty(root, changed)
    commit, names = git(root, "rev-parse", "HEAD"), git(root, "ls-files", "-z")
    assert commit is not None
    assert names is not None
    digests = {name: file_sha256(root / name) for name in names.split("\0") if name}
    return Manifest(commit.strip(), {n: d for n, d in sorted(digests.items()) if d is not None})


def dirty(root: Path, changed: Sequence[str]) -> PatchkitError:
    """Return the refusal of a tree that is not what was committed."""
    listed = ", ".join(entry.strip() for entry in changed[:5])
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return PatchkitError(
        f"the tree is not what was committed: {listed}{more}", place=str(root),
        expected="a clean tree, so that the record names the code that was measured",
        hint="commit, then measure",
    )  # fmt: skip


def format_manifest(manifest: Manifest) -> str:
    """Return a manifest as JSON text."""
    document = {"schema": SCHEMA, "commit": manifest.commit, "files": dict(manifest.files)}
    return json.dumps(document, indent=1) + "\n"


def read_manifest(path: Path) -> Manifest:
    """Return the manifest in a file."""
    expected = "what `python -m patchkit.records.manifest` prints"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise PatchkitError(f"cannot be read: {err}", place=str(path), expected=expected) from err
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise PatchkitError("is no manifest", place=str(path), expected=expected)
    commit, files = document.get("commit"), document.get("files")
    if not isinstance(commit, str) or not isinstance(files, dict) or not files:
        raise PatchkitError("names no commit or no files", place=str(path), expected=expected)
    return Manifest(commit, files)


def manifest_changes(root: Path, manifest: Manifest, sources: Sequence[str]) -> list[str]:
    """Return what a copied tree has otherwise than the manifest, letters and paths as git's.

    Files that the manifest does not name count within the sources only.
    """
    found = []
    for name, sha256 in manifest.files.items():
        there = file_sha256(root / name)
        if there != sha256:
            found.append(f" {'D' if there is None else 'M'} {name}")
    extra = {name for source in sources for name in walk(root, source)} - set(manifest.files)
    return [*found, *(f"?? {name}" for name in sorted(extra))]


def main() -> int:
    """Print the manifest of the checkout in the working folder; return the exit status."""
    try:
        print(format_manifest(make_manifest(Path.cwd())), end="")
    except PatchkitError as err:
        print(f"error: {err}", file=sys.stderr)
        return err.exit_code
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(main())
