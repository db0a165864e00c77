import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.diff import diff_files, format_files
from patchkit.series.overlay import Overlay, format_overlay, overlay_entry
from patchkit.tree import SourceTree

Check = Callable[[dict[str, Any]], None]
Trees = dict[str, SourceTree]
Out = pytest.CaptureFixture[str]

HEADER = b"""\
Description: Double the size
Reason: it is too small
Origin: written here
Forwarded: no
Exit-Condition: it is large enough
Applies-To: >=0.28,<0.29

"""
PATH = "vllm/size.py"
BASE = {PATH: b"import math\n\n\ndef size(blocks):\n    return blocks * 16\n\n\nx = math.pi\n"}
ONE = {PATH: BASE[PATH].replace(b"* 16", b"* 32")}
TWO = {PATH: ONE[PATH].replace(b"math.pi", b"math.e")}
FIRST = HEADER + format_files(diff_files(BASE, ONE))
SECOND = HEADER + format_files(diff_files(ONE, TWO))


@pytest.fixture
def store(folder: Path, trees: Trees) -> Path:
    """Return a repository with two sound patches, their anchors written."""
    trees["v0.28.0"] = SourceTree(BASE, name="v0.28.0", version="0.28.0")
    trees["v0.28.1"] = SourceTree(BASE, name="v0.28.1", version="0.28.1")
    write(folder, "pyproject.toml", b"[tool.patchkit]\n")
    write(folder, "patches/v0.28.0/series", b"one.patch\ntwo.patch\n")
    write(folder, "patches/v0.28.0/one.patch", FIRST)
    write(folder, "patches/v0.28.0/two.patch", SECOND)
    assert run(["check"]) == 0
    return folder


