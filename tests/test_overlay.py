"""Overlays: new files of a series, checked by path and digest."""

from __future__ import annotations

import pytest

from patchkit.errors import PatchkitError
from patchkit.series.overlay import (
    AcceptedDrift,
    Overlay,
    OverlayEntry,
    format_overlay,
    overlay_changes,
    overlay_conflicts,
    overlay_entry,
    parse_overlay,
)
from patchkit.tree import SourceTree

SHA_A = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"
SHA_B = "0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f"
CANONICAL = f"""\
format = 1

[[file]]
source = "kvarn_port/backend/a.py"
path = "vllm/v1/a.py"
sha256 = "{SHA_A}"

[[file]]
source = "kvarn_port/backend/b.py"
path = "vllm/v1/b.py"
sha256 = "{SHA_B}"
""".encode()
SOURCES = {"kvarn_port/backend/a.py": b"a\n", "kvarn_port/backend/b.py": b"b\n"}
OVERLAY = Overlay(
    (
        OverlayEntry("kvarn_port/backend/a.py", "vllm/v1/a.py", SHA_A),
        OverlayEntry("kvarn_port/backend/b.py", "vllm/v1/b.py", SHA_B),
    )
)


def table(path: str = "vllm/n.py", source: str = "n.py", sha256: str = SHA_A) -> str:
    return f"[[file]]\nsource = '{source}'\npath = '{path}'\nsha256 = '{sha256}'\n"


def test_an_overlay_is_read_and_written() -> None:
    assert parse_overlay(CANONICAL, "overlay.toml") == OVERLAY
    assert format_overlay(OVERLAY) == CANONICAL
    assert format_overlay(Overlay(OVERLAY.entries[::-1])) == CANONICAL


def test_an_entry_holds_the_digest_of_its_source() -> None:
    assert overlay_entry("kvarn_port/backend/a.py", "vllm/v1/a.py", b"a\n") == OVERLAY.entries[0]


def test_its_changes_are_new_files_of_the_package() -> None:
    target = SourceTree({"vllm/v1/x.py": b""}, name="v0.28.0")

    assert overlay_changes(OVERLAY, SOURCES, target) == {
        "vllm/v1/a.py": b"a\n",
        "vllm/v1/b.py": b"b\n",
    }
    assert overlay_conflicts(OVERLAY, target) == ()


def test_an_upstream_file_of_that_name_is_a_conflict() -> None:
    target = SourceTree({"vllm/v1/b.py": b"b\n", "vllm/v1/a.py": b"z"}, name="v0.28.0")

    assert overlay_conflicts(OVERLAY, target) == ("vllm/v1/a.py", "vllm/v1/b.py")
    with pytest.raises(PatchkitError) as caught:
        overlay_changes(OVERLAY, SOURCES, target, "v0.28.0/overlay.toml")
    assert str(caught.value) == (
        "v0.28.0/overlay.toml: v0.28.0 has vllm/v1/a.py, vllm/v1/b.py already"
    )


def test_an_upstream_file_where_a_folder_must_be_is_a_conflict() -> None:
    target = SourceTree({"vllm/v1": b""})

    assert overlay_conflicts(OVERLAY, target) == ("vllm/v1/a.py", "vllm/v1/b.py")


def test_a_source_that_was_edited_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        overlay_changes(OVERLAY, {**SOURCES, "kvarn_port/backend/b.py": b"a\n"}, SourceTree({}))
    assert str(caught.value) == (
        f"overlay.toml: source kvarn_port/backend/b.py has sha256 {SHA_A}, expected {SHA_B}"
    )
    assert caught.value.hint == (
        "the source was edited after it was put down in the overlay: put it back, or let "
        "`patchkit overlay --refresh` write its new sha256"
    )


