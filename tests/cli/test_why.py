"""The story of a patch on small trees that stand for releases."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from patchkit.cli import run
from patchkit.cli.complete import offer
from patchkit.diff import diff_files, format_files
from patchkit.series.proof_digest import digest_patches, digest_tests
from patchkit.tree import SourceTree

Check = Callable[[dict[str, Any]], None]
Trees = dict[str, SourceTree]
Out = pytest.CaptureFixture[str]

PAGES = "vllm/pages.py"
BASE = b'''\
import math


def size(blocks):
    """Return the size."""
    total = blocks * 16
    check(total)
    return total


def count(size):
    return math.ceil(size / 16)
'''
HELPED = BASE.replace(b"def count(", b"def extra():\n    return 1\n\n\ndef count(")
AUTHORED = HELPED.replace(b"    total = blocks * 16\n", b"    total = blocks * 16 + extra()\n")
RENAMED = BASE.replace(b"total", b"pages")
CHANGED = BASE.replace(b"blocks * 16", b"blocks << 4")
UPSTREAM = AUTHORED


def patch(name: str, before: bytes, after: bytes, header: str = "") -> bytes:
    head = (
        f"Description: The {name}\nReason: pages are short\nOrigin: here\nForwarded: no\n"
        f"Exit-Condition: 0.40.0\nApplies-To: >=0.28,<0.30\n{header}\n"
    )
    return head.encode() + format_files(diff_files({PAGES: before}, {PAGES: after}))


@pytest.fixture
def store(folder: Path, trees: Trees, capsys: Out) -> Path:
    """Return a repository with two patches on 0.28.0, the second using what the first defines."""
    contents = {"0.28.0": BASE, "0.29.0": RENAMED, "0.30.0": CHANGED, "0.31.0": UPSTREAM}
    for version, content in contents.items():
        trees[f"v{version}"] = SourceTree({PAGES: content}, name=f"v{version}", version=version)
    trees["../vllm"] = SourceTree({PAGES: RENAMED}, name="vllm", version=None)
    release = folder / "patches/v0.28.0"
    release.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.patchkit]\nseries = ["patches"]\n')
    (release / "series").write_text("helper.patch\nuser.patch\n")
    (release / "helper.patch").write_bytes(patch("helper", BASE, HELPED))
    (release / "user.patch").write_bytes(patch("user", HELPED, AUTHORED))
    assert run(["check"]) == 0
    assert run(["rebase", "v0.29.0"]) == 0
    capsys.readouterr()
    return folder


def told(capsys: Out, check: Check) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(document)
    return document


@pytest.mark.usefixtures("store")
def test_a_patch_is_told_from_the_highest_release(capsys: Out) -> None:
    assert run(["why", "user"]) == 0
    assert (
        capsys.readouterr().out
        == """\
patches/v0.29.0/user.patch
Description: The user
Reason: pages are short
Origin: here
Forwarded: no
Exit-Condition: 0.40.0
Applies-To: >=0.28,<0.30
vllm/pages.py
  #1 line 3, +1 -1
     in size, 1:05cce6ffac2910385aca68f774a50986
     operand replaced in size BinOp.operands
       removes blocks
       removes 16
     relies on extra
needs: helper.patch, which no header declares
  `extra` is defined by helper.patch#1 (vllm/pages.py:11) and called in
    user.patch#1 (vllm/pages.py:6)
needed by: nothing
v0.28.0: the lowest that has it
  #1, line 3 of vllm/pages.py, size
v0.29.0: changed, from v0.28.0
  #1 placed by renamed, line 6 of vllm/pages.py
    renamed    total -> pages in size: taken back, and made again on the result
