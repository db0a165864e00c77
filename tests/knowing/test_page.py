"""The registry of small stores, and the page that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from patchkit.config import Config
from patchkit.diff import diff_files, format_files
from patchkit.diff.header import Header, parse_header
from patchkit.knowing.page import duration, format_page, owner, span, upstream_state
from patchkit.knowing.registry import Entry, registry
from patchkit.knowing.survival import Reason, Step
from patchkit.series.proof_digest import digest_patches, digest_tests

HEADER = """\
Description: Give pages | their size
 It has *all* of it.
Reason: they have none
Origin: written here
Forwarded: no
 Asked in #12.
Bug: https://example.org/a_b
Exit-Condition: 0.31.0 or later
Exit-When: release >=0.31
Applies-To: >=0.28,<0.31
Depends-On: base
Requires: cuda
Test: tests/test_a.py
Author: a <a@example.org>
"""
LINES = [f"line {number}\n" for number in range(12)]


def patch(new: str, header: str = HEADER, *, lines: list[str] = LINES, at: int = 6) -> str:
    before, after = "".join(lines), "".join([*lines[:at], new, *lines[at + 1 :]])
    diff = format_files(diff_files({"vllm/a.py": before.encode()}, {"vllm/a.py": after.encode()}))
    return f"{header}\n{diff.decode()}"


def store(root: Path, files: Mapping[str, str]) -> Config:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Config(root)


def only(root: Path, files: Mapping[str, str]) -> Entry:
    (entry,) = registry(store(root, files), ["patches"])
    return entry


ADAPTED = """\
format = 1

[generated]
fingerprints = 1

[[generated.hunk]]
number = 1
path = "vllm/a.py"
hunk = "1:0"

[[override.adaptation]]
release = "0.30.0"
path = "vllm/a.py"
hunks = [1, 2]
reason = "the line went"
base_hunks = ["1:0", "1:0"]
target_definitions = {}
diff = ""

[[override.drift]]
release = "0.30.0"
hunk = 1
base_hunk = "1:0"
kind = "name"
name = "x"
surface = "1:0"
text = "`x` is gone"
reason = "nothing reads it"
"""


def test_each_release_says_how_the_patch_got_there(tmp_path: Path) -> None:
    other = [*LINES[:4], "other\n", *LINES[5:]]
    moved = [*LINES[:5], *LINES[:1], *LINES[5:]]
    entry = only(
        tmp_path,
        {
            "patches/v0.28.0/series": "a.patch\n",
            "patches/v0.28.0/a.patch": patch("new\n"),
            "patches/v0.28.1/same-as.toml": 'same-as = "v0.28.0"\n',
            "patches/v0.29.0/series": "a.patch\n",
            "patches/v0.29.0/a.patch": patch("new\n", lines=other),
            "patches/v0.29.0/a.anchors.toml": ADAPTED,
            "patches/v0.30.0/series": "a.patch\n",
            "patches/v0.30.0/a.patch": patch("newer\n", lines=moved, at=7),
        },
    )
    assert entry.steps == (
        Step("0.28.0", "first"),
        Step("0.28.1", "as it was", "0.28.0"),
        Step("0.29.0", "other context"),
        Step(
            "0.30.0",
            "changed",
            None,
            (
                Reason("hunks 1, 2 adapted: the line went", (1, 2)),
                Reason("hunk 1, accepted drift: `x` is gone; nothing reads it", (1,)),
            ),
        ),
    )
    assert entry.carried
    assert entry.releases == ("0.28.0", "0.28.1", "0.29.0", "0.30.0")
    assert entry.touched == "v0.30.0"


VERDICT = """\
format = 1

