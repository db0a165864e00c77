"""Patch files that are sound, and more than 300 made from them that are damaged or odd."""

# ruff: noqa: ARG005
from __future__ import annotations

import base64
import quopri
import random
import re
from collections.abc import Callable, Iterator

from patchkit.diff import diff_contents, format_hunk
from patchkit.tree import SourceTree

A, B, GONE, EXE = "vllm/a.py", "vllm/core/b.py", "vllm/gone.py", "vllm/run.py"
NEW = "vllm/core/new.py"


def text(name: str, count: int) -> bytes:
    """Return a Python file of one-line functions, each line unlike any other."""
    rows = [f"def {name}_{n}(): return {n}" for n in range(count)]
    return "".join(f"{row}\n" for row in rows).encode()


FILES = {A: text("a", 30), B: text("b", 12), GONE: text("g", 3), EXE: b"x = 1\ny = 2"}
AUTHORED = {
    A: FILES[A]
    .replace(b"return 4\n", b"return 400\n")
    .replace(b"return 20\n", b"return 20\nmore = 1\n"),
    B: FILES[B].replace(b"def b_6(): return 6\n", b""),
    NEW: b"fresh_one = 1\nfresh_two = 2\n",
    EXE: b"x = 1\ny = 22\n",
}
TREE = SourceTree(FILES, name="0.28.0", version="0.28.0")

RELEASES = {
    "0.27.0": SourceTree({**FILES, A: b"import os\n" + FILES[A]}, name="0.27.0", version="0.27.0"),
    "0.28.0": TREE,
}


def hunks(path: str) -> bytes:
    """Return the hunks of one file."""
    found = diff_contents(FILES.get(path, b""), AUTHORED.get(path, b""), path)
    return b"".join(format_hunk(hunk) for hunk in found)


def section(path: str, *, git: bool = True, prefix: tuple[str, str] = ("a/", "b/")) -> bytes:
    """Return the section of one file, as git writes it or as `diff -u` does."""
    old, new = (f"{p}{path}" for p in prefix)
    head = f"diff --git {old} {new}\n" if git else ""
    if path not in FILES:
        head += "new file mode 100644\n" if git else ""
        old = "/dev/null"
    if path not in AUTHORED:
        head += "deleted file mode 100644\n" if git else ""
        new = "/dev/null"
    return f"{head}--- {old}\n+++ {new}\n".encode() + hunks(path)


BODY = b"".join(section(path) for path in (A, B, NEW, GONE, EXE))
PLAIN = b"".join(section(path, git=False) for path in (A, B, EXE))
STAT = b" vllm/a.py | 3 ++-\n 1 file changed, 2 insertions(+), 1 deletion(-)\n"


def mail(subject: str, body: bytes, coding: str = "8bit", message: bytes = b"Why.\n") -> bytes:
    """Return a mail with a patch."""
    whole = message + b"---\n" + STAT + b"\n" + body + b"-- \n2.39.5\n"
    if coding == "base64":
        whole = base64.encodebytes(whole)
    elif coding == "quoted-printable":
        whole = quopri.encodestring(whole)
    return (
        b"From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n"
        b"From: A Person <a@example.org>\nDate: Mon, 30 Nov 2026 10:00:00 +0000\n"
        b"Subject: [PATCH] " + subject.encode() + b"\n"
        b"MIME-Version: 1.0\nContent-Type: text/plain; charset=UTF-8\n"
        b"Content-Transfer-Encoding: " + coding.encode() + b"\n\n" + whole + b"\n"
    )


BINARY = (
    b"diff --git a/docs/x.png b/docs/x.png\nindex 1111111..2222222 100644\n"
    b"GIT binary patch\nliteral 3\nKc$@*1000aC1^@s6\n\nliteral 0\nHc$@<O00001\n\n"
)
MOVES = (
    b"diff --git a/vllm/gone.py b/vllm/kept.py\nsimilarity index 100%\n"
    b"rename from vllm/gone.py\nrename to vllm/kept.py\n"
    b"diff --git a/vllm/run.py b/vllm/run.py\nold mode 100644\nnew mode 100755\n"
)
NESTED = b"See:\n\n  diff --git a/x b/x\n  --- a/x\n  +++ b/x\n  @@ -1 +1 @@\n  -old\n  +new\n\n"

