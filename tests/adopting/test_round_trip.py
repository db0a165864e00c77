"""What leaves comes back: any series, in each format, to the same sections and the same trees."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.adopting.canonical import canonical
from patchkit.adopting.gather import read_patches
from patchkit.adopting.leaving import Format, Leaving, format_folder
from patchkit.diff import Patch, diff_files, format_patch, parse_patch
from patchkit.diff.header import Field, Header, format_header
from patchkit.tree import SourceTree

LINES = st.sampled_from(
    [
        b"a\n", b"b\n", b"\n", b"  c\r\n", b"-- \n", b"- \n", b"-- a/x\n", b"++ b/x\n", b"--\n",
        b"@@ -1 +1 @@\n", b"diff --git a/x b/x\n", b"From me Mon Sep 17 00:00:00 2001\n", b"\\ x\n",
        b"2.39.5\n", b"\xc3\xa4\n", b"\xff\n", b"x\ry\n", b"=20\n", b"+x\n", b"-x\n", b"...\n",
    ]
)  # fmt: skip
CONTENTS = st.builds(
    lambda lines, whole: b"".join(lines) if whole else b"".join(lines)[:-1],
    st.lists(LINES, max_size=14),
    st.booleans(),
)
PATHS = st.sampled_from(["vllm/a.py", "vllm/b c.txt", "vllm/\xe4.py", "vllm/sub/d.json"])
TREES = st.dictionaries(PATHS, CONTENTS, max_size=3)
TEXTS = st.lists(
    st.sampled_from(
        [
            "why", "", "  indented", "---", "-- ", "diff --git a/x b/x", "--- a/x", "+++ b/x",
            "@@ -1 +1 @@", "From me", "> quoted", "Index: x", "Author: me", "Test", "\xe4",
        ]
    ),
    max_size=6,
).map("\n".join)  # fmt: skip


def header(text: str) -> bytes:
    fields = (Field("Description", f"what it does\n{text}".rstrip("\n")), Field("Reason", "r"))
    return format_header(Header(fields))


@pytest.mark.parametrize("form", list(Format))
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TREES, TEXTS), min_size=2, max_size=4))
def test_a_series_comes_back_as_it_left(
    form: Format, states: list[tuple[dict[str, bytes], str]]
) -> None:
    patches = []
    for number, ((old, _), (new, text)) in enumerate(pairwise(states)):
        if sections := diff_files(old, new):
            data = format_patch(Patch(f"{number}.patch", header(text), sections))
            patches.append((old, new, parse_patch(data, f"{number}.patch")))
    written = format_folder([Leaving(p.name, p) for _, _, p in patches], form)
    names = [name for name in sorted(written) if not name.endswith("/series")]
    assert len(names) == len(patches)
    for name, (old, new, patch) in zip(names, patches, strict=True):
        (found,) = read_patches(written[name], name, "stem")
        made = canonical(found.patch, SourceTree(old))
        assert made.patch.files == patch.files
        assert dict(made.after.files) == new
        if form is not Format.MAIL:
            assert written[name] == format_patch(patch)
        else:
            assert found.said.subject == "what it does"
            assert found.said.is_mail
