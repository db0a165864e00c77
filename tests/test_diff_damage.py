"""Damaged patch files: refused with a place, or read; never another exception, never nothing."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from patchkit.diff import Patch, apply_patch, format_patch, parse_mbox
from patchkit.diff.roots import resolve_roots
from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree

SOUND = b"""\
From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001
From: A Person <a@example.org>
Subject: [PATCH] everything at once

Why.
---
 vllm/x.py | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/vllm/x.py b/vllm/x.py
index 1111111..2222222 100644
--- a/vllm/x.py
+++ b/vllm/x.py
@@ -1,4 +1,5 @@ def f(a):
 a

-b
+B
+c
 d
@@ -9,2 +10,2 @@
 e
-f
\\ No newline at end of file
+f
diff --git "a/vllm/\\303\\244.py" "b/vllm/\\303\\244.py"
new file mode 100755
index 0000000..7898192
--- /dev/null
+++ "b/vllm/\\303\\244.py"
@@ -0,0 +1,2 @@
+a
+b\r
diff --git a/old name.py b/new name.py
similarity index 90%
rename from old name.py
rename to new name.py
diff --git a/lib.so b/lib.so
GIT binary patch
literal 3
Kc$@*1000aC1^@s6

literal 0
Hc$@<O00001

--- vllm/plain.py\t2026-01-31 10:11:12 +0100
+++ vllm/plain.py\t2026-01-31 10:11:12 +0100
@@ -1,3 +1,2 @@
 a
-b
 c
--\x20
2.39.5

"""
CHUNKS = [b"@@ -1,2 +1,2 @@\n", b"--- a/x\n", b"+++ b/x\n", b"diff --git a/x b/x\n", b"\n", b"+x\n"]
CHUNKS += [b" x\n", b"-x\n", b"\\ No newline at end of file\n", b"@@@ -1 -1 +1 @@@\n", b"-- \n"]
CHUNKS += [b"rename from x\n", b"index 1..2\n", b"GIT binary patch\n", b"\0", b"\xff\xfe", b"\r"]


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return the data with one thing wrong."""
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    kind = rng.randrange(9)
    if kind == 0:
        return data[: rng.randrange(len(data))]
    if kind == 1:
        del lines[at]
    elif kind == 2:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif kind == 3:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 4:
        spot = rng.randrange(len(data))
        return data[:spot] + bytes([rng.randrange(256)]) + data[spot + 1 :]
    elif kind == 5:
        spot = rng.randrange(len(data))
        return data[:spot] + rng.choice(CHUNKS) + data[spot:]
    elif kind == 6:
        digits = list(re.finditer(rb"\d+|^", data))
        match = rng.choice(digits)
        number = rng.choice([b"0", b"7", b"", b"-1", b"9" * 5000, b" 3", b"x"])
        return data[: match.start()] + number + data[match.end() :]
    elif kind == 7:
        lines[at] = lines[at][1:] if lines[at] else b" "
    else:
        lines[at : at + 1] = [lines[at] + b"\r"]
    return b"\n".join(lines)


TREE = SourceTree(
    {
        "vllm/x.py": b"a\n\nb\nd\n\n\n\n\ne\nf",
        "vllm/plain.py": b"a\nb\nc\n",
        "old name.py": b"n\n",
        "lib.so": b"\x7fELF",
    }
)


def refusal(action: Callable[[], object]) -> PatchkitError | None:
    """Return the error with which an action is refused, if it is."""
    try:
        action()
    except PatchkitError as err:
        return err
    return None


def use(data: bytes) -> str:
    """Read, format, resolve and apply; return how far it came."""
    if error := refusal(lambda: parse_mbox(data, "p.patch")):
        assert re.match(r"p\.patch:\d+: \S", str(error)), str(error)
        return "refused"
    for patch in parse_mbox(data, "p.patch"):
        assert patch.files
        assert all(f.hunks or f.binary or f.change != "modify" or f.old_mode for f in patch.files)
        again = parse_mbox(format_patch(patch), "p.patch")
        assert [Patch(patch.name, p.preamble, p.files, p.trailer) for p in again] == [patch]
        if error := refusal(lambda: apply_patch(resolve_roots(patch, TREE)[0], TREE)):  # noqa: B023
            assert error.place
            return "not applied"
    return "applied"


def test_the_sound_patch_is_read_whole() -> None:
    (patch,) = parse_mbox(SOUND, "p.patch")

    assert [file.path for file in patch.files] == [
        "vllm/x.py",
        "vllm/ä.py",
        "new name.py",
        "lib.so",
        "vllm/plain.py",
    ]
    without_binary = Patch("p", b"", tuple(f for f in patch.files if f.binary is None))
    tree = apply_patch(without_binary, TREE)
    assert tree.files["vllm/x.py"] == b"a\n\nB\nc\nd\n\n\n\n\ne\nf\n"
    assert tree.files["vllm/ä.py"] == b"a\nb\r\n"
    assert tree.files["new name.py"] == b"n\n"
    assert tree.files["vllm/plain.py"] == b"a\nc\n"


@pytest.mark.parametrize("seed", range(10))
def test_damage_is_refused_or_read_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    ends = []
    for _ in range(60):
        data = SOUND
        for _ in range(rng.choice([1, 1, 1, 2, 4])):
            data = damaged(rng, data)
        ends.append(use(data))
    assert ends.count("refused") >= 15
    assert ends.count("not applied") >= 5
