"""A stored adaptation is placed only while hunk and target definition are as they were."""

from __future__ import annotations

from dataclasses import replace
from difflib import unified_diff

import pytest

from patchkit import PatchkitError, RebaseResult, SourceTree
from patchkit.diff import Hunk, parse_patch
from patchkit.outcome import Replayed
from patchkit.placing.adaptation import (
    Adaptation,
    apply_adaptation,
    check_adaptation,
    fingerprint_definition,
    key_of,
    make_adaptation,
)
from patchkit.placing.fingerprint import fingerprint_hunk
from patchkit.stacking.rebase import PatchInput, rebase_series

PATH = "vllm/mod.py"
BASE = "def f(x):\n    a(x)\n    b(x)\n    return x\n\n\ndef g(x):\n    return x\n"
AUTHORED = BASE.replace("    b(x)\n", "    b(x, mine=1)\n")
TARGET = BASE.replace("    b(x)\n", "    c(x)\n").replace("def g(x):", "def g(x, y):")
ADAPTED = TARGET.replace("    c(x)\n", "    c(x, mine=1)\n")


def diff(old: str, new: str, path: str = PATH) -> bytes:
    lines = unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
    )
    return "".join(lines).encode()


def hunks(patch: bytes) -> dict[int, Hunk]:
    return dict(enumerate(parse_patch(patch, "p").files[0].hunks, start=1))


def adaptation(
    before: str = TARGET, after: str = ADAPTED, patch: bytes | None = None, number: int = 1
) -> Adaptation:
    found = hunks(patch if patch is not None else diff(BASE, AUTHORED))
    return make_adaptation(
        release="0.29.0",
        path=PATH,
        hunks=[(number, found[number])],
        before=before.encode(),
        after=after.encode(),
        reason="upstream calls c now",
    )


def move(
    target: str,
    stored: Adaptation,
    patch: bytes | None = None,
    base: str = BASE,
    version: str | None = "0.29.0",
) -> RebaseResult:
    return rebase_series(
        [PatchInput("p", patch if patch is not None else diff(BASE, AUTHORED), (stored,))],
        SourceTree({PATH: base.encode()}),
        SourceTree({PATH: target.encode()}, version=version),
    )


def test_adaptation_records_what_it_was_made_for() -> None:
    stored = adaptation()
    assert (stored.release, stored.path, stored.hunks, stored.reason) == (
        "0.29.0",
        PATH,
        (1,),
        "upstream calls c now",
    )
    assert list(stored.target_definitions) == ["f"]
    assert stored.base_hunks == (fingerprint_hunk(hunks(diff(BASE, AUTHORED))[1]),)
    assert stored.diff == (
        "@@ -1,6 +1,6 @@\n def f(x):\n     a(x)\n"
        "-    c(x)\n+    c(x, mine=1)\n     return x\n \n \n"
    )


def test_without_the_adaptation_the_hunk_is_a_conflict() -> None:
    result = rebase_series(
        [PatchInput("p", diff(BASE, AUTHORED))],
        SourceTree({PATH: BASE.encode()}),
        SourceTree({PATH: TARGET.encode()}),
    )
    assert [str(o.status) for o in result.outcomes] == ["conflicted"]


def test_adaptation_is_placed_while_both_fingerprints_hold() -> None:
    result = move(TARGET, adaptation())
    (outcome,) = result.outcomes
    assert result.ok
    assert result.tree.files[PATH].decode() == ADAPTED
    assert (outcome.method, outcome.target_lines) == ("adaptation", (3, 3))
    assert (outcome.definition_before, outcome.definition_after) == ("f", "f")
    assert [str(e) for e in outcome.evidence] == [
        "stored for 0.29.0: upstream calls c now",
        "the hunk and the target definitions are as they were then",
    ]


def test_adaptation_holds_where_the_target_changed_outside_its_definition() -> None:
    target = "import os\n\n\n" + TARGET.replace("def g(x, y):", "def g(x, y, z):")
    result = move(target, adaptation())
    assert result.ok
    assert result.tree.files[PATH].decode() == "import os\n\n\n" + ADAPTED.replace(
        "def g(x, y):", "def g(x, y, z):"
    )


