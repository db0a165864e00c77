"""verdicts.toml, and the digests that say what a verdict was made from."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.diff import diff_files, format_files
from patchkit.errors import PatchkitError
from patchkit.series import proof_digest
from patchkit.series.overlay import AcceptedDrift, Overlay, OverlayEntry
from patchkit.series.verdict import (
    Colour,
    StoredVerdict,
    Verdict,
    format_verdicts,
    parse_verdicts,
    replaced,
)

ONE = StoredVerdict(
    release="0.28.0",
    patch="pages.patch",
    verdict=Verdict.NEEDED,
    pristine=Colour.RED,
    patched=Colour.GREEN,
    reason='without it: test_size: assert "3" == 2',
    base="0.28.0",
    tests=("tests/patches/pages.py", "tests/patches/more.py::test_x[a]"),
    patch_sha256="aa",
    moved_sha256="bb",
    test_sha256="cc",
    torch="2.13.0+cpu",
)
TEXT = """\
# Written by `patchkit test`: what the tests of a patch say with and without it.
format = 1

[[verdict]]
release = "0.28.0"
patch = "pages.patch"
verdict = "needed"
pristine = "red"
patched = "green"
reason = "without it: test_size: assert \\"3\\" == 2"
base = "0.28.0"
tests = ["tests/patches/pages.py", "tests/patches/more.py::test_x[a]"]
patch_sha256 = "aa"
moved_sha256 = "bb"
test_sha256 = "cc"
torch = "2.13.0+cpu"
"""


def test_the_file_is_this() -> None:
    assert format_verdicts([ONE]).decode() == TEXT
    assert parse_verdicts(TEXT.encode(), "v") == (ONE,)


def test_what_there_was_none_of_is_left_out() -> None:
    bare = replace(ONE, patched=None, torch=None)
    text = format_verdicts([bare]).decode()
    assert "patched =" not in text
    assert "torch =" not in text
    assert parse_verdicts(text.encode(), "v") == (bare,)


def test_verdicts_are_in_the_order_of_releases_not_of_their_names() -> None:
    releases = ["0.100.0", "0.9.0", "0.30.0"]
    data = format_verdicts([replace(ONE, release=r) for r in releases])
    written = re.findall('release = "(.*)"', data.decode())
    assert written == ["0.9.0", "0.30.0", "0.100.0"]
    assert [verdict.release for verdict in parse_verdicts(data, "v")] == written


def test_a_new_verdict_takes_the_place_of_the_old_one_alone() -> None:
    other = replace(ONE, patch="other.patch")
    later = replace(ONE, release="0.29.0")
    new = replace(ONE, verdict=Verdict.SUPERSEDED)
    assert replaced([later, ONE, other], [new]) == (other, new, later)


@given(st.text(), st.lists(st.text()), st.none() | st.text())
def test_any_text_comes_back(reason: str, tests: list[str], torch: str | None) -> None:
    verdict = replace(ONE, reason=reason, tests=tuple(tests), torch=torch)
    assert parse_verdicts(format_verdicts([verdict]), "v") == (verdict,)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "v: is of format 2, expected format 1"),
        ("format = 1", "format = ", "v: is not TOML: "),
        ('verdict = "needed"', 'verdict = "fine"', "v: verdict 1: 'fine' is not a valid Verdict"),
        ('"red"', '"blue"', "v: verdict 1: 'blue' is not a valid Colour"),
        ('release = "0.28.0"', 'release = "x"', "v: verdict 1: Invalid version: 'x'"),
        ('torch = "2', 'tourch = "2', "v: verdict 1: unknown key 'tourch', expected release, "),
        ('patch = "pages.patch"\n', "", "v: verdict 1: patch is None, expected a string"),
        ('tests = ["', 'tests = [1, "', "v: verdict 1: tests is [1, "),
        ("[[verdict]]", "[verdict]", "v: verdict is no list, expected [[verdict]] tables"),
        ("format = 1", "format = 1\nverdict = [1]\n[x]", "v: verdict 1: is no table"),
    ],
)
def test_a_damaged_file_is_refused(old: str, new: str, message: str) -> None:
    text = TEXT.replace(old, new, 1)
    if "[x]" in new:
        text = text.split("[x]")[0]
    with pytest.raises(PatchkitError) as caught:
        parse_verdicts(text.encode(), "v")
    assert str(caught.value).startswith(message)


def test_two_verdicts_for_one_patch_are_refused() -> None:
    with pytest.raises(PatchkitError, match="two verdicts for one release and patch"):
        parse_verdicts(TEXT.encode() + TEXT[TEXT.index("[[") :].encode(), "v")


BASE = {"vllm/a.py": b"one\ntwo\nthree\n"}


def patch(new: bytes, base: bytes = BASE["vllm/a.py"], header: bytes = b"") -> bytes:
    return header + format_files(diff_files({"vllm/a.py": base}, {"vllm/a.py": new}))


PLAIN = patch(b"one\n2\nthree\n")


def digest(*patches: bytes) -> str:
    return proof_digest.digest_patches((f"p{n}", data) for n, data in enumerate(patches))


def test_neither_the_place_nor_the_header_of_a_patch_changes_its_digest() -> None:
    lines = b"".join(b"line %d\n" % n for n in range(40))
    moved = patch(lines + b"one\n2\nthree\n", lines + b"one\ntwo\nthree\n")
    context = PLAIN.split(b"@@")[-1]
    shifted = moved.split(b"@@")[0] + b"@@ -41,3 +41,3 @@" + context
    assert digest(shifted) == digest(PLAIN)
    assert digest(b"Description: more of it\n\n" + PLAIN) == digest(PLAIN)


def test_what_a_patch_changes_is_in_its_digest() -> None:
    others = [
        patch(b"one\n3\nthree\n"),
        patch(b"one\n2\n3\n"),
        patch(b"one\ntwo\n2\nthree\n"),
        PLAIN.replace(b"a.py", b"b.py"),
        PLAIN.replace(b" three", b" 3"),
        format_files(diff_files({}, {"vllm/a.py": b"2\n"})),
    ]
    assert len({digest(data) for data in (PLAIN, *others)}) == 7
    assert digest(others[0], PLAIN) != digest(PLAIN)
    assert digest(others[0], PLAIN) != digest(PLAIN, others[0])


def test_the_new_files_that_are_tested_along_are_in_the_digest_of_a_patch() -> None:
    def of(*entries: OverlayEntry) -> str:
        return proof_digest.digest_patches([("p0", PLAIN)], Overlay(entries))

    one = OverlayEntry("src/a.py", "vllm/n/a.py", "a" * 64)
    other = OverlayEntry("src/b.py", "vllm/n/b.py", "b" * 64)
    assert of(one, other) == of(other, one)
    assert of(replace(one, source="elsewhere/a.py")) == of(one)
    accepted = AcceptedDrift(one.path, "1:abc", "so be it")
    assert proof_digest.digest_patches([("p0", PLAIN)], Overlay((one,), (accepted,))) == of(one)
    changed, moved = replace(one, sha256="c" * 64), replace(one, path="vllm/n/c.py")
    assert len({digest(PLAIN), of(one), of(other), of(one, other), of(changed), of(moved)}) == 6
    assert proof_digest.digest_patches([("p0", PLAIN)], None) == digest(PLAIN)


def test_the_names_and_the_files_of_tests_are_in_their_digest() -> None:
    files = {"a.py": b"1", "b.py": b"2"}
    found = [
        proof_digest.digest_tests(["a.py"], files),
        proof_digest.digest_tests(["a.py::test_x"], files),
        proof_digest.digest_tests(["a.py"], {"a.py": b"1"}),
        proof_digest.digest_tests(["a.py"], {**files, "b.py": b"3"}),
        proof_digest.digest_tests(["a.py"], {"a.py": b"1", "c.py": b"2"}),
    ]
    assert len(set(found)) == 5
    assert proof_digest.digest_tests(["a.py"], dict(reversed(files.items()))) == found[0]
