"""Commands that edit what is stored, in random order; git says what the patches make."""

from __future__ import annotations

import importlib
import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from patchkit.cli import COMMANDS, import_, module_name, run
from patchkit.config import parse_config
from patchkit.editing.stack import Layer, open_stack
from patchkit.series.series import parse_series_file
from patchkit.tree import SourceTree
from patchkit.upstream.pins import Pins, Release
from tests.editing.store import read

WHERE, PATCHES = ".patchkit/edit/v0.28.0", "patches/v0.28.0"
BODY = "".join(f"def f{n}(x, y):\n    a = x + 1\n    b = y\n    return a\n\n\n" for n in range(5))
BASE = {
    "vllm/__init__.py": b"",
    "vllm/a.py": BODY.encode(),
    "vllm/b.py": BODY.replace("f", "g").replace("\n", "\r\n").encode(),
    "vllm/d.txt": b"".join(b"line %d\n" % (n % 5) for n in range(20)) + b"no newline",
    "vllm/run.sh": b"#!/bin/sh\necho 1\necho 2\n",
}
MODES = {"vllm/run.sh": 0o100755}
TREE = SourceTree(BASE, modes=MODES, name="vllm 0.28.0", version="0.28.0")
FILLED = [
    "--description", "d", "--reason", "r", "--origin", "o", "--forwarded", "no",
    "--exit-condition", "e", "--applies-to", "==0.28.0",
]  # fmt: skip
LINES = (b"", b"    z = 1", b"    a = f3(1, 2)", b"line 3", b"def h(z):", b"    return z")
NEW_FILES = ("vllm/new/__init__.py", "vllm/more.py", "vllm/\u00fcn\u00ef.txt")
Found = dict[str, tuple[bytes, bool]]
some = st.integers(min_value=0, max_value=99)
edits = st.lists(st.tuples(some, some, some, some), min_size=2, max_size=6)


def found_in(folder: Path) -> Found:
    """Return the files of a work tree, and whether each can be run."""
    paths = [
        p for p in folder.rglob("*") if p.is_file() and p.relative_to(folder).parts[0] != ".git"
    ]
    return {
        p.relative_to(folder).as_posix(): (p.read_bytes(), bool(p.stat().st_mode & 0o100))
        for p in paths
    }


def of_tree(tree: SourceTree) -> Found:
    return {p: (data, tree.mode(p) == 0o100755) for p, data in tree.files.items()}


def lay_out(folder: Path) -> None:
    for name, data in BASE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        (folder / name).chmod(MODES.get(name, 0o100644) & 0o777)


def change(folder: Path, what: tuple[int, int, int, int]) -> None:
    """Make one change in a work tree, as the numbers say."""
    kind, which, where, how = what
    paths = [folder / name for name in sorted(found_in(folder))]
    path = paths[which % len(paths)]
    if kind < 8:
        path = folder / NEW_FILES[which % len(NEW_FILES)]
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((b"", b"X = 1\n", b"no newline", b"a\r\nb\r\n")[how % 4])
    elif kind < 12 and len(paths) > 3:
        path.unlink()
    elif kind < 18:
        path.chmod(path.stat().st_mode ^ 0o111)
    elif kind < 22:
        path.rename(path.with_name(f"m{path.name}"[:20]))
    else:
        change_lines(path, kind % 4, where, LINES[how % len(LINES)])


def change_lines(path: Path, kind: int, where: int, line: bytes) -> None:
    lines = path.read_bytes().splitlines(keepends=True) or [b"first\n"]
    at = where % len(lines)
    end = b"\r\n" if lines[at].endswith(b"\r\n") else b"\n"
    if kind == 0:
        lines[at] = lines[at].rstrip(b"\r\n") + b"  # " + line.strip() + end
    elif kind == 1:
        lines[at:at] = [line + end]
    elif kind == 2:
        del lines[at : at + 2]
    else:
        lines[-1] = lines[-1].rstrip(b"\r\n") + (end if where % 2 else b"")
    path.write_bytes(b"".join(lines))


