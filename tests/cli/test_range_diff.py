"""range-diff on stored releases, folders and commits, as text and as a document."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.diff import diff_files, format_files
from patchkit.tree import SourceTree

Check = Callable[[dict[str, Any]], None]
Trees = dict[str, SourceTree]
Out = pytest.CaptureFixture[str]

BASE = "def size(blocks):\n    total = blocks * 16\n    check(total)\n    return total\n"


def patch(new: str, *, base: str = BASE, path: str = "vllm/a.py", header: str = "") -> bytes:
    """A patch of `check(total)`."""
    old = {path: base.encode()}
    changed = {path: base.replace("check(total)", new).encode()}
    return f"Description: It\n{header}\n".encode() + format_files(diff_files(old, changed))


def write(folder: Path, files: dict[str, bytes | str]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


ONE = patch("check(total + 1)")
OTHER = "import math\n\n\n" + BASE.replace("16", "32")


@pytest.fixture
def store(folder: Path) -> Path:
    """Return a repository with two releases that differ in every way."""
    write(
        folder,
        {
            "pyproject.toml": '[tool.patchkit]\nseries = ["patches"]\n',
            "patches/v0.28.0/series": "same.patch\nchanged.patch\ngone.patch\nheader.patch\n",
            "patches/v0.28.0/same.patch": ONE,
            "patches/v0.28.0/changed.patch": patch("check(2)", path="vllm/b.py"),
            "patches/v0.28.0/gone.patch": patch("check(3)", path="vllm/c.py"),
            "patches/v0.28.0/header.patch": patch("check(4)", path="vllm/d.py"),
            "patches/v0.29.0/series": (
                "# gone: upstream checks that\nsame.patch\nchanged.patch\nheader.patch\nnew.patch\n"
            ),
            "patches/v0.29.0/same.patch": patch("check(total + 1)", base=OTHER),
            "patches/v0.29.0/changed.patch": patch("check(22)", path="vllm/b.py"),
            "patches/v0.29.0/header.patch": patch(
                "check(4)", path="vllm/d.py", header="Reason: so\n it is\n"
            ),
            "patches/v0.29.0/new.patch": patch("check(5)", path="vllm/e.py"),
            "patches/v0.30.0/same-as.toml": 'same-as = "v0.29.0"\n',
        },
    )
    return folder


@pytest.mark.usefixtures("store")
def test_what_is_unchanged_is_a_line_and_the_rest_is_told_patch_by_patch(capsys: Out) -> None:
    assert run(["range-diff", "v0.28.0", "v0.29.0"]) == 0
    assert (
        capsys.readouterr().out
        == """\
v0.28.0 -> v0.29.0: 4 patches, 4 after
~ 1 unchanged but for the lines around: same
! changed.patch: changed
    vllm/b.py
      elsewhere
       -    check(total)
      -+    check(2)
      ++    check(22)
- gone.patch: dropped: upstream checks that
! header.patch: the same edits, another header
    header: Reason
      + so
      + it is