[[verdict]]
release = "0.29.0"
patch = "a.patch"
verdict = "{verdict}"
pristine = "green"
reason = "green without it"
base = "0.28.0"
tests = ["tests/test_a.py"]
patch_sha256 = "{digest}"
moved_sha256 = "{digest}"
test_sha256 = "{digest}"
"""


def test_a_patch_that_was_left_out_says_why_in_all_ways(tmp_path: Path) -> None:
    files = {
        "patches/v0.28.0/series": "a.patch\n",
        "patches/v0.28.0/a.patch": patch("new\n", HEADER.replace("<0.31", "<0.29")),
        "patches/v0.29.0/series": "# a: upstream has it\n",
        "patches/verdicts.toml": VERDICT.format(verdict="superseded", digest="0" * 64),
    }
    entry = only(tmp_path, files)
    assert entry.steps[1] == Step(
        "0.29.0",
        "left out",
        None,
        (
            Reason("upstream has it"),
            Reason("superseded by its tests: green without it"),
            Reason("it is for >=0.28,<0.29"),
        ),
    )
    assert not entry.carried
    assert entry.releases == ("0.28.0",)
    assert [known.fresh for known in entry.verdicts] == [False]


def test_a_verdict_that_it_is_needed_is_no_reason_to_leave_it_out(tmp_path: Path) -> None:
    files = {
        "patches/v0.28.0/series": "a.patch\n",
        "patches/v0.28.0/a.patch": patch("new\n"),
        "patches/v0.29.0/series": "",
        "patches/verdicts.toml": VERDICT.format(verdict="needed", digest="0" * 64),
    }
    assert only(tmp_path, files).steps[1].reasons == ()


def test_those_of_the_highest_release_come_first_in_series_order(tmp_path: Path) -> None:
    config = store(
        tmp_path,
        {
            "patches/v0.28.0/series": "a.patch\ngone.patch\nb.patch\n",
            "patches/v0.28.0/a.patch": patch("a\n"),
            "patches/v0.28.0/gone.patch": patch("gone\n", at=2),
            "patches/v0.28.0/b.patch": patch("b\n", at=9),
            "patches/v0.29.0/series": "b.patch\na.patch\n",
            "patches/v0.29.0/a.patch": patch("a\n"),
            "patches/v0.29.0/b.patch": patch("b\n", at=9),
        },
    )
    assert [entry.name for entry in registry(config, ["patches"])] == [
        "b.patch",
        "a.patch",
        "gone.patch",
    ]


LOG = """\
format = 1

[[rebase]]
date = "2026-11-30"
base = "0.28.0"
target = "0.29.0"
seconds = 1.5
stopped_seconds = 7500

[[rebase.patch]]
name = "a.patch"
fate = "moved"
methods = {exact = 1, adaptation = 1}
settled = [2]
"""
PAGE = """\
# Patches

Written by `patchkit registry` from the stored series; edit the headers of the patches, not this page.