SOUND: dict[str, bytes] = {
    "git": BODY,
    "plain": PLAIN,
    "stamped": re.sub(rb"(?m)^((---|\+\+\+) \S+)$", rb"\1\t2026-01-31 10:11:12 +0100", PLAIN),
    "bare-paths": b"".join(section(p, git=False, prefix=("", "")) for p in (A, B)),
    "package-paths": section(B).replace(b"vllm/", b""),
    "site-packages": section(A, git=False, prefix=("/opt/lib/site-packages/",) * 2),
    "svn": b"".join(
        b"Index: %s\n%s\n%s" % (p.encode(), b"=" * 67, section(p, git=False)) for p in (A, B)
    ),
    "crlf": BODY.replace(b"\n", b"\r\n"),
    "utf-16": b"\xff\xfe" + BODY.replace(b"\n", b"\r\n").decode().encode("utf-16-le"),
    "bom": b"\xef\xbb\xbf" + BODY,
    "mail": mail("one", BODY),
    "base64": mail("one", BODY, "base64"),
    "quoted": mail("one", BODY, "quoted-printable"),
    "nested": mail("one", section(A), message=NESTED),
    "mailbox": mail("one", section(A)) + mail("two", section(B)),
    "moves": section(A) + MOVES + BINARY,
    "dep3": b"Description: d\nReason: r\nOrigin: o\n\n" + BODY,
    "log": b"".join(
        b"commit %s\nAuthor: A <a@example.org>\nDate:   today\n\n    %s\n\n%s\n"
        % (b"%040d" % number, message, section(path))
        for number, message, path in ((2, b"two", B), (1, b"one", A))
    ),
    "csrc": section(A) + section(B).replace(b"vllm/core/b.py", b"csrc/b.cu"),
}

Damage = Callable[[random.Random, bytes], bytes]


def _lines(change: Callable[[random.Random, list[bytes], int], None]) -> Damage:
    def damage(rng: random.Random, data: bytes) -> bytes:
        lines = data.split(b"\n")
        change(rng, lines, rng.randrange(len(lines)))
        return b"\n".join(lines)

    return damage


def _on_match(pattern: bytes, *new: bytes) -> Damage:
    """Return what replaces one match of a pattern, by one of some texts."""

    def damage(rng: random.Random, data: bytes) -> bytes:
        found = list(re.finditer(pattern, data, re.MULTILINE))
        if not found:
            return data + rng.choice(new)
        match = rng.choice(found)
        return data[: match.start()] + match.expand(rng.choice(new)) + data[match.end() :]

    return damage


def _swap(rng: random.Random, lines: list[bytes], at: int) -> None:
    other = rng.randrange(len(lines))
    lines[at], lines[other] = lines[other], lines[at]


def _delete_several(rng: random.Random, lines: list[bytes], at: int) -> None:
    del lines[at : at + rng.randrange(1, 9)]


def _insert(rng: random.Random, data: bytes, new: bytes) -> bytes:
    spot = rng.randrange(len(data))
    return data[:spot] + new + data[spot:]