@pytest.mark.parametrize(
    "target",
    [
        TARGET.replace("    a(x)\n", "    a(x)\n    z(x)\n"),
        TARGET.replace("    return x\n", "    return x + 1\n", 1),
        TARGET.replace("def f(x):", "def f(x, y=1):"),
        TARGET.replace("    c(x)\n", "    c(x, 2)\n"),
        TARGET.replace("def f", "def f2"),
    ],
    ids=["line-more", "line-changed", "parameter", "the-line-itself", "renamed"],
)
def test_adaptation_is_a_conflict_where_the_target_definition_changed(target: str) -> None:
    result = move(target, adaptation())
    (outcome,) = result.outcomes
    assert outcome.status == "conflicted"
    assert outcome.reason == (
        "the adaptation stored for 0.29.0 does not hold: "
        "`f` in the target is not as it was when the adaptation was made"
    )
    assert result.tree.files[PATH].decode() == target


def test_adaptation_is_a_conflict_where_the_hunk_changed() -> None:
    patch = diff(BASE, AUTHORED.replace("mine=1", "mine=2"))
    result = move(TARGET, adaptation(), patch)
    (outcome,) = result.outcomes
    assert outcome.status == "conflicted"
    assert outcome.reason == (
        "the adaptation stored for 0.29.0 does not hold: "
        "hunk 1 is not the one that the adaptation was made for"
    )
    assert result.tree.files[PATH].decode() == TARGET


def test_hunk_that_only_moved_in_its_file_is_the_same_hunk() -> None:
    moved = diff("import os\n" + BASE, "import os\n" + AUTHORED)
    result = move(TARGET, adaptation(), moved, "import os\n" + BASE)
    assert result.ok or fingerprint_hunk(hunks(moved)[1]) != adaptation().base_hunks[0]


def test_adaptation_for_another_release_says_nothing_about_this_one() -> None:
    result = move(BASE, adaptation(), version="0.28.0")
    (outcome,) = result.outcomes
    assert outcome.method == "exact"
    assert result.tree.files[PATH].decode() == AUTHORED


def test_one_that_is_used_on_a_further_release_is_said_to_be_replayed() -> None:
    (outcome,) = move(TARGET, adaptation(), version="0.30.0").outcomes
    key = key_of("p", adaptation())
    assert outcome.replayed == Replayed(key, "0.29.0", "upstream calls c now", "exact")
    for version in ("0.29.0", None):
        (outcome,) = move(TARGET, adaptation(), version=version).outcomes
        assert (outcome.method, outcome.replayed) == ("adaptation", None)


def test_adaptation_is_used_on_a_tree_of_unknown_version_whose_content_matches() -> None:
    result = move(TARGET, adaptation(), version=None)
    assert result.ok
    assert result.tree.files[PATH].decode() == ADAPTED


def test_adaptation_beside_another_hunk_in_the_same_definition_is_used_either_way() -> None:
    body = "".join(f"    s{n}(x)\n" for n in range(9))
    base = f"def f(x):\n    a(x)\n{body}    b(x)\n    return x\n"
    authored = base.replace("a(x)\n", "a(x, mine=1)\n").replace("b(x)\n", "b(x, mine=1)\n")
    patch = diff(base, authored)
    assert len(hunks(patch)) == 2
    target = base.replace("    b(x)\n", "    c(x)\n")
    before = target.replace("a(x)\n", "a(x, mine=1)\n")
    after = before.replace("c(x)\n", "c(x, mine=1)\n")
    stored = adaptation(before, after, patch, number=2)
    for version in ("0.29.0", None):
        result = move(target, stored, patch, base, version)
        assert [str(o.method) for o in result.outcomes] == ["exact", "adaptation"], version
        assert result.tree.files[PATH].decode() == after


