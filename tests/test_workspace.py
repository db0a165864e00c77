import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from patchkit.errors import PatchkitError
from patchkit.repository import workspace
from patchkit.repository.workspace import (
    Replacement,
    Workspace,
    read_file,
    read_folder,
    write_file,
    write_new_folder,
)

OLD = {"series": b"a.patch\n", "a.patch": b"old\n"}
NEW = {"series": b"a.patch\nb.patch\n", "a.patch": b"new\n", "deep/b.patch": b"b\n"}


def commit(root: Path, *replacements: Replacement) -> None:
    space = Workspace(root / ".patchkit")
    with space.locked():
        space.commit(replacements)


def everything(root: Path) -> dict[str, bytes]:
    """Return all files but the lock and the ignore file of the state folder."""
    found = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if not name.startswith(".patchkit/")}


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    commit(tmp_path, Replacement(tmp_path / "patches/v1", OLD))
    assert read_folder(tmp_path / "patches/v1") == OLD
    commit(tmp_path, Replacement(tmp_path / "patches/v1", NEW))
    assert everything(tmp_path) == {f"patches/v1/{name}": data for name, data in NEW.items()}


def test_one_commit_writes_folders_and_files_and_removes(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "x").write_bytes(b"x")
    (tmp_path / "file").write_bytes(b"old")
    commit(
        tmp_path,
        Replacement(tmp_path / "patches/v1", OLD),
        Replacement(tmp_path / "file", b"new"),
        Replacement(tmp_path / "gone", None),
        Replacement(tmp_path / "never there", None),
    )
    assert everything(tmp_path) == {
        "patches/v1/series": b"a.patch\n",
        "patches/v1/a.patch": b"old\n",
        "file": b"new",
    }
    assert not (tmp_path / "gone").exists()


def test_the_state_folder_is_ignored_by_git_and_keeps_no_journal(tmp_path: Path) -> None:
    commit(tmp_path)
    assert (tmp_path / ".patchkit" / ".gitignore").read_bytes() == b"*\n"
    assert sorted(p.name for p in (tmp_path / ".patchkit").iterdir()) == [".gitignore", "lock"]


def test_without_an_exchange_two_renames_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "_exchange", lambda *_: False)
    commit(tmp_path, Replacement(tmp_path / "v1", OLD))
    commit(tmp_path, Replacement(tmp_path / "v1", NEW))
    assert everything(tmp_path) == {f"v1/{name}": data for name, data in NEW.items()}


def test_a_second_holder_of_the_lock_is_refused(tmp_path: Path) -> None:
    first, second = Workspace(tmp_path), Workspace(tmp_path)
    with first.locked(), pytest.raises(PatchkitError) as caught, second.locked():
        pass
    assert str(caught.value) == f"{tmp_path}/lock: another patchkit is at work in this repository"


def test_what_cannot_be_staged_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "v1").mkdir()
    (tmp_path / "file").write_bytes(b"in the way")
    with pytest.raises(PatchkitError) as caught:
        commit(
            tmp_path,
            Replacement(tmp_path / "v1", NEW),
            Replacement(tmp_path / "file" / "v2", NEW),
        )
    assert caught.value.fact == "cannot be written: file exists"
    assert caught.value.hint == "nothing was changed"
    assert everything(tmp_path) == {"file": b"in the way"}
    assert sorted(p.name for p in tmp_path.iterdir()) == [".patchkit", "file", "v1"]


def test_a_new_folder_is_written_and_a_full_one_left_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    write_new_folder(tmp_path / "empty", NEW)
    write_new_folder(tmp_path / "deep" / "new", NEW)
    assert read_folder(tmp_path / "empty") == read_folder(tmp_path / "deep" / "new") == NEW
    with pytest.raises(PatchkitError) as caught:
        write_new_folder(tmp_path / "empty", OLD)
    assert str(caught.value) == f"{tmp_path}/empty: cannot be written: directory not empty"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "empty"]
    assert read_folder(tmp_path / "empty") == NEW


def test_reading_leaves_out_what_is_staged(tmp_path: Path) -> None:
    (tmp_path / ".x.patchkit-new").write_bytes(b"half")
    (tmp_path / "x").write_bytes(b"whole")
    assert read_folder(tmp_path) == {"x": b"whole"}


def test_reading_what_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(PatchkitError) as caught:
        read_file(tmp_path / "nothing")
    assert str(caught.value) == (
        f"{tmp_path}/nothing: no such file or directory, expected a readable file"
    )
    with pytest.raises(PatchkitError) as caught:
        read_folder(tmp_path / "nothing")
    assert str(caught.value) == f"{tmp_path}/nothing: no such folder"


