"""More than 300 damaged or odd patch files: read whole, or refused with a place; never less."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.diff import apply_patch, parse_patch
from patchkit.diff.roots import classify
from patchkit.profile import Section
from patchkit.series.series import read_series
from patchkit.tree import SourceTree
from tests.adopting.judge import changed_lines
from tests.adopting.odd_files import RELEASES, SOUND, odd_files

Out = pytest.CaptureFixture[str]
ODD = dict(odd_files())
PLACE = re.compile(r"(odd\.patch|commit)[^:]*:\d+")
SAID = ("left out", "passed over", "dropped", "converted", "kept as it is")


def call(args: list[str], out: Out) -> dict[str, Any]:
    """Return the document of a command that did not end in a bug."""
    status = run([*args, "--json"])
    text, err = out.readouterr()
    assert err == "", f"{args}: {err}"
    document: dict[str, Any] = json.loads(text)
    assert status == document["exit_code"] in (0, 1, 3)
    return document


def left(folder: Path) -> list[str]:
    found = [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]
    return sorted(name for name in found if not name.startswith(".patchkit/"))


def stored(folder: Path, document: dict[str, Any]) -> tuple[list[bytes], SourceTree]:
    """Return the lines of what is stored, and the release with it applied at its own lines."""
    place = folder / document["path"]
    files = {path.name: path.read_bytes() for path in place.iterdir()}
    series = read_series(files, version=document["release"])
    tree = RELEASES[document["release"]]
    lines: list[bytes] = []
    for name, data in series.patches.items():
        patch = parse_patch(data, name)
        shipped = tuple(f for f in patch.files if classify(f.path) is Section.SHIPPED)
        tree = apply_patch(type(patch)(name, b"", shipped), tree)
        lines += data.split(b"\n")
    return [line.rstrip(b"\r") for line in lines], tree


def lost(data: bytes, lines: list[bytes], tree: SourceTree) -> list[bytes]:
    """Return the changed lines of a patch file that are neither stored nor done and undone."""
    named = changed_lines(data)
    kept, told = set(lines), {line.strip() for line in lines}
    texts = {line.rstrip(b"\r\n") for text in tree.files.values() for line in text.split(b"\n")}

    def is_kept(line: bytes) -> bool:
        undone = (b"-" if line[:1] == b"+" else b"+") + line[1:]
        both = undone in named and (line[1:] in texts) == (undone[1:] in texts)
        return line in kept or both or line.strip() in told

    return [line for line in named if not is_kept(line)]


def notes(document: dict[str, Any]) -> str:
    return "\n".join(note for patch in document["patches"] for note in patch["notes"])


def import_odd(data: bytes, folder: Path, out: Out) -> str:
    """Import a file, hold what came of it against the judge, and return how it ended."""
    (folder / "odd.patch").write_bytes(data)
    document = call(["import", "odd.patch"], out)
    if not document.get("ok"):
        assert left(folder) == ["odd.patch"], "something was written"
        if document["schema"] == "patchkit.error/1":
            assert PLACE.match(document["place"] or ""), document
            return "refused"
        assert document["exit_code"] == 3
        still = [hunk for row in document["releases"] for hunk in row["open"]]
        assert all(hunk["reason"] and PLACE.match(hunk["place"]) for hunk in still)
        assert document["lost"] or any(row["reason"] for row in document["releases"])
        return "fits nothing"
    lines, tree = stored(folder, document)
    missing = lost(data, lines, tree)
    assert not missing or any(word in notes(document) for word in SAID), missing
    return "stored"


def port_odd(data: bytes, folder: Path, out: Out) -> str:
    (folder / "odd.patch").write_bytes(data)
    args = ["port", "odd.patch", "--base", "0.28.0", "--target", "0.27.0", "--output", "moved"]
    document = call(args, out)
    if document["schema"] == "patchkit.error/1":
        assert PLACE.match(document["place"] or ""), document
    assert (folder / "moved").exists() == bool(document.get("ok"))
    return "done" if document.get("ok") else "not done"


def test_there_are_more_than_300_of_them_and_they_differ() -> None:
    assert len(ODD) > 500
    assert len(set(ODD.values()) - set(SOUND.values())) > 300


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_is_stored_whole(name: str, folder: Path, capsys: Out) -> None:
    assert import_odd(SOUND[name], folder, capsys) == "stored"
    lines, tree = stored(folder, {"path": "patches/v0.28.0", "release": "0.28.0"})
    assert lost(SOUND[name], lines, tree) == []
    assert b"\n@@ " in b"\n".join(lines)


# How each command ends at least: what it is run by, and how often it has to end how.
WAYS: tuple[tuple[Callable[[bytes, Path, Out], str], dict[str, int]], ...] = (
    (import_odd, {"stored": 2, "refused": 5}),
    (port_odd, {"done": 2, "not done": 5}),
)


@pytest.mark.parametrize(("run_odd", "least"), WAYS, ids=("import", "port"))
@pytest.mark.parametrize("sound", SOUND)
@pytest.mark.usefixtures("folder")
def test_what_is_odd_is_read_whole_or_refused(
    run_odd: Callable[[bytes, Path, Out], str],
    least: dict[str, int],
    sound: str,
    tmp_path: Path,
    capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: Counter[str] = Counter()
    for number, (name, data) in enumerate(ODD.items()):
        if not name.startswith(f"{sound}, "):
            continue
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        try:
            ends[run_odd(data, place, capsys)] += 1
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
    assert {end: ends[end] for end in least if ends[end] < least[end]} == {}