def test_adaptation_whose_file_is_gone_is_a_conflict() -> None:
    result = rebase_series(
        [PatchInput("p", diff(BASE, AUTHORED), (adaptation(),))],
        SourceTree({PATH: BASE.encode()}),
        SourceTree({"vllm/other.py": b""}, version="0.29.0"),
    )
    (outcome,) = result.outcomes
    assert outcome.status == "conflicted"
    assert outcome.reason == (
        f"the adaptation stored for 0.29.0 does not hold: {PATH} is gone from the target"
    )


def test_check_names_the_first_thing_that_does_not_match() -> None:
    stored, found = adaptation(), hunks(diff(BASE, AUTHORED))
    assert check_adaptation(stored, found, TARGET.encode()) is None
    missing = check_adaptation(stored, {}, TARGET.encode())
    assert missing is not None
    assert missing.text == "hunk 1 is not the one that the adaptation was made for"
    assert apply_adaptation(stored, TARGET.encode()).decode() == ADAPTED


def test_adaptation_of_a_file_that_is_not_python_is_bound_to_the_whole_file() -> None:
    base, target = "a: 1\nb: 2\n", "a: 1\nb: 3\n"
    patch = diff(base, "a: 1\nb: 4\n", "vllm/c.yaml")
    stored = make_adaptation(
        release="0.29.0",
        path="vllm/c.yaml",
        hunks=[(1, hunks(patch)[1])],
        before=target.encode(),
        after=b"a: 1\nb: 5\n",
        reason="5 it is",
    )
    assert list(stored.target_definitions) == ["<module>"]
    assert check_adaptation(stored, hunks(patch), target.encode()) is None
    assert check_adaptation(stored, hunks(patch), b"a: 2\nb: 3\n") is not None