class Walk(RuleBasedStateMachine):
    """One repository, and what it is to hold."""

    def __init__(self) -> None:
        super().__init__()
        self.above = Path(tempfile.mkdtemp())
        self.root = self.above / "repository"
        self.root.mkdir()
        os.chdir(self.root)
        (self.root / "pyproject.toml").write_bytes(b"[tool.patchkit]\n")
        (self.root / PATCHES).mkdir(parents=True)
        (self.root / PATCHES / "series").write_bytes(b"# mine\n")
        self.count = 0

    def teardown(self) -> None:
        """Leave nothing behind."""
        os.chdir(self.above.parent)
        shutil.rmtree(self.above)

    def layers(self) -> tuple[Layer, ...]:
        return open_stack(
            parse_config({}, root=self.root, place=""), "0.28.0", lambda _: TREE
        ).layers

    def name(self, number: int) -> str | None:
        names = [layer.name for layer in self.layers()]
        return names[number % len(names)] if names else None

    def new(self) -> str:
        self.count += 1
        return f"p{self.count}"

    def run(self, *words: str) -> bool:
        """Return whether a command did what it was told; one that refused has done nothing."""
        before, work = read(self.root), found_in(self.root / WHERE)
        status = run(words)
        assert status in (0, 1, 2)
        if status:
            assert read(self.root) == before
            assert found_in(self.root / WHERE) == work
        return status == 0

    def keeps_the_release(self, *words: str) -> None:
        before = [of_tree(layer.after) for layer in self.layers()[-1:]]
        self.run(*words)
        assert [of_tree(layer.after) for layer in self.layers()[-1:]] == before

    @initialize(first=edits, second=edits, third=edits)
    def three_patches(self, **edits: list[tuple[int, int, int, int]]) -> None:
        for name in sorted(edits):
            self.change_a_patch(edits[name], 0, 1)

    @rule(edits=edits, number=some, into=some)
    def record_changes(
        self, edits: list[tuple[int, int, int, int]], number: int, into: int
    ) -> None:
        self.change_a_patch(edits, number, into)

    def change_a_patch(
        self, edits: list[tuple[int, int, int, int]], number: int, into: int
    ) -> None:
        patch = self.name(number) if number % 4 else None
        self.run("edit", "--close", "--discard")
        if not self.run("edit", *([patch] if patch else [])):
            return
        tree = self.root / WHERE
        for what in edits:
            change(tree, what)
        if into % 3 == 0:
            git = ["git", "-C", str(tree)]
            subprocess.run([*git, "add", "-A"], check=True)
            subprocess.run([*git, "commit", "-qm", "mine", "--allow-empty"], check=True)
        work = found_in(tree)
        new = self.new()
        if patch is None or into % 4 == 1:
            words = ["--new", new, *FILLED]
            patch = patch and f"{new}.patch"
        elif into % 4 == 2:
            words = [self.name(into) or ""]
        else:
            words = []
        depends = ["--depends"] if into % 2 else []
        if not self.run("record", *words, *depends):
            return
        assert found_in(tree) == work
        at = [layer for layer in self.layers() if patch in (None, layer.name)][-1:]
        assert [of_tree(layer.after) for layer in at] in ([work], [])
        status = ["git", "-C", str(tree), "status", "--porcelain"]
        assert subprocess.run(status, check=True, capture_output=True).stdout == b""

    @rule(number=some, hunks=st.sets(st.integers(min_value=1, max_value=4), min_size=1, max_size=2))
    def split(self, number: int, hunks: set[int]) -> None:
        if (name := self.name(number)) is not None:
            text = ",".join(map(str, sorted(hunks)))
            words = ["--hunks", text, "--into", self.new(), "--description", "part"]
            self.keeps_the_release("split", name, *words)

    @rule(one=some, other=some, third=some)
    def fold(self, one: int, other: int, third: int) -> None:
        names = list(dict.fromkeys(self.name(number) for number in (one, other, third)))
        if len(names) > 1:
            self.keeps_the_release("fold", *map(str, names[1:]), "--into", str(names[0]))

    @rule(number=some)
    def rename(self, number: int) -> None:
        if (name := self.name(number)) is not None:
            self.keeps_the_release("rename", name, self.new())

    @rule(number=some)
    def drop(self, number: int) -> None:
        if (name := self.name(number)) is not None:
            more = ["--with-dependents"] if number % 2 else []
            self.run("drop", name, "--reason", "r", *more)

    @rule(form=st.sampled_from(("diff", "mail", "quilt")))
    def export_and_import(self, form: str) -> None:
        before = self.layers()
        if not before:
            return
        output = self.above / self.new()
        assert run(["export", "v0.28.0", "--format", form, "--output", str(output)]) == 0
        other = self.above / self.new()
        other.mkdir()
        os.chdir(other)
        assert run(["import", str(output), "--base", "0.28.0"]) == 0
        after = open_stack(parse_config({}, root=other, place=""), "0.28.0", lambda _: TREE).layers
        os.chdir(self.root)
        assert [layer.plan.patch.files for layer in after] == [
            layer.plan.patch.files for layer in before
        ]
        for one, two in zip(before, after, strict=True):
            assert of_tree(two.after) == of_tree(one.after)

    @invariant()
    def git_applies_what_is_stored(self) -> None:
        folder = self.above / "judge"
        lay_out(folder)
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        (folder / ".git/info").mkdir(exist_ok=True)
        (folder / ".git/info/attributes").write_bytes(b"* -text\n")
        series = (self.root / PATCHES / "series").read_bytes()
        names = [entry.name for entry in parse_series_file(series, "series")]
        for name in names:
            path = self.root / PATCHES / name
            subprocess.run(
                ["git", "apply", "--whitespace=nowarn", str(path)], cwd=folder, check=True
            )
        wanted = [of_tree(layer.after) for layer in self.layers()[-1:]] or [of_tree(TREE)]
        assert found_in(folder) == wanted[0]
        shutil.rmtree(folder)

    @invariant()
    def what_is_stored_is_sound(self) -> None:
        out = io.StringIO()
        with redirect_stdout(out):
            run(["check", "--frozen", "--json"])
        findings = [f for one in json.loads(out.getvalue())["series"] for f in one["findings"]]
        # a need that is not declared is told when it comes about
        assert [f for f in findings if f["kind"] not in ("header", "depends", "statement")] == []


@pytest.fixture
def _one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def opener(*_: object) -> Callable[[str], SourceTree]:
        return lambda _: TREE

    for command in COMMANDS:
        module = importlib.import_module(f"patchkit.cli.{module_name(command)}")
        if hasattr(module, "tree_opener"):
            monkeypatch.setattr(module, "tree_opener", opener)
    monkeypatch.setattr(import_, "read_pins", lambda _: Pins((Release("0.28.0", ()),)))


@pytest.mark.usefixtures("_one_release", "capsys")
def test_a_random_walk_keeps_the_release_and_every_change() -> None:
    walk = settings(
        max_examples=14, stateful_step_count=7, deadline=None, derandomize=True, database=None,
        phases=[Phase.generate],  # to make a failure small takes minutes
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    run_state_machine_as_test(Walk, settings=walk)
