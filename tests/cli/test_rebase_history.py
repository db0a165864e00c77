"""A rebase with upstream's history at hand names the commits; `--table` prints them."""

from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from tests.cli.test_rebase import (
    BASE,
    CHANGED,
    EDITED,
    PAGES,
    Check,
    Out,
    Trees,
    patch,
    report,
    tree,
    write,
)
from tests.upstream.histories import Upstream

SPEC = "vllm/spec.py"
OTHER = "vllm/zone.py"  # after the pages: its hunk is the second
LIMIT = b"def limit():\n    return 3\n"
START = {
    PAGES: BASE[PAGES],
    OTHER: LIMIT,
    SPEC: b"class Spec:\n    stride = 1\n\n    def pages(self):\n        return self.stride\n",
}
AUTHORED = {
    PAGES: BASE[PAGES].replace(b"* 16\n", b"* 16 + 1\n"),
    OTHER: LIMIT.replace(b"return 3", b"return 4"),
}


@pytest.fixture
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Upstream:
    return Upstream(tmp_path_factory.mktemp("git") / "vllm")


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return a repository with one patch on 0.28.0 that changes two files."""
    trees["v0.28.0"] = tree("0.28.0", START)
    write(folder, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches"]\n')
    write(folder, "patches/v0.28.0/series", b"pages.patch\n")
    write(folder, "patches/v0.28.0/pages.patch", patch(START, AUTHORED))
    return folder


def walk(upstream: Upstream, trees: Trees, *steps: tuple[str, dict[str, bytes]]) -> None:
    """Make upstream's history, from 0.28.0 to 0.30.0, a commit a step."""
    upstream.commit("start", START, tag="v0.28.0")
    files = dict(START)
    for subject, changes in steps:
        upstream.commit(subject, changes)
        files.update(changes)
    upstream.git("tag", "v0.30.0")
    trees["v0.30.0"] = tree("0.30.0", files)


def commits(document: dict[str, Any]) -> list[tuple[str, str, str] | None]:
    found = [outcome["upstream_commit"] for outcome in document["outcomes"]]
    return [(c["subject"], c["date"], c["touched"]) if c else None for c in found]


def moved(upstream: Upstream, capsys: Out, check: Check, status: int = 3) -> dict[str, Any]:
    assert run(["rebase", "v0.30.0", "--history", str(upstream.path), "--json"]) == status
    return report(capsys, check)


COUNT = BASE[PAGES].replace(b"size / 16", b"size / 17")
FIRST = COUNT.replace(b"blocks * 16", b"blocks * 15")
SECOND = COUNT.replace(b"blocks * 16", b"blocks << 4")
UPSTREAM = {OTHER: AUTHORED[OTHER]}


