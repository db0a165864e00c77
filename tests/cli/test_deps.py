"""`patchkit deps`: the graph drawn, its reasons, and how it compares with what headers declare."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.cli.draw import tree_lines
from patchkit.diff import diff_files, format_files
from patchkit.series.graph import make_graph
from patchkit.stacking.dependencies import Dependency
from patchkit.stacking.weave import HunkId
from patchkit.tree import SourceTree
from tests.cli.test_check import HEADER, findings, write

Check = Callable[[dict[str, Any]], None]
Trees = dict[str, SourceTree]
Out = pytest.CaptureFixture[str]

X, Y = "vllm/x.py", "vllm/y.py"
STEPS = "".join(f"    step{n}(x, {n})\n" for n in range(20))
BASE = {X: f"def f(x):\n{STEPS}    return x\n".encode(), Y: b"import os\n\n\ny = os.sep\n"}


def edited(tree: dict[str, bytes], path: str, old: str, new: str) -> dict[str, bytes]:
    content = tree.get(path, b"")
    assert old.encode() in content
    return {**tree, path: content.replace(old.encode(), new.encode())}


CACHE = edited(BASE, X, "    step2(x, 2)\n", "    step2(x, 2)\n    cache(x)\n")
CACHE = edited(CACHE, X, "    return x\n", "    return x\n\n\ndef cache(x):\n    return x\n")
KERNEL = edited(CACHE, X, "    cache(x)\n", "    tuned(x)\n")
LAUNCH = edited(KERNEL, Y, "import os\n", "import os\n\nfrom vllm.x import cache\n")
LAUNCH = edited(LAUNCH, Y, "os.sep", "cache(os.sep)")
ALONE = edited(LAUNCH, X, "step12(x, 12)", "step12(x, 122)")
CLOSE = edited(ALONE, X, "step13(x, 13)", "step13(x, 133)")
VERSIONS = {"cache": CACHE, "kernel": KERNEL, "launch": LAUNCH, "alone": ALONE, "close": CLOSE}


def patches() -> dict[str, bytes]:
    found, before = {}, BASE
    for name, after in VERSIONS.items():
        found[f"{name}.patch"] = HEADER + format_files(diff_files(before, after))
        before = after
    return found


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return a repository with five patches, nothing declared."""
    trees["v0.28.0"] = SourceTree(BASE, name="v0.28.0", version="0.28.0")
    write(folder, "pyproject.toml", b"[tool.patchkit]\n")
    found = patches()
    write(folder, "patches/v0.28.0/series", "".join(f"{name}\n" for name in found).encode())
    for name, data in found.items():
        write(folder, f"patches/v0.28.0/{name}", data)
    return folder


def declare(store: Path, patch: str, needs: str) -> None:
    path = store / f"patches/v0.28.0/{patch}.patch"
    path.write_bytes(
        path.read_bytes().replace(b"Reason:", f"Depends-On: {needs}\nReason:".encode())
    )


def test_a_series_is_drawn_as_a_tree_with_what_is_not_declared(store: Path, capsys: Out) -> None:
    del store
    assert run(["deps"]) == 0
    assert capsys.readouterr().out == (
        "patches/v0.28.0: 5 patches, 2 dependencies; 1 pair close but independent\n"
        "cache.patch\n"
        "├─ kernel.patch (by lines)\n"
        "└─ launch.patch (by names)\n"
        "alone.patch\n"
        "close.patch\n"
        "warning: kernel.patch does not declare `Depends-On: cache`: "
        "kernel.patch#1 changes lines that cache.patch#1 adds (vllm/x.py:5)\n"
        "warning: launch.patch does not declare `Depends-On: cache`: `cache` is defined by "
        "cache.patch#2 (vllm/x.py:26) and imported in launch.patch#1 (vllm/y.py:3)\n"
    )