+ new.patch: added: It
"""
    )


@pytest.mark.usefixtures("store")
def test_the_document_is_what_its_schema_says(capsys: Out, check: Check) -> None:
    assert run(["range-diff", "v0.28.0", "v0.29.0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert (document["ok"], document["differ"]) == (True, True)
    states = {pair["after"] or pair["before"]: pair["state"] for pair in document["patches"]}
    assert states == {
        "same.patch": "context",
        "changed.patch": "changed",
        "gone.patch": "dropped",
        "header.patch": "same",
        "new.patch": "added",
    }


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["v0.28.0", "v0.29.0"], 3),
        (["v0.28.0", "v0.29.0", "same"], 0),
        (["v0.29.0", "v0.30.0"], 0),
        (["patches/v0.30.0", "0.29"], 0),
    ],
)
def test_with_exit_code_a_difference_is_a_finding(
    words: list[str], status: int, capsys: Out, check: Check
) -> None:
    assert run(["range-diff", *words, "--exit-code", "--json"]) == status
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["differ"] is (status == 3)
    assert document["ok"] is (status == 0)


def test_a_folder_of_a_commit_is_a_series(store: Path, trees: Trees, capsys: Out) -> None:
    files = {
        p.relative_to(store).as_posix(): p.read_bytes() for p in store.rglob("*") if p.is_file()
    }
    trees["git:.@main"] = SourceTree(files)
    (store / "patches/v0.29.0/new.patch").write_bytes(patch("check(6)", path="vllm/e.py"))
    assert run(["range-diff", "git:.@main:patches/v0.30.0/", "v0.29.0"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:3] == [
        "git:.@main:patches/v0.30.0/ -> v0.29.0: 4 patches, 4 after",
        "= 3 unchanged: same, changed, header",
        "! new.patch: changed",
    ]


def test_a_real_commit_is_read(store: Path, capsys: Out) -> None:
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*who, "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=store, check=True, capture_output=True)
    assert run(["range-diff", "git:.@main:patches/v0.29.0", "v0.29.0", "--exit-code"]) == 0
    assert capsys.readouterr().out.endswith("they make the same edits\n")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "v0.31.0",
            "patches: no series is stored for v0.31.0",
        ),
        (
            "nowhere",
            "nowhere: there is no series of that name, expected a stored release, a folder with a "
            "`series`, or git:REPO@REF:FOLDER",
        ),
        ("patches", "patches: holds no series, expected a file series"),
        ("git:.@main:nowhere", "git:.@main:nowhere: the commit has no such folder"),
        (
            "git:.@main",
            "git:.@main: names no folder of a commit, expected a stored release, a folder with a "
            "`series`, or git:REPO@REF:FOLDER",
        ),
    ],
)
def test_what_names_no_series_is_refused(
    spec: str, message: str, store: Path, trees: Trees, capsys: Out
) -> None:
    del store
    trees["git:.@main"] = SourceTree({"README.md": b""})
    assert run(["range-diff", "v0.28.0", spec]) == 1
    assert capsys.readouterr().err.splitlines()[0] == f"error: {message}"


def test_a_moved_same_as_is_followed_beside_the_folder(store: Path, capsys: Out) -> None:
    (store / "patches/v0.29.0").rename(store / "elsewhere")
    assert run(["range-diff", "patches/v0.30.0", "v0.28.0"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/v0.30.0: same-as names v0.29.0, which is not beside it\n"
    )


def test_a_series_with_other_files_and_another_order_says_so(store: Path, capsys: Out) -> None:
    digest = "0" * 64
    write(
        store,
        {
            "new/series": "header.patch\nsame.patch\nchanged.patch\nnew.patch\n",
            "new/overlay.toml": (
                'format = 1\n\n[[file]]\nsource = "x.py"\npath = "vllm/x.py"\n'
                f'sha256 = "{digest}"\n'
            ),
        },
    )
    for name in ("header", "same", "changed", "new"):
        data = (store / f"patches/v0.29.0/{name}.patch").read_bytes()
        write(store, {f"new/{name}.patch": data})
    assert run(["range-diff", "v0.29.0", "new"]) == 0
    assert capsys.readouterr().out == (
        "v0.29.0 -> new: 4 patches, 4 after\n"
        "= 4 unchanged: header, same, changed, new\n"
        "at another place in the series: header\n"
        "overlay: vllm/x.py: added\n"
    )


def test_long_names_fit_the_terminal_and_long_diffs_are_cut(folder: Path, capsys: Out) -> None:
    names = [f"a-patch-with-a-long-name-{number}.patch" for number in range(6)]
    lines = [f"line {number}\n" for number in range(30)]
    for side, last in (("old", "x\n"), ("new", "y\n")):
        series = "".join(f"{name}\n" for name in [*names, "long.patch"])
        write(folder, {f"{side}/series": series} | {f"{side}/{name}": ONE for name in names})
        added = {"vllm/long.py": "".join([*lines, last]).encode()}
        write(folder, {f"{side}/long.patch": format_files(diff_files({}, added))})
    assert run(["range-diff", "old", "new"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert out.split("! ")[1] == (
        "long.patch: changed\n"
        "    vllm/long.py\n"
        "       ... 28 lines as before\n"
        "      elsewhere\n"
        "       +line 28\n"
        "       +line 29\n"
        "      -+x\n"
        "      ++y\n"
    )


def test_patches_of_several_folders_have_theirs_in_front(store: Path, capsys: Out) -> None:
    (store / "pyproject.toml").write_text('[tool.patchkit]\nseries = ["patches", "more"]\n')
    for release in ("v0.28.0", "v0.29.0"):
        write(store, {f"more/{release}/series": "same.patch\n", f"more/{release}/same.patch": ONE})
    assert run(["range-diff", "v0.28.0", "v0.29.0", "--json"]) == 0
    names = {pair["before"] for pair in json.loads(capsys.readouterr().out)["patches"]}
    assert {"patches/same.patch", "more/same.patch"} < names
    assert run(["range-diff", "v0.28.0", "v0.29.0", "--series", "more/"]) == 0
    assert capsys.readouterr().out == (
        "v0.28.0 -> v0.29.0: 1 patch, 1 after\n= 1 unchanged: same\nthey make the same edits\n"
    )


def test_the_log_of_rebases_says_why_where_the_series_file_does_not(
    store: Path, capsys: Out
) -> None:
    series = store / "patches/v0.29.0/series"
    write(
        store,
        {
            "patches/rebases.toml": (
                'format = 1\n\n[[rebase]]\ndate = "2026-11-30"\nbase = "0.28.0"\n'
                'target = "0.29.0"\nseconds = 1.0\n\n[[rebase.patch]]\nname = "gone.patch"\n'
                'fate = "upstream"\n'
            )
        },
    )
    assert run(["range-diff", "v0.28.0", "v0.29.0", "gone"]) == 0
    assert "dropped: upstream checks that\n" in capsys.readouterr().out
    series.write_text(series.read_text().replace("# gone: upstream checks that\n", ""))
    assert run(["range-diff", "v0.28.0", "v0.29.0", "gone"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "- gone.patch: dropped: upstream had all of it in the rebase of 2026-11-30"
    ]


def test_the_shipped_series_is_compared(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])
    assert run(["range-diff", "v0.27.1", "v0.28.0", "block-promotion", "--exit-code"]) == 0
    assert capsys.readouterr().out == (
        "v0.27.1 -> v0.28.0: 1 patch, 1 after\n"
        "~ 1 unchanged but for the lines around: block-promotion\n"
        "they make the same edits\n"
    )
    assert run(["range-diff", "v0.28.0", "v0.29.0", "--exit-code"]) == 3
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if line.startswith(("      -+", "      ++"))] == [
        "-+        return spec.indexes_kv_by_block_stride and (",
        "++        return not isinstance(spec, MLAAttentionSpec) and (",
    ]