next: declare `Depends-On: helper` in its header
"""
    )


@pytest.mark.usefixtures("store")
def test_the_document_is_what_its_schema_says(capsys: Out, check: Check) -> None:
    assert run(["why", "helper.patch", "--json"]) == 0
    document = told(capsys, check)
    assert [link["patch"] for link in document["needed_by"]] == ["user.patch"]
    assert document["needs"] == []
    assert [row["release"] for row in document["releases"]] == ["0.28.0", "0.29.0"]
    (hunk,) = document["files"][0]["hunks"]
    (edit,) = hunk["edits"]
    assert (edit["kind"], edit["after"], edit["before"]) == (
        "definition added",
        "def size(blocks):",
        "def count(size):",
    )
    assert document["next"] == []


@pytest.mark.usefixtures("store")
def test_a_release_is_told_alone_and_with_all_evidence(capsys: Out) -> None:
    assert run(["why", "user", "v0.29.0"]) == 0
    out = capsys.readouterr().out
    assert "v0.28.0: the lowest that has it" not in out
    assert (
        "v0.29.0: changed, from v0.28.0\n"
        "  #1 placed by renamed\n"
        "    from       vllm/pages.py, size\n"
        "    to         vllm/pages.py:6, size\n"
        "    renamed    total -> pages in size: taken back, and made again on the result\n"
        "    because    with upstream's rename taken back,"
    ) in out


@pytest.mark.usefixtures("store")
def test_a_release_that_does_not_have_it_is_tried(capsys: Out, check: Check) -> None:
    assert run(["why", "user", "v0.30.0", "--json"]) == 3
    document = told(capsys, check)
    trial = document["trial"]
    assert (trial["target"], trial["base"], trial["in_range"]) == ("v0.30.0", "0.29.0", False)
    assert [outcome["status"] for outcome in trial["outcomes"]] == ["conflicted"]
    assert trial["outcomes"][0]["rejected"]
    assert document["next"][1:] == [
        "its header does not mean it for v0.30.0: `patchkit rebase v0.30.0` and `--skip` leaves "
        "it out, or widen Applies-To",
        "`patchkit rebase v0.30.0` stops at it, with the files to edit and all that landed in them",
    ]
    assert run(["why", "user", "v0.30.0"]) == 3
    out = capsys.readouterr().out
    assert "\non v0.30.0, moved from v0.29.0:\n  its header does not mean it for v0.30.0\n" in out
    assert "\n  #1 conflicted\n" in out
    assert "    rejected   offset: " in out


@pytest.mark.usefixtures("store")
def test_what_upstream_has_is_to_be_dropped(capsys: Out, check: Check) -> None:
    assert run(["why", "helper", "--target", "v0.31", "--json"]) == 0
    document = told(capsys, check)
    assert document["trial"]["lands"] is True
    assert document["next"][-1] == (
        "upstream has all of it: `patchkit rebase v0.31.0` drops it; say so in the series file"
    )


@pytest.mark.usefixtures("store")
def test_a_tree_that_is_no_release_has_no_range(capsys: Out, check: Check) -> None:
    assert run(["why", "helper", "--target", "../vllm", "--json"]) == 0
    document = told(capsys, check)
    assert (document["trial"]["in_range"], document["trial"]["base"]) == (None, "0.29.0")
    assert document["next"] == ["`patchkit rebase --target ../vllm --output moved` stores it so"]


@pytest.mark.usefixtures("store")
def test_a_stored_target_is_tried_from_the_release_below(capsys: Out, check: Check) -> None:
    assert run(["why", "helper", "--target", "v0.29.0", "--json"]) == 0
    document = told(capsys, check)
    assert document["trial"]["base"] == "0.28.0"
    assert document["next"] == ["`patchkit rebase v0.29.0` compares it with what is stored"]


def test_a_hunk_is_followed_through_other_numbers(store: Path, capsys: Out, check: Check) -> None:
    (store / "patches/v0.29.0/series").write_text("all.patch\n")
    (store / "patches/v0.28.0/series").write_text("all.patch\n")
    for release, before in (("0.28.0", BASE), ("0.29.0", RENAMED)):
        for path in (store / f"patches/v{release}").glob("[hu]*"):
            path.unlink()
        after = before.replace(b"import math\n", b"import math\nimport re\n")
        after = after.replace(b"size / 16)", b"size / 32)")
        if release == "0.29.0":
            after = after.replace(b"import re\n", b"")
        (store / f"patches/v{release}/all.patch").write_bytes(patch("all", before, after))
    assert run(["why", "all#1", "--json"]) == 3
    document = told(capsys, check)
    assert [[hunk["hunk"] for hunk in row["hunks"]] for row in document["releases"]] == [[2], [1]]
    assert [[o["hunk"] for o in row["outcomes"]] for row in document["releases"]] == [[], [2]]
    assert document["releases"][1]["differences"] == ["all.patch: differs in vllm/pages.py"]
    assert document["next"] == [
        "`patchkit rebase v0.29.0` shows how what is stored differs from the move; --update "
        "replaces it"
    ]


def test_a_release_that_cannot_be_opened_is_said(
    store: Path, trees: Trees, monkeypatch: pytest.MonkeyPatch, capsys: Out, check: Check
) -> None:
    del store
    from patchkit.cli import why
    from patchkit.errors import PatchkitError

    def opened(spec: str) -> SourceTree:
        if spec == "v0.28.0":
            raise PatchkitError("no network")
        return trees[spec]

    monkeypatch.setattr(why, "tree_opener", lambda *_: opened)
    assert run(["why", "helper", "--json"]) == 0
    document = told(capsys, check)
    assert [row["unknown"] for row in document["releases"]] == [None, "no network"]


def test_a_patch_that_was_left_out_says_why(store: Path, capsys: Out) -> None:
    (store / "patches/v0.29.0/series").write_text("# user: nobody uses it\nhelper.patch\n")
    for path in (store / "patches/v0.29.0").glob("user*"):
        path.unlink()
    assert run(["why", "user"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("patches/v0.28.0/user.patch\n")
    assert "\nv0.29.0: left out, from v0.28.0\n  nobody uses it\n" in out


def test_verdicts_are_told_and_go_stale(store: Path, capsys: Out, check: Check) -> None:
    digest = '"' + "0" * 64 + '"'
    (store / "patches/verdicts.toml").write_text(
        'format = 1\n\n[[verdict]]\nrelease = "0.29.0"\npatch = "user.patch"\nverdict = "needed"\n'
        'pristine = "red"\npatched = "green"\nreason = "x"\nbase = "0.28.0"\ntests = ["a.py"]\n'
        f"patch_sha256 = {digest}\nmoved_sha256 = {digest}\ntest_sha256 = {digest}\n"
    )
    assert run(["why", "user"]) == 0
    out = capsys.readouterr().out
    assert "by its tests needed, stale, red without it, green with it: v0.29.0\n" in out
    assert out.endswith("next: `patchkit test v0.29.0 user` makes its verdict anew\n")
    assert run(["why", "user", "v0.28.0", "--json"]) == 0
    assert told(capsys, check)["verdicts"] == []


def test_a_stopped_rebase_is_to_be_finished(store: Path, capsys: Out, check: Check) -> None:
    del store
    assert run(["rebase", "v0.30.0"]) == 3
    capsys.readouterr()
    assert run(["why", "user", "v0.30.0", "--json"]) == 3
    assert told(capsys, check)["next"][-1] == (
        "a rebase to v0.30.0 has stopped: `patchkit rebase --continue` or `--abort`"
    )


@pytest.mark.usefixtures("store")
def test_nothing_is_written(store: Path, capsys: Out) -> None:
    before = {p: p.read_bytes() for p in store.rglob("*") if p.is_file()}
    run(["why", "user", "v0.30.0"])
    run(["why", "user"])
    capsys.readouterr()
    assert {p: p.read_bytes() for p in store.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["nope"], 1, "patches: there is no patch 'nope'"),
        (["user#2"], 1, "patches/v0.29.0/user.patch: there is no hunk 2, expected one of 1 to 1"),
        (
            ["user", "v0.30.0", "--target", "v0.31.0"],
            1,
            "patches: user.patch is not stored for v0.30.0, expected one of v0.28.0, v0.29.0",
        ),
    ],
)
def test_what_cannot_be_told_is_refused(
    words: list[str], status: int, message: str, store: Path, capsys: Out
) -> None:
    del store
    assert run(["why", *words]) == status
    assert capsys.readouterr().err.splitlines()[0] == f"error: {message}"


def test_of_two_patches_of_a_name_one_must_be_meant(store: Path, capsys: Out) -> None:
    (store / "pyproject.toml").write_text('[tool.patchkit]\nseries = ["patches", "more"]\n')
    (store / "more/v0.28.0").mkdir(parents=True)
    (store / "more/v0.28.0/series").write_text("user.patch\n")
    again = AUTHORED.replace(b"check(total)", b"check(total + 1)")
    (store / "more/v0.28.0/user.patch").write_bytes(patch("other", AUTHORED, again))
    assert run(["why", "user"]) == 1
    assert capsys.readouterr().err == (
        "error: 'user' names patches/user.patch and more/user.patch, expected one patch\n"
    )
    assert run(["why", "more/user"]) == 0
    assert capsys.readouterr().out.startswith("more/v0.28.0/user.patch\nDescription: The other\n")
    # only one of them is stored for it
    assert run(["why", "user", "v0.29.0"]) == 0


def test_every_line_fits_a_terminal(store: Path, capsys: Out) -> None:
    path = store / "patches/v0.28.0/user.patch"
    text = path.read_bytes().replace(b"pages are short", b"pages " * 30 + b"\n .\n " + b"x " * 60)
    path.write_bytes(text.replace(b"Exit-Condition: ", b"Exit-Condition:\n "))
    for words in (["user"], ["user", "v0.28.0"], ["user", "v0.30.0"], ["helper", "v0.31.0"]):
        run(["why", *words])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        assert len(lines) > 10


def two_hunks(store: Path) -> None:
    """Give both releases a patch with a definition and its use apart, and one that needs it."""
    for release, before in (("0.28.0", BASE), ("0.29.0", RENAMED)):
        folder = store / f"patches/v{release}"
        for path in folder.iterdir():
            path.unlink()
        helped = before.replace(b"import math\n", b"import math\n\n\ndef extra():\n    return 1\n")
        helped = helped.replace(b"size / 16)", b"size / 32)")
        used = helped.replace(b" * 16\n", b" * 16 + extra()\n")
        (folder / "series").write_text("helper.patch\nuser.patch\n")
        (folder / "helper.patch").write_bytes(patch("helper", before, helped))
        (folder / "user.patch").write_bytes(patch("user", helped, used))


def test_the_links_of_a_hunk_are_those_of_that_hunk(store: Path, capsys: Out, check: Check) -> None:
    two_hunks(store)
    run(["why", "helper#1", "--json"])
    assert [link["patch"] for link in told(capsys, check)["needed_by"]] == ["user.patch"]
    run(["why", "helper#2", "--json"])
    assert [link["binds"] for link in told(capsys, check)["needed_by"] if link["binds"]] == []


def test_what_was_decided_on_another_hunk_is_not_said_of_this_one(
    store: Path, capsys: Out, check: Check
) -> None:
    two_hunks(store)
    assert run(["check"]) == 0
    path = store / "patches/v0.28.0/helper.anchors.toml"
    path.write_text(
        path.read_text()
        + '\n[[override.adaptation]]\nrelease = "0.29.0"\npath = "vllm/pages.py"\nhunks = [2]\n'
        'reason = "it went"\nbase_hunks = ["1:0"]\ntarget_definitions = {}\ndiff = ""\n'
    )
    capsys.readouterr()
    for words, said in (
        (["helper#1"], [[], []]),
        (["helper#2"], [[], ["hunk 2 adapted: it went"]]),
        (["helper"], [[], ["hunk 2 adapted: it went"]]),
    ):
        run(["why", *words, "--json"])
        assert [row["reasons"] for row in told(capsys, check)["releases"]] == said


def test_what_is_stored_otherwise_is_said_of_the_patch_itself(
    store: Path, capsys: Out, check: Check
) -> None:
    path = store / "patches/v0.29.0/user.patch"
    path.write_bytes(path.read_bytes().replace(b"extra()\n", b"extra() + 1\n"))
    assert run(["why", "helper", "--json"]) == 0
    assert told(capsys, check)["releases"][1]["differences"] == []
    assert run(["why", "user", "--json"]) == 3
    assert told(capsys, check)["releases"][1]["differences"] == [
        "user.patch: differs in vllm/pages.py"
    ]


def test_what_its_tests_find_superseded_need_not_land(
    store: Path, capsys: Out, check: Check
) -> None:
    test = store / "tests/test_a.py"
    test.parent.mkdir()
    test.write_bytes(b"def test(): pass\n")
    for release in ("0.28.0", "0.29.0"):
        path = store / f"patches/v{release}/user.patch"
        data = path.read_bytes().replace(b"Applies-To", b"Test: tests/test_a.py\nApplies-To")
        path.write_bytes(data)
    own = digest_patches([("user.patch", data)])
    tests = digest_tests(["tests/test_a.py"], {"tests/test_a.py": test.read_bytes()})
    (store / "patches/verdicts.toml").write_text(
        'format = 1\n\n[[verdict]]\nrelease = "0.30.0"\npatch = "user.patch"\n'
        'verdict = "superseded"\npristine = "green"\nreason = "green without it"\n'
        f'base = "0.29.0"\ntests = ["tests/test_a.py"]\npatch_sha256 = "{own}"\n'
        f'moved_sha256 = "{own}"\ntest_sha256 = "{tests}"\n'
    )
    assert run(["why", "user", "v0.30.0", "--json"]) == 0
    document = told(capsys, check)
    assert document["trial"]["lands"] is False
    assert document["next"][-1] == (
        "nothing: its tests pass there without it, so that `patchkit rebase v0.30.0` leaves it out"
    )


@pytest.mark.network
def test_the_shipped_patch_is_told_on_real_releases(
    monkeypatch: pytest.MonkeyPatch, capsys: Out, check: Check
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert run(["why", "block-promotion#2", "v0.29.0", "--json"]) == 0
    document = told(capsys, check)
    (row,) = document["releases"]
    (outcome,) = row["outcomes"]
    assert (outcome["method"], outcome["target_lines"]) == ("offset", [2081, 2084])
    (hunk,) = document["files"][0]["hunks"]
    assert [edit["removes"] for edit in hunk["edits"]] == [
        ["_get_kv_cache_groups_uniform_page_size", "filtered_spec"]
    ]
    assert run(["why", "block-promotion", "v0.33.0", "--json"]) == 0
    document = told(capsys, check)
    assert [o["status"] for o in document["trial"]["outcomes"]] == ["conflicted", "blocked"]
    assert document["trial"]["verdict"]["verdict"] == "superseded"
    assert document["next"] == [
        "nothing: its tests pass there without it, so that `patchkit rebase v0.33.0` leaves it out"
    ]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("command", "name", "typed", "offered"),
    [
        ("why", "patch", "us", ["user.patch"]),
        ("why", "release", "v0.33", ["v0.33.0"]),
        ("range_diff", "before", "v", ["v0.28.0", "v0.29.0"]),
        ("range_diff", "after", "v0.29", ["v0.29.0"]),
        ("range_diff", "patches", "h", ["helper.patch"]),
        ("lint", "release", "v0.28", ["v0.28.0"]),
    ],
)
def test_a_shell_is_offered_what_is_meant(
    command: str, name: str, typed: str, offered: list[str]
) -> None:
    module = importlib.import_module(f"patchkit.cli.{command}")
    found = offer(command.replace("_", "-"), module.command)
    (param,) = (param for param in found.params if param.name == name)
    items = param.type.shell_complete(click.Context(found), param, typed)
    assert [item.value for item in items] == offered


def test_a_header_is_shown_as_it_is_written(capsys: Out) -> None:
    from patchkit.cli.render_know import _show_header

    fields = [{"field": "Description", "value": "One\n\nmore"}, {"field": "Reason", "value": "why"}]
    _show_header({"header": fields, "text": "free"})
    assert capsys.readouterr().out == "Description: One\n .\n more\nReason: why\nfree\n"
