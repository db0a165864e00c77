from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run, where
from patchkit.diff import diff_files, format_files
from patchkit.errors import PatchkitError, UsageError
from patchkit.tree import SourceTree
from patchkit.upstream.pins import Pins, Release
from tests.moves import diff

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]

PATH = "vllm/config/cache.py"
BASE = (
    "import math\n\n\ndef size(blocks):\n    return blocks * 16\n\n\ndef count():\n    return 1\n"
)
AUTHORED = BASE.replace("* 16", "* 32").replace("return 1\n", "return 2\n")
ONE = BASE.replace("* 16", "* 32")
RELEASES = {
    "0.26.0": {"vllm/other.py": "x = 1\n"},
    "0.27.0": {PATH: "import sys\n" + BASE},
    "0.28.0": {PATH: BASE},
    "0.29.0": {PATH: "import sys\n" + BASE.replace("* 16", "<< 4")},
    "0.30.0": {PATH: AUTHORED},
    "0.31.0": {PATH: ONE + "\n\nlast = 1\n"},
    "0.32.0": None,
}
CONTEXT = 1


def patch(new: str = AUTHORED, old: str = BASE) -> bytes:
    return diff(old, new, PATH, CONTEXT)


@pytest.fixture(autouse=True)
def _releases(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    trees = {
        version: SourceTree({p: t.encode() for p, t in files.items()}, name=version)
        for version, files in RELEASES.items()
        if files is not None
    }
    trees["../vllm"] = SourceTree({PATH: b"import os\n" + BASE.encode()}, name="../vllm")

    def opener(*_: object) -> Callable[[str], SourceTree]:
        def opened(spec: str) -> SourceTree:
            if spec not in trees:
                raise PatchkitError("no answer: timed out", place="the index")
            return trees[spec]

        return opened

    pins = Pins(tuple(Release(version, ()) for version in RELEASES))
    monkeypatch.setattr(where, "tree_opener", opener)
    monkeypatch.setattr(where, "read_pins", lambda _: pins)
    (folder / "fix.patch").write_bytes(patch())


def test_each_release_is_a_line(capsys: Out) -> None:
    assert run(["where", "fix.patch"]) == 3  # one cannot be opened
    assert capsys.readouterr().out == (
        "base 0.28.0: every hunk applies at its own line\n"
        "  every hunk applies, too: 0.27.0\n"
        "release  verdict         placed upstream open  what is in the way first\n"
        "0.26.0   orphaned             0        0    2  #1 `size` is not in the target...\n"
        "0.27.0   clean                2        0    0\n"
        "0.28.0   base                 2        0    0\n"
        "0.29.0   conflicts            1        0    1  #1 the lines that it changes i...\n"
        "0.30.0   upstream             0        2    0\n"
        "0.31.0   partly upstream      1        1    0\n"
        "0.32.0   unavailable                           no answer: timed out (the index)\n"
        "2 hunks, 7 releases: 1 orphaned, 2 clean, 1 conflicts, 1 upstream, 1 partly upstream, "
        "1 unavailable\n"
        "note: not looked at for the base: 0.32.0: no answer: timed out (the index)\n"
    )


def test_no_line_of_the_table_is_longer_than_a_terminal_is_wide(capsys: Out) -> None:
    run(["where", "fix.patch"])
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if line[:1].isdigit() and "hunks" not in line) <= 80


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_it_is_a_table_of_one_line_a_release(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    run(["where", "fix.patch"])
    lines = terminal.getvalue().splitlines()
    table = lines[4:-2]
    assert max(map(len, table)) <= columns
    assert [line.split()[0] for line in table] == list(RELEASES)
    assert lines[2].split()[:5] == ["release", "verdict", "placed", "upstream", "open"]
    assert table[3].split()[:6] == ["0.29.0", "conflicts", "1", "0", "1", "#1"]
    assert table[3].rstrip().endswith("…")


def report(capsys: Out, check: Check) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(document)
    return document


def test_the_report_is_what_its_schema_says(capsys: Out, check: Check) -> None:
    assert run(["where", "fix.patch", "--json", "--releases", ">=0.28,<0.31"]) == 0
    document = report(capsys, check)
    assert document["base"] == {
        "name": "0.28.0",
        "proof": "lines",
        "text": "every hunk applies at its own line",
        "alike": [],
        "as_well": ["0.27.0"],
    }
    assert (document["ok"], document["nearest"], document["hunks"]) == (True, None, 2)
    rows = document["releases"]
    assert [(row["release"], row["verdict"], row["base"], row["lands"]) for row in rows] == [
        ("0.28.0", "clean", True, True),
        ("0.29.0", "conflicts", False, False),
        ("0.30.0", "upstream", False, True),
    ]
    assert rows[1]["counts"] == {
        "placed": 1,
        "already_upstream": 0,
        "partly_upstream": 0,
        "conflicted": 1,
        "orphaned": 0,
        "blocked": 0,
    }
    assert (rows[1]["fit"]["applying"], rows[1]["fit"]["lines_off"]) == (1, 1)
    assert [hunk["present"] for hunk in rows[2]["fit"]["hunks"]] == [True, True]
    assert [outcome["status"] for outcome in rows[1]["outcomes"]] == ["conflicted", "placed"]


def test_a_release_that_cannot_be_opened_is_reported_as_such(capsys: Out, check: Check) -> None:
    assert run(["where", "fix.patch", "--json"]) == 3
    row = report(capsys, check)["releases"][-1]
    assert (row["verdict"], row["fit"], row["outcomes"]) == ("unavailable", None, [])
    assert (row["lands"], row["reason"]) == (False, "no answer: timed out (the index)")


@pytest.mark.parametrize(
    ("releases", "status", "said"),
    [
        ("0.27,0.28", 0, ""),
        ("0.30.0", 0, ""),
        ("0.31.0", 0, ""),
        ("0.28,v0.29.0", 3, "does not land as it is on 0.29.0\n"),
    ],
)
def test_a_patch_can_be_required_to_land(
    releases: str, status: int, said: str, capsys: Out
) -> None:
    assert run(["where", "fix.patch", "--releases", releases]) == 0
    capsys.readouterr()
    assert run(["where", "fix.patch", "--releases", releases, "--must-land"]) == status
    assert capsys.readouterr().out.endswith(f"\n{said}" if said else "(the index)\n")


def test_the_evidence_is_given_for_what_is_not_clean(capsys: Out) -> None:
    assert run(["where", "fix.patch", "--why", "--releases", "0.28.0,0.29.0,0.32.0"]) == 3
    out = capsys.readouterr().out
    start = out.index("0.29.0: conflicts\n")
    assert out[start:] == (
        "0.29.0: conflicts\n"
        "  fix.patch:1: conflicted\n"
        "    from       vllm/config/cache.py, size\n"
        "    open       the lines that it changes in `size`, or those next to them, "
        "changed upstream\n"
        "    clash      upstream changed the same statement, otherwise: "
        "vllm/config/cache.py:6 size\n"
        "    base       return blocks * 16\n"
        "    target     return blocks << 4\n"
        "    patch      return blocks * 32\n"
        "    rejected   offset: its 3 old lines stand nowhere in the file as they are\n"
        "               merge3: line 5 of the base, `return blocks * 16`, has no counterpart "
        "in its place\n"
        "    look at    vllm/config/cache.py:5 size\n"
        "  placed: fix.patch:2\n"
        "0.32.0: unavailable\n"
        "  no answer: timed out (the index)\n"
        "2 hunks, 3 releases: 1 clean, 1 conflicts, 1 unavailable\n"
        "note: not looked at for the base: 0.32.0: no answer: timed out (the index)\n"
    )


def test_a_patch_that_fits_no_release_says_which_come_near(
    folder: Path, capsys: Out, check: Check
) -> None:
    (folder / "late.patch").write_bytes(
        patch(ONE.replace("return 1", "return 2"), ONE)
        + diff("y = 1\n", "y = 2\n", "vllm/never.py")
    )
    assert run(["where", "late.patch", "--releases", "0.30.0,0.31.0", "--why"]) == 3
    assert capsys.readouterr().out == (
        "fits no release: the most hunks, 1 of 2, fit 0.27.0 to 0.31.0\n"
        "hint: --base names what it was made on: a folder, or a commit as git:REPO@REF\n"
        "release  verdict         applies    there neither  what is in the way first\n"
        "0.30.0   never fitted         0        1    1  #2 vllm/never.py: file to modi...\n"
        "0.31.0   never fitted         1        0    1  #2 vllm/never.py: file to modi...\n"
        "0.30.0: never fitted\n"
        "  late.patch:1: vllm/config/cache.py: the tree has the hunk's result\n"
        "  late.patch:2: vllm/never.py: file to modify is not there\n"
        "0.31.0: never fitted\n"
        "  late.patch:1: applies\n"
        "  late.patch:2: vllm/never.py: file to modify is not there\n"
        "2 hunks, 2 releases: 2 never fitted\n"
        "note: not looked at for the base: 0.32.0: no answer: timed out (the index)\n"
    )
    assert run(["where", "late.patch", "--json"]) == 3
    document = report(capsys, check)
    assert document["base"] is None
    assert document["nearest"]["releases"] == ["0.27.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0"]


def test_the_base_can_be_a_folder(capsys: Out, folder: Path) -> None:
    (folder / "late.patch").write_bytes(patch("import os\n" + AUTHORED, "import os\n" + BASE))
    assert run(["where", "late.patch", "--base", "../vllm", "--releases", "0.28.0"]) == 0
    assert capsys.readouterr().out == (
        "base ../vllm: as given\n"
        "release  verdict         placed upstream open  what is in the way first\n"
        "0.28.0   clean                2        0    0\n"
        "2 hunks, 1 release: 1 clean\n"
    )


def test_a_base_that_is_a_release_is_marked_in_the_table(capsys: Out) -> None:
    assert run(["where", "fix.patch", "--base", "v0.27", "--releases", "0.27.0"]) == 0
    assert capsys.readouterr().out.splitlines()[2] == (
        "0.27.0   base                 2        0    0"
    )


def test_standard_input_is_a_patch(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(patch())))
    assert run(["where", "-", "--releases", "0.28.0"]) == 0
    assert capsys.readouterr().out.startswith("base 0.28.0: ")