def test_what_is_declared_is_no_warning_and_what_nothing_needs_is_a_note(
    store: Path, capsys: Out
) -> None:
    declare(store, "kernel", "cache")
    declare(store, "launch", "kernel")
    declare(store, "alone", "kernel.patch")
    assert run(["deps", "v0.28.0"]) == 0
    assert capsys.readouterr().out.splitlines()[6:] == [
        "note: launch.patch declares kernel, and nothing in it needs that",
        "note: alone.patch declares kernel, and nothing in it needs that",
    ]


def test_the_reasons_are_told_hunk_by_hunk_in_eighty_columns(store: Path, capsys: Out) -> None:
    del store
    assert run(["deps", "--hunks"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[6:14] == [
        "kernel.patch needs cache.patch",
        "  kernel.patch#1 changes lines that cache.patch#1 adds (vllm/x.py:5)",
        "launch.patch needs cache.patch",
        "  `cache` is defined by cache.patch#2 (vllm/x.py:26) and imported in",
        "    launch.patch#1 (vllm/y.py:3)",
        "close.patch stands beside alone.patch",
        "  close.patch#1 stands beside what alone.patch#1 changes (vllm/x.py:15); neither",
        "    needs the other",
    ]
    assert max(map(len, lines[:14])) <= 80


def test_graphviz_gets_every_link(store: Path, capsys: Out) -> None:
    declare(store, "alone", "kernel")
    assert run(["deps", "--dot"]) == 0
    assert capsys.readouterr().out == (
        "digraph series {\n"
        "  rankdir=BT;\n"
        '  "cache.patch";\n'
        '  "kernel.patch";\n'
        '  "launch.patch";\n'
        '  "alone.patch";\n'
        '  "close.patch";\n'
        '  "kernel.patch" -> "cache.patch" [label="lines"];\n'
        '  "launch.patch" -> "cache.patch" [label="names"];\n'
        '  "alone.patch" -> "kernel.patch" [style=dotted, label="declared"];\n'
        '  "close.patch" -> "alone.patch" [style=dashed, dir=none];\n'
        "}\n"
    )


def test_the_document_is_as_its_schema_says(store: Path, capsys: Out, check: Check) -> None:
    declare(store, "kernel", "cache")
    declare(store, "launch", "kernel")
    assert run(["deps", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["patches"][2] == {"name": "launch.patch", "parents": ["cache.patch"]}
    flags = [(k["later"], k["binds"], k["declared"], k["implied"]) for k in document["links"]]
    assert flags == [
        ("kernel.patch", True, True, False),
        ("launch.patch", True, False, True),
        ("launch.patch", False, True, False),
        ("close.patch", False, False, False),
    ]
    assert document["links"][0]["reasons"] == [
        {
            "kind": "lines",
            "binds": True,
            "later_hunk": 1,
            "earlier_hunk": 1,
            "text": "kernel.patch#1 changes lines that cache.patch#1 adds (vllm/x.py:5)",
        }
    ]


def test_plain_patches_are_drawn_in_the_given_order(
    folder: Path, trees: Trees, capsys: Out
) -> None:
    trees["tree"] = SourceTree(BASE)
    for name, data in patches().items():
        write(folder, name, data)
    assert run(["deps", "--base", "tree", "cache.patch", "kernel.patch"]) == 0
    assert capsys.readouterr().out == (
        "tree: 2 patches, 1 dependency\ncache.patch\n└─ kernel.patch (by lines)\n"
    )
    assert run(["deps", "--base", "tree", "cache.patch", "cache.patch"]) == 2
    assert capsys.readouterr().err.splitlines()[0] == (
        "error: patchkit deps: cache.patch is given twice"
    )


def test_patches_of_several_folders_go_by_their_folder(
    store: Path, capsys: Out, trees: Trees
) -> None:
    del trees
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    base, after = CLOSE, edited(CLOSE, X, "    tuned(x)\n", "    tuned(x, 2)\n")
    write(store, "port/v0.28.0/series", b"more.patch\n")
    more = HEADER.replace(b"Reason:", b"Depends-On: patches/kernel\nReason:")
    write(store, "port/v0.28.0/more.patch", more + format_files(diff_files(base, after)))
    assert run(["deps"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "patches/v0.28.0, port/v0.28.0: 6 patches, 3 dependencies; 2 pairs close but independent",
        "patches/cache.patch",
        "├─ patches/kernel.patch (by lines)",
        "│  └─ port/more.patch (by lines)",
    ]
    assert not any("port/more" in line for line in lines[4:])


def test_a_patch_with_several_needs_is_drawn_below_the_last(
    folder: Path, trees: Trees, capsys: Out
) -> None:
    trees["tree"] = SourceTree(BASE)
    one = edited(BASE, X, "step2(x, 2)", "step2(x, 22)")
    two = edited(one, X, "step9(x, 9)", "step9(x, 99)")
    three = edited(edited(two, X, "(x, 22)", "(x, 23)"), X, "(x, 99)", "(x, 98)")
    four = edited(edited(three, X, "(x, 23)", "(x, 24)"), X, "step15(x, 15)", "step15(x, 155)")
    before = BASE
    for name, after in zip("abcd", (one, two, three, four), strict=True):
        write(folder, f"{name}.patch", format_files(diff_files(before, after)))
        before = after
    assert run(["deps", "--base", "tree", "a.patch", "b.patch", "c.patch", "d.patch"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "a.patch",
        "b.patch",
        "└─ c.patch (by lines; also needs a)",
        "   └─ d.patch (by lines)",
    ]


def test_long_names_are_cut_to_eighty_columns() -> None:
    names = [f"{letter}{'-long-name' * 9}.patch" for letter in "abcd"]
    needs = [
        Dependency(HunkId(later, 1), HunkId(earlier, 1), "lines", "because")
        for later, earlier in ((names[1], names[0]), (names[2], names[1]), (names[3], names[2]))
    ]
    graph = make_graph(names, needs, {})
    lines = list(tree_lines(graph))
    assert [len(line) for line in lines] == [80, 80, 80, 80]
    assert [line[:10] for line in lines] == [
        "a-long-nam",
        "└─ b-long-",
        "   └─ c-lo",
        "      └─ d",
    ]


def test_an_unknown_release_is_refused_with_those_that_are_stored(store: Path, capsys: Out) -> None:
    del store
    assert run(["deps", "v0.27.0"]) == 1
    assert capsys.readouterr().err == (
        "error: patches: no series is stored for v0.27.0\nhint: stored are: v0.28.0; "
        "`patchkit rebase v0.27.0` moves one there\n"
    )


# `check` -----------------------------------------------------------------------------------------


def test_check_finds_two_patches_that_edit_one_statement_until_one_declares_it(
    store: Path, capsys: Out, check: Check
) -> None:
    assert run(["check", "--json"]) == 3
    assert findings(capsys, check) == [
        (
            "statement",
            "patches/v0.28.0/kernel.patch",
            "hunk 1 edits `cache(x)` (vllm/x.py:5, in f), as cache.patch#1 does; "
            "fold the two, or declare `Depends-On: cache.patch`",
        )
    ]
    assert (store / "patches/v0.28.0/kernel.anchors.toml").exists()
    declare(store, "kernel", "cache")
    assert run(["check"]) == 0


def test_a_frozen_check_finds_every_need_that_is_not_declared(
    store: Path, capsys: Out, check: Check
) -> None:
    declare(store, "kernel", "cache")
    assert run(["check"]) == 0
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    assert findings(capsys, check) == [
        (
            "depends",
            "patches/v0.28.0/launch.patch",
            "needs cache.patch: `cache` is defined by cache.patch#2 (vllm/x.py:26) and imported in "
            "launch.patch#1 (vllm/y.py:3); declare `Depends-On: cache.patch`",
        )
    ]
    declare(store, "launch", "kernel")
    assert run(["check", "--frozen"]) == 0


def test_check_finds_a_declared_patch_that_is_not_there(
    store: Path, capsys: Out, check: Check
) -> None:
    declare(store, "kernel", "cash")
    assert run(["check", "--json"]) == 3
    assert findings(capsys, check) == [
        ("depends", "patches/v0.28.0/kernel.patch", "there is no patch 'cash'"),
    ]
