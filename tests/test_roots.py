"""Paths as people write them, found in a tree."""

from __future__ import annotations

import pytest

from patchkit.diff import FileChange, FilePatch, apply_patch, parse_patch
from patchkit.diff.roots import Section, classify, resolve_roots
from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree

CORE = b"a\nb\nc\n"
TREE = SourceTree(
    {
        "vllm/__init__.py": b"",
        "vllm/utils.py": b"q\nr\ns\n",
        "vllm/core/x.py": b"other\n",
        "vllm/v1/core/x.py": CORE,
        "vllm/v1/core/__init__.py": b"",
        "vllm/v1/crlf.py": b"a\r\nb\r\nc\r\n",
        "vllm/third_party/deep/include/k.cuh": b"a\nb\nc\n",
        "vllm/benchmarks/serve.py": b"s\nt\nu\n",
    },
    name="v0.28.0",
)
BODY = "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"


def edit(path: str, body: str = BODY) -> str:
    return f"--- {path}\n+++ {path}\n{body}"


def new(path: str) -> str:
    return f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+n\n"


def resolved(*sections: str, tree: SourceTree = TREE) -> tuple[tuple[FilePatch, ...], list[str]]:
    patch, notes = resolve_roots(parse_patch("".join(sections).encode(), "p.patch"), tree)
    return patch.files, [note.text for note in notes]


def paths(*sections: str, tree: SourceTree = TREE) -> list[str]:
    return [file.path for file in resolved(*sections, tree=tree)[0]]


@pytest.mark.parametrize(
    "written",
    [
        "vllm/v1/core/x.py",
        "v1/core/x.py",
        "./v1/core/x.py",
        "/usr/lib/python3.12/site-packages/vllm/v1/core/x.py",
        "/srv/vllm/vllm/v1/core/x.py",
        "vllm/vllm/v1/core/x.py",
        "a/v1/core/x.py",
        "a/vllm/v1/core/x.py",
        "repo-0.27/v1/core/x.py",
    ],
)
def test_one_file_however_it_is_written(written: str) -> None:
    files, notes = resolved(edit(written))

    assert [(file.old_path, file.new_path) for file in files] == [("vllm/v1/core/x.py",) * 2]
    clean = written.removeprefix("./")
    note = f"root found by matching the tree: {clean} is vllm/v1/core/x.py"
    assert notes == ([] if clean == "vllm/v1/core/x.py" else [note])


def test_a_resolved_patch_applies() -> None:
    patch, _ = resolve_roots(parse_patch(edit("v1/core/x.py").encode(), "p"), TREE)

    assert apply_patch(patch, TREE).files["vllm/v1/core/x.py"] == b"a\nB\nc\n"


def test_prefixes_are_told_by_the_tree_when_names_differ() -> None:
    assert paths(f"--- a/v1/core/x.py.orig\n+++ b/v1/core/x.py\n{BODY}") == ["vllm/v1/core/x.py"]
    assert paths(f"--- v1/core/x.py\n+++ /tmp/edited.py\n{BODY}") == ["vllm/v1/core/x.py"]


def test_a_file_that_is_gone_does_not_become_another_one() -> None:
    files, notes = resolved(edit("vllm/v1/gone/utils.py", "@@ -1,3 +1,3 @@\n q\n-r\n+R\n s\n"))

    assert files[0].path == "vllm/v1/gone/utils.py"
    assert notes == ["vllm/v1/gone/utils.py is not in the tree"]


@pytest.mark.parametrize(
    ("written", "guess"),
    [
        ("v1/core/gone.py", "vllm/v1/core/gone.py"),
        ("v1/new/deep/gone.py", "vllm/v1/new/deep/gone.py"),
        ("/opt/site-packages/vllm/v1/gone.py", "vllm/v1/gone.py"),
        ("/opt/vllm/vllm/nowhere/gone.py", "vllm/nowhere/gone.py"),
        ("/opt/vllm/vllm/v1/gone.py", "vllm/v1/gone.py"),
        ("vllm/model/vllm/gone.py", "vllm/model/vllm/gone.py"),
        ("tests/gone.py", "tests/gone.py"),
        ("csrc/vllm/gone.cu", "csrc/vllm/gone.cu"),
        ("elsewhere/gone.py", "elsewhere/gone.py"),
    ],
)
def test_a_file_that_no_root_fits_keeps_the_best_guess(written: str, guess: str) -> None:
    files, notes = resolved(edit(written))

    assert files[0].path == guess
    assert notes[-1] == f"{guess} is not in the tree"


