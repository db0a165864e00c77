import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.config import Config, find_config

SERIES = b"# One patch file a line, applied in this order.\n"


def files(folder: Path) -> dict[str, bytes]:
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {n: p.read_bytes() for n, p in found.items() if not n.startswith(".patchkit/")}


def test_an_empty_folder_gets_the_table_and_a_series(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--from", "v0.28"]) == 0
    assert files(folder) == {
        "pyproject.toml": b'[tool.patchkit]\nseries = ["patches"]\n',
        "patches/v0.28.0/series": SERIES,
    }
    assert find_config(folder) == Config(folder.resolve(), ("patches",))
    assert capsys.readouterr().out == (
        "created pyproject.toml\n"
        "created patches/v0.28.0/series\n"
        "next: put patch files into patches/v0.28.0, name them in patches/v0.28.0/series\n"
    )


def test_a_second_time_changes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["init", "--from", "v0.28.0"])
    (folder / "patches/v0.28.0/series").write_bytes(b"mine.patch\n")
    before = files(folder)
    capsys.readouterr()
    assert run(["init", "--from", "v0.28.0"]) == 0
    assert files(folder) == before
    assert capsys.readouterr().out == "kept pyproject.toml\nkept patches/v0.28.0/series\n"


def test_a_pyproject_of_another_tool_is_added_to(folder: Path) -> None:
    (folder / "pyproject.toml").write_bytes(b'[project]\nname = "x"\n\n\n')
    assert run(["init"]) == 0
    assert files(folder) == {
        "pyproject.toml": b'[project]\nname = "x"\n\n[tool.patchkit]\nseries = ["patches"]\n'
    }


def test_the_folder_named_in_pyproject_is_used(folder: Path) -> None:
    text = b'[tool.patchkit]\nseries = ["ours", "patches"]\n'
    (folder / "pyproject.toml").write_bytes(text)
    assert run(["init", "--from", "0.28.0"]) == 0
    assert files(folder) == {"pyproject.toml": text, "ours/v0.28.0/series": SERIES}


def test_an_unknown_release_is_refused_and_writes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--from", "v0.28.7"]) == 1
    assert list(folder.iterdir()) == []
    err = capsys.readouterr().err
    assert err.startswith("error: release 0.28.7 is not pinned\nhint: near: ")
    assert err.endswith("add it with `patchkit pin 0.28.7`\n")


def test_a_broken_pyproject_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "pyproject.toml").write_bytes(b"[tool\n")
    assert run(["init"]) == 2
    assert capsys.readouterr().err.startswith("error: pyproject.toml: not valid TOML: ")
    assert files(folder) == {"pyproject.toml": b"[tool\n"}


def test_json_says_what_was_created(
    folder: Path, capsys: pytest.CaptureFixture[str], check: Callable[[dict[str, Any]], None]
) -> None:
    assert run(["init", "--from", "v0.28.0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document == {
        "schema": "patchkit.init/1",
        "exit_code": 0,
        "root": str(folder),
        "created": ["pyproject.toml", "patches/v0.28.0/series"],
        "kept": [],
    }
