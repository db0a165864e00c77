"""The cache: kills, several runs at once, damage, folders that cannot be written."""

import hashlib
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import patchkit
from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree
from patchkit.upstream.cache import Cache
from patchkit.upstream.packed import Contents, DamagedError, PackedEntry, PackedFiles, write_packed
from patchkit.upstream.pins import format_pins

OPEN = """
import hashlib, os, signal, sys
from pathlib import Path
from patchkit.upstream.pins import parse_pins
from patchkit.upstream import Cache, open_tree
from patchkit.upstream.index import Index
from patchkit.upstream.pipconfig import PipConfig
from patchkit.upstream import cache as cache_module
pins = parse_pins(Path(sys.argv[1]).read_text())
index = Index(PipConfig(index_url=sys.argv[2], timeout_s=20.0))
{extra}
print("opening", flush=True)
tree = open_tree("v0.99.0", pins=pins, cache=Cache(Path(sys.argv[3])), index=index)
digest = hashlib.sha256()
for path in sorted(tree.files):
    digest.update(path.encode() + tree.files[path])
print(digest.hexdigest())
"""
DIE_WHILE_PACKING = """
def half(file, contents):
    file.write(b"half of it")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
cache_module.write_packed = half
"""
DIE_BEFORE_RENAME = """
def die(self, target):
    os.kill(os.getpid(), signal.SIGKILL)
Path.replace = die
"""
DIE_AFTER_RENAME = """
def die(folder):
    os.kill(os.getpid(), signal.SIGKILL)
cache_module._sync_folder = die
"""


def start(fake_index, pins, cache, tmp_path, extra=""):
    pins_file = tmp_path / "pins.toml"
    pins_file.write_text(format_pins(pins))
    root = Path(patchkit.__file__).parent.parent
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            OPEN.format(extra=extra),
            pins_file,
            f"{fake_index.url}/simple/",
            cache.root,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root), "NO_PROXY": "*"},
    )


def tree_digest(tree):
    digest = hashlib.sha256()
    for path in sorted(tree.files):
        digest.update(path.encode() + tree.files[path])
    return digest.hexdigest()


def assert_cache_is_well(fake_index, pins, cache):
    tree = open_tree("v0.99.0", pins=pins, cache=cache, index=fake_index.index())
    assert tree.files["vllm/zz.py"] == b"last = 1\n"
    assert tree.files.is_whole()
    assert list(cache.root.rglob("*.part")) == []


@pytest.mark.parametrize("hold_at", [0, 1 << 18, 900_000, 1 << 20])
def test_kill_during_a_transfer_leaves_no_damage(fake_index, pins, cache, tmp_path, hold_at):
    fake_index.faults.hold_at = hold_at
    with start(fake_index, pins, cache, tmp_path) as run:
        assert fake_index.held.wait(60)
        run.send_signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
    fake_index.go.set()
    assert list(cache.root.rglob("*.tree")) == []
    assert_cache_is_well(fake_index, pins, cache)


def test_kill_during_a_whole_transfer_leaves_no_damage(fake_index, pins, cache, tmp_path):
    fake_index.faults.ranges = "ignored"
    fake_index.faults.hold_at = 4_000_000
    with start(fake_index, pins, cache, tmp_path) as run:
        assert fake_index.held.wait(60)
        run.send_signal(signal.SIGKILL)
        assert run.wait() == -signal.SIGKILL
    fake_index.go.set()
    assert len(list(cache.root.rglob("*.part"))) == 1
    assert_cache_is_well(fake_index, pins, cache)


@pytest.mark.parametrize("extra", [DIE_WHILE_PACKING, DIE_BEFORE_RENAME, DIE_AFTER_RENAME])
def test_kill_while_writing_leaves_no_damage(fake_index, pins, cache, tmp_path, extra):
    with start(fake_index, pins, cache, tmp_path, extra) as run:
        assert run.wait() == -signal.SIGKILL
    assert_cache_is_well(fake_index, pins, cache)


