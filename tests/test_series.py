"""Series files and series folders."""

from __future__ import annotations

import pytest

from patchkit.errors import PatchkitError
from patchkit.series.overlay import Overlay, overlay_entry
from patchkit.series.series import (
    Series,
    SeriesEntry,
    anchors_name,
    format_same_as,
    format_series,
    format_series_file,
    parse_same_as,
    parse_series_file,
    read_series,
)

CANONICAL = b"""\
# The series of one release.

a.patch
# needs a
b.patch -p0 # rooted in the package
sub/c.diff

# end
"""


def test_a_series_file_is_read_with_its_comments() -> None:
    assert parse_series_file(CANONICAL, "series") == (
        SeriesEntry("a.patch", before="# The series of one release.\n\n"),
        SeriesEntry("b.patch", strip=0, before="# needs a\n", remark="# rooted in the package"),
        SeriesEntry("sub/c.diff", after="\n# end\n"),
    )
    assert [entry.lineno for entry in parse_series_file(CANONICAL, "series")] == [3, 5, 6]


def test_canonical_input_is_written_as_it_was_read() -> None:
    assert format_series_file(parse_series_file(CANONICAL, "series")) == CANONICAL


def test_other_spellings_get_one_form() -> None:
    written = b"  a.patch   -p1\t#  why \r\n\tb.patch"

    assert format_series_file(parse_series_file(written, "series")) == b"a.patch #  why\nb.patch\n"


def test_a_series_without_patches_is_empty() -> None:
    assert parse_series_file(b"", "series") == ()
    assert parse_series_file(b"# nothing yet\n", "series") == ()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            b"a.patch\nb.patch\na.patch\n",
            "series:3: patch a.patch is listed twice, first in line 1",
        ),
        (b"a.patch\nA.patch\n", "series:2: patch A.patch is listed twice, first in line 1"),
        (b"\na.patch -R\n", "series:2: option '-R' of a.patch is not supported, expected -pN"),
        (b"a.patch -p\n", "series:1: option '-p' of a.patch is not supported, expected -pN"),
        (b"../a.patch\n", "series:1: patch name is '../a.patch', expected a name in the folder"),
        (b"/a.patch\n", "series:1: patch name is '/a.patch', expected a name in the folder"),
        (b"x\\a.patch\n", "series:1: patch name is 'x\\\\a.patch', expected a name in the folder"),
        (b"-p1\n", "series:1: patch name is '-p1', expected a name in the folder"),
        (b"overlay.toml\n", "series:1: overlay.toml is not a patch"),
        (b"a.anchors.toml\n", "series:1: a.anchors.toml is not a patch"),
        (b"\xff\n", "series: series file is not UTF-8"),
    ],
)
def test_a_wrong_series_file_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_series_file(data, "series")
    assert str(caught.value) == message


OVERLAY = Overlay((overlay_entry("src/n.py", "vllm/n.py", b"n\n"),))
SERIES = Series(
    version="0.28.0",
    entries=(SeriesEntry("a.patch"), SeriesEntry("b.patch")),
    patches={"a.patch": b"A", "b.patch": b"B"},
    anchors={"b.patch": b"format = 1\n"},
    overlay=OVERLAY,
)


def test_a_folder_is_read_and_written() -> None:
    folder = format_series(SERIES)

    assert sorted(folder) == ["a.patch", "b.anchors.toml", "b.patch", "overlay.toml", "series"]
    assert folder["series"] == b"a.patch\nb.patch\n"
    assert read_series(folder, version="0.28.0") == SERIES
    assert read_series({**folder, "README.md": b""}, version="0.28.0") == SERIES
    assert anchors_name("b.patch") == "b.anchors.toml"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b.patch": None}, "v0.28.0/series:2: patch b.patch is missing"),
        ({"c.patch": b""}, "v0.28.0/c.patch: c.patch is not listed in the series file"),
        ({"c.anchors.toml": b""}, "v0.28.0/c.anchors.toml: anchors belong to no patch"),
        ({"series": None}, "v0.28.0: folder has no series file, expected series or same-as.toml"),
        (
            {"overlay.toml": b"format = 2\n"},
            "v0.28.0/overlay.toml: format is 2, expected format = 1",
        ),
        (
            {"same-as.toml": b'same-as = "v0.27.1"\n'},
            "v0.28.0: same-as.toml is beside a.patch, b.anchors.toml, b.patch, overlay.toml, "
            "series, expected it alone",
        ),
    ],
)
def test_a_folder_that_disagrees_with_its_series_is_refused(
    changes: dict[str, bytes | None], message: str
) -> None:
    folder = {**format_series(SERIES), **changes}

    with pytest.raises(PatchkitError) as caught:
        read_series({k: v for k, v in folder.items() if v is not None}, version="0.28.0")
    assert str(caught.value) == message


def test_the_place_of_a_folder_is_in_its_errors() -> None:
    with pytest.raises(PatchkitError) as caught:
        read_series({"series": b"a.patch\n"}, version="0.28.0", place="patches/v0.28.0")
    assert str(caught.value) == "patches/v0.28.0/series:1: patch a.patch is missing"


def test_a_folder_may_hold_only_the_name_of_another() -> None:
    folder = {"same-as.toml": b'same-as = "v0.27.1"\n'}
    series = read_series(folder, version="0.28.0")

    assert series == Series(version="0.28.0", same_as="0.27.1")
    assert format_series(series) == folder
    assert format_same_as("0.27.1") == folder["same-as.toml"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'same-as = "v0.27.1"\nx = 1\n', 'p: holds same-as, x, expected same-as = "vX.Y.Z" alone'),
        (b"", 'p: holds nothing, expected same-as = "vX.Y.Z" alone'),
        (b"same-as = 1\n", 'p: holds same-as, expected same-as = "vX.Y.Z" alone'),
        (b'same-as = "main"\n', "p: same-as is 'main', expected a version"),
        (
            b"same-as\n",
            "p: is not TOML: Expected '=' after a key in a key/value pair (at line 1, column 8)",
        ),
    ],
)
def test_a_wrong_name_of_another_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_same_as(data, "p")
    assert str(caught.value) == message


def test_a_folder_cannot_be_the_same_as_itself() -> None:
    with pytest.raises(PatchkitError) as caught:
        read_series({"same-as.toml": b'same-as = "0.28.0"\n'}, version="0.28.0")
    assert str(caught.value) == "v0.28.0/same-as.toml: same-as names 0.28.0 itself"