@pytest.mark.parametrize(
    ("after", "reason", "message"),
    [
        (TARGET, "why", f"{PATH}: the file was not changed, expected an edited file"),
        (ADAPTED, "  ", f"{PATH}: an adaptation has no reason"),
    ],
)
def test_adaptation_needs_a_change_and_a_reason(after: str, reason: str, message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        make_adaptation(
            release="0.29.0",
            path=PATH,
            hunks=[(1, hunks(diff(BASE, AUTHORED))[1])],
            before=TARGET.encode(),
            after=after.encode(),
            reason=reason,
        )
    assert str(caught.value) == message


def test_adaptation_of_bytes_that_are_not_utf8_is_a_patchkit_error_or_kept() -> None:
    patch = diff("a\nb\n", "a\nc\n", "vllm/x.txt")
    try:
        stored = make_adaptation(
            release="0.29.0",
            path="vllm/x.txt",
            hunks=[(1, hunks(patch)[1])],
            before=b"a\xff\nb\n",
            after=b"a\xff\nc\n",
            reason="why",
        )
    except PatchkitError:
        return
    assert apply_adaptation(stored, b"a\xff\nb\n") == b"a\xff\nc\n"


def test_fingerprint_of_a_definition_sees_code_and_not_layout() -> None:
    one = fingerprint_definition(b"def f(x):\n    return g(x)\n", "f")
    assert one == fingerprint_definition(
        b"import os\ndef f(x):\n    # why\n    return g( x )\n", "f"
    )
    assert one != fingerprint_definition(b"def f(x):\n    return g(x, 1)\n", "f")
    assert one is not None
    assert one.startswith("1:")
    assert fingerprint_definition(b"def f(x):\n    return g(x)\n", "h") is None


def test_fingerprints_are_the_same_on_every_python() -> None:
    # literal: stored beside patches, so no interpreter may see another one
    source = (
        b"class K(A, m=B):\n    x: int = 1\n    async def f(self, a, /, b: int = 1, *c, d=2.5):\n"
        b"        match x:\n            case {'a': [1, *r], **z} if z:\n"
        b"                return (y := 1)\n        try:\n            pass\n"
        b"        except* E as e:\n            raise\n        with a as b, c: pass\n"
        b"        return lambda *a, **k: (a, {**k}, {*a}, f'{a!r:>{k}}', b'x', ..., 1e3, -1j)\n"
    )
    assert fingerprint_definition(source, "K") == "1:984160a1ebb44103bebcdc4cd01b02b8"
    assert fingerprint_definition(source, "K.f") == "1:5d57a48d5491c4e951b423f607e8e3ef"
    assert fingerprint_definition(source, "<module>") == "1:da9696046f1a065118e4148439afbc3c"
    assert fingerprint_hunk(hunks(diff(BASE, AUTHORED))[1]) == "1:b9d518afd2ea86e16bd197f65adc3541"


def test_adapted_hunk_does_without_what_the_patch_would_have_brought() -> None:
    other = "vllm/other.py"
    helped = diff("x = 1\n", "x = 1\n\n\ndef mine():\n    return 2\n", other)
    uses = BASE.replace("    b(x)\n", "    b(x, mine())\n").replace(
        "def f(", "from vllm.other import mine\n\n\ndef f("
    )
    patch = helped + diff(BASE, uses)
    number, hunk = 2, parse_patch(patch, "p").files[1].hunks[0]
    stored = make_adaptation(
        release="0.29.0", path=PATH, hunks=[(number, hunk)],
        before=TARGET.encode(), after=ADAPTED.encode(), reason="without the helper",
    )  # fmt: skip
    base = {PATH: BASE.encode(), other: b"x = 1\n"}
    target = {PATH: TARGET.encode(), other: b"class X: pass\n"}
    result = rebase_series(
        [PatchInput("p", patch, (stored,))],
        SourceTree(base, partial=True),
        SourceTree(target, version="0.29.0", partial=True),
    )
    assert [str(o.status) for o in result.outcomes] == ["conflicted", "placed"]
    assert result.tree.files[PATH].decode() == ADAPTED


def of_two(*stored: Adaptation, target: str = TARGET, version: str | None = "0.29.0") -> str:
    """Return what became of `c(x` in the target, with several adaptations stored for one hunk."""
    result = rebase_series(
        [PatchInput("p", diff(BASE, AUTHORED), stored)],
        SourceTree({PATH: BASE.encode()}),
        SourceTree({PATH: target.encode()}, version=version),
    )
    assert len(result.outcomes) == 1
    text = result.tree.files[PATH].decode()
    return next(line.strip() for line in text.split("\n") if "c(" in line or "d(" in line)


def stored_for(release: str, mine: int, before: str = TARGET) -> Adaptation:
    after = before.replace("c(x)", f"c(x, mine={mine})").replace("d(x)", f"d(x, mine={mine})")
    return replace(adaptation(before, after), release=release)


def test_of_two_for_one_hunk_that_hold_the_one_for_the_very_release_is_taken() -> None:
    one, two = stored_for("0.29.0", 1), stored_for("0.30.0", 2)
    for both in ((one, two), (two, one)):
        assert of_two(*both) == "c(x, mine=1)"
        assert of_two(*both, version="0.30.0") == "c(x, mine=2)"
    # for neither release: the one that was stored last
    assert of_two(one, two, version="0.31.0") == "c(x, mine=2)"
    assert of_two(one, two, version=None) == "c(x, mine=2)"


def test_of_two_for_one_hunk_the_one_whose_definitions_are_there_is_taken() -> None:
    otherwise = TARGET.replace("c(x)", "d(x)")
    one, two = stored_for("0.29.0", 1, otherwise), stored_for("0.30.0", 2)
    for both in ((one, two), (two, one)):
        assert of_two(*both) == "c(x, mine=2)"
        assert of_two(*both, target=otherwise, version="0.31.0") == "d(x, mine=1)"


def test_of_two_for_one_hunk_that_do_not_hold_the_one_for_the_release_says_why() -> None:
    target = TARGET.replace("c(x)", "e(x)")
    result = rebase_series(
        [PatchInput("p", diff(BASE, AUTHORED), (stored_for("0.30.0", 1), stored_for("0.29.0", 2)))],
        SourceTree({PATH: BASE.encode()}),
        SourceTree({PATH: target.encode()}, version="0.29.0"),
    )
    assert (result.outcomes[0].reason or "").startswith("the adaptation stored for 0.29.0 does not")