def test_bytes_are_on_the_disk_before_they_get_their_name(fake_index, pins, cache, monkeypatch):
    events = []
    sync, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda file: (events.append("sync"), sync(file)))
    monkeypatch.setattr(Path, "replace", lambda a, b: (events.append("rename"), rename(a, b)))
    opened(fake_index, pins, cache)
    assert events == ["sync", "rename", "sync"]


def test_runs_at_once_fetch_once_and_agree(fake_index, pins, cache, tmp_path):
    fake_index.faults.hold_at = 1 << 18
    first = start(fake_index, pins, cache, tmp_path)
    assert fake_index.held.wait(60)
    runs = [first, *(start(fake_index, pins, cache, tmp_path) for _ in range(2))]
    for run in runs:
        assert run.stdout.readline() == "opening\n"
    fake_index.go.set()
    outputs = {run.communicate()[0].strip() for run in runs}
    assert [run.returncode for run in runs] == [0, 0, 0]
    tree = open_tree("v0.99.0", pins=pins, cache=cache, index=fake_index.index())
    assert outputs == {tree_digest(tree)}
    assert len(fake_index.ranges()) == 5


def opened(fake_index, pins, cache):
    return open_tree("v0.99.0", pins=pins, cache=cache, index=fake_index.index())


def tree_file(cache):
    (path,) = cache.root.rglob("*.tree")
    return path


def damage(cache, at):
    path = tree_file(cache)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_damaged_content_is_fetched_again_when_it_is_read(fake_index, pins, cache):
    opened(fake_index, pins, cache)
    damage(cache, tree_file(cache).read_bytes().index(b"last = 1"))
    fake_index.log.clear()
    tree = opened(fake_index, pins, cache)
    assert fake_index.log == []
    assert tree.files["vllm/zz.py"] == b"last = 1\n"
    assert len(fake_index.ranges()) == 5
    assert PackedFiles(tree_file(cache)).is_whole()


def test_damaged_content_is_fetched_again_when_it_is_searched(fake_index, pins, cache):
    opened(fake_index, pins, cache)
    damage(cache, tree_file(cache).read_bytes().index(b"last = 1"))
    assert opened(fake_index, pins, cache).files.search(b"last = 1") == ["vllm/zz.py"]


@pytest.mark.parametrize("keep", [0, 10, 200, -1])
def test_truncated_tree_is_fetched_again(fake_index, pins, cache, keep):
    whole = dict(opened(fake_index, pins, cache).files)
    path = tree_file(cache)
    path.write_bytes(path.read_bytes()[:keep])
    assert dict(opened(fake_index, pins, cache).files) == whole


@pytest.mark.parametrize("at", [-1, -20, -60, -300])
def test_damaged_index_is_fetched_again(fake_index, pins, cache, at):
    whole = dict(opened(fake_index, pins, cache).files)
    damage(cache, at)
    assert dict(opened(fake_index, pins, cache).files) == whole


def test_damage_that_cannot_be_mended_offline_is_an_error(fake_index, pins, cache):
    opened(fake_index, pins, cache)
    damage(cache, tree_file(cache).read_bytes().index(b"last = 1"))
    offline = fake_index.index(index_url="http://127.0.0.1:9/", retries=0)
    tree = open_tree("v0.99.0", pins=pins, cache=cache, index=offline)
    with pytest.raises(PatchkitError, match="no answer: ConnectionRefusedError"):
        tree.files["vllm/zz.py"]
    assert tree.files["vllm/config/cache.py"] == b"block_size = 16\n"


