"""What holds for every patch: identity, inverse, commuting, and no crash whatever comes in."""

from __future__ import annotations

import random
import sysconfig
from difflib import unified_diff
from functools import lru_cache
from pathlib import Path

import pytest

import patchkit
from patchkit import PatchkitError, RebaseResult
from patchkit.diff import parse_patch
from patchkit.outcome import Status
from patchkit.syntax.build import try_module

STDLIB = Path(sysconfig.get_paths()["stdlib"])
PATH = "vllm/core/mod.py"


@lru_cache(maxsize=1)
def corpus() -> tuple[str, ...]:
    """Modules of the standard library that are read in milliseconds."""
    found = []
    for path in sorted([*STDLIB.glob("*.py"), *STDLIB.glob("asyncio/*.py")]):
        if 2_000 < path.stat().st_size < 9_000:
            content = path.read_bytes()
            if try_module(content) is not None and b"\r" not in content and content.isascii():
                found.append(content.decode())
    return tuple(found)


def diff(old: str, new: str, path: str = PATH, context: int = 3) -> bytes:
    lines = unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
        n=context,
    )
    marker = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + marker for line in lines).encode()


def edited(source: str, rng: random.Random, count: int) -> str:
    """A module with some of its simple statements removed, repeated, replaced or followed."""
    lines = source.splitlines(keepends=True)
    for _ in range(count):
        at = rng.randrange(len(lines))
        line = lines[at]
        indent = line[: len(line) - len(line.lstrip())]
        lines[at : at + 1] = rng.choice(
            [
                [],
                [line, line],
                [line, f"{indent}self.added({rng.randrange(9)})\n"],
                [line.replace("self", "cls").replace("None", "False")],
                [line.replace("1", "2").replace("0", "3")],
                [line, f"{indent}# note {rng.randrange(9)}\n"],
                [line, "\n"],
            ]
        )
    return "".join(lines)


def valid_edit(source: str, rng: random.Random, count: int) -> str | None:
    """An edited module that is Python and differs, None where chance gave none."""
    for _ in range(6):
        new = edited(source, rng, count)
        if new != source and try_module(new.encode()) is not None:
            return new
    return None


def port(patch: bytes, base: str, target: str) -> RebaseResult:
    return patchkit.port([patch], {PATH: base.encode()}, {PATH: target.encode()})


def content(result: RebaseResult) -> str:
    return result.tree.files[PATH].decode()


@pytest.mark.parametrize("seed", range(20))
def test_moving_to_the_same_release_gives_the_authored_bytes(seed: int) -> None:
    rng = random.Random(seed)
    base = rng.choice(corpus())
    authored = valid_edit(base, rng, 1 + seed % 4)
    if authored is None:
        pytest.skip("chance gave no valid edit")
    result = port(diff(base, authored, context=seed % 4), base, base)
    assert [o.status for o in result.outcomes if not o.landed] == []
    assert content(result) == authored


@pytest.mark.parametrize(
    ("base", "authored"),
    [
        ("x = 'a'\n", 'x = "a"\n'),
        ("x = 16\n", "x = 0x10\n"),
        ("x = 'ab'\n", "x = ('a'\n     'b')\n"),
        ("x = ('a'\n     'b')\n", "x = ('a'\n     # why\n     'b')\n"),
        ("x = a\n", "x = (a)\n"),
        ("def f():\n    a()\n", "def f():\n\n    a()\n"),
        ("def f():\n    a()\n", "def f():\n    a()  # why\n"),
        ("f(a, b)\n", "f(\n    a,\n    b,\n)\n"),
        ("a(); b()\n", "a()\nb()\n"),
        ("if x: a()\n", "if x:\n    a()\n"),
        ("x = 1", "x = 1\n"),
        ("x = 1\n", "x = 1"),
        ("a()\n", ""),
        ("'''Doc.'''\n", "'''Doc.\n'''\n"),
    ],
)
def test_moving_a_change_of_spelling_to_the_same_release_gives_the_authored_bytes(
    base: str, authored: str
) -> None:
    result = port(diff(base, authored), base, base)
    assert [str(o.status) for o in result.outcomes] == ["placed"]
    assert content(result) == authored


