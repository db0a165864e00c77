"""The page as a file: written, fresh, stale; and the one of this repository."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]

PATCH = """\
Description: It
Reason: so
Origin: here
Forwarded: no
Exit-Condition: 0.31.0
Applies-To: >=0.28,<0.29

diff --git a/vllm/a.py b/vllm/a.py
--- a/vllm/a.py
+++ b/vllm/a.py
@@ -1 +1 @@
-a
+b
"""


@pytest.fixture
def store(folder: Path) -> Path:
    release = folder / "patches/v0.28.0"
    release.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[tool.patchkit]\nseries = ["patches"]\n')
    (release / "series").write_text("a.patch\n")
    (release / "a.patch").write_text(PATCH)
    return folder


def test_the_page_is_printed_where_no_file_is_named(store: Path, capsys: Out) -> None:
    assert run(["registry"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Patches\n")
    assert "\n## a\n\n**It**\n" in out
    assert {path.name for path in store.iterdir()} == {"pyproject.toml", "patches"}


def test_a_written_page_is_fresh_until_a_patch_changes(
    store: Path, capsys: Out, check: Check
) -> None:
    words = ["registry", "--output", "docs/patches.md"]
    assert run([*words, "--check"]) == 3
    assert run(words) == 0
    first = (store / "docs/patches.md").read_bytes()
    assert run([*words, "--check"]) == 0
    path = store / "patches/v0.28.0/a.patch"
    path.write_text(PATCH.replace("Reason: so", "Reason: not so"))
    assert run([*words, "--check"]) == 3
    assert (store / "docs/patches.md").read_bytes() == first
    assert run([*words, "--json"]) == 0
    out, text = capsys.readouterr().out, ""
    text, _, document = out.partition("{")
    assert text == (
        "docs/patches.md: is not there: 1 patch\n"
        "hint: `patchkit registry --output docs/patches.md` writes it\n"
        "docs/patches.md: written: 1 patch\n"
        "docs/patches.md: is what is stored: 1 patch\n"
        "docs/patches.md: is not what is stored any more: 1 patch\n"
        "hint: `patchkit registry --output docs/patches.md` writes it\n"
    )
    check(json.loads("{" + document))
    assert b"not so" in (store / "docs/patches.md").read_bytes()


@pytest.mark.usefixtures("store")
def test_the_document_is_what_its_schema_says(capsys: Out, check: Check) -> None:
    assert run(["registry", "--output", "x.md", "--check", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert (document["ok"], document["state"], document["output"]) == (False, "missing", "x.md")
    (patch,) = document["patches"]
    assert (patch["hunks"], patch["added"], patch["removed"], patch["files"]) == (1, 1, 1, 1)
    assert patch["releases"] == [
        {"release": "0.28.0", "how": "first", "same_as": None, "reasons": []}
    ]


@pytest.mark.usefixtures("store")
def test_what_makes_no_sense_is_refused(capsys: Out) -> None:
    assert run(["registry", "--check"]) == 2
    assert run(["registry", "--output", "patches"]) == 1
    assert capsys.readouterr().err == (
        "error: patchkit registry: --check has no file\n"
        "hint: the page to check is named with --output FILE.md\n"
        "error: patches: is a folder, expected the name of a file\n"
    )


def test_the_page_of_this_repository_is_fresh(monkeypatch: pytest.MonkeyPatch, capsys: Out) -> None:
    monkeypatch.chdir(ROOT)
    assert run(["registry", "--output", "docs/patches.md", "--check"]) == 0
    assert capsys.readouterr().out.startswith("docs/patches.md: is what is stored: ")
