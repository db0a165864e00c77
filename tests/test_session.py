import json
from pathlib import Path

import pytest

from patchkit.errors import PatchkitError
from patchkit.placing.adaptation import Adaptation
from patchkit.repository.session import (
    Edits,
    OpenFile,
    Settled,
    Skip,
    State,
    digest,
    format_state,
    lay_out,
    parse_state,
    read_edits,
    read_state,
    refuse_second,
)
from patchkit.repository.workspace import write_file

LAID_OUT = b"x = 1\n"
ADAPTATION = Adaptation(
    release="0.29.0",
    path="vllm/a.py",
    hunks=(1,),
    reason="ünlike",
    base_hunks=("1:ab",),
    target_definitions={"f": "1:cd"},
    diff="@@ -1 +1 @@\n-a\n+b\n",
)
STATE = State(
    target="v0.29.0",
    is_release=True,
    base=None,
    output=None,
    update=False,
    sources={"patches/v0.28.0": "5f"},
    series="patches",
    release="0.28.0",
    patch="kvarn.patch",
    files=(
        OpenFile("vllm/a.py", digest(LAID_OUT), (2, 5), "vllm/a.py"),
        OpenFile("vllm/b.py", digest(LAID_OUT), (3,), "vllm/b.py"),
        OpenFile(None, None, (4,), "vllm/gone.py"),
    ),
    skips=(Skip("patches", "first.patch", None), Skip("patches", "second.patch", (1, 2))),
    settled=(Settled("patches", "kvarn.patch", ADAPTATION),),
    outcomes=({"patch": "kvarn.patch", "hunk": 2},),
)


def write_all(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        write_file(folder / name, data)


def test_a_state_survives_being_written_and_read() -> None:
    assert parse_state(format_state(STATE), place="state.json") == STATE


def test_the_open_hunks_are_those_of_all_files() -> None:
    assert STATE.hunks == (2, 3, 4, 5)


def test_the_folder_holds_state_note_and_copies(tmp_path: Path) -> None:
    content = lay_out(STATE, {"vllm/a.py": LAID_OUT}, "# kvarn.patch\n")
    assert sorted(content) == [
        "files/.git",
        "files/vllm/a.py",
        "kvarn.patch.conflict.md",
        "state.json",
    ]
    assert content["files/.git"] == b"gitdir: ../../rebase.git\n"
    assert content["kvarn.patch.conflict.md"] == b"# kvarn.patch\n"
    write_all(tmp_path, content)
    assert read_state(tmp_path) == STATE


def test_no_folder_is_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path) is None


def test_edited_untouched_and_stray_files_are_told_apart(tmp_path: Path) -> None:
    copies = {"vllm/a.py": LAID_OUT, "vllm/b.py": LAID_OUT}
    write_all(tmp_path, lay_out(STATE, copies, ""))
    write_file(tmp_path / "files/vllm/a.py", b"x = 2\n")
    write_file(tmp_path / "files/vllm/new.py", b"y\n")
    assert read_edits(STATE, tmp_path) == Edits(
        edited={"vllm/a.py": b"x = 2\n"},
        untouched=(STATE.files[1], STATE.files[2]),
        strays=("vllm/new.py",),
    )


def test_a_removed_copy_is_untouched(tmp_path: Path) -> None:
    write_all(tmp_path, lay_out(STATE, {}, ""))
    assert read_edits(STATE, tmp_path) == Edits({}, STATE.files, ())


def test_another_format_is_refused() -> None:
    document = {**json.loads(format_state(STATE)), "format": 3}
    with pytest.raises(PatchkitError) as caught:
        parse_state(json.dumps(document).encode(), place="state.json")
    assert str(caught.value) == "state.json: state of format 3, expected format 2"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"format": 2}', b'{"format": 2, "files": 3}']
)
def test_a_damaged_state_says_how_to_be_rid_of_it(data: bytes) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_state(data, place="state.json")
    assert str(caught.value) == "state.json: damaged state"
    assert caught.value.hint == "drop it with `patchkit rebase --abort`"


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("target",), ["v0.29.0"]),
        (("output",), {}),
        (("sources",), [["5f"]]),
        (("sources", "patches/v0.28.0"), 5),
        (("files", 0, "path"), {}),
        (("files", 0, "hunks"), ["2"]),
        (("skips", 0, "patch"), {}),
        (("settled", 0, "patch"), {}),
        (("settled", 0, "decision"), 5),
        (("settled", 0, "decision", "diff"), None),
    ],
)
def test_a_value_of_another_type_is_damage(words: tuple[str | int, ...], value: object) -> None:
    document = json.loads(format_state(STATE))
    inner = document
    for word in words[:-1]:
        inner = inner[word]
    inner[words[-1]] = value
    with pytest.raises(PatchkitError) as caught:
        parse_state(json.dumps(document).encode(), place="state.json")
    assert str(caught.value) == "state.json: damaged state"


def test_a_second_rebase_is_told_of_the_first_and_the_three_ways_out() -> None:
    refusal = refuse_second(STATE, ".patchkit/rebase")
    assert str(refusal) == (
        ".patchkit/rebase: a rebase onto v0.29.0 has stopped at patches/kvarn.patch"
    )
    assert refusal.hint == (
        "finish it with `patchkit rebase --continue`, leave the patch out with `--skip`, "
        "or drop it with `--abort`"
    )
