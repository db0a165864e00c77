"""Canonical diffs of trees, and what git and GNU patch make of them."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from patchkit.diff import Patch, diff_contents, diff_files, find_lines, format_files, split_lines
from patchkit.errors import PatchkitError

# A folder of the temporary directory must not count as part of a repository above it.
ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": "/nonexistent", "GIT_DIR": "/nonexistent"}


def numbered(count: int) -> bytes:
    return b"".join(b"%d\n" % n for n in range(1, count + 1))


def test_a_section_in_full() -> None:
    old = (
        b"import os\n\n\nclass A:\n    def f(self):\n"
        b"        a = 1\n        b = 2\n        c = 3\n        return a\n"
    )
    new = old.replace(b"c = 3", b"c = 4")

    assert format_files(diff_files({"vllm/x.py": old}, {"vllm/x.py": new})) == (
        b"diff --git a/vllm/x.py b/vllm/x.py\n"
        b"index 70e137cb525bb3b7ed52148df338010d1af54fea.."
        b"6ad59915d4eb73f493c61b2ca301139e2442c792 100644\n"
        b"--- a/vllm/x.py\n"
        b"+++ b/vllm/x.py\n"
        b"@@ -5,5 +5,5 @@ class A:\n"
        b"     def f(self):\n"
        b"         a = 1\n"
        b"         b = 2\n"
        b"-        c = 3\n"
        b"+        c = 4\n"
        b"         return a\n"
    )


def test_sections_come_in_order_of_path_with_whole_files_and_modes() -> None:
    old = {"b.py": b"b\n", "gone.py": b"g\n", "run.sh": b"r\n", "same.py": b"s\n"}
    new = {"a.py": b"", "b.py": b"B\n", "run.sh": b"r\n", "same.py": b"s\n"}

    assert (
        format_files(diff_files(old, new, {}, {"run.sh": 0o100755, "a.py": 0o100755}))
        == b"""\