@pytest.mark.usefixtures("store")
def test_a_conflict_names_the_first_commit_that_changed_the_definition(
    upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    walk(
        upstream, trees,
        ("Count otherwise (#1)", {PAGES: COUNT}),
        ("Size otherwise (#2)", {PAGES: FIRST}),
        ("Size by shifts (#3)", {PAGES: SECOND}),
    )  # fmt: skip
    document = moved(upstream, capsys, check)
    assert commits(document) == [("Size otherwise (#2)", "2026-01-04", f"{PAGES} size"), None]
    note = Path(".patchkit/rebase/pages.patch.conflict.md").read_text()
    touch = document["outcomes"][0]["upstream_commit"]
    said = f"- upstream touched {PAGES} size in {touch['id']} 2026-01-04 Size otherwise (#2)\n"
    assert said in note
    assert run(["rebase", "--status"]) == 0
    assert f"hunk 1: conflicted: {PAGES} size, since {touch['id']} Size otherwise (#2)\n" in (
        capsys.readouterr().out
    )


@pytest.mark.usefixtures("store")
def test_a_commit_that_the_next_one_takes_back_still_came_first_but_layout_did_not(
    upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    layout = BASE[PAGES].replace(b"blocks * 16", b"blocks  *  16  # pages")
    walk(
        upstream, trees,
        ("Format (#1)", {PAGES: layout}),
        ("Size by shifts (#2)", {PAGES: CHANGED[PAGES]}),
        ("Revert (#3)", {PAGES: BASE[PAGES]}),
        ("Size by shifts again (#4)", {PAGES: CHANGED[PAGES]}),
    )  # fmt: skip
    found = commits(moved(upstream, capsys, check))
    assert found[0] == ("Size by shifts (#2)", "2026-01-04", f"{PAGES} size")


@pytest.mark.usefixtures("store")
def test_what_the_base_has_by_a_cherry_pick_is_not_named(
    upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    old = {**START, PAGES: BASE[PAGES].replace(b"* 16", b"* 8")}
    upstream.commit("before the branch", old)
    upstream.git("switch", "-qc", "release")
    upstream.commit("Sixteen (#1), picked", {PAGES: BASE[PAGES]}, tag="v0.28.0")
    upstream.git("switch", "-q", "main")
    upstream.commit("Count otherwise (#9)", {PAGES: old[PAGES].replace(b"size / 16", b"size / 17")})
    upstream.commit("Sixteen (#1)", {PAGES: COUNT})
    upstream.commit("Size by shifts (#2)", {PAGES: SECOND}, tag="v0.30.0")
    trees["v0.30.0"] = tree("0.30.0", {**START, PAGES: SECOND})
    assert (commits(moved(upstream, capsys, check))[0] or ("",))[0] == "Size by shifts (#2)"


@pytest.mark.usefixtures("store")
def test_what_is_upstream_names_the_commit_that_brought_it(
    upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    walk(
        upstream, trees,
        ("Something (#1)", {OTHER: LIMIT + b"\n\ndef more():\n    return 4\n"}),
        ("Half (#2)", {OTHER: b"def limit():\n    return 5\n"}),
        ("The same fix (#3)", UPSTREAM),
        ("After it (#4)", {OTHER: AUTHORED[OTHER] + b"\n\ndef more():\n    return 5\n"}),
    )  # fmt: skip
    document = moved(upstream, capsys, check, 0)
    assert [o["status"] for o in document["outcomes"]] == ["placed", "already_upstream"]
    assert commits(document)[1] == ("The same fix (#3)", "2026-01-05", f"{OTHER} limit")


def test_a_drift_names_the_commit_that_changed_what_is_read(
    store: Path, upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    code = START[PAGES].replace(b"    return total\n", b"    return total + blocks.stride\n")
    write(store, "patches/v0.28.0/pages.patch", patch(START, {PAGES: code}))
    other = START[SPEC].replace(b"return self.stride", b"return 2")
    walk(
        upstream, trees,
        ("Something (#1)", {SPEC: other}),
        ("Rename (#2)", {SPEC: other.replace(b"stride = 1", b"width = 1")}),
    )  # fmt: skip
    document = moved(upstream, capsys, check)
    assert document["outcomes"][0]["drifted"]
    assert commits(document) == [("Rename (#2)", "2026-01-04", f"{SPEC} stride")]


def test_a_change_outside_definitions_names_the_commit_that_changed_its_lines(
    store: Path, upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    start = {"vllm/c.py": b"A = 1\n" + b"X = 0\n" * 9 + b"\nLIMIT = 3\n\nB = 1\n"}
    start_tree = {**START, **start}
    trees["v0.28.0"] = tree("0.28.0", start_tree)
    after = {"vllm/c.py": start["vllm/c.py"].replace(b"LIMIT = 3", b"LIMIT = 4")}
    write(store, "patches/v0.28.0/pages.patch", patch(start_tree, after))
    upstream.commit("start", start_tree, tag="v0.28.0")
    one = start["vllm/c.py"].replace(b"A = 1", b"A = 2")
    upstream.commit("A (#1)", {"vllm/c.py": one})
    two = one.replace(b"LIMIT = 3", b"LIMIT = B")
    upstream.commit("Limit (#2)", {"vllm/c.py": two}, tag="v0.30.0")
    trees["v0.30.0"] = tree("0.30.0", {**START, "vllm/c.py": two})
    assert commits(moved(upstream, capsys, check)) == [("Limit (#2)", "2026-01-04", "vllm/c.py")]


@pytest.mark.usefixtures("store")
def test_a_file_that_is_gone_names_the_commit_that_took_it(
    upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    upstream.commit("start", START, tag="v0.28.0")
    upstream.commit("Move (#1)", {PAGES: None, "vllm/new/pages.py": b"X = 1\n"}, tag="v0.30.0")
    trees["v0.30.0"] = tree("0.30.0", {OTHER: LIMIT, "vllm/new/pages.py": b"X = 1\n"})
    assert commits(moved(upstream, capsys, check))[0] == (
        "Move (#1)",
        "2026-01-03",
        f"{PAGES} size",
    )


@pytest.mark.usefixtures("store")
def test_what_was_replayed_names_its_commit_too(
    upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    walk(upstream, trees, ("Size by shifts (#2)", {PAGES: CHANGED[PAGES]}))
    run(["rebase", "v0.30.0"])
    write(Path(), f".patchkit/rebase/files/{PAGES}", EDITED)
    run(["rebase", "--continue", "--reason", "shifts now"])
    Path("patches/v0.28.0/pages.anchors.toml").unlink()
    capsys.readouterr()
    document = moved(upstream, capsys, check, 0)
    assert commits(document)[0] == ("Size by shifts (#2)", "2026-01-03", f"{PAGES} size")


# Where it is looked for --------------------------------------------------------------------------


def test_a_configured_repository_is_used_and_need_not_be_there(
    store: Path, upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    walk(upstream, trees, ("Size by shifts (#2)", {PAGES: CHANGED[PAGES]}))
    config = f'[tool.patchkit]\nhistory = "{upstream.path}"\n'
    write(store, "pyproject.toml", config.encode())
    run(["rebase", "v0.30.0", "--json"])
    assert commits(report(capsys, check))[0] is not None
    run(["rebase", "--abort"])
    write(store, "pyproject.toml", b'[tool.patchkit]\nhistory = "../nothing"\n')
    capsys.readouterr()
    assert run(["rebase", "v0.30.0", "--json"]) == 3
    document = report(capsys, check)
    assert commits(document) == [None, None]
    assert document["notes"] == [
        f"what upstream changed is not told: {store}/../nothing: is not a git repository, "
        "expected the top of a work tree, or a bare repository"
    ]


def test_a_repository_that_is_named_has_to_be_there(store: Path, trees: Trees, capsys: Out) -> None:
    trees["v0.30.0"] = tree("0.30.0", {**START, PAGES: CHANGED[PAGES]})
    assert run(["rebase", "v0.30.0", "--history", "nothing"]) == 1
    assert "error: nothing: is not a git repository" in capsys.readouterr().err
    assert not (store / ".patchkit/rebase").exists()


@pytest.mark.usefixtures("store")
def test_a_missing_tag_is_said(upstream: Upstream, trees: Trees, capsys: Out, check: Check) -> None:
    upstream.commit("start", START, tag="v0.28.0")
    trees["v0.30.0"] = tree("0.30.0", {**START, PAGES: CHANGED[PAGES]})
    document = moved(upstream, capsys, check)
    assert commits(document) == [None, None]
    assert document["notes"] == [
        f"{upstream.path} has no v0.30.0: what upstream changed is not told"
    ]


@pytest.mark.usefixtures("store")
def test_what_no_commit_touched_is_said(
    upstream: Upstream, trees: Trees, capsys: Out, check: Check
) -> None:
    walk(upstream, trees)
    trees["v0.30.0"] = tree("0.30.0", {**START, PAGES: CHANGED[PAGES]})
    document = moved(upstream, capsys, check)
    assert document["notes"] == ["pages.patch:1: no commit of upstream's was found that touched it"]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("spec", ["git:../vllm@main", "../nightly"])
def test_a_tree_between_releases_is_the_commit_that_it_names(
    upstream: Upstream, trees: Trees, capsys: Out, check: Check, spec: str
) -> None:
    walk(upstream, trees, ("Size by shifts (#2)", {PAGES: CHANGED[PAGES]}))
    last = upstream.git("rev-parse", "HEAD")
    version = "0.30.1.dev2" if spec.startswith("git:") else f"0.30.1.dev2+g{last[:9]}.cu129"
    trees[spec] = tree(version, {**START, PAGES: CHANGED[PAGES]})
    args = ["rebase", "--target", spec, "--history", str(upstream.path), "--json"]
    assert run(args) == 3
    assert (commits(report(capsys, check))[0] or ("",))[0] == "Size by shifts (#2)"


# The table ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("store")
def test_the_table_has_what_is_not_plainly_placed(
    upstream: Upstream, trees: Trees, capsys: Out
) -> None:
    walk(
        upstream, trees, ("Size | by shifts (#2)", {PAGES: CHANGED[PAGES]}), ("Fix (#3)", UPSTREAM)
    )
    assert run(["rebase", "v0.30.0", "--history", str(upstream.path), "--table"]) == 3
    told = capsys.readouterr()
    assert told.err == "stopped; `patchkit rebase --status` says where, and how to go on\n"
    lines = told.out.splitlines()
    assert lines[:2] == [
        "| patch | hunk | definition | verdict | method, or why not | upstream commit |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    first, second = (line.split(" | ") for line in lines[2:4])
    assert first[:4] == ["| patches/pages.patch", "1", f"`{PAGES}` `size`", "conflicted"]
    assert first[-1].partition(" ")[2] == "2026-01-03 Size \\| by shifts (#2) |"
    assert second[3] == "already upstream"
    assert second[-1].endswith("2026-01-04 Fix (#3) |")
    assert lines[4:] == ["", "2 hunks: 0 plainly placed"]
    assert Path(".patchkit/rebase/state.json").exists()


def test_a_table_of_what_was_resolved_gives_the_reason(
    store: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.30.0"] = tree("0.30.0", {**START, PAGES: CHANGED[PAGES]})
    run(["rebase", "v0.30.0"])
    write(store, f".patchkit/rebase/files/{PAGES}", EDITED)
    capsys.readouterr()
    assert run(["rebase", "--continue", "--reason", "shifts now", "--table"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        f"| patches/pages.patch | 1 | `{PAGES}` `size` | placed | "
        "adaptation; stored for 0.30.0: shifts now |  |",
        "",
        "2 hunks: 1 plainly placed",
    ]


@pytest.mark.usefixtures("store")
def test_a_table_of_nothing_says_that_all_was_plain(trees: Trees, capsys: Out) -> None:
    trees["v0.30.0"] = tree("0.30.0", START)
    assert run(["rebase", "v0.30.0", "--table"]) == 0
    assert capsys.readouterr().out == "2 hunks: all plainly placed\n"


@pytest.mark.usefixtures("store")
def test_a_table_is_no_json(trees: Trees, capsys: Out) -> None:
    assert run(["rebase", "v0.30.0", "--table", "--json"]) == 2
    assert "--table and --json are two things" in capsys.readouterr().out
    assert run(["rebase", "--abort", "--history", "x"]) == 2
    assert "--history is for a step that moves" in capsys.readouterr().err
    assert run(["port", "x", "--base", "a", "--target", "b", "--table", "--why"]) == 2
    assert "--table and --why are two things" in capsys.readouterr().err
    del trees


def test_port_prints_the_table_too(store: Path, trees: Trees, capsys: Out) -> None:
    trees["v0.30.0"] = tree("0.30.0", {**START, PAGES: CHANGED[PAGES]})
    name = str(store / "patches/v0.28.0/pages.patch")
    assert run(["port", name, "--base", "v0.28.0", "--target", "v0.30.0", "--table"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].split(" | ")[1:4] == ["1", f"`{PAGES}` `size`", "conflicted"]
    assert lines[3:] == ["", "2 hunks: 1 plainly placed"]
