from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import export, import_, run
from patchkit.diff import diff_files, format_files, parse_mbox
from patchkit.tree import SourceTree
from patchkit.upstream.pins import Pins, Release

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]

FILES = {
    "vllm/a.py": b"".join(b"a%d = %d\n" % (n, n) for n in range(20)),
    "vllm/crlf.py": b"one = 1\r\ntwo = 2\r\n",
    "vllm/old.py": b"x = 1\n",
}
FIRST = {
    **FILES,
    "vllm/a.py": FILES["vllm/a.py"].replace(b"a3 = 3\n", b"a3 = '\xc3\xa4 \xff'\n"),
    "vllm/new.py": b"fresh = 1",
}
SECOND = {
    **FIRST,
    "vllm/a.py": FIRST["vllm/a.py"].replace(b"a15", b"b15"),
    "vllm/crlf.py": b"one = 1\r\ntwo = 22\r\n",
}
del SECOND["vllm/old.py"]
FULL = (
    "Subject: [Core] First of all: ä\n Why it is.\n .\n --- a line\n diff -u no diff\n"
    "Reason: r\nForwarded: no\n at all\nExit-Condition: never\nOrigin: us\nApplies-To: ==0.28.0\n"
    "Author: Jö <j@example.org>\nLast-Update: 2026-01-31\nTest: tests/x.py\n\nMore text.\n\n"
)


def patches() -> dict[str, bytes]:
    modes = {"vllm/new.py": 0o100755}
    first = format_files(diff_files(FILES, FIRST, None, modes))
    second = format_files(diff_files(FIRST, SECOND, modes, modes))
    return {"first.patch": FULL.encode() + first, "second.patch": second}


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out) -> Path:
    tree = SourceTree(FILES, name="0.28.0", version="0.28.0")
    monkeypatch.setattr(import_, "tree_opener", lambda *_: lambda _: tree)
    monkeypatch.setattr(export, "tree_opener", lambda *_: lambda _: tree)
    monkeypatch.setattr(import_, "read_pins", lambda _: Pins((Release("0.28.0", ()),)))
    (folder / "in").mkdir()
    for name, data in patches().items():
        (folder / "in" / name).write_bytes(data)
    assert run(["import", "in"]) == 0
    capsys.readouterr()
    return folder


def read(folder: Path) -> dict[str, bytes]:
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*.*") if p.is_file()}
    return {name: p.read_bytes() for name, p in found.items() if not name.startswith(".")}


