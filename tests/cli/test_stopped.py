"""A rebase that has stopped: its status, its note, and what git shows of the files to edit."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from patchkit.cli import run
from tests.cli.test_rebase import (
    AUTHORED,
    BASE,
    CHANGED,
    OTHER,
    PAGES,
    Check,
    Out,
    Trees,
    files,
    patch,
    report,
    tree,
    write,
)

BOTH = {**CHANGED, PAGES: CHANGED[PAGES].replace(b"size / 16", b"size >> 4")}
LIMIT = {PAGES: AUTHORED[PAGES].replace(b"size / 16", b"size / 32")}
FIRST = BOTH[PAGES].replace(b"blocks << 4", b"(blocks << 4) + 1")
COPY = f".patchkit/rebase/files/{PAGES}"


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return a repository with three patches on 0.28.0, two of which conflict on 0.30.0."""
    trees["v0.28.0"] = tree("0.28.0", BASE)
    trees["v0.30.0"] = tree("0.30.0", BOTH)
    write(folder, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches"]\n')
    write(folder, "patches/v0.28.0/series", b"pages.patch\nother.patch\nlimit.patch\n")
    write(folder, "patches/v0.28.0/pages.patch", patch(BASE, AUTHORED))
    other = {OTHER: BASE[OTHER].replace(b"3", b"4")}
    write(folder, "patches/v0.28.0/other.patch", patch(BASE, other))
    write(folder, "patches/v0.28.0/limit.patch", patch(AUTHORED, LIMIT))
    return folder


def alone(store: Path) -> None:
    """Keep the first patch alone."""
    write(store, "patches/v0.28.0/series", b"pages.patch\n")
    for name in ("other", "limit"):
        (store / f"patches/v0.28.0/{name}.patch").unlink()


def git(folder: Path, *args: str) -> str:
    """Return what git prints in a folder, without any configuration of the user's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    env = {**kept, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", *args], cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Status ------------------------------------------------------------------------------------------


def test_status_without_a_stopped_rebase_says_so(store: Path, capsys: Out, check: Check) -> None:
    before = files(store)
    assert run(["rebase", "--status", "--json"]) == 0
    assert report(capsys, check)["stopped"] is None
    assert run(["rebase", "--status"]) == 0
    assert capsys.readouterr().out == "no rebase has stopped here\n"
    assert files(store) == before


def test_status_says_what_is_open_and_edited_and_what_is_to_come(
    store: Path, capsys: Out, check: Check
) -> None:
    run(["rebase", "v0.30.0"])
    capsys.readouterr()
    assert run(["rebase", "--status"]) == 0
    assert capsys.readouterr().out == (
        "stopped at patches/pages.patch, on the way from v0.28.0 to v0.30.0\n"
        "  hunk 1: conflicted: vllm/pages.py size\n"
        f"  untouched: {COPY}\n"
        ".patchkit/rebase/pages.patch.conflict.md says why\n"
        "still to come: patches/limit.patch, hunk 1: conflicted: vllm/pages.py count\n"
        '  patchkit rebase --continue --reason "why"  goes on with your edit\n'
        "  patchkit rebase --skip --yes               leaves the patch out\n"
        "  patchkit rebase --abort                    forgets the attempt\n"
    )
    write(store, COPY, FIRST)
    write(store, ".patchkit/rebase/files/notes.txt", b"mine")
    for _ in range(2):
        assert run(["rebase", "--status", "--json"]) == 0
        stopped = report(capsys, check)["stopped"]
        assert stopped["files"] == [{"edit": COPY, "path": PAGES, "hunks": [1], "state": "edited"}]
        assert stopped["strays"] == [".patchkit/rebase/files/notes.txt"]
        assert [(e["patch"], e["hunk"]) for e in stopped["later"]] == [("limit.patch", 1)]
    (store / COPY).unlink()
    run(["rebase", "--status"])
    assert f"  removed: {COPY}\n" in capsys.readouterr().out


def test_status_says_what_is_settled_and_skipped(store: Path, capsys: Out, check: Check) -> None:
    run(["rebase", "v0.30.0"])
    write(store, COPY, FIRST)
    run(["rebase", "--continue", "--reason", "shifts now"])
    capsys.readouterr()
    run(["rebase", "--status", "--json"])
    stopped = report(capsys, check)["stopped"]
    assert stopped["settled"] == [
        {
            "series": "patches",
            "patch": "pages.patch",
            "hunks": [1],
            "by": "edit",
            "reason": "shifts now",
        }
    ]
    assert (stopped["skipped"], stopped["later"]) == ([], [])
    run(["rebase", "--abort"])
    (store / "patches/resolutions.toml").unlink()
    run(["rebase", "v0.30.0"])
    run(["rebase", "--skip", "--hunk", "1", "--yes"])
    capsys.readouterr()
    run(["rebase", "--status"])
    out = capsys.readouterr().out
    assert "skipped: patches/pages.patch, hunk 1\n" in out
    assert "still to come" not in out


def test_status_is_for_a_stopped_rebase_alone(store: Path, capsys: Out) -> None:
    del store
    assert run(["rebase", "v0.30.0", "--status"]) == 2
    assert "more than one thing is asked for" in capsys.readouterr().err


# A state that is damaged -------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["text", "bytes", "gone", "folder", "empty"])
def test_a_damaged_state_can_always_be_aborted(store: Path, damage: str, capsys: Out) -> None:
    before = files(store)
    run(["rebase", "v0.30.0"])
    state = store / ".patchkit/rebase/state.json"
    state.unlink()
    if damage == "folder":
        state.mkdir()
    elif damage == "empty":
        shutil.rmtree(store / ".patchkit/rebase")
        (store / ".patchkit/rebase").mkdir()
    elif damage != "gone":
        state.write_bytes({"text": b'{"format": 2}', "bytes": b"\xff\xfe"}[damage])
    if damage in ("text", "bytes"):
        capsys.readouterr()
        for step in (["--status"], ["--continue", "--reason", "x"], ["--skip", "--yes"]):
            assert run(["rebase", *step]) == 1
            told = capsys.readouterr().err.splitlines()
            assert told[0].endswith("state.json: damaged state")
            assert told[1] == "hint: drop it with `patchkit rebase --abort`"
    assert run(["rebase", "--abort"]) == 0
    assert sorted(p.name for p in (store / ".patchkit").iterdir()) == [".gitignore", "lock"]
    assert files(store) == before
    assert run(["rebase", "v0.30.0"]) == 3


def test_what_is_done_twice_changes_nothing_more(store: Path, capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    write(store, COPY, FIRST)
    assert run(["rebase", "--continue", "--reason", "one"]) == 3
    once = files(store / ".patchkit/rebase")
    capsys.readouterr()
    # the copy of the next patch is as it was laid out: the same step again is refused
    assert run(["rebase", "--continue", "--reason", "one"]) == 1
    assert "not settled yet: hunk 1, in .patchkit/rebase/files/vllm/pages.py" in (
        capsys.readouterr().err
    )
    assert files(store / ".patchkit/rebase") == once
    write(store, COPY, FIRST.replace(b"size >> 4", b"size >> 5"))
    assert run(["rebase", "--continue", "--reason", "two"]) == 0
    done = files(store)
    for step in (["--continue", "--reason", "two"], ["--abort"], ["--skip", "--yes"]):
        assert run(["rebase", *step]) == 1
        assert files(store) == done


# What git shows ----------------------------------------------------------------------------------


def test_git_shows_what_a_person_did_and_what_had_landed(store: Path) -> None:
    run(["rebase", "v0.30.0"])
    folder = store / ".patchkit/rebase/files"
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "diff") == ""
    write(store, COPY, FIRST)
    assert git(folder, "diff", "--no-color", "-U0").splitlines()[-2:] == [
        "-    total = blocks << 4",
        "+    total = (blocks << 4) + 1",
    ]
    assert git(folder, "log", "--format=%s").splitlines() == [
        "What landed of pages.patch",
        "0.30.0 as released",
    ]
    assert git(folder, "show", f"HEAD:{PAGES}") == BOTH[PAGES].decode()
    git(folder, "fsck", "--strict")
    assert run(["rebase", "--continue", "--reason", "one"]) == 3
    assert git(folder, "log", "--format=%s %an %ad", "--date=unix").splitlines() == [
        "What landed of limit.patch patchkit 0",
        "What earlier patches make of it patchkit 0",
        "0.30.0 as released patchkit 0",
    ]
    assert git(folder, "diff") == ""
    assert "+    total = (blocks << 4) + 1\n" in git(folder, "show", "HEAD~1")


def test_git_shows_the_hunks_that_landed_beside_the_open_one(store: Path, trees: Trees) -> None:
    tail = b"\n\ndef far():\n    return 1\n"
    trees["v0.28.0"] = tree("0.28.0", {PAGES: BASE[PAGES] + tail})
    trees["v0.30.0"] = tree("0.30.0", {PAGES: CHANGED[PAGES] + tail})
    both = {PAGES: AUTHORED[PAGES] + tail.replace(b"1", b"2")}
    alone(store)
    write(store, "patches/v0.28.0/pages.patch", patch({PAGES: BASE[PAGES] + tail}, both))
    run(["rebase", "v0.30.0"])
    shown = git(store / ".patchkit/rebase/files", "show", "--format=", "HEAD").splitlines()
    assert [line for line in shown if line[:1] in "+-" and line[:3] not in ("+++", "---")] == [
        "-    return 1",
        "+    return 2",
    ]


def test_what_git_and_its_user_do_is_no_part_of_the_state(store: Path) -> None:
    run(["rebase", "v0.30.0"])
    folder = store / ".patchkit/rebase/files"
    write(store, COPY, FIRST)
    git(folder, "-c", "user.name=me", "-c", "user.email=me@x", "commit", "-qam", "mine")
    git(folder, "gc", "-q")
    assert run(["rebase", "--continue", "--reason", "one"]) == 3
    assert git(folder, "log", "-1", "--format=%s") == "What landed of limit.patch\n"
    assert run(["rebase", "--abort"]) == 0
    assert sorted(p.name for p in (store / ".patchkit").iterdir()) == [".gitignore", "lock"]


def test_a_missing_git_folder_is_made_anew(store: Path, capsys: Out) -> None:
    run(["rebase", "v0.30.0"])
    made = files(store / ".patchkit/rebase.git")
    shutil.rmtree(store / ".patchkit/rebase.git")
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "one"]) == 1
    assert files(store / ".patchkit/rebase.git") == made


def test_the_users_git_configuration_has_no_say(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("home")
    (home / ".gitconfig").write_text(
        "[core]\n\tautocrlf = true\n\texcludesFile = ~/ignore\n[init]\n\tdefaultBranch = x\n"
        "[commit]\n\tgpgsign = true\n[user]\n\tname = somebody\n"
    )
    (home / "ignore").write_text("*.py\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(home / "elsewhere"))
    run(["rebase", "v0.30.0"])
    monkeypatch.delenv("GIT_DIR")
    folder = store / ".patchkit/rebase/files"

    def plain(*args: str) -> str:
        done = subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True)
        return done.stdout

    assert plain("status", "--porcelain") == ""
    assert plain("log", "-1", "--format=%an %D") == "patchkit HEAD -> rebase\n"
    write(store, COPY, FIRST)
    assert "+    total = (blocks << 4) + 1\n" in plain("diff")


def test_a_rebase_needs_no_git(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert run(["rebase", "v0.30.0"]) == 3
    write(store, COPY, FIRST)
    assert run(["rebase", "--continue", "--reason", "one"]) == 3
    assert run(["rebase", "--abort"]) == 0


# The note ----------------------------------------------------------------------------------------


def note(store: Path, name: str = "pages") -> str:
    return (store / f".patchkit/rebase/{name}.patch.conflict.md").read_text()


def conflicting(store: Path, trees: Trees, target: dict[str, bytes], *args: str) -> str:
    """Return the note of a rebase of the first patch alone."""
    alone(store)
    trees["v0.31.0"] = tree("0.31.0", target)
    assert run(["rebase", "v0.31.0", *args]) == 3
    return note(store)


NEXT = """\
## What next

Edit the files in .patchkit/rebase/files until each holds what the patch should be there; \
`git diff` in that folder shows what you did, `git log -p` what had landed. Then one of:

```sh
patchkit rebase --continue --reason "why"  # goes on with your edit
patchkit rebase --skip --yes               # leaves the patch out
patchkit rebase --abort                    # forgets the attempt
```
"""


def test_the_note_of_a_conflict_shows_all_sides_and_the_ways_on(store: Path, trees: Trees) -> None:
    text = conflicting(store, trees, CHANGED)
    assert text.startswith("# pages.patch: 1 open hunk, from 0.28.0 to 0.31.0\n\n## Hunk 1: ")
    parts = [part.split("\n")[0] for part in text.split("\n\n")]
    assert [part for part in parts if part[:3] in ("ups", "bas", "tar", "pat", "As ", "In ")] == [
        "upstream changed the same statement, otherwise: vllm/pages.py:6 size",
        "base:",
        "target:",
        "patch:",
        "As authored:",
        "In the base, vllm/pages.py:4, `size`:",
        "In the target, vllm/pages.py:4, `size`:",
    ]
    assert "- candidate: vllm/pages.py:4 size\n" in text
    assert text.endswith(NEXT)


def test_the_note_of_an_orphan_shows_where_else_the_name_is(store: Path, trees: Trees) -> None:
    elsewhere = b"\n\ndef size(blocks, pages):\n    return blocks * pages\n"
    gone = (
        BASE[PAGES]
        .replace(b"def size(blocks):", b"def extent(pages):")
        .replace(b"total = blocks * 16\n    return total", b"return sum(pages)")
    )
    target = {**BASE, PAGES: gone, "vllm/sizes.py": b"X = 1\n" + elsewhere}
    text = conflicting(store, trees, target)
    assert "## Hunk 1: orphaned\n\nvllm/pages.py size\n" in text
    assert "- candidate: vllm/sizes.py:4 size\n" in text
    assert "In the target, vllm/pages.py: no `size`." in text
    assert (
        "A candidate in the target, vllm/sizes.py:4, `size`:\n\n"
        "```python\ndef size(blocks, pages):\n    return blocks * pages\n```\n"
    ) in text


def test_the_note_of_a_file_that_is_gone_says_so(store: Path, trees: Trees) -> None:
    text = conflicting(store, trees, {OTHER: BASE[OTHER]})
    assert "In the target, vllm/pages.py: no such file.\n" in text
    assert "In the base, vllm/pages.py:4, `size`:\n" in text


def test_the_note_of_a_change_outside_definitions_shows_the_lines_there(
    store: Path, trees: Trees
) -> None:
    base = {PAGES: b"import math\n\nLIMIT = 3\n\n\ndef f():\n    return math.e\n"}
    trees["v0.28.0"] = tree("0.28.0", base)
    authored = {PAGES: base[PAGES].replace(b"LIMIT = 3", b"LIMIT = 4")}
    write(store, "patches/v0.28.0/pages.patch", patch(base, authored))
    moved = b"import math\nimport os\n\n" + b"X = 1\n" * 20 + b"\nLIMIT = os.n\n\n\ndef f():\n"
    text = conflicting(store, trees, {PAGES: moved + b"    return math.e\n"})
    assert "In the base, vllm/pages.py:1:\n\n```python\nimport math\n\nLIMIT = 3\n" in text
    shown = text.partition("In the target, vllm/pages.py:")[2].partition("```\n\n## What")[0]
    assert "\nLIMIT = os.n\n" in shown


def test_the_note_of_two_hunks_offers_to_leave_out_one(store: Path, trees: Trees) -> None:
    write(store, "patches/v0.28.0/pages.patch", patch(BASE, LIMIT))
    text = conflicting(store, trees, BOTH)
    assert "patchkit rebase --skip --hunk 1 --yes      # leaves hunk 1 out\n" in text or (
        "1 open hunk" in text
    )


def test_the_note_of_text_that_is_no_python_shows_both_sides(store: Path, trees: Trees) -> None:
    path = "vllm/c.yaml"
    base = {path: b"a: 1\nb: 2\nc: 3\n"}
    trees["v0.28.0"] = tree("0.28.0", base)
    write(store, "patches/v0.28.0/pages.patch", patch(base, {path: b"a: 1\nb: 9\nc: 3\n"}))
    text = conflicting(store, trees, {path: b"a: 1\nb: 5\nc: 3\n"})
    assert "In the base, vllm/c.yaml:1:\n\n```\na: 1\nb: 2\nc: 3\n```\n" in text
    assert "In the target, vllm/c.yaml:1:\n\n```\na: 1\nb: 5\nc: 3\n```\n" in text


def test_the_note_of_a_drift_offers_to_accept_it(store: Path, trees: Trees) -> None:
    base = {PAGES: BASE[PAGES] + b"\n\nclass Spec:\n    stride = 1\n"}
    trees["v0.28.0"] = tree("0.28.0", base)
    after = base[PAGES].replace(b"    return total\n", b"    return total + blocks.stride\n")
    write(store, "patches/v0.28.0/pages.patch", patch(base, {PAGES: after}))
    text = conflicting(store, trees, {PAGES: base[PAGES].replace(b"stride = 1", b"width = 1")})
    assert "## Hunk 1: drifted\n" in text
    assert 'patchkit rebase --continue --accept-drift --reason "why"  # takes what drifted' in text


# Edits that nobody can have meant ----------------------------------------------------------------

SPOILT = {
    "markers": (
        FIRST.replace(b"    total", b"<<<<<<< HEAD\n    total", 1) + b">>>>>>> theirs\n",
        "line 6 is a conflict marker: <<<<<<< HEAD",
    ),
    "syntax": (FIRST + b"x = (\n", "line 12 does not compile: '(' was never closed"),
    "scope": (FIRST + b"return 1\n", "line 12 does not compile: 'return' outside function"),
    "crlf": (FIRST.replace(b"\n", b"\r\n"), "the lines end in CR LF, and did not before"),
    "bom": (
        b"\xef\xbb\xbf" + FIRST,
        "the file begins with a byte order mark, which it did not have before",
    ),
    "empty": (b"\n", "nothing is left in the file"),
    "layout": (
        BOTH[PAGES].replace(b"import math\n", b"import math \n\n") + b"\n",
        "nothing was changed but blank lines and the ends of lines",
    ),
}


@pytest.mark.parametrize("name", SPOILT)
def test_an_edit_that_was_saved_too_early_is_refused_and_kept(
    store: Path, name: str, capsys: Out
) -> None:
    run(["rebase", "v0.30.0"])
    before = files(store)
    data, text = SPOILT[name]
    write(store, COPY, data)
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "shifts now"]) == 1
    assert capsys.readouterr().err.splitlines()[0] == f"error: {COPY}: {text}"
    assert files(store) == before
    assert (store / COPY).read_bytes() == data
    write(store, COPY, FIRST)
    assert run(["rebase", "--continue", "--reason", "shifts now"]) == 3
    assert b'reason = "shifts now"' in files(store)["patches/resolutions.toml"]


def test_an_edit_that_takes_back_what_had_landed_is_refused(
    store: Path, trees: Trees, capsys: Out
) -> None:
    alone(store)
    tail = b"".join(b"\n\ndef far%d():\n    return 1\n" % n for n in range(4))
    base = {PAGES: BASE[PAGES] + tail}
    trees["v0.28.0"] = tree("0.28.0", base)
    trees["v0.30.0"] = tree("0.30.0", {PAGES: CHANGED[PAGES] + tail})
    both = {PAGES: AUTHORED[PAGES] + tail + b"WIDE = 3\n"}
    write(store, "patches/v0.28.0/pages.patch", patch(base, both))
    run(["rebase", "v0.30.0"])
    copy = (store / COPY).read_bytes()
    solved = copy.replace(b"blocks << 4", b"(blocks << 4) + 1")
    before = files(store)
    capsys.readouterr()
    write(store, COPY, solved.replace(b"WIDE = 3\n", b""))
    assert run(["rebase", "--continue", "--reason", "x"]) == 1
    assert capsys.readouterr().err.splitlines()[0] == (
        f"error: {COPY}: takes back hunk 2, which had landed"
    )
    assert files(store) == before
    # what is changed of it is settled with the rest, and no longer said to have landed by itself
    write(store, COPY, solved.replace(b"WIDE = 3\n", b"WIDE = 4\n"))
    assert run(["rebase", "--continue", "--reason", "x", "--json"]) == 0
    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert [o["method"] for o in outcomes] == ["adaptation", "adaptation"]
