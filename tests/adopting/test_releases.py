"""Real releases: a mailbox, a quilt stack and a folder diff, each made on 0.27.1."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.diff import diff_files, format_files
from patchkit.upstream import open_tree

pytestmark = pytest.mark.network
Out = pytest.CaptureFixture[str]
CACHE, SCHEDULER = "vllm/config/cache.py", "vllm/v1/core/sched/scheduler.py"
SAY = b'    def describe(self) -> str:\n        return f"{self.block_size}"\n\n'
COUNT = b"    def describe_queue(self) -> int:\n        return len(self.waiting)\n\n"


@pytest.fixture(scope="module")
def stack() -> list[bytes]:
    """Return the sections of three patches, each on those before it."""
    tree = open_tree("0.27.1")
    states = [{path: tree.files[path] for path in (CACHE, SCHEDULER)}]
    for path, old, new in (
        (CACHE, b"    def metrics_info(self):\n", SAY + b"    def metrics_info(self):\n"),
        (CACHE, b'f"{self.block_size}"', b'f"block {self.block_size}"'),
        (SCHEDULER, b"    def _preempt_request(\n", COUNT + b"    def _preempt_request(\n"),
    ):
        assert states[-1][path].count(old) == 1
        states.append({**states[-1], path: states[-1][path].replace(old, new)})
    return [format_files(diff_files(a, b)) for a, b in pairwise(states)]


def take(folder: Path, monkeypatch: pytest.MonkeyPatch, out: Out, *args: str) -> dict[str, Any]:
    """Return what an import says, once a check has found no more than empty headers."""
    monkeypatch.chdir(folder)
    assert run(["import", *args, "--json"]) == 0
    document: dict[str, Any] = json.loads(out.readouterr().out)
    assert document["path"] == "patches/v0.27.1"
    assert run(["check", "--frozen", "--json"]) == 3
    findings = [f for s in json.loads(out.readouterr().out)["series"] for f in s["findings"]]
    assert {f["kind"] for f in findings} == {"header"}
    assert all(f["text"].endswith(" is empty") for f in findings)
    return document


def test_a_mailbox_with_a_cover_letter_and_a_reply(
    stack: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    start = "From 0123456789abcdef Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: "
    mails = [f"{start}[PATCH 0/3] All of it\n\nWhat and why.\n-- \n2.39.5\n\n".encode()]
    for number, data in enumerate(stack, start=1):
        head = f"{start}[PATCH {number}/3] Step {number}\n\nWhy.\n---\n\n"
        mails.append(head.encode() + data + b"-- \n2.39.5\n\n")
    mails.append(f"{start}Re: [PATCH 1/3] Step 1\n\n> @@ -1 +1 @@\n> +a\nNo.\n".encode())
    (tmp_path / "all.mbox").write_bytes(b"".join(mails))
    document = take(tmp_path, monkeypatch, capsys, "all.mbox")
    assert document["base"]["proof"] == "ids"
    assert [p["name"] for p in document["patches"]] == [f"step-{n}.patch" for n in (1, 2, 3)]
    assert [p["depends_on"] for p in document["patches"]] == [[], ["step-1"], []]
    notes = [note for patch in document["patches"] for note in patch["notes"]]
    assert sum(note.endswith("text without a patch passed over") for note in notes) == 2


def test_a_quilt_stack_without_prefixes(
    stack: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    (tmp_path / "q").mkdir()
    for number, data in enumerate(stack, start=1):
        plain = b"\n".join(
            line.replace(b" a/", b" ").replace(b" b/", b" ")
            for line in data.split(b"\n")
            if not line.startswith((b"diff --git", b"index "))
        )
        (tmp_path / f"q/{9 - number}.diff").write_bytes(plain)
    (tmp_path / "q/series").write_bytes(b"# ours\n8.diff -p0\n7.diff -p0 # second\n6.diff -p0\n")
    document = take(tmp_path, monkeypatch, capsys, "q")
    assert document["base"]["alike"] == ["0.27.0"]
    assert [note for patch in document["patches"] for note in patch["notes"]] == []


def test_files_in_no_order_and_in_utf_16(
    stack: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    for name, data in zip("bca", stack, strict=True):
        text = data.replace(b"\n", b"\r\n").decode()
        (tmp_path / f"{name}.patch").write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    document = take(tmp_path, monkeypatch, capsys, "c.patch", "b.patch", "a.patch")
    assert document["order"] == "in the order in which they apply: b.patch, c.patch, a.patch"