@pytest.mark.parametrize("seed", range(20))
def test_the_inverse_patch_restores_the_base(seed: int) -> None:
    rng = random.Random(1_000 + seed)
    base = rng.choice(corpus())
    authored = valid_edit(base, rng, 1 + seed % 3)
    if authored is None:
        pytest.skip("chance gave no valid edit")
    result = port(diff(authored, base), authored, authored)
    assert result.ok
    assert content(result) == base


@pytest.mark.parametrize("seed", range(20))
def test_the_moved_patch_is_exact_on_the_target_and_gives_the_same_tree(seed: int) -> None:
    rng = random.Random(2_000 + seed)
    base = rng.choice(corpus())
    authored, target = valid_edit(base, rng, 2), valid_edit(base, rng, 4)
    if authored is None or target is None:
        pytest.skip("chance gave no valid edit")
    moved = port(diff(base, authored), base, target)
    (patch,) = moved.patches
    if not patch.data:
        assert content(moved) == target
        return
    again = port(patch.data, target, target)
    assert again.ok
    assert content(again) == content(moved)
    if moved.ok:
        assert {str(o.method) for o in again.outcomes} == {"exact"}


@pytest.mark.parametrize("seed", range(20))
def test_a_landing_keeps_every_line_that_upstream_added(seed: int) -> None:
    rng = random.Random(3_000 + seed)
    base = rng.choice(corpus())
    authored = valid_edit(base, rng, 1)
    if authored is None:
        pytest.skip("chance gave no valid edit")
    lines = base.splitlines(keepends=True)
    tops = [i for i, line in enumerate(lines) if line.startswith(("def ", "class "))]
    if not tops:
        pytest.skip("the module defines nothing")
    at = rng.choice(tops)
    if at and lines[at - 1].startswith("@"):
        at -= 1
    added = ["def upstreams_own(x):\n", "    return x\n", "\n", "\n"]
    target = "".join([*lines[:at], *added, *lines[at:]])
    result = port(diff(base, authored), base, target)
    assert "def upstreams_own(x):\n    return x\n" in content(result)
    if result.ok:
        assert content(result).replace("".join(added), "", 1) == authored
    else:
        assert content(result) == target


@pytest.mark.parametrize("seed", range(30))
def test_reported_lines_hold_what_the_hunk_adds(seed: int) -> None:
    rng = random.Random(5_000 + seed)
    base = rng.choice(corpus())
    authored, target = valid_edit(base, rng, 3), valid_edit(base, rng, 3)
    if authored is None or target is None:
        pytest.skip("chance gave no valid edit")
    patch = diff(base, authored)
    result = port(patch, base, target)
    hunks = parse_patch(patch, "p").files[0].hunks
    lines = content(result).splitlines()
    for outcome, hunk in zip(result.outcomes, hunks, strict=True):
        if outcome.status is not Status.PLACED:
            assert outcome.target_lines is None
            continue
        assert outcome.target_lines is not None
        first, last = outcome.target_lines
        reported = [line.strip() for line in lines[first - 1 : last]]
        added = [line.text.decode().strip() for line in hunk.lines if line.kind == "+"]
        assert [line for line in added if line and line not in reported] == []
        assert 1 <= first <= last < first + hunk.new_count


