"""Anchors files: generated part byte-stable, a person's part kept letter for letter."""

from __future__ import annotations

import tomllib
from difflib import unified_diff

import pytest

from patchkit import PatchkitError, SourceTree
from patchkit.diff import parse_patch
from patchkit.placing.adaptation import Adaptation
from patchkit.placing.fingerprint import fingerprint_hunk
from patchkit.placing.plan import PatchPlan, plan_patch
from patchkit.series.anchor import format_anchors, generate_anchors, parse_anchors
from patchkit.series.anchoring import renewed, stored_overrides, with_overrides
from patchkit.series.override import Overrides, contradictions

PATH = "vllm/mod.py"
BASE = """\
import enum


class Kind(enum.Enum):
    A = 1
    B = 2


def helper(a, b=1):
    return a


def f(x):
    one(x)
    two(x)
    return x
"""
AUTHORED = BASE.replace("    B = 2\n", "    B = 2\n    C = 3\n").replace(
    "    two(x)\n", "    x.pages = helper(x.block_size, b=2)\n    two(x)\n"
)


def diff(old: str, new: str, path: str = PATH) -> bytes:
    lines = unified_diff(
        old.splitlines(keepends=True),
        new.splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
        n=1,
    )
    return "".join(lines).encode()


def plan(base: str = BASE, authored: str = AUTHORED, path: str = PATH) -> PatchPlan:
    patch = parse_patch(diff(base, authored, path), "p")
    return plan_patch(patch, SourceTree({path: base.encode()}))


def adaptation(found: PatchPlan, release: str = "0.29.0", reason: str = "it's so") -> Adaptation:
    job = found.files[0].jobs[1]
    return Adaptation(
        release=release,
        path=PATH,
        hunks=(2,),
        reason=reason,
        base_hunks=(fingerprint_hunk(job.hunk),),
        target_definitions={"f": "1:abc"},
        diff="@@ -1,2 +1,3 @@\n a\n+    b = '\\d'\n c\n",
    )


def test_generated_part_is_a_function_of_base_and_diff_alone() -> None:
    assert generate_anchors(plan()) == generate_anchors(plan())
    other = generate_anchors(plan(BASE, AUTHORED.replace("C = 3", "C = 4")))
    assert other != generate_anchors(plan())


def test_generated_part_says_place_edit_neighbours_and_surface_of_each_hunk() -> None:
    # literal: stored, so a change here needs a new format number or a reason
    assert (
        generate_anchors(plan())
        == """\
# Generated from the patch and its base; edit nothing above [override].
format = 1

[generated]
fingerprints = 1

[[generated.hunk]]
number = 1
path = "vllm/mod.py"
hunk = "1:1bf2df20e750a754bd523e614acc2508"
definitions = {Kind = "1:b09f4b547a1b79cd54d5a985bf8a848a"}
edits = [
    {kind = "enum member added", in = "Kind ClassDef.body", \
after = "1:b28298ccdad6a329af0027730e27927f"},
]

[[generated.hunk]]
number = 2
path = "vllm/mod.py"
hunk = "1:8d6b287b9ab18fc9b302fd0b83500b18"
definitions = {f = "1:2594e1797c14bb2dc466a39b378b37ce"}
edits = [
    {kind = "statement added", in = "f FunctionDef.body", \
after = "1:466cdce1849ec628da123e2c06c0bd60", \
before = "1:4292c04d77408d09323ff2cc85d2ac1e"},
]
attributes = ["block_size"]
keywords = ["b"]
names = ["helper"]
calls = ["helper(a, b=1)"]

"""
    )


def test_anchors_of_a_shifted_hunk_differ_in_nothing() -> None:
    # lines are no anchors: an import more above changes neither place nor neighbours
    shifted = generate_anchors(plan("import os\n" + BASE, "import os\n" + AUTHORED))
    assert shifted.replace("import os", "") == generate_anchors(plan())