CHUNKS = (
    b"\0", b"\xff\xfe", b"\r", b"\n\n", b"\n@@@ -1 -1 +1 @@@\n", b"\n-- \n", b"\n-- \n2.39.5\n",
    b"\ndiff --git a/x b/x\n", b"\n--- a/vllm/a.py\n+++ b/vllm/a.py\n", b"\n@@ -1,2 +1,2 @@\n",
    b"\n\\ No newline at end of file\n", b"\nrename from x\n", b"\nGIT binary patch\n",
    b"\nold mode 100644\n", b"\nindex 1..2\n", b"\nOnly in a: b\n", b"\n...\n", b"\n+stray\n",
    b"\nBinary files a/x and b/x differ\n", b"\nFrom me Mon Sep 17 00:00:00 2001\nFrom: me\n\n",
)  # fmt: skip
DAMAGES: dict[str, Damage] = {
    "truncated": lambda rng, data: data[: rng.randrange(len(data))],
    "head cut off": lambda rng, data: data[rng.randrange(len(data)) :],
    "line gone": _lines(lambda rng, lines, at: lines.pop(at) and None),
    "lines gone": _lines(_delete_several),
    "line twice": _lines(lambda rng, lines, at: lines.insert(at, lines[at])),
    "lines swapped": _lines(_swap),
    "added line gone": _on_match(rb"^\+[^+\n].*\n", b""),
    "line added": _on_match(rb"^\+[^+\n].*\n", rb"\g<0>+one_more_line = 1\n"),
    "context made up": _on_match(rb"^ [^\n]*\n", b" no such line\n", b" ...\n", b"\n"),
    "count": _on_match(rb",(\d+) ", b",0 ", b",99 ", b",  3 ", b",-1 ", b", ", b",x "),
    "start": _on_match(rb"^@@ -\d+", b"@@ -0", b"@@ -999999999999", b"@@ -x", b"@@ -"),
    "hunk header": _on_match(rb"^@@ .*", b"@@", b"@@ ... @@", b"@@@ -1 -1 +1 @@@", b""),
    "huge": _on_match(rb"^@@ -\d+", b"@@ -" + b"9" * 5000),
    "names": _on_match(rb"^(---|\+\+\+) .*", rb"\1 ", rb"\1 x/y/z.py", rb"\1", rb'\1 "open', b""),
    "traversal": _on_match(rb"vllm/", b"../vllm/", b"/etc/vllm/", b"a//b/../vllm/"),
    "git line": _on_match(
        rb"^diff --git .*", b"diff --git a/x", b"diff --git", b"diff --cc x", b""
    ),
    "mode": _on_match(rb"mode \d+", b"mode 777", b"mode 040000", b"mode", b"mode 100664"),
    "half a move": _on_match(rb"^(rename|copy) (from|to) .*\n", b"", rb"copy \2 x\n"),
    "index": _on_match(rb"^index .*", b"index x..y", b"index 0000..1111 1", b"index"),
    "no newline": _on_match(rb"^\\ No newline.*\n", b"", rb"\g<0>\g<0>", b"\\ Kein Zeilenende\n"),
    "no newline moved": _on_match(rb"^[ +-].*\n", rb"\g<0>\\ No newline at end of file\n"),
    "marker lost": _on_match(rb"^[ +-]", b"", b"\t", b"  ", b">"),
    "carriage return": _on_match(rb"\n", b"\r\n", b"\r", b"\r\r\n"),
    "coding": _on_match(
        rb"Content-Transfer-Encoding: .*",
        b"Content-Transfer-Encoding: base64",
        b"Content-Transfer-Encoding: quoted-printable",
        b"Content-Transfer-Encoding: x-odd",
    ),
    "mail header": _on_match(rb"^(From|Subject|Date): .*\n", b"", b"broken header\n", b"\n"),
    "chunk": lambda rng, data: _insert(rng, data, rng.choice(CHUNKS)),
    "byte": lambda rng, data: _insert(rng, data[:-1], bytes([rng.randrange(256)])),
    "half in UTF-16": lambda rng, data: data[:200] + data[200:].decode("latin-1").encode("utf-16"),
    "quoted": lambda rng, data: b"".join(b"> " + row for row in data.splitlines(keepends=True)),
    "empty": lambda rng, data: rng.choice([b"", b"\n\n", b"\xff\xfe", b" "]),
}


def odd_files() -> Iterator[tuple[str, bytes]]:
    """Yield names and bytes: each damage to each sound file, the same in every run."""
    for name, data in SOUND.items():
        for kind, damage in DAMAGES.items():
            rng = random.Random(f"{name} {kind}")
            yield f"{name}, {kind}", damage(rng, data)
