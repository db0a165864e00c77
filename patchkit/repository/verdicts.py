"""The verdicts that a repository keeps, and whether each still speaks of what is there."""

from __future__ import annotations

from pathlib import Path

from patchkit.diff.header import TEST_NAME, is_test, parse_header
from patchkit.diff.parse import parse_patch
from patchkit.errors import PatchkitError
from patchkit.repository.store import Stored
from patchkit.repository.workspace import read_file
from patchkit.series.proof_digest import digest_patches, digest_tests
from patchkit.series.verdict import VERDICTS, StoredVerdict, parse_verdicts

CONFTEST = "conftest.py"


def verdicts_path(root: Path, folder: str) -> Path:
    """Return the file that holds the verdicts on the patches of a series folder."""
    return root / folder / VERDICTS


def read_verdicts(root: Path, folder: str) -> tuple[StoredVerdict, ...]:
    """Return the verdicts of a series folder; none where there is no file."""
    path = verdicts_path(root, folder)
    return parse_verdicts(read_file(path), f"{folder}/{VERDICTS}") if path.exists() else ()


def named_tests(data: bytes, place: str) -> tuple[str, ...]:
    """Return the tests that a patch's header names; raises PatchkitError for what is no test."""
    header = parse_header(parse_patch(data, place).preamble, place)
    for name in header.tests:
        if not is_test(name):
            found = header.find("Test")
            raise PatchkitError(
                f"Test names {name!r}",
                place=f"{place}:{found.lineno if found else 1}",
                expected="a file in the repository, and what in it: tests/test_kv.py::test_pages",
            )
    return header.tests


def read_tests(root: Path, names: tuple[str, ...], place: str) -> dict[str, bytes]:
    """Return the files that named tests are in, and a conftest.py beside one.

    Raises PatchkitError for a file that is not there; `place` is the patch that names it.
    """
    files: dict[str, bytes] = {}
    for name in names:
        match = TEST_NAME.fullmatch(name)
        assert match is not None
        path = root / match["path"]
        if not path.is_file():
            raise PatchkitError(
                f"names the test {match['path']}, and there is no such file", place=place
            )
        files[match["path"]] = path.read_bytes()
        beside = path.with_name(CONFTEST)
        if beside.is_file():
            files[beside.relative_to(root).as_posix()] = beside.read_bytes()
    return files


def with_dependencies(stored: Stored, patch: str) -> tuple[str, ...]:
    """Return a patch's name, last, behind those of the same series that it depends on.

    What it depends on in another series folder is there already: series compose in order.
    """
    patches = stored.series.patches
    wanted, queue = {patch}, [patch]
    while queue:
        name = queue.pop()
        header = parse_header(parse_patch(patches[name], name).preamble, f"{stored.place}/{name}")
        for word in header.depends_on:
            own = word.removeprefix(f"{stored.folder}/")
            more = [n for n in patches if own in (n, n.removesuffix(".patch")) and n not in wanted]
            wanted.update(more)
            queue += more
    return (*(name for name in patches if name in wanted and name != patch), patch)


def source_digest(stored: Stored, patch: str) -> str:
    """Return the digest of a stored patch with what it depends on, and the series' new files."""
    chosen = with_dependencies(stored, patch)
    patches = ((name, stored.series.patches[name]) for name in chosen)
    return digest_patches(patches, stored.series.overlay)


def is_fresh(root: Path, stored: Stored, verdict: StoredVerdict) -> bool:
    """Return whether a verdict was made from this stored patch and the tests that it names now."""
    data = stored.series.patches.get(verdict.patch)
    if data is None:
        return False
    place = f"{stored.place}/{verdict.patch}"
    names = named_tests(data, place)
    if source_digest(stored, verdict.patch) not in (verdict.patch_sha256, verdict.moved_sha256):
        return False
    try:
        files = read_tests(root, names, place)
    except PatchkitError:  # a test that has gone proves nothing any more
        return False
    return digest_tests(names, files) == verdict.test_sha256