def test_file_that_is_printed_and_read_gives_the_same_values() -> None:
    found = plan()
    stored = [adaptation(found), adaptation(found, "0.30.0", 'two\nlines "quoted" \\ and \u00e4')]
    data = format_anchors(generate_anchors(found), Overrides(tuple(stored)))
    anchors = parse_anchors(data, "p.anchors.toml")
    assert anchors.generated == generate_anchors(found)
    assert list(anchors.overrides.adaptations) == stored
    assert stored_overrides(data, "p.anchors.toml") == Overrides(tuple(stored))
    again = format_anchors(anchors.generated, Overrides(), anchors.override_text)
    assert again == data


@pytest.mark.parametrize(
    "text",
    [
        "@@ -1 +1 @@\n-a\n+'''\n",
        "@@ -1 +1 @@\n-a\r\n+b\r\n",
        "@@ -1 +1 @@\n-a\n+\\\n",
        "@@ -1 +1 @@\n-a\n+\tb\x0c\n",
        "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n",
        "@@ -1 +1 @@\n-a\n+[override]\n",
        "@@ -1 +1 @@\n-''\n+'\n",
        '@@ -1 +1 @@\n-a\n+"""\n',
        "@@ -1 +1 @@\n-a\n+\u2028\U0001f600\n",
    ],
)
def test_diff_of_an_adaptation_survives_whatever_it_holds(text: str) -> None:
    found = plan()
    stored = Adaptation("0.29.0", PATH, (2,), "why", ("1:a",), {"<module>": "1:b"}, text)
    data = format_anchors(generate_anchors(found), Overrides((stored,)))
    assert parse_anchors(data, "p").overrides.adaptations == (stored,)


OVERRIDE = (
    "[[override.adaptation]]   # asked upstream, see there\n"
    'release = "0.29.0"\npath   = "vllm/mod.py"\nhunks = [ 2 ]\n'
    "reason = 'it is so'\n\n\nbase_hunks = [ '1:x', ]\n"
    "target_definitions = { f = '1:abc' }\ndiff = ''\n# the end\n"
)


def test_override_is_kept_letter_for_letter_when_the_rest_is_renewed() -> None:
    old = (generate_anchors(plan(BASE, AUTHORED.replace("C = 3", "C = 4"))) + OVERRIDE).encode()
    new = renewed(old, plan(), "p")
    assert new.decode() == generate_anchors(plan()) + OVERRIDE
    assert renewed(new, plan(), "p") == new


@pytest.mark.parametrize(
    "head",
    ["[ override ]\n", '["override"]\n', "[override]\n", "  [override]\n"],
)
def test_override_is_kept_however_its_head_is_written(head: str) -> None:
    entry = (
        "adaptation = [{ release = '0.29.0', path = 'vllm/mod.py', hunks = [2], reason = 'r', "
        "base_hunks = ['1:x'], target_definitions = { f = '1:abc' }, diff = '' }]\n"
    )
    data = (generate_anchors(plan()) + head + entry).encode()
    try:
        assert len(parse_anchors(data, "p").overrides.adaptations) == 1
        new = renewed(data, plan(), "p")
    except PatchkitError:
        return
    assert len(parse_anchors(new, "p").overrides.adaptations) == 1


def test_override_before_the_generated_part_is_not_lost_in_silence() -> None:
    generated = generate_anchors(plan())
    entry = (
        "override.adaptation = [{ release = '0.29.0', path = 'vllm/mod.py', hunks = [2], "
        "reason = 'r', base_hunks = ['1:x'], target_definitions = { f = '1:abc' }, diff = '' }]\n"
    )
    data = (entry + generated).encode()
    try:
        new = renewed(data, plan(), "p")
    except PatchkitError:
        return
    assert len(parse_anchors(new, "p").overrides.adaptations) == 1