def test_new_files_follow_the_other_files() -> None:
    assert paths(edit("v1/core/x.py"), new("b/plugins/deep/n.py")) == [
        "vllm/v1/core/x.py",
        "vllm/plugins/deep/n.py",
    ]
    assert paths(
        edit("/opt/site-packages/vllm/v1/core/x.py"), new("/opt/site-packages/vllm/n.py")
    ) == [
        "vllm/v1/core/x.py",
        "vllm/n.py",
    ]
    assert paths(edit("vllm/v1/core/x.py"), new("b/n.py")) == ["vllm/v1/core/x.py", "n.py"]


def test_new_files_alone_follow_the_package_name_or_its_folders() -> None:
    assert paths(new("b/vllm/v1/core/n.py")) == ["vllm/v1/core/n.py"]
    assert paths(new("/opt/site-packages/vllm/n.py")) == ["vllm/n.py"]
    assert paths(new("b/v1/core/n.py")) == ["vllm/v1/core/n.py"]
    assert paths(new("b/tests/n.py")) == ["tests/n.py"]


def test_a_new_file_that_the_tree_has_keeps_its_name() -> None:
    assert paths(new("b/v1/core/x.py")) == ["vllm/v1/core/x.py"]


def test_a_new_file_is_not_taken_for_a_namesake_up_the_tree() -> None:
    assert paths(edit("v1/core/x.py"), new("b/v1/extra/utils.py")) == [
        "vllm/v1/core/x.py",
        "vllm/v1/extra/utils.py",
    ]


def test_each_file_of_a_mixed_patch_has_its_own_root() -> None:
    assert paths(
        edit("vllm/v1/core/x.py"), edit("utils.py", "@@ -1,3 +1,3 @@\n q\n-r\n+R\n s\n")
    ) == ["vllm/v1/core/x.py", "vllm/utils.py"]


def test_a_folder_that_is_not_shipped_is_no_folder_of_the_package() -> None:
    fits = "@@ -1,3 +1,3 @@\n s\n-t\n+T\n u\n"

    assert paths(edit("vllm/v1/core/x.py"), edit("benchmarks/serve.py")) == [
        "vllm/v1/core/x.py",
        "benchmarks/serve.py",
    ]
    assert paths(edit("benchmarks/serve.py", fits)) == ["vllm/benchmarks/serve.py"]


def test_several_files_that_fit_are_listed() -> None:
    tree = SourceTree({"tools/x.py": CORE, "vllm/tools/x.py": CORE, "vllm/y.py": CORE})

    with pytest.raises(PatchkitError) as caught:
        resolved(edit("tools/x.py"), tree=tree)
    assert str(caught.value) == (
        "p.patch:1: tools/x.py fits several files: tools/x.py, vllm/tools/x.py, expected one"
    )
    assert caught.value.hint == "write paths from the top of the tree, as in a/vllm/..."
    assert paths(edit("y.py"), edit("tools/x.py"), tree=tree) == ["vllm/y.py", "vllm/tools/x.py"]
    assert paths(edit("vllm/y.py"), edit("tools/x.py"), tree=tree) == ["vllm/y.py", "tools/x.py"]


def test_of_several_files_the_one_that_holds_the_hunks_is_meant() -> None:
    tree = SourceTree({"tools/x.py": b"z\n", "vllm/tools/x.py": CORE})

    assert paths(edit("tools/x.py"), tree=tree) == ["vllm/tools/x.py"]


def test_a_namesake_up_the_tree_must_hold_every_hunk() -> None:
    two = BODY + "@@ -10,1 +10,1 @@\n-nowhere\n+N\n"

    assert paths(edit("repo-0.27/v1/core/x.py", two)) == ["repo-0.27/v1/core/x.py"]


def test_moves_take_both_names_along() -> None:
    patch = "diff --git a/v1/core/x.py b/v1/y.py\nrename from v1/core/x.py\nrename to v1/y.py\n"
    files, _ = resolved(patch)

    assert (files[0].old_path, files[0].new_path) == ("vllm/v1/core/x.py", "vllm/v1/y.py")