def write(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def files(folder: Path) -> dict[str, bytes]:
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {n: p.read_bytes() for n, p in found.items() if not n.startswith(".patchkit/")}


def findings(capsys: Out, check: Check) -> list[tuple[str, str, str]]:
    """Return kind, place and text of each finding that `check --frozen --json` printed."""
    document = json.loads(capsys.readouterr().out)
    check(document)
    found = [f for series in document["series"] for f in series["findings"]]
    return [(f["kind"], f["place"], f["text"]) for f in found]


def test_a_sound_series_is_sound_and_stays_as_it_is(store: Path, capsys: Out) -> None:
    before = files(store)
    assert sorted(before)[:3] == [
        "patches/v0.28.0/one.anchors.toml",
        "patches/v0.28.0/one.patch",
        "patches/v0.28.0/series",
    ]
    capsys.readouterr()
    assert run(["check", "--frozen"]) == 0
    assert capsys.readouterr().out == "patches/v0.28.0: 2 patches, 2 hunks: sound\n"
    assert run(["check"]) == 0
    assert files(store) == before


def test_anchors_that_are_missing_or_stale_are_found_and_written(
    store: Path, capsys: Out, check: Check
) -> None:
    good = files(store)
    (store / "patches/v0.28.0/one.anchors.toml").unlink()
    stale = good["patches/v0.28.0/two.anchors.toml"].replace(b'["e"]', b'["pi"]')
    assert stale != good["patches/v0.28.0/two.anchors.toml"]
    write(store, "patches/v0.28.0/two.anchors.toml", stale)
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    assert findings(capsys, check) == [
        (
            "anchors",
            "patches/v0.28.0/one.anchors.toml",
            "is missing; `patchkit check` writes it",
        ),
        (
            "anchors",
            "patches/v0.28.0/two.anchors.toml",
            "is stale: patch and release give other anchors; `patchkit check` writes it",
        ),
    ]
    assert run(["check"]) == 0
    assert capsys.readouterr().out == (
        "wrote patches/v0.28.0/one.anchors.toml\n"
        "wrote patches/v0.28.0/two.anchors.toml\n"
        "patches/v0.28.0: 2 patches, 2 hunks: sound\n"
    )
    assert files(store) == good


def test_an_offset_is_a_finding_when_frozen_and_mended_otherwise(
    store: Path, capsys: Out, check: Check
) -> None:
    good = files(store)
    write(store, "patches/v0.28.0/one.patch", FIRST.replace(b"@@ -2,7 +2,7 @@", b"@@ -3,7 +3,7 @@"))
    assert files(store) != good
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    ((kind, place, text),) = findings(capsys, check)
    assert (kind, place) == ("apply", "patches/v0.28.0/one.patch")
    assert text.startswith("vllm/size.py:")
    assert run(["check"]) == 0
    assert files(store) == good


def test_a_patch_with_another_root_and_no_ids_becomes_canonical(store: Path) -> None:
    good = files(store)
    plain = FIRST.replace(b"a/vllm/", b"a/").replace(b"b/vllm/", b"b/")
    plain = b"".join(ln for ln in plain.splitlines(True) if not ln.startswith((b"index", b"diff")))
    write(store, "patches/v0.28.0/one.patch", plain)
    assert run(["check", "--frozen"]) == 3
    assert run(["check"]) == 0
    assert files(store) == good


def test_invented_ids_are_not_canonical(store: Path, capsys: Out, check: Check) -> None:
    lines = FIRST.splitlines(True)
    at = next(i for i, line in enumerate(lines) if line.startswith(b"index "))
    lines[at] = b"index " + b"1" * 40 + b".." + b"2" * 40 + b" 100644\n"
    write(store, "patches/v0.28.0/one.patch", b"".join(lines))
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    assert findings(capsys, check) == [
        (
            "export",
            "patches/v0.28.0/one.patch",
            "is not in the canonical form; `patchkit check` writes it",
        )
    ]


def test_what_does_not_apply_is_found_and_nothing_is_written(store: Path, capsys: Out) -> None:
    broken = FIRST.replace(b"-    return blocks * 16", b"-    return blocks * 17")
    write(store, "patches/v0.28.0/one.patch", broken)
    (store / "patches/v0.28.0/two.anchors.toml").unlink()
    before = files(store)
    capsys.readouterr()
    assert run(["check"]) == 3
    out = capsys.readouterr().out
    assert out == (
        "patches/v0.28.0/one.patch:8: apply: vllm/size.py:5: hunk 1 does not match "
        "'    return blocks * 16\\n', expected '    return blocks * 17\\n'\n"
        "patches/v0.28.0: 2 patches, 0 hunks: 1 finding\n"
    )
    assert files(store) == before


def test_a_header_without_a_reason_is_found(store: Path, capsys: Out, check: Check) -> None:
    text = FIRST.replace(b"Reason: it is too small\n", b"").replace(b"<0.29", b"<0.28")
    write(store, "patches/v0.28.0/one.patch", text)
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    assert findings(capsys, check) == [
        ("header", "patches/v0.28.0/one.patch:1", "header has no Reason"),
        ("header", "patches/v0.28.0/one.patch", "Applies-To <0.28,>=0.28 does not hold 0.28.0"),
    ]


def test_same_as_is_proven(store: Path, trees: Trees, capsys: Out, check: Check) -> None:
    write(store, "patches/v0.28.1/same-as.toml", b'same-as = "v0.28.0"\n')
    capsys.readouterr()
    assert run(["check", "--frozen"]) == 0
    assert capsys.readouterr().out.endswith(
        "patches/v0.28.1: 2 patches, 2 hunks, the same as v0.28.0: sound\n"
    )
    shifted = {PATH: b"import os\n" + BASE[PATH]}
    trees["v0.28.1"] = SourceTree(shifted, name="v0.28.1", version="0.28.1")
    assert run(["check", "--frozen", "--json"]) == 3
    ((kind, place, text),) = findings(capsys, check)
    assert (kind, place) == ("same-as", "patches/v0.28.1/same-as.toml")
    assert text.startswith("one.patch of v0.28.0 does not apply: vllm/size.py:")


def test_a_patch_that_is_not_listed_is_found(store: Path, capsys: Out, check: Check) -> None:
    write(store, "patches/v0.28.0/series", b"one.patch\n")
    (store / "patches/v0.28.0/two.anchors.toml").unlink()
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    assert findings(capsys, check) == [
        ("series", "patches/v0.28.0/two.patch", "two.patch is not listed in the series file")
    ]


def test_one_folder_can_be_checked(store: Path, capsys: Out) -> None:
    write(store, "port/v0.28.0/series", b"nothing.patch\n")
    capsys.readouterr()
    assert run(["check", "--frozen", "--series", "patches"]) == 0
    assert run(["check", "--frozen", "--series", "port"]) == 3
    assert run(["check", "--series", "nowhere"]) == 1
    assert capsys.readouterr().err == (
        "error: nowhere: no series is stored\nhint: `patchkit init --from v0.28.0` starts one\n"
    )


def test_an_adaptation_whose_hunk_has_changed_is_a_contradiction(
    store: Path, capsys: Out, check: Check
) -> None:
    path = store / "patches/v0.28.0/one.anchors.toml"
    override = b"""\
[[override.adaptation]]
release = "0.28.1"
path = "vllm/size.py"
hunks = [1]
reason = "other"
base_hunks = ["1:00"]
target_definitions = {size = "1:00"}
diff = '''
@@ -1 +1 @@
-a
+b
'''
"""
    path.write_bytes(path.read_bytes() + override)
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    assert findings(capsys, check) == [
        (
            "anchors",
            "patches/v0.28.0/one.anchors.toml",
            "hunk 1 has changed since its adaptation for 0.28.1 was made",
        )
    ]


def test_files_of_an_overlay_that_the_release_has_are_found(
    store: Path, capsys: Out, check: Check
) -> None:
    write(store, "kernels/new.py", b"x = 1\n")
    digest = "2c41f3bb9e0e6d46b0d2a36dcf52a7c93ac8b3fc8f0a6bb0a6cb0a0c38ed1b5e"
    overlay = f'format = 1\n\n[[file]]\nsource = "kernels/new.py"\npath = "{PATH}"\n'
    write(store, "patches/v0.28.0/overlay.toml", f'{overlay}sha256 = "{digest}"\n'.encode())
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    assert findings(capsys, check)[0] == (
        "overlay",
        "patches/v0.28.0/overlay.toml",
        "vllm/size.py: the release has a file of that name",
    )


def test_imports_of_an_overlay_that_the_release_does_not_have_are_found(
    store: Path, capsys: Out, check: Check
) -> None:
    text = b"from vllm.size import absent, size\nfrom vllm.nowhere import thing\n"
    write(store, "kernels/new.py", text)
    overlay = Overlay((overlay_entry("kernels/new.py", "vllm/new.py", text),))
    write(store, "patches/v0.28.0/overlay.toml", format_overlay(overlay))
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    place = "patches/v0.28.0/overlay.toml"
    imports = ("vllm.size.absent", 1), ("vllm.nowhere.thing", 2)
    assert findings(capsys, check) == [
        (
            "overlay",
            place,
            f"vllm/new.py:{line} imports `{name}`, which the release does not have",
        )
        for name, line in imports
    ]


def test_files_of_an_overlay_do_not_vouch_for_each_others_imports(
    store: Path, capsys: Out, check: Check
) -> None:
    text = b"import vllm.nowhere\n"
    entries = []
    for name in ("one", "two"):
        write(store, f"kernels/{name}.py", text)
        entries.append(overlay_entry(f"kernels/{name}.py", f"vllm/{name}.py", text))
    write(store, "patches/v0.28.0/overlay.toml", format_overlay(Overlay(tuple(entries))))
    capsys.readouterr()
    assert run(["check", "--frozen", "--json"]) == 3
    assert [text for _, _, text in findings(capsys, check)] == [
        "vllm/one.py:1 imports `vllm.nowhere`, which the release does not have",
        "vllm/two.py:1 imports `vllm.nowhere`, which the release does not have",
    ]