def test_new_adaptation_is_added_and_others_stay_letter_for_letter() -> None:
    found = plan()
    old = (generate_anchors(found) + OVERRIDE).encode()
    new = with_overrides(old, found, Overrides((adaptation(found, "0.30.0"),)), "p")
    assert new.decode().startswith(generate_anchors(found) + OVERRIDE)
    assert [a.release for a in parse_anchors(new, "p").overrides.adaptations] == [
        "0.29.0",
        "0.30.0",
    ]


def test_new_adaptation_for_the_same_hunk_and_release_replaces_the_old() -> None:
    found = plan()
    first = with_overrides(None, found, Overrides((adaptation(found, reason="one"),)), "p")
    second = with_overrides(first, found, Overrides((adaptation(found, reason="two"),)), "p")
    assert [a.reason for a in parse_anchors(second, "p").overrides.adaptations] == ["two"]


def test_contradictions_name_the_hunk() -> None:
    found = plan()
    good = Overrides((adaptation(found),))
    assert contradictions(good, found, "p.anchors.toml") == ()
    changed = plan(BASE, AUTHORED.replace("b=2", "b=3"))
    assert contradictions(good, changed, "p.anchors.toml") == (
        "p.anchors.toml: hunk 2 has changed since its adaptation for 0.29.0 was made",
    )
    fewer = plan(BASE, BASE.replace("    B = 2\n", "    B = 2\n    C = 3\n"))
    assert contradictions(good, fewer, "p.anchors.toml") == (
        "p.anchors.toml: an adaptation names hunk 2, of 1",
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"format = 2\n", "p: format is 2, expected 1"),
        (b"", "p: format is None, expected 1"),
        (b"format = 1\n[[override.adaptation]]\nrelease = 1\n",
         "p: adaptation 1: field `release` is missing or not a str"),
        (b"format = 1\n[override]\nadaptation = 1\n",
         "p: override.adaptation is not a list of tables"),
        (b"format = 1\n[override]\nadaptation = [1]\n",
         "p: adaptation 1: not a table"),
        ((OVERRIDE.replace("'it is so'", "' '")).join(["format = 1\n", ""]).encode(),
         "p: adaptation 1: the reason is empty"),
        (("format = 1\n" + OVERRIDE.replace("hunks = [ 2 ]", "hunks = []")).encode(),
         "p: adaptation 1: `hunks` and `base_hunks` differ in length or are empty"),
        (("format = 1\n" + OVERRIDE.replace("hunks = [ 2 ]", "hunks = ['2']")).encode(),
         "p: adaptation 1: `hunks` holds something that is not a number"),
        (("format = 1\n" + OVERRIDE + "colour = 1\n").encode(),
         "p: adaptation 1: unknown field `colour`"),
    ],
)  # fmt: skip
def test_file_that_is_wrong_is_refused_with_the_place(data: bytes, message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_anchors(data, "p")
    assert str(caught.value) == message


@pytest.mark.parametrize("data", [b"\xff", b"format = ", b"format = 1\nformat = 1\n"])
def test_file_that_is_not_toml_is_refused(data: bytes) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_anchors(data, "p")
    assert caught.value.place == "p"
    assert caught.value.fact.startswith("not valid TOML: ")


def test_override_with_a_field_that_nobody_reads_is_refused() -> None:
    with pytest.raises(PatchkitError):
        parse_anchors(b"format = 1\n[override]\nadaptatoin = []\n", "p")


def test_hunks_of_text_and_new_files_have_anchors_too() -> None:
    patch = diff("a: 1\n", "a: 2\n", "vllm/c.yaml") + (
        b"--- /dev/null\n+++ b/vllm/n.py\n@@ -0,0 +1 @@\n+x = 1\n"
    )
    found = plan_patch(parse_patch(patch, "p"), SourceTree({"vllm/c.yaml": b"a: 1\n"}))
    table = tomllib.loads(generate_anchors(found))
    assert [(h["number"], h["path"]) for h in table["generated"]["hunk"]] == [
        (1, "vllm/c.yaml"),
        (2, "vllm/n.py"),
    ]