def test_a_move_follows_its_old_name() -> None:
    patch = "diff --git a/v1/core/x.py b/odd/y.py\ncopy from v1/core/x.py\ncopy to odd/y.py\n"
    files, notes = resolved(patch)

    assert (files[0].old_path, files[0].new_path) == ("vllm/v1/core/x.py", "vllm/odd/y.py")
    assert notes == ["root found by matching the tree: v1/core/x.py is vllm/v1/core/x.py"]


def test_a_move_between_compared_folders() -> None:
    names = "from old/vllm/v1/core/x.py", "to new/vllm/y.py"
    patch = "diff --git a/old/vllm/v1/core/x.py b/new/vllm/y.py\n"
    files, _ = resolved(patch + "".join(f"rename {name}\n" for name in names))

    assert (files[0].old_path, files[0].new_path) == ("vllm/v1/core/x.py", "vllm/y.py")


def test_files_under_the_root_of_others_need_not_hold_their_hunks() -> None:
    assert paths(edit("v1/core/x.py"), edit("core/x.py")) == ["vllm/v1/core/x.py", "vllm/core/x.py"]


def test_a_root_that_no_other_file_has_must_hold_a_hunk() -> None:
    assert paths(edit("vllm/v1/core/x.py"), edit("core/x.py")) == ["vllm/v1/core/x.py", "core/x.py"]


def test_of_the_roots_of_others_the_one_with_the_folder_is_taken() -> None:
    sections = edit("vllm/v1/core/x.py"), edit("vllm/utils.py"), edit("v1/core/x.py")

    assert paths(*sections, new("b/v1/core/n.py"))[-1] == "vllm/v1/core/n.py"


def test_a_deleted_file_is_found() -> None:
    files, _ = resolved("--- a/v1/core/x.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-a\n-b\n-c\n")

    assert (files[0].old_path, files[0].new_path) == ("vllm/v1/core/x.py", None)


def test_the_tree_says_what_a_count_of_zero_means() -> None:
    body = "@@ -0,0 +1 @@\n+n\n"
    filled, _ = resolved(edit("v1/core/__init__.py", body))
    added, _ = resolved(edit("v1/core/n.py", body))

    assert (filled[0].change, filled[0].old_path) == (FileChange.MODIFY, "vllm/v1/core/__init__.py")
    assert (added[0].change, added[0].new_path, added[0].new_mode) == (
        FileChange.ADD,
        "vllm/v1/core/n.py",
        0o100644,
    )


def test_hunks_take_the_line_endings_of_their_file() -> None:
    files, notes = resolved(edit("vllm/v1/crlf.py"))

    assert files[0].hunks[0].new == b"a\r\nB\r\nc\r\n"
    assert notes == ["vllm/v1/crlf.py has CRLF line endings; its hunks were given them"]


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("vllm/v1/core/x.py", Section.SHIPPED),
        ("vllm/config.json", Section.SHIPPED),
        ("vllm/tests/x.py", Section.SHIPPED),
        ("csrc/attention/k.cu", Section.BUILT),
        ("cmake/utils.cmake", Section.BUILT),
        ("CMakeLists.txt", Section.BUILT),
        ("setup.py", Section.BUILT),
        ("rust/src/lib.rs", Section.BUILT),
        ("vllm/new/kernel.cuh", Section.BUILT),
        ("vllm/new/kernel.cpp", Section.BUILT),
        ("vllm/new/kernel.h", Section.BUILT),
        ("tests/test_x.py", Section.NOT_SHIPPED),
        ("docs/index.md", Section.NOT_SHIPPED),
        ("examples/a.py", Section.NOT_SHIPPED),
        ("benchmarks/a.py", Section.NOT_SHIPPED),
        (".github/workflows/a.yml", Section.NOT_SHIPPED),
        (".buildkite/a.yaml", Section.NOT_SHIPPED),
        ("requirements/cuda.txt", Section.NOT_SHIPPED),
        ("tools/a.py", Section.NOT_SHIPPED),
        ("README.md", Section.NOT_SHIPPED),
        ("vllm_other/x.py", Section.NOT_SHIPPED),
    ],
)
def test_sections_have_a_class(path: str, section: Section) -> None:
    assert classify(path) is section


def test_what_the_package_has_in_the_tree_is_shipped() -> None:
    path = "vllm/third_party/deep/include/k.cuh"

    assert classify(path) is Section.BUILT
    assert classify(path, tree=TREE) is Section.SHIPPED
