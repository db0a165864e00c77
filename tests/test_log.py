"""The log of rebases: its text, what it refuses, and nothing lost between them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from patchkit.errors import PatchkitError
from patchkit.repository.log import (
    Fate,
    LoggedPatch,
    LoggedRebase,
    format_log,
    log_path,
    parse_log,
    read_log,
)

MOVED = LoggedPatch(
    "pages.patch", Fate.MOVED, {"adaptation": 1, "offset": 2}, 1, (3,), (1, 2), (4, 5)
)
GONE = LoggedPatch("limit.patch", Fate.SUPERSEDED, reason='green: "it" is\tthere\x7f')
FIRST = LoggedRebase(date(2026, 11, 30), "0.28.0", "0.29.0", 1.25, (MOVED, GONE))
SECOND = LoggedRebase(
    date(2026, 12, 1), "0.29.0", "0.30.0rc1", 0.0, (), stopped_seconds=5400, updated=True
)
TEXT = b"""\
# Written by `patchkit rebase`: what each that was finished came to, in order.
format = 1

[[rebase]]
date = "2026-11-30"
base = "0.28.0"
target = "0.29.0"
seconds = 1.25

[[rebase.patch]]
name = "pages.patch"
fate = "moved"
methods = {adaptation = 1, offset = 2}
upstream = 1
settled = [3]
accepted = [1, 2]
skipped = [4, 5]

[[rebase.patch]]
name = "limit.patch"
fate = "superseded"
reason = "green: \\"it\\" is\\tthere\\u007f"

[[rebase]]
date = "2026-12-01"
base = "0.29.0"
target = "0.30.0rc1"
seconds = 0.0
stopped_seconds = 5400
updated = true
"""


def test_the_log_is_written_in_one_form_and_read_without_loss() -> None:
    assert format_log([FIRST, SECOND]) == TEXT
    assert parse_log(TEXT, "patches/rebases.toml") == (FIRST, SECOND)


def test_hunks_that_took_a_person_count_once() -> None:
    assert MOVED.by_hand == 5
    assert LoggedPatch("a", Fate.MOVED, settled=(1, 2), accepted=(2,)).by_hand == 2


def test_a_series_folder_without_a_log_has_no_rebases(tmp_path: Path) -> None:
    assert read_log(tmp_path, "patches") == ()
    log_path(tmp_path, "patches").parent.mkdir()
    log_path(tmp_path, "patches").write_bytes(TEXT)
    assert read_log(tmp_path, "patches") == (FIRST, SECOND)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"format = 1", b"format = 2", "log: is of format 2, expected format 1"),
        (b"[[rebase]]", b"[[rebase]", "log: is not TOML: "),
        (b"# W", b"\xff W", "log: is not TOML: 'utf-8' codec can't decode"),
        (b'"2026-11-30"', b'"yesterday"', "log: rebase 1: Invalid isoformat string: 'yesterday'"),
        (b'"2026-11-30"', b"2026-11-30", "log: rebase 1: date is datetime.date("),
        (b'base = "0.28.0"', b'base = "main"', "log: rebase 1: Invalid version: 'main'"),
        (b'target = "0.29.0"', b'target = "x"', "log: rebase 1: Invalid version: 'x'"),
        (b'target = "0.29.0"\n', b"", "log: rebase 1: target is missing"),
        (b"seconds = 1.25", b'seconds = "1"', "log: rebase 1: seconds is '1', expected int or fl"),
        (b"seconds = 1.25", b"minutes = 1", "log: rebase 1: unknown key 'minutes', expected date"),
        (b"updated = true", b"updated = 1", "log: rebase 2: updated is 1, expected bool"),
        (b"5400", b"true", "log: rebase 2: stopped_seconds is True, expected int"),
        (b'"moved"', b'"lost"', "log: rebase 1, patch 1: fate is 'lost', expected moved, upstr"),
        (b"offset = 2", b"offset = true", "log: rebase 1, patch 1: methods has offset = True"),
        (b"offset = 2", b"magic = 2", "log: rebase 1, patch 1: methods has magic = 2, expected h"),
        (b"[3]", b'["3"]', "log: rebase 1, patch 1: settled is ['3'], expected hunk numbers"),
        (b"[1, 2]", b"[true]", "log: rebase 1, patch 1: accepted is [True], expected hunk numb"),
        (b"upstream = 1", b"upstream = 1.0", "log: rebase 1, patch 1: upstream is 1.0, expected i"),
        (b"upstream = 1", b"up = 1", "log: rebase 1, patch 1: unknown key 'up', expected name, fa"),
    ],
)
def test_other_content_is_refused_with_its_place(old: bytes, new: bytes, message: str) -> None:
    assert old in TEXT
    with pytest.raises(PatchkitError) as caught:
        parse_log(TEXT.replace(old, new, 1), "log")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("text", [b"format = 1\nrebase = 1\n", b"format = 1\nrebase = [1]\n"])
def test_what_is_no_list_of_tables_is_refused(text: bytes) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_log(text, "log")
    assert str(caught.value) == "log: rebase is no list of tables"