def git(folder: Path, *args: str, stdin: bytes = b"") -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false"]
    done = subprocess.run(
        ["git", *who, *args], cwd=folder, env=env, input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode("utf-8", "replace")


@pytest.fixture
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a git work tree of the release."""
    folder = tmp_path_factory.mktemp("release")
    for name, data in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "commit", "-qm", "base")
    return folder


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty folder that is in no repository."""
    return tmp_path_factory.mktemp("elsewhere")


def working_files(folder: Path) -> dict[str, bytes]:
    return {f"vllm/{path.name}": path.read_bytes() for path in (folder / "vllm").iterdir()}


def test_mails_are_what_git_am_takes(store: Path, checkout: Path) -> None:
    assert run(["export", "v0.28.0", "--format", "mail", "--output", "mails"]) == 0
    names = sorted(path.name for path in (store / "mails").iterdir())
    assert names == ["0001-first.patch", "0002-second.patch"]
    git(checkout, "am", "-q", "--keep-non-patch", *(str(store / "mails" / name) for name in names))
    assert working_files(checkout) == SECOND
    assert (checkout / "vllm/new.py").stat().st_mode & 0o111
    log = git(checkout, "log", "-2", "--reverse", "--format=%an <%ae>|%aI|%s")
    assert log == (
        "Jö <j@example.org>|2026-01-31T00:00:00+00:00|[Core] First of all: ä\n"
        "unknown <author@unknown.invalid>|1970-01-01T00:00:00+00:00|second\n"
    )
    body = git(checkout, "log", "-1", "--format=%b", "HEAD~1")
    assert body.startswith("Why it is.\n\n --- a line\n diff -u no diff\n\nReason: r\n")
    assert "\nForwarded: no\n at all\n" in body


def test_a_mail_is_a_function_of_the_patch(store: Path) -> None:
    for output in ("one", "two"):
        assert run(["export", "--format", "mail", "--output", output]) == 0
    assert read(store / "one") == read(store / "two")
    first = read(store / "one")["0001-first.patch"]
    assert first.startswith(
        b"From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        b"From: J\xc3\xb6 <j@example.org>\n"
        b"Date: Sat, 31 Jan 2026 00:00:00 +0000\n"
        b"Subject: [PATCH 1/2] [Core] First of all: \xc3\xa4\n"
        b"MIME-Version: 1.0\n"
        b"Content-Type: text/plain; charset=UTF-8\n"
        b"Content-Transfer-Encoding: 8bit\n\n"
    )
    assert b"Content-Transfer-Encoding: base64\n" in read(store / "one")["0002-second.patch"]


def test_diffs_are_what_git_apply_takes(store: Path, checkout: Path) -> None:
    assert run(["export", "--output", "diffs"]) == 0
    diffs = read(store / "diffs")
    for name in sorted(diffs):
        git(checkout, "apply", "--index", "-", stdin=diffs[name])
    assert sorted(diffs) == ["0001-first.patch", "0002-second.patch"]
    assert working_files(checkout) == SECOND
    assert diffs["0001-first.patch"] == (store / "patches/v0.28.0/first.patch").read_bytes()


def test_a_quilt_folder_is_applied_in_the_order_of_its_series(store: Path, checkout: Path) -> None:
    assert run(["export", "--format", "quilt", "--output", "stack"]) == 0
    assert (store / "stack/patches/series").read_text() == "first.patch\nsecond.patch\n"
    for name in (store / "stack/patches/series").read_text().split():
        done = subprocess.run(
            ["patch", "-p1", "--binary", "--fuzz=0", "-s"],
            input=(store / "stack/patches" / name).read_bytes(),
            cwd=checkout,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
    assert working_files(checkout) == SECOND


@pytest.mark.parametrize("form", ["diff", "mail", "quilt"])
def test_what_left_comes_back_as_it_was(
    form: str, store: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["export", "--format", form, "--output", "out"]) == 0
    monkeypatch.chdir(elsewhere)
    assert run(["import", str(store / "out")]) == 0
    before, after = read(store / "patches"), read(elsewhere / "patches")
    assert sorted(before) == sorted(after)
    assert (elsewhere / "patches/v0.28.0/series").read_text() == "first.patch\nsecond.patch\n"
    for name in before:
        if not name.endswith(".patch"):
            assert after[name] == before[name]
            continue
        (old,), (new,) = parse_mbox(before[name], name), parse_mbox(after[name], name)
        assert format_files(new.files) == format_files(old.files)
    if form != "mail":  # a mail has its own way to say who and when, and always says both
        assert after == before


def test_a_mailbox_of_all_mails_comes_back_too(
    store: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(["export", "--format", "mail", "--output", "out"])
    box = b"".join(data for _, data in sorted(read(store / "out").items()))
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(box)))
    assert run(["import", "-"]) == 0
    for old, new in (("first", "core-first-of-all"), ("second", "second")):
        before = (store / f"patches/v0.28.0/{old}.patch").read_bytes()
        after = (elsewhere / f"patches/v0.28.0/{new}.patch").read_bytes()
        assert after[after.index(b"\ndiff --git") :] == before[before.index(b"\ndiff --git") :]


@pytest.mark.usefixtures("store")
def test_some_patches_can_be_chosen(capsys: Out, check: Check) -> None:
    assert run(["export", "--only", "second", "--output", "out", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document == {
        "schema": "patchkit.export-patches/1",
        "ok": True,
        "exit_code": 0,
        "release": "0.28.0",
        "format": "diff",
        "path": "out",
        "files": ["0001-second.patch"],
        "left_out": ["patches/first.patch"],
    }
    assert run(["export", "--without", "first", "--output", "other"]) == 0
    assert capsys.readouterr().out == (
        "wrote 1 patch of v0.28.0 to other\n"
        "note: line numbers and blob ids are those of the whole series\n"
        "left out: patches/first.patch\n"
    )


def test_whole_new_files_are_a_patch_of_their_own(store: Path, capsys: Out, check: Check) -> None:
    (store / "kernels").mkdir()
    (store / "kernels/k.py").write_bytes(b"k = 1\n")
    digest = hashlib.sha256(b"k = 1\n").hexdigest()
    (store / "patches/v0.28.0/overlay.toml").write_text(
        'format = 1\n\n[[file]]\nsource = "kernels/k.py"\npath = "vllm/k.py"\n'
        f'sha256 = "{digest}"\n'
    )
    assert run(["export", "--output", "out"]) == 0
    assert sorted(read(store / "out")) == [
        "0001-new-files.patch", "0002-first.patch", "0003-second.patch",
    ]  # fmt: skip
    text = read(store / "out")["0001-new-files.patch"]
    assert text.startswith(b"Description: Whole new files of patches\nOrigin: overlay.toml\n\n")
    assert text.endswith(b"@@ -0,0 +1 @@\n+k = 1\n")
    capsys.readouterr()
    assert run(["export", "--only", "first", "--output", "one", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["files"] == ["0001-first.patch"]
    assert document["left_out"] == ["patches/second.patch", "patches/v0.28.0/overlay.toml"]


def test_a_folder_that_holds_something_is_left_alone(store: Path, capsys: Out) -> None:
    before = read(store)
    assert run(["export", "--output", "in"]) == 1
    assert capsys.readouterr().err == "error: in: cannot be written: directory not empty\n"
    assert read(store) == before


@pytest.mark.parametrize(
    ("release", "error"),
    [
        (
            "v0.29.0",
            "error: patches: no series is stored for v0.29.0\nhint: stored are: v0.28.0; "
            "`patchkit rebase v0.29.0` moves one there\n",
        ),
        ("nonsense", "error: 'nonsense' is not a version"),
    ],
)
@pytest.mark.usefixtures("store")
def test_a_release_that_is_not_stored_is_refused(release: str, error: str, capsys: Out) -> None:
    assert run(["export", release, "--output", "out"]) == 1
    assert capsys.readouterr().err.startswith(error)


def test_an_empty_series_is_refused(folder: Path, capsys: Out) -> None:
    run(["init", "--from", "v0.28.0"])
    capsys.readouterr()
    assert run(["export", "--output", "out"]) == 1
    assert capsys.readouterr().err == (
        "error: v0.28.0: the series is empty: there is nothing to write\n"
    )
    assert not (folder / "out").exists()