def test_a_missing_source_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        overlay_changes(OVERLAY, {}, SourceTree({}))
    assert str(caught.value) == "overlay.toml: source kvarn_port/backend/a.py is missing"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "o.toml: format is None, expected format = 1"),
        ("format = 2\n", "o.toml: format is 2, expected format = 1"),
        ("format = true\n", "o.toml: format is True, expected format = 1"),
        ("format = 1\n", "o.toml: overlay has no files, expected [[file]] tables"),
        ("format = 1\nfile = 3\n", "o.toml: overlay has no files, expected [[file]] tables"),
        ("format = 1\nfile = [3]\n", "o.toml: file is not a table, expected a [[file]] table"),
        (
            "format = 1\nfiles = []\n",
            "o.toml: unknown key 'files', expected format, [[file]], [[accepted]]",
        ),
        (
            "format\n",
            "o.toml: is not TOML: Expected '=' after a key in a key/value pair "
            "(at line 1, column 7)",
        ),
        (
            "format = 1\n" + table() + "x = 1\n",
            "o.toml:2: unknown key 'x', expected source, path, sha256",
        ),
        ("format = 1\n[[file]]\nsource = 'n'\n", "o.toml:2: path is None, expected a string"),
        (
            "format = 1\n" + table(sha256="AB"),
            "o.toml:2: sha256 is 'AB', expected 64 lower-case hex digits",
        ),
        (
            "format = 1\n\n" + table("other/n.py"),
            "o.toml:3: path is 'other/n.py', expected one in vllm/",
        ),
        ("format = 1\n" + table("vllm"), "o.toml:2: path is 'vllm', expected one in vllm/"),
        (
            "format = 1\n" + table("/vllm/n.py"),
            "o.toml:2: path is '/vllm/n.py', expected a relative posix path",
        ),
        (
            "format = 1\n" + table("C:/vllm/n.py"),
            "o.toml:2: path is 'C:/vllm/n.py', expected a relative posix path",
        ),
        (
            "format = 1\n" + table("vllm\\n.py"),
            "o.toml:2: path is 'vllm\\\\n.py', expected a relative posix path",
        ),
        (
            "format = 1\n" + table("vllm/../n.py"),
            "o.toml:2: path is 'vllm/../n.py', expected a path without . and ..",
        ),
        (
            "format = 1\n" + table("vllm/./n.py"),
            "o.toml:2: path is 'vllm/./n.py', expected a path without . and ..",
        ),
        (
            "format = 1\n" + table("vllm//n.py"),
            "o.toml:2: path is 'vllm//n.py', expected a path without . and ..",
        ),
        (
            "format = 1\n" + table("vllm/"),
            "o.toml:2: path is 'vllm/', expected a path without . and ..",
        ),
        (
            "format = 1\n" + table(source="../n.py"),
            "o.toml:2: source is '../n.py', expected a path without . and ..",
        ),
        ("format = 1\n" + table() + table(), "o.toml:6: path vllm/n.py clashes with vllm/n.py"),
        (
            "format = 1\n" + table() + table("vllm/N.py"),
            "o.toml:6: path vllm/N.py clashes with vllm/n.py",
        ),
        (
            "format = 1\n" + table() + table("vllm/n.py/m.py"),
            "o.toml:6: path vllm/n.py/m.py clashes with vllm/n.py",
        ),
        (
            "format = 1\n" + table("vllm/d/m.py") + table("vllm/d"),
            "o.toml:6: path vllm/d clashes with vllm/d/m.py",
        ),
    ],
)
def test_a_wrong_overlay_is_refused(text: str, message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_overlay(text.encode(), "o.toml")
    assert str(caught.value) == message


def test_another_package_is_a_matter_of_the_profile() -> None:
    overlay = parse_overlay(("format = 1\n" + table("other/n.py")).encode(), "o", package="other")

    assert [entry.path for entry in overlay.entries] == ["other/n.py"]


def test_names_with_quotes_are_written_so_that_they_read_back() -> None:
    overlay = Overlay((OverlayEntry("a\"b'c.py", "vllm/ä b.py", SHA_A),))

    assert parse_overlay(format_overlay(overlay), "o") == overlay


ACCEPTED = """
[[accepted]]
path = "vllm/a.py"
surface = "1:abc"
reason = "it \\"is\\" so"
"""


def test_accepted_drifts_are_read_and_written() -> None:
    overlay = Overlay(
        (overlay_entry("a.py", "vllm/a.py", b"x\n"),),
        (AcceptedDrift("vllm/a.py", "1:abc", 'it "is" so'),),
    )
    data = format_overlay(overlay)
    assert data.decode().endswith(ACCEPTED)
    assert parse_overlay(data, "overlay.toml") == overlay


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('path = "vllm/a.py"\nsur', 'path = "vllm/b.py"\nsur',
         "overlay.toml: accepted 1: vllm/b.py is no file of the overlay"),
        ('surface = "1:abc"\n', "",
         "overlay.toml: accepted 1: surface is None, expected a line of text"),
        ('reason = "it \\"is\\" so"', 'reason = " "',
         "overlay.toml: accepted 1: reason is ' ', expected a line of text"),
        ('surface = "1:abc"', 'surface = "1:abc"\nwhy = "x"',
         "overlay.toml: accepted 1: unknown key 'why', expected path, surface, reason"),
    ],
)  # fmt: skip
def test_a_damaged_acceptance_is_refused_with_the_place(old: str, new: str, message: str) -> None:
    overlay = Overlay((overlay_entry("a.py", "vllm/a.py", b"x\n"),))
    text = format_overlay(overlay).decode() + ACCEPTED
    assert old in text
    with pytest.raises(PatchkitError) as caught:
        parse_overlay(text.replace(old, new).encode(), "overlay.toml")
    assert str(caught.value) == message