def test_several_files_are_a_series(folder: Path, capsys: Out) -> None:
    (folder / "1.patch").write_bytes(patch(ONE))
    (folder / "2.patch").write_bytes(patch(AUTHORED, ONE))
    assert run(["where", "1.patch", "2.patch", "--releases", "0.28.0,0.29.0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:-1] == [
        "0.28.0   base                 2        0    0",
        "0.29.0   conflicts            1        0    1  1.patch#1 the lines that it ch...",
        "2 hunks, 2 releases: 1 clean, 1 conflicts",
    ]


def test_sections_that_no_wheel_holds_are_named(folder: Path, capsys: Out) -> None:
    (folder / "both.patch").write_bytes(patch() + diff("a\n", "b\n", "csrc/x.cu"))
    assert run(["where", "both.patch", "--releases", "0.28.0"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "note: both.patch: csrc/x.cu is built from source; it was not looked at"
    )


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "odd.patch:1: file is empty, expected a unified diff"),
        (b"hello\n", "odd.patch:1: no patch found, expected a unified diff"),
        (
            patch().rsplit(b"\n", 2)[0] + b"\n",
            "odd.patch:8: hunk has 1 new lines, header says 2",
        ),
        (
            diff("a\n", "b\n", "docs/x.md"),
            "odd.patch:1: changes only files that are built from source or not shipped: "
            "docs/x.md, expected a file that the package holds",
        ),
        (
            b"diff --git a/vllm/l.png b/vllm/l.png\nindex 1234567..89abcde 100644\n"
            b"Binary files a/vllm/l.png and b/vllm/l.png differ\n",
            "odd.patch:1: binary change of vllm/l.png cannot be applied",
        ),
        (
            b"--- a/vllm/config/cache.py\n+++ b/vllm/config/cache.py\n@@ -3,0 +4 @@\n+x = 1\n",
            "odd.patch:3: hunk 1 has no context: by its line number alone it fits 0.27.0 to "
            "0.31.0, which differ in vllm/config/cache.py",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(
    data: bytes, said: str, folder: Path, capsys: Out
) -> None:
    (folder / "odd.patch").write_bytes(data)
    assert run(["where", "odd.patch"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == f"error: {said}"


def test_a_new_file_fits_all_and_says_so(folder: Path, capsys: Out) -> None:
    added = format_files(diff_files({}, {"vllm/new.py": b"x = 1\n"}))
    (folder / "new.patch").write_bytes(added)
    assert run(["where", "new.patch", "--releases", "<0.32"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "base 0.31.0: no line of a file is in the patch that says what it was made on",
        "  just as well: 0.26.0 to 0.30.0",
    ]


def test_a_file_that_is_fetched_is_said(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    def opener(_: object, progress: Callable[[str, int, int | None], None]) -> object:
        def opened(spec: str) -> SourceTree:
            for done in (1, 2):
                progress(f"vllm-{spec}.whl", done, 2)
            return SourceTree({PATH: BASE.encode()}, name=spec)

        return opened

    monkeypatch.setattr(where, "tree_opener", opener)
    assert run(["where", "fix.patch", "--releases", "0.28.0,0.29.0"]) == 0
    assert capsys.readouterr().err.splitlines()[:2] == [
        "fetching vllm-0.28.0.whl",
        "fetching vllm-0.29.0.whl",
    ]


# Which releases ----------------------------------------------------------------------------------

PINS = Pins(tuple(Release(version, ()) for version in ("0.27.0", "0.27.1", "0.28.0", "0.29.0")))


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (None, ("0.27.0", "0.27.1", "0.28.0", "0.29.0")),
        (">=0.27.1,<0.29", ("0.27.1", "0.28.0")),
        ("==0.27.*", ("0.27.0", "0.27.1")),
        ("v0.29.0, 0.27", ("0.27.0", "0.29.0")),
        ("0.28.0", ("0.28.0",)),
    ],
)
def test_releases_are_a_range_or_names(text: str | None, chosen: tuple[str, ...]) -> None:
    assert where.choose_releases(text, PINS) == chosen


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (
            "newest",
            "--releases: 'newest' is neither a range nor a list of releases, "
            "expected '>=0.25,<0.30' or 0.25.0,0.28.0",
            None,
        ),
        (
            "0.28,>=0.29",
            "--releases: '0.28,>=0.29' is neither a range nor a list of releases, "
            "expected '>=0.25,<0.30' or 0.25.0,0.28.0",
            None,
        ),
        (">=1", "--releases: no pinned release is in '>=1'", "pinned are 0.27.0 to 0.29.0"),
        ("", "--releases: no pinned release is in ''", "pinned are 0.27.0 to 0.29.0"),
    ],
)
def test_releases_that_are_none_are_usage(text: str, said: str, hint: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        where.choose_releases(text, PINS)
    assert (str(caught.value), caught.value.hint) == (said, hint)


def test_a_file_that_is_given_twice_is_a_mistake(capsys: Out) -> None:
    assert run(["where", "fix.patch", "fix.patch"]) == 2
    assert "error: patchkit where: fix.patch is given twice\n" in capsys.readouterr().err