| patch | what | upstream | owner | releases | last touched |
|---|---|---|---|---|---|
| [a](#a) | Give pages \\| their size | not forwarded | a \\<a@example.org> | v0.28.0 | v0.28.0 |

## a

**Give pages \\| their size**

It has \\*all\\* of it.

### Why

they have none

### Facts

- Upstream: not forwarded
  (Asked in #12.)
- Bug: <https://example.org/a_b>
- Owner: a \\<a@example.org>
- Origin: written here
- May go when: 0.31.0 or later
- For: \\>=0.28,\\<0.31
- Depends on: base
- Gone when: `release >=0.31`
- Needs of its environment: `cuda`
- Tests: `tests/test_a.py`
- Size: 1 hunk in 1 file, 1 lines added, 1 removed

### Releases

| release | how it got there |  |
|---|---|---|
| v0.28.0 | the lowest that has it |  |

### Last rebases

| day | rebase | what became of it | by hand | stopped for |
|---|---|---|---|---|
| 2026-11-30 | v0.28.0 to v0.29.0 | moved, 1 exact, 1 adaptation | 1 hunk | 2:05:00 |
"""  # noqa: E501


def test_the_page_has_a_row_and_a_section_for_a_patch(tmp_path: Path) -> None:
    entry = only(
        tmp_path,
        {
            "patches/v0.28.0/series": "a.patch\n",
            "patches/v0.28.0/a.patch": patch("new\n"),
            "patches/rebases.toml": LOG,
        },
    )
    assert format_page([entry]).decode() == PAGE.replace("1 lines", "1 line")


def test_no_patch_makes_a_page_too() -> None:
    assert format_page([]).decode().endswith("not this page.\n\nNo patch is stored.\n")


def test_patches_of_several_folders_are_told_apart_and_linked(tmp_path: Path) -> None:
    files = {
        f"{folder}/v0.28.0/{name}": text
        for folder in ("patches", "kv")
        for name, text in (("series", "a.patch\nk-v.patch\n"), ("a.patch", patch("new\n")),
                           ("k-v.patch", patch("other\n", at=2)))
    }  # fmt: skip
    page = format_page(registry(store(tmp_path, files), ["patches", "kv"])).decode()
    links = [word for word in page.replace("(", " ").replace(")", " ").split() if word[0] == "#"]
    assert [link for link in links if link.strip("#")][:5] == [
        "#patchesa", "#patchesk-v", "#kva", "#kvk-v", "#12."
    ]  # fmt: skip
    assert [line for line in page.split("\n") if line.startswith("## ")] == [
        "## patches/a",
        "## patches/k-v",
        "## kv/a",
        "## kv/k-v",
    ]


def test_a_patch_called_as_the_page_is_linked_by_its_own_heading(tmp_path: Path) -> None:
    files = {
        "patches/v0.28.0/series": "patches.patch\n",
        "patches/v0.28.0/patches.patch": patch("new\n"),
    }
    assert "[patches](#patches-1)" in format_page([only(tmp_path, files)]).decode()


def test_the_tables_have_the_cells_that_they_should(tmp_path: Path) -> None:
    files = {
        "patches/v0.28.0/series": "a.patch\n",
        "patches/v0.28.0/a.patch": patch("new\n"),
        "patches/v0.29.0/series": "# a: upstream | has *it*\n",
        "patches/verdicts.toml": VERDICT.format(verdict="broken", digest="0" * 64),
    }
    page = format_page([only(tmp_path, files)]).decode()
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    rows = [token for token in tokens if token.type == "tr_open"]
    cells = [token for token in tokens if token.type in ("td_open", "th_open")]
    assert (len(rows), len(cells)) == (2 + 3 + 2, 2 * 6 + 3 * 3 + 2 * 5)
    assert "| v0.29.0 | left out | upstream \\| has \\*it\\* |" in page
    assert "| v0.29.0 | broken, stale | green | no run | green without it |" in page
    assert "v0.28.0, no longer carried" in page


def header(text: str) -> Header:
    return parse_header(text.encode(), "a.patch")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("Forwarded: no\n why not\n", "not forwarded"),
        ("Forwarded: Not-Needed\n", "of no use to upstream"),
        ("Origin: here\n", "unknown"),
        ("Forwarded: #12\n", "#12"),
        ("Forwarded: #12\nApplied-Upstream: 0.31.0,\n as 1234\n", "applied: 0.31.0,"),
    ],
)
def test_the_state_of_upstream_is_a_few_words(text: str, state: str) -> None:
    assert upstream_state(header(text)) == state


def test_the_owner_is_the_one_that_is_named_else_the_author() -> None:
    assert owner(header("Author: a\nOwner: b,\n c\n")) == "b, c"
    assert owner(header("From: a\n")) == "a"
    assert owner(header("Origin: here\n")) == "nobody named"


def test_the_day_of_the_header_is_when_it_was_touched(tmp_path: Path) -> None:
    dated = patch("new\n", HEADER + "Last-Update: 2026-01-02\n")
    files = {"patches/v0.28.0/series": "a.patch\n", "patches/v0.28.0/a.patch": dated}
    assert only(tmp_path, files).touched == "2026-01-02"


@pytest.mark.parametrize(
    ("releases", "text"),
    [
        ((), "none"),
        (("1.0",), "v1.0"),
        (("1.0", "1.1"), "v1.0 and v1.1"),
        (("1.0", "1.1", "1.2"), "v1.0 to v1.2 (3)"),
    ],
)
def test_releases_are_told_in_short(releases: tuple[str, ...], text: str) -> None:
    assert span(releases) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59, "0:00:59"), (60, "0:01:00"), (3599, "0:59:59"), (7500, "2:05:00"), (90000, "25:00:00")],
)
def test_a_time_is_told_as_a_clock_tells_it(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_a_patch_is_not_left_out_of_what_came_before_it(tmp_path: Path) -> None:
    entry = only(
        tmp_path,
        {
            "patches/v0.28.0/series": "",
            "patches/v0.29.0/series": "a.patch\n",
            "patches/v0.29.0/a.patch": patch("new\n"),
        },
    )
    assert entry.steps == (Step("0.29.0", "first"),)


def test_a_verdict_on_another_release_is_no_reason(tmp_path: Path) -> None:
    files = {
        "patches/v0.28.0/series": "a.patch\n",
        "patches/v0.28.0/a.patch": patch("new\n"),
        "patches/v0.28.1/series": "",
        "patches/verdicts.toml": VERDICT.format(verdict="superseded", digest="0" * 64),
    }
    assert only(tmp_path, files).steps[1].reasons == ()


def test_a_patch_that_moved_was_touched(tmp_path: Path) -> None:
    files = {
        "patches/v0.28.0/series": "a.patch\n",
        "patches/v0.28.0/a.patch": patch("new\n"),
        "patches/v0.29.0/series": "a.patch\n",
        "patches/v0.29.0/a.patch": patch("new\n").replace("vllm/a.py", "vllm/b.py"),
        "patches/v0.30.0/series": "a.patch\n",
        "patches/v0.30.0/a.patch": patch("new\n").replace("vllm/a.py", "vllm/b.py"),
    }
    entry = only(tmp_path, files)
    assert [step.how for step in entry.steps] == ["first", "moved", "as it was"]
    assert entry.touched == "v0.29.0"


@pytest.mark.parametrize("release", ["0.28.0", "0.29.0"])
def test_a_verdict_is_fresh_by_what_was_moved_or_by_what_came_of_it(
    tmp_path: Path, release: str
) -> None:
    test = b"def test(): pass\n"
    files = {
        "tests/test_a.py": test.decode(),
        "patches/v0.28.0/series": "a.patch\n",
        "patches/v0.28.0/a.patch": patch("old\n"),
        "patches/v0.29.0/series": "a.patch\n",
        "patches/v0.29.0/a.patch": patch("new\n"),
    }
    data = files[f"patches/v{release}/a.patch"].encode()
    names = ("tests/test_a.py",)
    text = VERDICT.format(verdict="needed", digest=digest_patches([("a.patch", data)]))
    files["patches/verdicts.toml"] = text.replace(
        f'test_sha256 = "{digest_patches([("a.patch", data)])}"',
        f'test_sha256 = "{digest_tests(names, {names[0]: test})}"',
    )
    assert [known.fresh for known in only(tmp_path, files).verdicts] == [True]


def test_the_last_rebases_are_told_newest_first(tmp_path: Path) -> None:
    head, _, entry = LOG.partition("[[rebase]]")
    log = head + "".join(
        f"[[rebase]]{entry}\n".replace("2026-11-30", f"2026-11-{day:02}") for day in range(1, 9)
    )
    files = {
        "patches/v0.28.0/series": "a.patch\n",
        "patches/v0.28.0/a.patch": patch("new\n"),
        "patches/rebases.toml": log,
    }
    page = format_page([only(tmp_path, files)]).decode()
    days = [line[:12] for line in page.split("\n") if line.startswith("| 2026")]
    assert days == [f"| 2026-11-{day:02}" for day in range(8, 2, -1)]


@pytest.mark.parametrize(
    ("fate", "reasons"),
    [
        ("skipped", (Reason("skipped by a person in the rebase of 2026-11-30"),)),
        ("upstream", (Reason("upstream had all of it in the rebase of 2026-11-30"),)),
        ("moved", ()),
    ],
)
def test_the_log_says_what_became_of_a_patch(
    tmp_path: Path, fate: str, reasons: tuple[Reason, ...]
) -> None:
    entry = only(
        tmp_path,
        {
            "patches/v0.28.0/series": "a.patch\n",
            "patches/v0.28.0/a.patch": patch("new\n"),
            "patches/v0.28.1/series": "",
            "patches/v0.29.0/series": "",
            "patches/rebases.toml": LOG.replace('"moved"', f'"{fate}"'),
        },
    )
    assert [step.reasons for step in entry.steps[1:]] == [(), reasons]


def test_a_rebase_is_told_of_the_patches_that_it_moved(tmp_path: Path) -> None:
    config = store(
        tmp_path,
        {
            "patches/v0.28.0/series": "a.patch\nb.patch\n",
            "patches/v0.28.0/a.patch": patch("new\n"),
            "patches/v0.28.0/b.patch": patch("b\n", at=2),
            "patches/rebases.toml": LOG,
        },
    )
    counts = {entry.name: len(entry.costs) for entry in registry(config, ["patches"])}
    assert counts == {"a.patch": 1, "b.patch": 0}