diff --git a/a.py b/a.py
new file mode 100755
index 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391
diff --git a/b.py b/b.py
index 61780798228d17af2d34fce4cfbdf35556832472..223b7836fb19fdf64ba2d3cd6173c6a283141f78 100644
--- a/b.py
+++ b/b.py
@@ -1 +1 @@
-b
+B
diff --git a/gone.py b/gone.py
deleted file mode 100644
index 01058d844a98d293a3b03a8615a34700e4ed2be3..0000000000000000000000000000000000000000
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-g
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
"""
    )


def test_equal_trees_have_no_sections() -> None:
    assert diff_files({"x": b"a"}, {"x": b"a"}) == ()
    assert diff_files({}, {}, {"x": 0o100755}, {}) == ()


def test_a_binary_file_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        diff_files({}, {"x.so": b"\x7fELF\0"})
    assert str(caught.value) == "x.so: file is binary, expected text"


def test_three_lines_of_context_and_one_hunk_for_near_changes() -> None:
    old = numbered(40)
    far = (
        old.replace(b"\n10\n", b"\nten\n").replace(b"\n17\n", b"\nx\n").replace(b"\n25\n", b"\ny\n")
    )

    hunks = diff_contents(old, far, "x.txt")
    assert [(h.old_start, h.old_count, h.new_start, h.new_count) for h in hunks] == [
        (7, 14, 7, 14),
        (22, 7, 22, 7),
    ]


def test_context_grows_only_until_the_old_lines_are_unique() -> None:
    block = [b"a\n", b"b\n", b"c\n", b"d\n", b"e\n", b"f\n", b"g\n"]
    lines = [b"1\n", *block, b"2\n", *block, b"3\n"]
    new = [*lines]
    new[12] = b"D\n"

    (hunk,) = diff_contents(b"".join(lines), b"".join(new), "x.txt")
    assert (hunk.old_start, hunk.old_count) == (9, 9)
    assert hunk.old_lines == lines[8:17]
    assert find_lines(lines, hunk.old_lines) == [8]


def test_hunks_that_grow_into_each_other_become_one() -> None:
    block = [b"a\n"] * 9
    lines = [b"1\n", *block, b"2\n", b"x\n", b"y\n", b"z\n", b"q\n", b"r\n", *block, b"3\n"]
    new = [*lines]
    new[6], new[13] = b"B\n", b"Z\n"

    (hunk,) = diff_contents(b"".join(lines), b"".join(new), "x.txt")
    assert len(find_lines(lines, hunk.old_lines)) == 1
    first, last = 6, 13
    above = first - (hunk.old_start - 1)
    below = hunk.old_start - 1 + hunk.old_count - 1 - last
    assert above == below


def test_headings_name_the_definition_of_python_and_the_unindented_line_of_others() -> None:
    body = (
        b"class A:\n    async def f(self, a, b):  \n"
        b"        1\n        2\n        3\n        4\n        5\n"
    )
    new = body.replace(b"5", b"6")

    assert diff_contents(body, new, "x.py")[0].section == b"async def f(self, a, b):"
    assert diff_contents(body, new, "x.txt")[0].section == b"class A:"
    long = b"def " + "ä".encode() * 60 + b"\r\n" + numbered(9)
    heading = diff_contents(long, long.replace(b"9", b"x"), "x.py")[0].section
    assert heading == b"def " + "ä".encode() * 38


def write(folder: Path, files: dict[str, bytes], modes: dict[str, int]) -> None:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
        (folder / path).chmod(modes.get(path, 0o100644) & 0o777)


def read(folder: Path) -> tuple[dict[str, bytes], dict[str, int]]:
    paths = [path for path in folder.rglob("*") if path.is_file() and ".pc" not in path.parts]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    modes = {
        path.relative_to(folder).as_posix(): 0o100755
        for path in paths
        if path.stat().st_mode & 0o100
    }
    return files, modes


def run(command: list[str], folder: Path, data: bytes = b"") -> str:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(
        command, cwd=folder, input=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENV
    )
    said = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, said
    return said


WORDS = [b"a", b"b", b"", b"    x = 1", b"def f():", b"-- ", b"++ y", b"\x0c", b"\xff", b"e\rf"]


def random_trees(
    rng: random.Random, names: list[str]
) -> tuple[dict[str, bytes], dict[str, bytes], dict[str, int], dict[str, int]]:
    """Return two trees that differ here and there, with LF and CRLF, and ends without a newline."""

    def content() -> bytes:
        ending = rng.choice([b"\n", b"\n", b"\r\n"])
        text = b"".join(rng.choice(WORDS) + ending for _ in range(rng.choice([0, 1, 3, 12, 40])))
        return text.removesuffix(ending) if rng.random() < 0.3 else text

    def edited(text: bytes) -> bytes:
        lines = text.split(b"\n")
        for _ in range(rng.choice([0, 1, 1, 3, 6])):
            at = rng.randrange(len(lines))
            lines[at : at + rng.randrange(2)] = [rng.choice(WORDS)] * rng.randrange(3)
            lines = lines or [b""]
        return b"\n".join(lines)

    old = {name: content() for name in names if rng.random() < 0.8}
    new = {name: edited(text) for name, text in old.items() if rng.random() < 0.9}
    new |= {name: content() for name in names if name not in old and rng.random() < 0.8}
    modes_old = {name: 0o100755 for name in old if rng.random() < 0.2}
    modes_new = {name: 0o100755 for name in new if rng.random() < 0.2}
    return old, new, modes_old, modes_new


PROGRAMS = {
    "git": ["git", "apply", "--verbose", "--whitespace=nowarn"],
    "patch": ["patch", "-p1", "--fuzz=0", "--binary", "--no-backup-if-mismatch"],
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("seed", range(12))
def test_other_programs_apply_it_at_zero_offset(tmp_path: Path, program: str, seed: int) -> None:
    names = ["x.py", "a/b.txt", "a/a/c.py", "ü.py", 'q".py']
    if program == "git":  # GNU patch cannot tell the names of a section without lines apart
        names.append("two words.py")
    old, new, modes_old, modes_new = random_trees(random.Random(seed), names)
    write(tmp_path, old, modes_old)

    files = diff_files(old, new, modes_old, modes_new)
    if files:
        said = run(PROGRAMS[program], tmp_path, format_files(files))
        assert "offset" not in said
        assert "fuzz" not in said
    assert read(tmp_path) == (new, modes_new)


@pytest.mark.parametrize("seed", range(3))
def test_quilt_applies_and_reverts_it(tmp_path: Path, seed: int) -> None:
    names = ["x.py", "a/b.txt", "a/a/c.py"]
    old, new, _, _ = random_trees(random.Random(seed), names)
    # Quilt takes an empty file for one that is not there.
    old = {name: text.replace(b"\r", b"") or b"y\n" for name, text in old.items()}
    new = {name: text.replace(b"\r", b"") or b"z\n" for name, text in new.items()}
    write(tmp_path, old, {})
    (tmp_path / "patches").mkdir()
    (tmp_path / "patches/series").write_bytes(b"p.patch\n")
    (tmp_path / "patches/p.patch").write_bytes(
        b"Description: x\n\n" + format_files(diff_files(old, new))
    )

    said = run(["quilt", "push", "--fuzz=0"], tmp_path)
    assert "offset" not in said
    found = {k: v for k, v in read(tmp_path)[0].items() if not k.startswith("patches/")}
    assert found == new
    run(["quilt", "pop"], tmp_path)
    found = {k: v for k, v in read(tmp_path)[0].items() if not k.startswith("patches/")}
    assert found == old


def test_git_hashes_what_the_index_line_says(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a\r\n\xff")
    (section,) = diff_files({}, {"x": b"a\r\n\xff"})

    said = run(["git", "hash-object", "--no-filters", "x"], tmp_path)
    assert said.strip() == section.new_id


def test_the_maker_is_a_function_of_its_trees_alone() -> None:
    old, new, modes_old, modes_new = random_trees(random.Random(3), ["b", "a", "c"])
    backwards = dict(reversed(new.items()))

    assert diff_files(old, new, modes_old, modes_new) == diff_files(
        dict(reversed(old.items())), backwards, modes_old, modes_new
    )
    assert Patch("p", b"", diff_files(old, new)) == Patch("p", b"", diff_files(old, backwards))


def test_every_hunk_is_unique_in_its_old_file() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        old, new, _, _ = random_trees(rng, ["x.py"])
        for file in diff_files(old, new):
            lines = split_lines(old.get("x.py", b""))
            for hunk in file.hunks:
                if lines:
                    assert find_lines(lines, hunk.old_lines) == [hunk.old_start - 1]