@pytest.mark.parametrize("seed", range(20))
def test_patches_in_two_functions_commute(seed: int) -> None:
    rng = random.Random(4_000 + seed)
    names = ["alpha", "beta", "gamma", "delta"]
    bodies = {
        n: [f"    step_{n}_{i}(x, {rng.randrange(5)})\n" for i in range(rng.randrange(2, 7))]
        for n in names
    }

    def module(changed: dict[str, str], order: list[str]) -> str:
        parts = []
        for name in order:
            lines = list(bodies[name])
            if name in changed:
                lines.insert(len(lines) // 2, f"    {changed[name]}(x)\n")
            parts.append(f"def {name}(x):\n{''.join(lines)}    return x\n")
        return "\n\n".join(parts)

    first, second = rng.sample(names, 2)
    target_order = rng.sample(names, 4)
    base, target = module({}, names), module({}, target_order)
    one, two = module({first: "one"}, names), module({second: "two"}, names)
    both = module({first: "one", second: "two"}, names)
    trees = [
        patchkit.port(patches, {PATH: base.encode()}, {PATH: target.encode()})
        for patches in (
            [diff(base, one), diff(one, both)],
            [diff(base, two), diff(two, both)],
        )
    ]
    assert [t.ok for t in trees] == [True, True]
    assert content(trees[0]) == content(trees[1])
    assert content(trees[0]) == module({first: "one", second: "two"}, target_order)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Bytes with some of them changed, cut, repeated or replaced by nasty ones."""
    content = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        if not content:
            return b""
        at = rng.randrange(len(content))
        what = rng.randrange(7)
        if what == 0:
            del content[at : at + rng.randrange(1, 40)]
        elif what == 1:
            content[at:at] = content[at : at + 60]
        elif what == 2:
            content[at : at + 1] = bytes([rng.randrange(256)])
        elif what == 3:
            content[at:at] = rng.choice(
                [b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\x0c", b"\t", b"\\\n", b'"""']
            )
        elif what == 4:
            lines = bytes(content).splitlines(keepends=True)
            rng.shuffle(lines)
            content = bytearray(b"".join(lines))
        elif what == 5:
            content = bytearray(bytes(content).replace(b"\n", b"\r\n"))
        else:
            content[at:at] = rng.choice([b"@@ -1,3 +1,3 @@\n", b"--- /dev/null\n", b"-- \n", b"{"])
    return bytes(content)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("what", ["patch", "target", "both", "base"])
def test_damaged_input_gives_an_outcome_or_a_patchkit_error(what: str, seed: int) -> None:
    rng = random.Random(f"{what}{seed}")
    outcomes = errors = 0
    for _ in range(12):
        base = rng.choice(corpus())
        authored = valid_edit(base, rng, 2) or base + "x = 1\n"
        patch = diff(base, authored)
        old, target = base.encode(), base.encode()
        if what in ("patch", "both"):
            patch = damaged(patch, rng)
        if what in ("target", "both"):
            target = damaged(target, rng)
        if what == "base":
            old = damaged(old, rng)
        try:
            result = patchkit.port([patch], {PATH: old}, {PATH: target})
        except PatchkitError:
            errors += 1
            continue
        outcomes += 1
        assert result.ok == all(
            o.status in (Status.PLACED, Status.ALREADY_UPSTREAM) for o in result.outcomes
        )
        if not any(o.status is Status.PLACED for o in result.outcomes):
            assert dict(result.tree.files) == {PATH: target}
    assert outcomes + errors == 12


@pytest.mark.parametrize(
    "junk",
    [
        b"\x00\x01\x02",
        b"not a patch\n",
        b"--- a/x\n",
        b"--- a/x\n+++ b/x\n",
        b"--- a/x\n+++ b/x\n@@\n",
        b"--- a/vllm/core/mod.py\n+++ b/vllm/core/mod.py\n@@ -1,0 +1,0 @@\n",
        b"--- a/vllm/core/mod.py\n+++ b/vllm/core/mod.py\n@@ -99999999999,1 +1,1 @@\n-x\n+y\n",
        b"--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-x\n+y\n",
        b"--- /dev/null\n+++ b/../../etc/evil.py\n@@ -0,0 +1 @@\n+y\n",
        b"\xff\xfe" + "--- a/x\n".encode("utf-16-le"),
        b"--- a/vllm/core/mod.py\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n",
    ],
)
def test_junk_is_refused_with_a_place(junk: bytes) -> None:
    with pytest.raises(PatchkitError) as caught:
        patchkit.port([junk], {PATH: b"a = 1\nb = 2\n"}, {PATH: b"a = 1\nb = 2\n"})
    assert caught.value.place is not None
