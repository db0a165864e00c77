"""The harness itself: every change is a step, and what raises is told."""

from pathlib import Path

import pytest

from tests.kill.steps import killed_at_each_step


def test_each_change_is_a_step(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").write_bytes(b"1")

    def act() -> None:
        Path("a").write_bytes(b"2")
        Path("b").mkdir()
        Path("a").rename("b/a")

    found = []
    for killed in killed_at_each_step(folder, tmp_path / "copies", act):
        paths = {p.relative_to(killed.folder).as_posix(): p for p in killed.folder.rglob("*")}
        found.append({n: p.read_bytes() if p.is_file() else None for n, p in paths.items()})
    assert found == [
        {"a": b"1"},
        {"a": b"2"},
        {"a": b"2", "b": None},
        {"b": None, "b/a": b"2"},
    ]
    assert (folder / "a").read_bytes() == b"1"


def test_a_run_that_raises_fails(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()

    def act() -> None:
        raise OSError

    with pytest.raises(AssertionError, match="step 0: the run failed"):
        list(killed_at_each_step(tmp_path / "folder", tmp_path / "copies", act))
