"""What verify says of a small tree: every hole by name, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.diff import diff_files, format_files, parse_patch, split_lines
from patchkit.diff.model import reverse_hunk
from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree
from patchkit.verifying.expected import expected_files
from patchkit.verifying.meaning import definitions_by_line
from patchkit.verifying.verify import State, Verified, definition_at, verify_tree
from patchkit.wheel.record import format_row, format_rows

Kit = Any
Place = Any
ROOT = Path(__file__).parents[2]
KEY = ("patches", "p.patch")


def verify(
    base: dict[str, bytes], made: dict[str, bytes], now: dict[str, bytes], *more: dict[str, bytes]
) -> Verified:
    """Return what `now` holds of the patches from `base` over `more` to `made`."""
    texts: dict[tuple[str, str], bytes] = {}
    stages = [base, *more, made]
    for number, (old, new) in enumerate(pairwise(stages), 1):
        texts["s", f"{number}.patch"] = format_files(diff_files(old, new))
    expected = expected_files(texts, SourceTree(base, partial=True))
    for path, content in made.items():
        assert path not in expected.files or expected.files[path].content == content
    return verify_tree(expected, SourceTree(now))


def holes(found: Verified) -> dict[str, str]:
    """Return what is wrong by `patch:hunk`."""
    return {
        f"{h.spot.patch.removesuffix('.patch')}:{h.spot.hunk}": h.state
        for h in found.hunks
        if not h.present
    }


def edit(place: Place, name: str, old: bytes, new: bytes) -> None:
    path = place.packages / name
    content = path.read_bytes()
    assert content.count(old) == 1
    place.write(f"site-packages/{name}", content.replace(old, new))


SIZE = "vllm/size.py"
DEFINITION = b"def promote(specs, largest):\n    return [max(s, largest) for s in specs]\n\n\n"


def test_a_patched_tree_has_every_hunk_with_its_definition_and_line(place: Place) -> None:
    place.apply()
    report = place.verify()
    assert (report.kind, report.against, report.release) == ("installed", "applied", "0.99.0")
    assert report.verified.state is State.PATCHED
    assert report.verified.files == ()
    assert [
        (h.spot.patch, h.spot.hunk, h.spot.path, h.state, h.definition, h.line)
        for h in report.verified.hunks
    ] == [
        ("one.patch", 1, SIZE, "present", "size", 5),
        ("one.patch", 2, SIZE, "present", "promote", 14),
        ("one.patch", 3, SIZE, "present", "total", 28),
        ("two.patch", 1, "vllm/new/mod.py", "present", None, 1),
        ("two.patch", 2, "vllm/old.py", "present", None, None),
        ("two.patch", 3, "vllm/units.py", "present", None, 1),
    ]


UNDONE = {
    "one:1": (SIZE, b"blocks * 32", b"blocks * 16"),
    "one:2": (SIZE, DEFINITION, b""),
    "one:3": (SIZE, b"promote(known, max(known))", b"known"),
    "two:3": ("vllm/units.py", b"1024", b"1000"),
}


@pytest.mark.parametrize("hunk", UNDONE)
def test_a_hunk_undone_by_hand_is_named(place: Place, hunk: str) -> None:
    place.apply()
    edit(place, *UNDONE[hunk])
    report = place.verify()
    partner = {"one:2": {"one:3": "unbound"}, "one:3": {"one:2": "unused"}}
    assert holes(report.verified) == {hunk: "missing", **partner.get(hunk, {})}
    assert report.verified.state is State.MIXED
    assert report.verified.files == ()


def test_files_that_a_patch_adds_and_removes_count(place: Place) -> None:
    place.apply()
    (place.packages / "vllm/new/mod.py").unlink()
    place.write("site-packages/vllm/old.py", b"gone = True\n")
    assert holes(place.verify().verified) == {"two:1": "missing", "two:2": "missing"}


def test_a_hunk_changed_by_hand_is_named_and_the_tree_tampered(place: Place) -> None:
    place.apply()
    edit(place, SIZE, b"blocks * 32", b"blocks * 64")
    report = place.verify()
    assert holes(report.verified) == {"one:1": "changed"}
    assert report.verified.state is State.TAMPERED


def test_a_line_put_among_those_of_a_hunk_is_a_change_of_it(place: Place) -> None:
    place.apply()
    edit(place, SIZE, b"    return [max(s", b"    return specs\n    return [max(s")
    assert holes(place.verify().verified) == {"one:2": "changed"}


def test_an_edit_apart_from_hunks_is_told_apart_from_them(place: Place) -> None:
    place.apply()
    edit(place, SIZE, b'return "nothing"', b'return "none"')
    report = place.verify()
    assert holes(report.verified) == {}
    assert [(f.path, f.kind, f.text) for f in report.verified.files] == [
        (SIZE, "edited", "was changed apart from the series, at line 10")
    ]
    assert report.verified.state is State.TAMPERED


def test_a_definition_bound_anew_makes_its_hunk_void(place: Place) -> None:
    place.apply()
    path = place.packages / SIZE
    path.write_bytes(path.read_bytes() + b"\n\ndef promote(specs, largest):\n    return specs\n")
    assert holes(place.verify().verified) == {"one:2": "shadowed"}


def test_hunks_moved_into_another_definition_do_not_count(place: Place) -> None:
    place.apply()
    edit(place, SIZE, b"def total(specs):\n", b"def other(specs):\n")
    found = place.verify().verified
    assert holes(found) == {"one:3": "shadowed"}
    assert found.hunks[2].text == "stands in other, not in total (line 28)"


def test_files_that_no_patch_touches_are_held_against_record(place: Place) -> None:
    place.apply()
    place.write("site-packages/vllm/__init__.py", b"mine = 1\n")
    place.write("site-packages/vllm/mine.py", b"mine = 1\n")
    (place.packages / "vllm/run.sh").unlink()
    place.write("site-packages/vllm/_C.abi3.so", b"short")
    found = place.verify().verified
    assert {f.path: (f.kind, f.text) for f in found.files} == {
        "vllm/__init__.py": ("edited", "is not as RECORD says"),
        "vllm/mine.py": ("added", "is not in RECORD"),
        "vllm/run.sh": ("missing", "is missing, though RECORD lists it"),
        "vllm/_C.abi3.so": ("edited", "has 5 bytes, RECORD says 1024"),
    }
    assert holes(found) == {}
    assert found.state is State.TAMPERED


def test_a_pristine_tree_has_no_hunk(place: Place) -> None:
    found = place.verify(place.source()).verified
    assert found.state is State.PRISTINE
    assert {h.state for h in found.hunks} == {"missing"}
    assert not found.ok


def test_without_a_series_there_is_nothing_to_say(place: Place) -> None:
    with pytest.raises(PatchkitError) as caught:
        place.verify()
    assert str(caught.value) == f"{place.packages}/vllm: no series is recorded in it"


def test_a_tree_patched_by_other_means_is_verified_by_a_series(place: Place, kit: Kit) -> None:
    place.series(one=kit.patch("one", kit.FILES, kit.ONE))
    place.files = {**kit.FILES, **kit.ONE}
    place.install()
    for source in (place.source(), place.export()):
        report = place.verify(source)
        assert report.verified.ok
        assert report.against == "series"
    edit(place, SIZE, b"promote(known, max(known))", b"known")
    found = place.verify(source).verified
    assert holes(found) == {"one:2": "unused", "one:3": "missing"}


def test_an_overlay_file_that_was_changed_or_removed_is_named(place: Place) -> None:
    place.overlay("vllm/fresh.py", b"fresh = 1\n")
    place.apply()
    place.write("site-packages/vllm/fresh.py", b"fresh = 2\n")
    assert holes(place.verify().verified) == {"overlay.toml:1": "changed"}
    (place.packages / "vllm/fresh.py").unlink()
    assert holes(place.verify().verified) == {"overlay.toml:1": "missing"}


def test_the_mode_of_a_patch_counts(place: Place, kit: Kit) -> None:
    modes = {"vllm/units.py": 0o100644}, {"vllm/units.py": 0o100755}
    data = kit.patch("one", kit.FILES, kit.FILES, modes_old=modes[0], modes_new=modes[1])
    place.series(one=data)
    place.apply()
    assert place.verify().verified.ok
    (place.packages / "vllm/units.py").chmod(0o644)
    assert holes(place.verify().verified) == {"one:1": "missing"}


# By meaning --------------------------------------------------------------------------------------

BASE = {
    "vllm/a.py": b"a = 1\n",
    "vllm/b.py": b"def run(x):\n    return x\n",
    "vllm/c.py": b"c = 1\n",
}
PARTNERS = {
    **BASE,
    "vllm/a.py": b"a = 1\n\n\ndef helper(x):\n    return x + 1\n",
    "vllm/b.py": b"from vllm.a import helper\n\n\ndef run(x):\n    return helper(x)\n",
}


def test_a_partner_in_another_file_that_is_missing_makes_both_holes() -> None:
    now = {**PARTNERS, "vllm/a.py": BASE["vllm/a.py"]}
    assert holes(verify(BASE, PARTNERS, now)) == {"1:1": "missing", "1:2": "unbound"}


def test_an_import_that_lost_its_use_is_a_hole() -> None:
    now = {**PARTNERS, "vllm/b.py": PARTNERS["vllm/b.py"].replace(b"helper(x)", b"x")}
    found = verify(BASE, PARTNERS, now)
    assert holes(found)["1:2"] in ("changed", "missing", "unused")
    far = b"from vllm.a import helper\n" + b"".join(b"x%d = 1\n" % n for n in range(9))
    base = {**BASE, "vllm/b.py": far.split(b"\n", 1)[1] + b"def run(x):\n    return x\n"}
    made = {**PARTNERS, "vllm/b.py": far + b"def run(x):\n    return helper(x)\n"}
    now = {**made, "vllm/b.py": far + b"def run(x):\n    return x\n"}
    assert holes(verify(base, made, now)) == {"1:2": "unused", "1:3": "missing"}


def test_an_import_that_the_patch_itself_asks_for_in_vain_is_no_hole() -> None:
    made = {**BASE, "vllm/b.py": b"from vllm.a import nothing\n\n\ndef run(x):\n    return x\n"}
    found = verify(BASE, made, {**made, "vllm/c.py": b"c = 2\n"})
    assert holes(found) == {}
    other = {**made, "vllm/c.py": b"c = 3\n"}
    assert holes(verify(BASE, other, made)) == {"1:2": "missing"}


def test_a_function_that_another_file_still_calls_is_used() -> None:
    base = {**PARTNERS, "vllm/c.py": b"from vllm.a import helper\n\nhelper(1)\n"}
    base["vllm/a.py"] = BASE["vllm/a.py"]
    base["vllm/b.py"] = BASE["vllm/b.py"]
    made = {**base, "vllm/a.py": PARTNERS["vllm/a.py"], "vllm/b.py": PARTNERS["vllm/b.py"]}
    now = {**made, "vllm/b.py": BASE["vllm/b.py"]}
    assert holes(verify(base, made, now)) == {"1:2": "missing"}


def test_a_function_that_only_calls_itself_is_not_used() -> None:
    loop = b"a = 1\n\n\ndef helper(x):\n    return helper(x - 1) if x else 0\n"
    made = {**PARTNERS, "vllm/a.py": loop}
    now = {**made, "vllm/b.py": BASE["vllm/b.py"]}
    assert holes(verify(BASE, made, now)) == {"1:1": "unused", "1:2": "missing"}


def test_a_file_that_is_no_python_any_more_is_still_read_by_its_lines() -> None:
    now = {**PARTNERS, "vllm/b.py": PARTNERS["vllm/b.py"] + b"def (:\n"}
    found = verify(BASE, PARTNERS, now)
    assert holes(found) == {}
    assert found.state is State.TAMPERED


# By lines ----------------------------------------------------------------------------------------


def test_of_two_equal_lines_the_hunks_own_is_taken() -> None:
    base = {"vllm/a.py": b"a\nx\nb\nc\nd\ne\nf\ng\nh\n"}
    made = {"vllm/a.py": b"a\nx\nx\nb\nc\nd\ne\nf\ng\nh\n"}
    found = verify(base, made, base)
    assert holes(found) == {"1:1": "missing"}
    assert found.files == ()


def test_hunks_on_lines_of_an_earlier_patch_are_told_apart() -> None:
    lines = [b"%d\n" % n for n in range(12)]
    base = {"vllm/a.py": b"".join(lines)}
    first = {"vllm/a.py": b"".join([*lines[:6], b"one\n", b"two\n", b"three\n", *lines[6:]])}
    made = {"vllm/a.py": first["vllm/a.py"].replace(b"two\n", b"deux\n")}
    assert holes(verify(base, made, first, first)) == {"2:1": "missing"}
    assert holes(verify(base, made, base, first)) == {"1:1": "missing", "2:1": "missing"}
    now = {"vllm/a.py": made["vllm/a.py"].replace(b"three\n", b"")}
    assert holes(verify(base, made, now, first)) == {"1:1": "changed"}


def by_hand(
    hunks: bytes, base: bytes, now: bytes, *later: tuple[bytes, bytes]
) -> tuple[dict[str, str], Verified]:
    """Return what `now` holds of a patch that is no shortest diff, and of more on top of it."""
    head = b"--- a/vllm/a.txt\n+++ b/vllm/a.txt\n"
    texts = {("s", "1.patch"): head + hunks}
    for number, (old, new) in enumerate(later, 2):
        files = diff_files({"vllm/a.txt": old}, {"vllm/a.txt": new})
        texts["s", f"{number}.patch"] = format_files(files)
    expected = expected_files(texts, SourceTree({"vllm/a.txt": base}, partial=True))
    found = verify_tree(expected, SourceTree({"vllm/a.txt": now}))
    return holes(found), found


def test_a_line_added_above_an_equal_one_is_the_one_that_is_missing() -> None:
    base = b"a\nx\nb\n"
    found, whole = by_hand(b"@@ -1,3 +1,4 @@\n a\n+x\n x\n b\n", base, base)
    assert found == {"1:1": "missing"}
    assert whole.files == ()
    found, whole = by_hand(b"@@ -1,3 +1,4 @@\n a\n x\n+x\n b\n", base, base)
    assert found == {"1:1": "missing"}


def test_a_hunk_that_only_removes_lines_is_missing_when_they_are_back() -> None:
    base = b"a\nb\nc\nd\n"
    hunk = b"@@ -1,4 +1,3 @@\n a\n-b\n c\n d\n"
    assert by_hand(hunk, base, base)[0] == {"1:1": "missing"}
    found, whole = by_hand(hunk, base, b"a\nother\nc\nd\n")
    assert found == {}
    assert [file.text for file in whole.files] == ["was changed apart from the series, at line 2"]


def test_a_removed_line_counts_at_the_end_of_what_replaced_it() -> None:
    base = b"a\nb\nc\nd\n"
    hunk = b"@@ -1,4 +1,3 @@\n a\n-b\n-c\n+b\n d\n"
    assert by_hand(hunk, base, base)[0] == {"1:1": "missing"}


def test_a_removed_line_counts_where_a_later_patch_replaced_its_neighbour() -> None:
    base, first = b"a\nb\nc\nd\n", b"a\nc\nd\n"
    hunk = b"@@ -1,4 +1,3 @@\n a\n-b\n c\n d\n"
    made = b"a\nC\nd\n"
    for now in (b"a\nb\nC\nd\n", b"a\nC\nb\nd\n"):
        assert by_hand(hunk, base, now, (first, made))[0] == {"1:1": "missing"}
    assert by_hand(hunk, base, first, (first, made))[0] == {"2:1": "missing"}


WORDS = st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"d\n", b"e\n", b"f\n"])


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_hunk_undone_is_named_and_no_other_where_lines_are_distinct(data: Any) -> None:
    count = data.draw(st.integers(20, 60))
    distinct = data.draw(st.booleans())
    base = [b"line %d\n" % n if distinct else data.draw(WORDS) for n in range(count)]
    made = list(base)
    at = data.draw(st.integers(0, 3))
    fresh = 0
    while at < len(made):
        kind = data.draw(st.sampled_from(["add", "remove", "replace"]))
        new = [b"new %d\n" % (fresh := fresh + 1) if distinct else data.draw(WORDS)]
        made[at : at + (kind != "add")] = [] if kind == "remove" else new
        at += data.draw(st.integers(8, 15))
    old, new = {"vllm/a.txt": b"".join(base)}, {"vllm/a.txt": b"".join(made)}
    if old == new:
        return
    text = format_files(diff_files(old, new))
    section = parse_patch(text, "p.patch").files[0]
    expected = expected_files({KEY: text}, SourceTree(old, partial=True))
    assert verify_tree(expected, SourceTree(new)).ok
    number = data.draw(st.integers(1, len(section.hunks)))
    hunk = reverse_hunk(section.hunks[number - 1])
    lines = split_lines(new["vllm/a.txt"])
    start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
    lines[start : start + hunk.old_count] = hunk.new_lines
    found = verify_tree(expected, SourceTree({"vllm/a.txt": b"".join(lines)}))
    named = {h.spot.hunk for h in found.hunks if not h.present}
    assert number in named
    assert found.files == ()
    assert set(holes(found).values()) == {"missing"}
    if distinct:
        assert named == {number}


# The real patch on real files --------------------------------------------------------------------


@pytest.mark.network
@pytest.mark.parametrize("release", ["0.28.0", "0.29.0"])
def test_each_hunk_of_block_promotion_undone_by_hand_is_named(
    tmp_path: Path, kit: Kit, release: str
) -> None:
    whole = open_tree(f"v{release}")
    names = ("vllm/v1/core/kv_cache_utils.py", "vllm/v1/kv_cache_interface.py", "vllm/_version.py")
    files = {name: whole.files[name] for name in names} | {"vllm/__init__.py": b""}
    place = kit.Place(tmp_path, version=release, files=files)
    place.write("pyproject.toml", b"[tool.patchkit]\n")
    place.install()
    stored = ROOT / f"patches/v{release}"
    place.write(f"patches/v{release}/series", b"block-promotion.patch\n")  # of all that is stored
    for path in stored.glob("block-promotion.*"):
        place.write(f"patches/v{release}/{path.name}", path.read_bytes())
    before = place.everything()
    place.apply()
    assert place.states() == {"block-promotion:1": "present", "block-promotion:2": "present"}
    patch = parse_patch((stored / "block-promotion.patch").read_bytes(), "p")
    (section,) = patch.files
    target = place.packages / section.path
    patched = target.read_bytes()
    partner = {1: {2: "unbound"}, 2: {1: "unused"}}
    for number, hunk in enumerate(section.hunks, 1):
        undone = patched.replace(hunk.new, hunk.old)
        assert undone != patched
        place.write(f"site-packages/{section.path}", undone)
        found = place.verify().verified
        assert {h.spot.hunk: h.state for h in found.hunks} == {number: "missing", **partner[number]}
        assert found.state is State.MIXED
    place.write(f"site-packages/{section.path}", patched)
    place.revert()
    assert place.everything() == before


# A wheel -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_an_installed_wheel_is_applied_to_verified_and_taken_back(
    place: Place, tmp_path: Path, installer: str
) -> None:
    wheel = tmp_path / "vllm-0.99.0-py3-none-any.whl"
    info = "vllm-0.99.0.dist-info"
    text = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {**place.files, f"{info}/METADATA": (place.info / "METADATA").read_bytes()}
    members[f"{info}/WHEEL"] = text
    rows = [format_row(name, content) for name, content in members.items()]
    members[f"{info}/RECORD"] = format_rows([*rows, format_row(f"{info}/RECORD", None)])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = str(environment / "bin/python")
    commands = {
        "pip": [sys.executable, "-m", "pip", "--python", python, "install", "--quiet"],
        "uv": [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python],
    }
    options = ["--no-deps", "--no-index", str(wheel)]
    subprocess.run([*commands[installer], *options], check=True, capture_output=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (place.root / "site-packages").rename(place.root / "aside")
    (place.root / "site-packages").symlink_to(packages)
    before = place.everything()
    place.apply()
    assert place.verify().verified.ok
    script = "import vllm.units, importlib.metadata as m; print(vllm.units.KILO, m.version('vllm'))"
    done = subprocess.run([python, "-B", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1024 0.99.0\n"
    place.revert()
    assert place.everything() == before


@pytest.mark.network
def test_the_definition_of_a_line_is_that_of_the_outline() -> None:
    source = open_tree("v0.28.0").files["vllm/v1/core/kv_cache_utils.py"]
    outline = definitions_by_line(source)
    lines = [at for at, line in enumerate(source.split(b"\n")) if line.strip()][::7]
    assert {at: definition_at(source, at) for at in lines} == {at: outline.get(at) for at in lines}