def test_a_journal_of_another_format_is_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "journal.json", json.dumps({"format": 2, "entries": []}).encode())
    with pytest.raises(PatchkitError) as caught, Workspace(tmp_path).locked():
        pass
    assert str(caught.value) == f"{tmp_path}/journal.json: journal of format 2, expected format 1"


def test_a_content_edited_after_the_kill_is_not_swapped_out_again(tmp_path: Path) -> None:
    write_file(tmp_path / "v1" / "a", b"edited by hand")
    write_file(tmp_path / ".v1.patchkit-new" / "a", b"the old content, swapped out")
    entry = {"path": "../v1", "old": "of the old", "new": "of the new"}
    write_file(
        tmp_path / ".patchkit/journal.json", json.dumps({"format": 1, "entries": [entry]}).encode()
    )
    Workspace(tmp_path / ".patchkit").recover()
    assert everything(tmp_path) == {"v1/a": b"edited by hand"}


def test_a_folder_made_anew_after_the_kill_is_not_removed(tmp_path: Path) -> None:
    write_file(tmp_path / "state" / "x", b"begun again")
    entry = {"path": "../state", "old": "of the old", "new": None}
    write_file(
        tmp_path / ".patchkit/journal.json", json.dumps({"format": 1, "entries": [entry]}).encode()
    )
    Workspace(tmp_path / ".patchkit").recover()
    assert everything(tmp_path) == {"state/x": b"begun again"}


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from patchkit.repository import workspace
    from patchkit.repository.workspace import Replacement, Workspace, write_file

    folder, exchange = Path(sys.argv[1]), sys.argv[2] == "exchange"
    if not exchange:
        workspace._exchange = lambda one, other: False
    steps_left = -1

    def kill_when_none_are_left(event, args):
        global steps_left
        flags = args[2] if event == "open" and isinstance(args[2], int) else 0
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        if event in ("os.rename", "os.mkdir", "os.remove", "os.rmdir", "ctypes.dlsym") or writes:
            steps_left -= 1
            if steps_left == -1:
                os.kill(os.getpid(), signal.SIGKILL)

    def commit(root):
        space = Workspace(root / ".patchkit")
        with space.locked():
            space.commit([
                Replacement(root / "one/v1", {"series": b"new", "deep/a": b"new"}),
                Replacement(root / "two/v1", {"series": b"new"}),
                Replacement(root / "fresh/v1", {"series": b"new"}),
                Replacement(root / "state", None),
            ])

    sys.addaudithook(kill_when_none_are_left)
    for step in range(500):
        root = folder / str(step)
        for name in ("one/v1/series", "two/v1/series", "state/x"):
            write_file(root / name, b"old")
        child = os.fork()
        if child == 0:
            steps_left = step
            commit(root)
            os._exit(0)
        ended = os.waitpid(child, 0)[1]
        if ended == 0:
            break
        assert os.WTERMSIG(ended) == signal.SIGKILL, ended
"""
BEFORE = {"one/v1/series": b"old", "two/v1/series": b"old", "state/x": b"old"}
AFTER = {
    "one/v1/series": b"new",
    "one/v1/deep/a": b"new",
    "two/v1/series": b"new",
    "fresh/v1/series": b"new",
}


@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_a_kill_at_any_step_leaves_old_or_new(tmp_path: Path, way: str) -> None:
    script = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), way]
    subprocess.run(script, check=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())})
    steps = sorted(tmp_path.iterdir(), key=lambda folder: int(folder.name))
    assert len(steps) > 25
    found = []
    for root in steps:
        if way == "exchange":  # never half, even before anything is recovered
            assert read_folder(root / "one/v1") in (
                {"series": b"old"},
                {"series": b"new", "deep/a": b"new"},
            )
        Workspace(root / ".patchkit").recover()
        found.append({n: d for n, d in everything(root).items() if ".patchkit-new" not in n})
        assert found[-1] in (BEFORE, AFTER), root.name
        commit(root, *[Replacement(root / f"{n}/v1", {"series": b"again"}) for n in ("one", "two")])
        assert read_folder(root / "one/v1") == {"series": b"again"}
    assert found[0] == BEFORE
    assert found[-1] == AFTER
    assert found == sorted(found, key=lambda state: state == AFTER)
    last = steps[-1]
    assert [p.name for p in last.rglob(".*.patchkit-*")] == []
