"""The rewritten archive, the way back, and the file that holds them, on any archive."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.errors import PatchkitError
from patchkit.upstream.spans import Span
from patchkit.wheel import output
from patchkit.wheel.archive import NewMember, end_record, read_archive
from patchkit.wheel.output import SUFFIX, new_file, write_pieces
from patchkit.wheel.rewrite import Edit, kept_archive, old_layout, plan_layout, plan_steps

RENAME = ("x-1.dist-info", "x-1+longer.dist-info")
NAMES = st.sampled_from(
    [*(f"x/{n}.py" for n in "abcdefgh"), *(f"{RENAME[0]}/{n}" for n in ("A", "B", "RECORD"))]
)
CONTENTS = st.binary(max_size=60) | st.binary(max_size=4).map(lambda data: data * 50)


def archive_of(members: dict[str, bytes], packed: set[str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            info.external_attr = 0o100755 << 16
            info.compress_type = zipfile.ZIP_DEFLATED if name in packed else zipfile.ZIP_STORED
            archive.writestr(info, content)
    return buffer.getvalue()


def joined(pieces: Any, source: bytes) -> bytes:
    return b"".join(p if isinstance(p, bytes) else source[p.start : p.end] for p in pieces)


@given(
    st.dictionaries(NAMES, CONTENTS, min_size=1),
    st.sets(NAMES),
    st.dictionaries(NAMES, st.none() | CONTENTS),
    st.dictionaries(st.sampled_from(["x/new1.py", "x/new2.py"]), CONTENTS),
    st.booleans(),
)
def test_any_rewriting_holds_what_it_should_and_leads_back(
    members: dict[str, bytes],
    packed: set[str],
    changes: dict[str, bytes | None],
    added: dict[str, bytes],
    shuffled: bool,
) -> None:
    if not shuffled:  # as in a wheel: the dist-info folder last
        members = dict(sorted(members.items(), key=lambda item: item[0].startswith(RENAME[0])))
    old = archive_of(members, packed)
    archive = read_archive(old, "old")
    renamed = {n: RENAME[1] + n.removeprefix(RENAME[0]) for n in members if n.startswith(RENAME[0])}
    edit = Edit(
        {
            name: None if content is None else NewMember(renamed.get(name, name), content)
            for name, content in changes.items()
            if name in members
        },
        [NewMember(name, content) for name, content in added.items()]
        if any(name in renamed for name in members)
        else [],
        RENAME,
    )
    last = [NewMember(f"{RENAME[1]}/LAST", b"last")]
    new = joined(plan_layout(archive, edit, last).pieces, old)
    with zipfile.ZipFile(io.BytesIO(new)) as reader:
        found = {name: reader.read(name) for name in reader.namelist()}
    expected = {renamed.get(name, name): content for name, content in members.items()}
    for name, content in changes.items():
        if name in members:
            expected.pop(renamed.get(name, name))
            if content is not None:
                expected[renamed.get(name, name)] = content
    expected |= {member.name: member.content for member in (*edit.added, *last)}
    assert found == expected

    written = read_archive(new, "new")
    kept = read_archive(kept_archive(archive, edit), "kept")
    back = old_layout(written, kept, plan_steps(archive, edit), RENAME)
    assert joined(back, new) == old


def test_runs_of_untouched_members_are_one_span() -> None:
    members = {f"x/{number:04}.py": b"data" * 9 for number in range(1000)}
    old = archive_of(members | {f"{RENAME[0]}/RECORD": b""}, set())
    archive = read_archive(old, "old")
    edit = Edit({"x/0500.py": NewMember("x/0500.py", b"new")}, [], RENAME)
    spans = [p for p in plan_layout(archive, edit, []).pieces if isinstance(p, Span)]
    first, second = archive.by_name["x/0500.py"].span.start, archive.by_name["x/0501.py"].span.start
    assert spans == [
        Span(0, first),
        Span(second, archive.by_name[f"{RENAME[0]}/RECORD"].span.start),
    ]
    assert plan_steps(archive, edit) == (
        ("same", 0, 500), ("kept", 0, 1), ("same", 501, 499), ("renamed", 1000, 1),
    )  # fmt: skip


def test_what_needs_zip64_is_not_written() -> None:
    with pytest.raises(PatchkitError, match="expected what fits without ZIP64"):
        end_record(3, Span(0xFFFFFFF0, 0x100000010))
    with pytest.raises(PatchkitError, match="the archive would have 70000 members"):
        end_record(70000, Span(0, 10))


def test_spans_are_copied_where_the_kernel_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(200)))
    pieces = [b"head", Span(10, 20), b"", Span(50, 60), b"tail"]
    expected = b"head" + bytes(range(10, 20)) + bytes(range(50, 60)) + b"tail"

    def refuse(*_: object) -> int:
        raise OSError(18, "Invalid cross-device link")

    for change in (None, refuse):
        if change is not None:
            monkeypatch.setattr(os, "copy_file_range", change)
            monkeypatch.setattr(output, "BLOCK_BYTES", 3)
        with new_file(tmp_path / "out") as (file, publish), source.open("rb") as opened:
            write_pieces(file, pieces, opened)
            publish()
        assert (tmp_path / "out").read_bytes() == expected


def test_a_source_that_shrinks_is_said(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"short")
    with (
        pytest.raises(PatchkitError, match="became shorter while it was read"),
        new_file(tmp_path / "out") as (file, _),
        source.open("rb") as opened,
    ):
        write_pieces(file, [Span(0, 9)], opened)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_what_is_not_published_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with new_file(path) as (file, _):
        file.write(b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_go_unless_somebody_writes_them(tmp_path: Path) -> None:
    left = tmp_path / f".other.whl.1{SUFFIX}"
    left.write_bytes(b"half")
    with new_file(tmp_path / "a") as (first, _), new_file(tmp_path / "b") as (_, publish):
        publish()
        assert Path(str(first.name)).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_folder_that_cannot_be_written_to_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with (
        pytest.raises(PatchkitError, match=r"cannot be written: (not a directory|file exists)"),
        new_file(tmp_path / "file" / "out"),
    ):
        pass


def test_an_error_in_the_work_comes_through(tmp_path: Path) -> None:
    with (
        pytest.raises(PatchkitError, match="out: cannot be written: no space left"),
        new_file(tmp_path / "out"),
    ):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, pickle, random, signal, sys, time
from pathlib import Path
from patchkit.wheel.build import build_wheel

wanted, source, output = pickle.load(sys.stdin.buffer)
chance = random.Random(7)
start = time.perf_counter()
path = build_wheel(wanted, source, output).path
took = time.perf_counter() - start
good = path.read_bytes()
killed = 0
for number in range(100):
    if number % 4 == 3:
        path.unlink(missing_ok=True)
    there = path.exists()
    child = os.fork()
    if not child:
        build_wheel(wanted, source, output)
        os._exit(0)
    time.sleep(chance.uniform(0, 1.2 * took))
    os.kill(child, signal.SIGKILL)
    killed += os.waitpid(child, 0)[1] == signal.SIGKILL
    seen = [p for p in output.iterdir() if not p.name.startswith(".")]
    assert seen in ([], [path]), seen
    assert not seen or path.read_bytes() == good
    assert seen or not there, "a file that was there is gone"
left = [p for p in output.iterdir() if p.name.startswith(".")]
build_wheel(wanted, source, output)
assert list(output.iterdir()) == [path] and path.read_bytes() == good
print(killed, len(left))
"""


def test_a_build_that_is_killed_leaves_the_folder_whole(repository: Any) -> None:
    import pickle

    repository.maker.files["vllm/_C.abi3.so"] = os.urandom(4 << 20)
    source, _ = repository.upstream()
    wanted = repository.wanted()
    given_ = pickle.dumps((wanted, source, repository.out))
    done = subprocess.run([sys.executable, "-c", KILLED], input=given_, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    killed, _ = map(int, done.stdout.split())
    assert killed > 20