def test_cache_folder_is_the_one_that_the_variable_names(monkeypatch, tmp_path):
    monkeypatch.setenv("PATCHKIT_CACHE_DIR", str(tmp_path / "here"))
    assert Cache().root == tmp_path / "here"
    monkeypatch.delenv("PATCHKIT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert Cache().root == tmp_path / "xdg" / "patchkit"


def test_cache_that_cannot_be_written_is_an_error_with_advice(fake_index, pins, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, Cache(tmp_path / "file" / "cache"))
    assert str(caught.value) == (
        f"{tmp_path}/file/cache: the cache cannot be written: Not a directory"
    )
    assert caught.value.hint == "PATCHKIT_CACHE_DIR names another folder"


def test_tree_that_cannot_be_read_is_an_error_with_advice(fake_index, pins, cache):
    opened(fake_index, pins, cache)
    path = tree_file(cache)
    path.unlink()
    path.mkdir()
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    assert str(caught.value) == f"{path}: the cache cannot be read: Is a directory"


def test_releases_with_one_tree_share_it(fake_index, pins, cache, kit):
    opened(fake_index, pins, cache)
    again = replace(
        pins.releases[0].artifacts[0], filename=kit.WHEEL_NAME.replace("0-cp", "0-2-cp")
    )
    other = pins.with_release(replace(pins.releases[0], artifacts=(again,)))
    fake_index.log.clear()
    assert len(opened(fake_index, other, cache).files) == 7
    assert fake_index.log == []


def packed(tmp_path, files):
    entries = [
        PackedEntry(path, content, hashlib.sha256(content).hexdigest())
        for path, content in files.items()
    ]
    path = tmp_path / "x.tree"
    with path.open("wb") as file:
        write_packed(file, Contents(tuple(entries)))
    return PackedFiles(path)


def test_packed_files_are_those_that_were_written_python_first(tmp_path):
    files = {"b.txt": b"text", "empty.txt": b"", "a.py": b"x = 1\n", "empty.py": b"", "z.py": b"z"}
    found = packed(tmp_path, files)
    assert dict(found) == files
    assert list(found) == ["a.py", "empty.py", "z.py", "b.txt", "empty.txt"]
    assert len(found) == 5
    assert "a.py" in found
    assert "c.py" not in found
    with pytest.raises(KeyError):
        found["c.py"]


def test_packing_is_reproducible(tmp_path):
    first = packed(tmp_path, {"a.py": b"1", "b.py": b"2"}).path.read_bytes()
    assert packed(tmp_path, {"b.py": b"2", "a.py": b"1"}).path.read_bytes() == first


@pytest.mark.parametrize(
    ("word", "paths"),
    [
        (b"block", ["a.py", "c.py", "d.txt"]),
        (b"block_size", ["a.py", "d.txt"]),
        (b"size bl o", []),  # lies across a.py and b.py alone
        (b"absent", []),
        (b"", ["a.py", "b.py", "c.py", "empty.py", "d.txt"]),
        (b"patchkit tree", []),  # the form's own bytes are no content
    ],
)
def test_search_finds_a_word_within_files_alone(tmp_path, word, paths):
    files = {
        "a.py": b"block_size block_size",
        "b.py": b" bl ock",
        "c.py": b"block",
        "d.txt": b"block_size",
        "empty.py": b"",
    }
    assert packed(tmp_path, files).search(word) == paths


def test_search_of_python_files_alone_leaves_out_the_rest(tmp_path):
    files = {
        "a.py": b"a block",
        "b.md": b"a block",
        "c.pyi": b"a block",
        "d.txt": b"",
        "e.pyi": b"lock a b",
    }
    found = packed(tmp_path, files)
    for _ in range(2):  # looked for once, then remembered
        assert found.search(b"block", python=True) == ["a.py", "c.pyi"]
    assert found.search(b"ba", python=True) == []  # lies across files alone
    assert found.search(b"", python=True) == ["a.py", "c.pyi", "e.pyi"]
    assert found.search(b"block") == ["a.py", "b.md", "c.pyi"]
    assert SourceTree(found).python_holding(b"block") == ["a.py", "c.pyi"]


def test_packed_file_without_repair_tells_of_damage(tmp_path):
    found = packed(tmp_path, {"a.py": b"content"})
    content = found.path.read_bytes().replace(b"content", b"Content")
    found.path.write_bytes(content)
    with pytest.raises(DamagedError):
        PackedFiles(found.path)["a.py"]
    with pytest.raises(DamagedError):
        PackedFiles(found.path).search(b"x")
