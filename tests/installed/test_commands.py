"""`apply`, `revert`, `verify`, `export-series` and `status`, from the command line to the disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.installed.site import find_site
from patchkit.upstream.cache import VARIABLE
from tests.cli.conftest import _check as check

Kit = Any
Place = Any
Out = pytest.CaptureFixture[str]


@pytest.fixture
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return the place, whose repository is the working folder, with no network and no cache."""
    monkeypatch.chdir(place.root)
    monkeypatch.setenv(VARIABLE, str(place.root / "cache"))
    for command in ("apply", "verify", "export_series"):
        name = f"patchkit.cli.{command}.tree_opener"
        monkeypatch.setattr(name, lambda *_: place.open_tree)
    return place


def document(capsys: Out, *args: str, status: int = 0) -> dict[str, Any]:
    assert run([*args, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(found)
    return found


def test_apply_verify_and_revert_say_what_they_did(here: Place, capsys: Out) -> None:
    assert run(["apply", "site-packages"]) == 0
    assert capsys.readouterr().out == (
        "one.patch:1: placed (exact) vllm/size.py:5\n"
        "one.patch:2: placed (exact) vllm/size.py:14\n"
        "one.patch:3: placed (exact) vllm/size.py:28\n"
        "two.patch:1: placed (new_file) vllm/new/mod.py:1\n"
        "two.patch:2: placed (delete_file) vllm/old.py\n"
        "two.patch:3: placed (exact) vllm/units.py:1\n"
        "6 hunks: 6 placed\n"
        "site-packages/vllm: applied the series of v0.99.0, 4 files\n"
    )
    assert run(["apply", "site-packages"]) == 0
    assert capsys.readouterr().out == (
        "site-packages/vllm: the series of v0.99.0 is in it already; nothing was changed\n"
    )
    assert run(["verify", "site-packages"]) == 0
    assert capsys.readouterr().out == (
        "site-packages/vllm: patched: v0.99.0, 6 of 6 hunks present\n"
    )
    size = here.packages / "vllm/size.py"
    patched = size.read_bytes()
    size.write_bytes(patched.replace(b"promote(known, max(known))", b"known"))
    assert run(["verify", "site-packages"]) == 3
    assert capsys.readouterr().out == (
        "patches/one.patch:2: unused: vllm/size.py:14 promote: "
        "promote is defined and nothing uses it any more\n"
        "patches/one.patch:3: missing: vllm/size.py:28 total\n"
        "site-packages/vllm: mixed: v0.99.0, 4 of 6 hunks present\n"
    )
    size.write_bytes(patched)
    assert run(["revert", "site-packages"]) == 0
    assert capsys.readouterr().out == (
        "put back vllm/new/mod.py\nput back vllm/old.py\nput back vllm/size.py\n"
        "put back vllm/units.py\nsite-packages/vllm: as it was before the series\n"
    )
    assert run(["revert", "site-packages"]) == 1


def test_reports_and_what_is_left_are_what_their_schemas_say(here: Place, capsys: Out) -> None:
    here.overlay("vllm/fresh.py", b"fresh = 1\n")
    found = document(capsys, "apply", "site-packages", "--only", "one")
    assert (found["changed"], found["files"]) == (True, ["vllm/fresh.py", "vllm/size.py"])
    assert found["selection"]["left_out"] == ["patches/two.patch"]
    check(json.loads((here.info / "patchkit/applied.json").read_bytes()))
    again = document(capsys, "apply", "site-packages", "--only", "one")
    assert (again["changed"], again["outcomes"]) == (False, [])
    found = document(capsys, "verify", "site-packages")
    assert (found["state"], found["against"], len(found["hunks"])) == ("patched", "applied", 4)
    found = document(capsys, "revert", "site-packages")
    assert found["files"] == ["vllm/fresh.py", "vllm/size.py"]
    found = document(capsys, "verify", "site-packages", status=3)
    assert (found["state"], found["against"]) == ("pristine", "series")


def test_an_export_is_applied_without_the_repository(
    here: Place, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = document(capsys, "export-series", "--output", "exported")
    assert found["files"] == [
        "base.zip",
        "export.json",
        "patches/v0.99.0/one.patch",
        "patches/v0.99.0/series",
        "patches/v0.99.0/two.patch",
    ]
    check(json.loads((here.root / "exported/export.json").read_bytes()))
    (here.root / "empty").mkdir()
    (here.root / "empty/pyproject.toml").write_bytes(b"[tool.patchkit]\n")
    monkeypatch.chdir(here.root / "empty")
    for command in ("apply", "verify"):
        monkeypatch.setattr(f"patchkit.cli.{command}.tree_opener", None)
    series = ("../site-packages", "--series", "../exported")
    assert document(capsys, "apply", *series)["changed"] is True
    assert document(capsys, "verify", *series)["state"] == "patched"
    assert document(capsys, "verify", "../site-packages")["state"] == "patched"
    assert document(capsys, "apply", *series)["changed"] is False
    document(capsys, "revert", "../site-packages")
    assert document(capsys, "verify", *series, status=3)["state"] == "pristine"
    assert run(["verify", "../site-packages"]) == 1
    assert capsys.readouterr().err == (
        "error: ../site-packages/vllm: no series is recorded in it\n"
        "hint: --series or --release says what it is to be held against\n"
    )
    assert run(["apply", "../site-packages", "--series", ".."]) == 1
    assert capsys.readouterr().err.startswith("error: ..: holds no export.json")


def test_an_export_does_not_need_git_or_the_network(here: Place, capsys: Out) -> None:
    document(capsys, "export-series", "v0.99.0", "--output", "exported")
    script = (
        "import sys, socket\n"
        "socket.socket.connect = None\n"
        "from patchkit.cli import run\n"
        "assert run(sys.argv[1:]) == 0\n"
        "heavy = {'git', 'urllib3', 'vllm', 'torch', 'subprocess'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules} - {'subprocess'}))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PATH": "/nowhere"}
    for command in ("apply", "verify"):
        done = subprocess.run(
            [sys.executable, "-c", script, command, str(here.packages), "--series", "exported"],
            capture_output=True, text=True, check=True, env=environment, cwd=here.root,
        )  # fmt: skip
        assert done.stdout.splitlines()[-1] == "[]"


def test_an_unknown_release_is_not_exported(here: Place, capsys: Out) -> None:
    assert run(["export-series", "v0.1.0", "--output", str(here.root / "x")]) == 1
    assert capsys.readouterr().err == (
        "error: patches: no series is stored for v0.1.0\nhint: stored are: v0.99.0; "
        "`patchkit rebase v0.1.0` moves one there\n"
    )


def test_what_a_killed_run_left_is_finished_and_said(here: Place, capsys: Out, kit: Kit) -> None:
    from patchkit.installed.transaction import Transaction

    before = here.everything()
    finish = Transaction._finish
    Transaction._finish = lambda *_: None  # type: ignore[method-assign]
    try:
        assert run(["apply", "site-packages"]) == 0
    finally:
        Transaction._finish = finish  # type: ignore[method-assign]
    capsys.readouterr()
    assert (here.packages / "vllm/size.py").read_bytes() == kit.SIZE
    found = document(capsys, "verify", "site-packages", status=3)
    assert [file["text"] for file in found["files"]] == [
        "apply was broken off; `patchkit apply` finishes it"
    ]
    found = document(capsys, "apply", "site-packages")
    assert (found["finished"], found["changed"]) == ("apply", False)
    Transaction._finish = lambda *_: None  # type: ignore[method-assign]
    try:
        assert run(["revert", "site-packages"]) == 0
    finally:
        Transaction._finish = finish  # type: ignore[method-assign]
    capsys.readouterr()
    found = document(capsys, "revert", "site-packages")
    assert (found["finished"], found["files"]) == ("revert", [])
    assert here.everything() == before


def test_a_hunk_that_does_not_land_is_exit_3_and_nothing_is_written(
    here: Place, capsys: Out, kit: Kit
) -> None:
    for path in here.info.iterdir():
        path.unlink()
    here.info.rmdir()
    here.version = "0.99.1.dev5"
    size = kit.SIZE.replace(b"    specs = known\n", b"    specs = sorted(known)\n")
    here.files = {**kit.FILES, "vllm/size.py": size, "vllm/_version.py": b"__version__ = 'x'\n"}
    here.install()
    before = here.everything()
    found = document(capsys, "apply", "site-packages", status=3)
    assert [o["status"] for o in found["outcomes"]].count("conflicted") == 1
    assert (found["ok"], found["changed"], found["files"]) == (False, False, [])
    assert here.everything() == before


@pytest.mark.usefixtures("here")
def test_a_release_can_be_named(capsys: Out) -> None:
    assert run(["apply", "site-packages", "--release", "v0.98.0"]) == 1
    assert capsys.readouterr().err.splitlines()[0] == (
        "error: patches: no series is stored for v0.98.0"
    )
    assert document(capsys, "apply", "site-packages", "--release", "v0.99.0")["changed"]


# A wheel -----------------------------------------------------------------------------------------


def built(here: Place, **choice: Any) -> Path:
    """Return a patched wheel of the place's release."""
    import hashlib
    import zipfile

    from patchkit.repository.store import read_stored
    from patchkit.series.selection import select_patches
    from patchkit.upstream.pins import Artifact
    from patchkit.wheel.build import Wanted, build_wheel
    from patchkit.wheel.record import format_row, format_rows

    info, name = "vllm-0.99.0.dist-info", "vllm-0.99.0-py3-none-any.whl"
    wheel = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members = {**here.files, f"{info}/METADATA": (here.info / "METADATA").read_bytes()}
    members[f"{info}/WHEEL"] = wheel
    rows = [format_row(path, content) for path, content in members.items()]
    members[f"{info}/RECORD"] = format_rows([*rows, format_row(f"{info}/RECORD", None)])
    path = here.root / "upstream" / name
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in members.items():
            archive.writestr(zipfile.ZipInfo(member), content)
    content = path.read_bytes()
    artifact = Artifact(name, len(content), hashlib.sha256(content).hexdigest(), "0" * 64)
    stored = read_stored(here.root, "patches", "0.99.0")
    patches = {("patches", n): d for n, d in stored.series.patches.items()}
    selection = select_patches(patches, **choice)
    wanted = Wanted(artifact, here.root, (stored,), selection, "mine.1")
    found = build_wheel(wanted, path, here.root / "dist").path
    assert found is not None
    return found


@pytest.mark.parametrize("choice", [{}, {"only": ("one",)}, {"only": ("two",)}])
def test_a_built_wheel_is_verified_as_a_file_and_installed(
    here: Place, capsys: Out, tmp_path: Path, choice: dict[str, Any]
) -> None:
    wheel = built(here, **choice)
    found = document(capsys, "verify", str(wheel))
    assert (found["kind"], found["against"], found["state"]) == ("wheel", "provenance", "patched")
    target = tmp_path / "target"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, capture_output=True)
    found = document(capsys, "verify", str(target))
    assert (found["kind"], found["version"]) == ("installed", "0.99.0+mine.1")
    assert (found["against"], found["state"]) == ("provenance", "patched")
    again = [f"--{key}={','.join(words)}" for key, words in choice.items()]
    assert document(capsys, "apply", str(target), *again)["changed"] is False
    assert run(["revert", str(target)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"error: {target}/vllm: came out of a patched wheel",
        "hint: install upstream's wheel; `patchkit unpatch` makes it from the patched one",
    ]
    name = "size.py" if choice.get("only") != ("two",) else "units.py"
    site = find_site(str(target))
    path = site.root / "vllm" / name
    text = path.read_bytes().replace(b"blocks * 32", b"blocks * 16").replace(b"1024", b"1000")
    path.write_bytes(text)
    found = document(capsys, "verify", str(target), status=3)
    assert [h["state"] for h in found["hunks"] if h["state"] != "present"] == ["missing"]


def test_a_wheel_that_no_installer_takes_is_refused(here: Place, capsys: Out) -> None:
    wheel = built(here)
    wheel.write_bytes(wheel.read_bytes() + b"more")
    assert run(["verify", str(wheel)]) == 1
    assert str(wheel) in capsys.readouterr().err


def test_upstreams_wheel_holds_no_hunk(here: Place, capsys: Out) -> None:
    built(here)
    wheel = here.root / "upstream/vllm-0.99.0-py3-none-any.whl"
    assert run(["verify", str(wheel)]) == 1
    assert "no series is recorded in it" in capsys.readouterr().err
    found = document(capsys, "verify", str(wheel), "--release", "0.99.0", status=3)
    assert found["state"] == "pristine"


# Status ------------------------------------------------------------------------------------------


def test_status_has_a_row_for_each_patch(here: Place, capsys: Out, kit: Kit) -> None:
    here.write("patches/v0.99.1/series", b"# two: upstream has it since 0.99.1\none.patch\n")
    here.write("patches/v0.99.1/one.patch", kit.patch("one", kit.FILES, kit.ONE))
    here.write("patches/v0.99.2/same-as.toml", b'same-as = "v0.99.1"\n')
    assert run(["status"]) == 3
    assert capsys.readouterr().out == (
        "    0.99.0 0.99.1 0.99.2\n"
        "one !      !      !\n"
        "two !      out    out\n"
        "out left out; ! a problem\n"
        "patches/v0.99.2 is the same as v0.99.1\n"
        "patches/two: left out of 0.99.1 to 0.99.2: upstream has it since 0.99.1\n"
        "problem: patches/v0.99.0/one.anchors.toml: is missing\n"
        "problem: patches/v0.99.0/two.anchors.toml: is missing\n"
        "problem: patches/v0.99.1/one.anchors.toml: is missing\n"
        "problem: patches/v0.99.2/one.anchors.toml: is missing\n"
        "2 patches, 3 releases: 4 problems\n"
    )
    found = document(capsys, "status", status=3)
    assert found["releases"][1]["left_out"] == [
        {"patch": "two.patch", "why": "upstream has it since 0.99.1"}
    ]


def test_status_tells_anchors_of_another_text_and_a_wrong_range(
    here: Place, capsys: Out, kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchkit.cli.check.tree_opener", lambda *_: here.open_tree)
    assert run(["check"]) == 0
    capsys.readouterr()
    assert run(["status"]) == 0
    assert capsys.readouterr().out.endswith("\n2 patches, 1 release: sound\n")
    other = {**kit.FILES, "vllm/size.py": kit.SIZE.replace(b"blocks * 16", b"blocks * 64")}
    data = kit.patch("one", kit.FILES, other).replace(b"<0.100", b"<0.99.0")
    here.write("patches/v0.99.0/one.patch", data)
    assert run(["status"]) == 3
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "problem: patches/v0.99.0/one.patch: Applies-To <0.99.0,>=0.99 does not hold 0.99.0",
        "problem: patches/v0.99.0/one.anchors.toml: was made for another text of the patch",
        "2 patches, 1 release: 2 problems",
    ]
    found = document(capsys, "status", status=3)
    assert (found["releases"][0]["patches"], found["releases"][0]["hunks"]) == (2, 4)
    here.write("patches/v0.99.0/one.patch", b"no patch\n")
    assert run(["status"]) == 3
    assert capsys.readouterr().out.endswith("\n2 patches, 1 release: 1 problem\n")
    assert document(capsys, "status", status=3)["releases"][0]["hunks"] == 3
