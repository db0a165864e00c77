"""What a patched wheel is, and what of upstream's it leaves alone."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from installer.sources import WheelFile

from patchkit.errors import PatchkitError
from patchkit.wheel import archive as archives
from patchkit.wheel import build as builds
from patchkit.wheel.archive import open_archive
from patchkit.wheel.unpatch import unpatch_wheel

INFO = "vllm-0.99.0+syv.1.dist-info"
NAME = "vllm-0.99.0+syv.1-cp38-abi3-manylinux_2_28_x86_64.whl"


def contents(path: Path) -> dict[str, bytes]:
    """Return the members of a wheel in order, by another reader than ours."""
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {info.filename: archive.read(info) for info in archive.infolist()}


def built(repository: Any, *args: Any, **choice: Any) -> Path:
    """Build, and return where the wheel is."""
    found = repository.build(*args, **choice)
    assert found.path is not None
    return Path(found.path)


def refusal(repository: Any, *args: Any, **choice: Any) -> str:
    """Return what a build is refused for; it must leave nothing behind."""
    before = sorted(repository.out.iterdir()) if repository.out.exists() else []
    with pytest.raises(PatchkitError) as caught:
        repository.build(*args, **choice)
    after = sorted(repository.out.iterdir()) if repository.out.exists() else []
    assert before == after
    return str(caught.value)


def test_files_are_changed_added_and_removed(repository: Any, kit: Any) -> None:
    path = built(repository)
    assert path.name == NAME
    found = contents(path)
    files = {n: data for n, data in found.items() if n.startswith("vllm/")}
    version = kit.FILES["vllm/_version.py"].replace(b"'0.99.0'", b"'0.99.0+syv.1'")
    version = version.replace(b"(0, 99, 0)", b"(0, 99, 0, 'syv.1')")
    assert files == {**kit.TWO, "vllm/_version.py": version}
    assert list(found)[-8:] == [
        *(f"{INFO}/{n}" for n in ("licenses/LICENSE", "METADATA", "WHEEL", "entry_points.txt")),
        *(f"{INFO}/{n}" for n in ("sboms/patchkit.cdx.json", "patchkit/provenance.json")),
        *(f"{INFO}/{n}" for n in ("patchkit/upstream.zip", "RECORD")),
    ]
    assert found[f"{INFO}/METADATA"] == kit.METADATA.replace(b"n: 0.99.0", b"n: 0.99.0+syv.1", 1)
    assert found[f"{INFO}/WHEEL"] == kit.WHEEL


def test_installer_finds_every_row_right(repository: Any) -> None:
    with WheelFile.open(built(repository)) as wheel:
        wheel.validate_record(validate_contents=True)
        assert wheel.dist_info_dir == INFO


def test_untouched_members_keep_bytes_mode_time_and_packing(repository: Any) -> None:
    source, _ = repository.upstream()
    old, new = open_archive(source), open_archive(built(repository))
    for name in ("vllm/_C.abi3.so", "vllm/__init__.py", "vllm/run.sh"):
        before, after = old.by_name[name], new.by_name[name]
        packed = [a.view[m.span.start : m.span.end] for a, m in ((old, before), (new, after))]
        assert packed[0] == packed[1]
        assert archives.moved_entry(before.central, 0) == archives.moved_entry(after.central, 0)
    assert new.by_name["vllm/_C.abi3.so"].mode == new.by_name["vllm/run.sh"].mode == 0o100755
    licence = new.by_name[f"{INFO}/licenses/LICENSE"]
    assert licence.method == archives.DEFLATED
    assert new.by_name[f"{INFO}/RECORD"].mode == 0o100664


def test_untouched_rows_of_record_are_identical(repository: Any) -> None:
    source, _ = repository.upstream()
    old = contents(source)["vllm-0.99.0.dist-info/RECORD"].decode().splitlines(True)
    new = contents(built(repository))[f"{INFO}/RECORD"].decode().splitlines(True)
    kept = ("vllm/_C", "vllm/__init__", "vllm/run.sh")
    assert [ln for ln in new if ln.startswith(kept)] == [ln for ln in old if ln.startswith(kept)]
    assert not any(line.startswith("vllm/old.py") for line in new)
    assert sum(line.startswith("vllm/new/mod.py,sha256=") for line in new) == 1
    assert new[-1] == f"{INFO}/RECORD,,\n"


def test_new_bytes_are_stored_with_a_fixed_time(repository: Any) -> None:
    new = open_archive(built(repository))
    for name in ("vllm/config.py", "vllm/new/mod.py", f"{INFO}/METADATA", f"{INFO}/RECORD"):
        member = new.by_name[name]
        assert (member.method, *struct.unpack_from("<HH", member.central, 12)) == (0, 0, 0x21)


def test_the_same_inputs_give_the_same_bytes_on_any_zlib(
    repository: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = built(repository).read_bytes()

    def none(*_: object, **__: object) -> None:
        raise AssertionError("nothing is packed anew")

    repository.upstream()
    wanted = repository.wanted()
    monkeypatch.setattr(zlib, "compressobj", none)
    monkeypatch.setattr(zlib, "compress", none)
    source = next((repository.root / "upstream").iterdir())
    again = builds.build_wheel(wanted, source, repository.out)
    assert again.path is not None
    assert again.path.read_bytes() == first


def test_unpatch_gives_upstreams_file(repository: Any, tmp_path: Path) -> None:
    source, artifact = repository.upstream()
    path, way = unpatch_wheel(built(repository), tmp_path / "back", artifact)
    assert path.name == way.filename == source.name
    assert path.read_bytes() == source.read_bytes()
    assert way.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("tag", ["", "2"])
def test_upstreams_build_tag_stays_and_none_is_added(
    tag: str, repository: Any, tmp_path: Path
) -> None:
    repository.maker.build = tag
    path = built(repository)
    middle = f"-{tag}" if tag else ""
    assert path.name == f"vllm-0.99.0+syv.1{middle}-cp38-abi3-manylinux_2_28_x86_64.whl"
    assert contents(path)[f"{INFO}/WHEEL"].count(b"Tag: cp38-abi3-linux_x86_64") == 1
    source, _ = repository.upstream()
    assert unpatch_wheel(path, tmp_path / "back")[0].read_bytes() == source.read_bytes()


@pytest.mark.parametrize("label", ["syv.1", "Syv_1", "syv-1", "+SYV.1"])
def test_name_metadata_folder_and_module_agree_for_every_spelling(
    label: str, repository: Any
) -> None:
    path = built(repository, label)
    found = contents(path)
    assert path.name == NAME
    assert b"\nVersion: 0.99.0+syv.1\n" in found[f"{INFO}/METADATA"]
    assert b"'0.99.0+syv.1'" in found["vllm/_version.py"]
    assert {name.split("/")[0] for name in found} == {"vllm", INFO}


def test_upstreams_version_is_never_given(repository: Any) -> None:
    for label in ("", "+"):
        with pytest.raises(PatchkitError, match="local version is"):
            repository.build(label or "+")
    assert built(repository, None).name.startswith("vllm-0.99.0+patchkit.h")


def test_the_default_label_says_which_patches_and_which_text(repository: Any, kit: Any) -> None:
    def version(**choice: Any) -> str:
        return str(repository.build(None, **choice).name.version)

    whole = version()
    assert version() == whole
    one = version(only=["one"])
    assert one.startswith("0.99.0+patchkit.only.one.h")
    assert version(without=["two"]).startswith("0.99.0+patchkit.without.two.h")
    assert version(without=["two"])[-9:] == one[-9:]
    assert version(name="kv", named={"kv": ["one"]}).startswith("0.99.0+patchkit.kv.h")
    other = {**kit.ONE, "vllm/config.py": kit.ONE["vllm/config.py"].replace(b"32", b"64")}
    repository.series(one=kit.patch("one", kit.FILES, other))
    assert version() not in (whole, one)


def test_a_long_choice_is_told_by_its_count(repository: Any, kit: Any) -> None:
    names = [f"change_of_the_size_number_{n}" for n in range(3)]
    files = dict(kit.FILES)
    patches = {}
    for number, name in enumerate(names):
        new = {**files, f"vllm/n{number}.py": b"x = 1\n"}
        patches[name] = kit.patch(name, files, new)
        files = new
    repository.series(**patches)
    only = [name.replace("_", "-") for name in names[:2]]
    found = repository.build(None, only=only)
    assert str(found.name.version).startswith("0.99.0+patchkit.only.2of3.h")


def test_the_module_version_can_be_kept(repository: Any, kit: Any) -> None:
    found = contents(built(repository, keep_module_version=True))
    assert found["vllm/_version.py"] == kit.FILES["vllm/_version.py"]
    assert b"\nVersion: 0.99.0+syv.1\n" in found[f"{INFO}/METADATA"]


def test_modes_of_a_patch_are_carried(repository: Any, kit: Any, tmp_path: Path) -> None:
    new = {**kit.FILES, "vllm/tool.sh": b"#!/bin/sh\n"}
    old_modes = {"vllm/run.sh": 0o100755}
    new_modes = {"vllm/tool.sh": 0o100755, "vllm/zz.py": 0o100755}
    from patchkit.diff import diff_files, format_files

    head = kit.patch("modes", kit.FILES, kit.FILES)
    data = head + format_files(diff_files(kit.FILES, new, old_modes, new_modes))
    repository.series(modes=data)
    found = open_archive(built(repository))
    assert found.by_name["vllm/tool.sh"].mode == 0o100755
    assert found.by_name["vllm/zz.py"].mode == 0o100755
    assert found.by_name["vllm/run.sh"].mode == 0o100644
    source, _ = repository.upstream()
    assert unpatch_wheel(repository.out / NAME, tmp_path)[0].read_bytes() == source.read_bytes()


def test_provenance_says_what_was_done(repository: Any) -> None:
    source, artifact = repository.upstream()
    document = json.loads(contents(built(repository))[f"{INFO}/patchkit/provenance.json"])
    assert document["schema"] == "patchkit.provenance/1"
    assert document["version"] == "0.99.0+syv.1"
    assert document["upstream"] == {
        "distribution": "vllm",
        "filename": source.name,
        "sha256": artifact.sha256,
        "size_bytes": artifact.size_bytes,
    }
    (series,) = document["series"]
    stored = repository.root / "patches" / "v0.99.0"
    assert [(p["name"], p["sha256"]) for p in series["patches"]] == [
        (name, hashlib.sha256((stored / name).read_bytes()).hexdigest())
        for name in ("one.patch", "two.patch")
    ]
    assert series["patches"][0]["outcomes"] == [
        {
            "hunk": 1,
            "status": "placed",
            "method": "exact",
            "path": "vllm/config.py",
            "lines": [1, 1],
        }
    ]
    methods = [outcome["method"] for outcome in series["patches"][1]["outcomes"]]
    assert methods == ["new_file", "delete_file", "exact"]
    files = {file["path"]: file for file in document["files"]}
    assert sorted(files) == [
        "vllm/_version.py", "vllm/config.py", "vllm/new/mod.py", "vllm/old.py", "vllm/zz.py",
    ]  # fmt: skip
    assert files["vllm/new/mod.py"]["before"] is None
    assert files["vllm/old.py"]["after"] is None
    assert files["vllm/zz.py"]["after"] == hashlib.sha256(b"last = 2\n").hexdigest()


def test_the_sbom_has_a_pedigree_with_the_patches(repository: Any) -> None:
    document = json.loads(contents(built(repository))[f"{INFO}/sboms/patchkit.cdx.json"])
    component = document["metadata"]["component"]
    assert component["purl"] == "pkg:pypi/vllm@0.99.0%2Bsyv.1"
    (ancestor,) = component["pedigree"]["ancestors"]
    assert (ancestor["version"], ancestor["hashes"][0]["alg"]) == ("0.99.0", "SHA-256")
    patches = component["pedigree"]["patches"]
    assert [patch["type"] for patch in patches] == ["unofficial", "unofficial"]
    stored = (repository.root / "patches/v0.99.0/one.patch").read_text()
    assert patches[0]["diff"]["text"] == {"contentType": "text/x-diff", "content": stored}


def test_the_sbom_is_valid_cyclonedx(repository: Any) -> None:
    text = contents(built(repository))[f"{INFO}/sboms/patchkit.cdx.json"].decode()
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    assert validator.validate_str(text) is None


def test_only_some_are_placed_and_proven(repository: Any, kit: Any) -> None:
    found = repository.build(only=["two"])
    assert found.path is not None
    members = contents(found.path)
    assert members["vllm/config.py"] == kit.FILES["vllm/config.py"]
    assert members["vllm/zz.py"] == b"last = 2\n"
    document = json.loads(members[f"{INFO}/patchkit/provenance.json"])
    assert document["selection"] == {
        "word": "only.two",
        "patches": ["patches/two.patch"],
        "left_out": ["patches/one.patch"],
        "brought": {},
    }


def test_a_need_that_no_header_names_is_an_outcome_that_did_not_land(
    repository: Any, kit: Any
) -> None:
    old = kit.ONE["vllm/config.py"]
    new = {**kit.ONE, "vllm/config.py": old.replace(b"= 32", b"= 64")}
    repository.series(
        one=kit.patch("one", kit.FILES, kit.ONE), more=kit.patch("more", kit.ONE, new)
    )
    found = repository.build(only=["more"])
    assert (found.path, found.patched.ok) == (None, False)
    assert not repository.out.exists()
    assert [outcome.landed for _, outcome in found.patched.outcomes] == [False]


def test_declared_needs_come_along(repository: Any, kit: Any) -> None:
    old = kit.ONE["vllm/config.py"]
    new = {**kit.ONE, "vllm/config.py": old.replace(b"= 32", b"= 64")}
    more = kit.patch("more", kit.ONE, new, "Depends-On: one\n")
    repository.series(one=kit.patch("one", kit.FILES, kit.ONE), more=more)
    found = repository.build(only=["more"])
    assert b"block_size = 64" in contents(found.path)["vllm/config.py"]


CSRC = b"--- a/csrc/k.cu\n+++ b/csrc/k.cu\n@@ -1 +1 @@\n-int a;\n+int b;\n"
TEST = b"--- a/tests/test_k.py\n+++ b/tests/test_k.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


def test_what_must_be_built_is_refused_unless_optional(repository: Any, kit: Any) -> None:
    repository.series(one=kit.patch("one", kit.FILES, kit.ONE) + CSRC)
    assert refusal(repository).endswith(
        "csrc/k.cu is built from source, which a wheel does not hold"
    )
    head = kit.patch("one", kit.FILES, kit.ONE, "Optional-Sections: csrc/\n")
    repository.series(one=head + CSRC)
    found = repository.build()
    assert [(patch, u.path) for patch, u in found.patched.unshipped] == [
        ("patches/one.patch", "csrc/k.cu")
    ]
    document = json.loads(contents(found.path)[f"{INFO}/patchkit/provenance.json"])
    assert document["left_out"] == [
        {"patch": "patches/one.patch", "path": "csrc/k.cu", "section": "built"}
    ]


def test_sections_for_tests_are_listed(repository: Any, kit: Any) -> None:
    repository.series(one=kit.patch("one", kit.FILES, kit.ONE) + TEST)
    found = repository.build()
    assert [u.section.value for _, u in found.patched.unshipped] == ["not_shipped"]
    repository.series(one=kit.patch("one", kit.FILES, kit.FILES) + TEST)
    assert refusal(repository) == "the chosen patches change no file of the wheel"


def test_the_overlay_is_put_in(repository: Any, tmp_path: Path) -> None:
    content = b"kernel = 1\n"
    digest = hashlib.sha256(content).hexdigest()

    def overlay(path: str) -> bytes:
        text = f'format = 1\n\n[[file]]\nsource = "k/k.py"\npath = "{path}"\n'
        return f'{text}sha256 = "{digest}"\n'.encode()

    repository.write("k/k.py", content)
    repository.write("patches/v0.99.0/overlay.toml", overlay("vllm/kernels/k.py"))
    path = built(repository)
    found = contents(path)
    assert found["vllm/kernels/k.py"] == content
    document = json.loads(found[f"{INFO}/patchkit/provenance.json"])
    assert document["series"][0]["overlay"] == [
        {"source": "k/k.py", "path": "vllm/kernels/k.py", "sha256": digest}
    ]
    source, _ = repository.upstream()
    assert unpatch_wheel(path, tmp_path / "b")[0].read_bytes() == source.read_bytes()
    repository.write("patches/v0.99.0/overlay.toml", overlay("vllm/zz.py"))
    assert refusal(repository) == (
        "patches/v0.99.0/overlay.toml: the release has vllm/zz.py already"
    )


def test_a_patch_off_by_a_line_is_refused(repository: Any, kit: Any) -> None:
    good = kit.patch("one", kit.FILES, kit.ONE)
    assert b"@@ -1,4 +1,4 @@" in good
    repository.series(one=good.replace(b"@@ -1,4 +1,4 @@", b"@@ -2,4 +2,4 @@"))
    assert "hunk 1 does not match here; its old lines are at line 1" in refusal(repository)


def test_a_faulty_upstream_is_refused(repository: Any) -> None:
    repository.maker.info = {"RECORD.jws": b"{}"}
    assert refusal(repository).endswith("signs the wheel, which a patched one cannot keep")
    repository.maker.info = {}
    repository.maker.wheel = None
    assert refusal(repository).endswith("vllm-0.99.0.dist-info/WHEEL is missing")


def test_a_source_that_record_disowns_is_refused(repository: Any, kit: Any) -> None:
    content = kit.FILES["vllm/config.py"]
    right, wrong = (kit.row("vllm/config.py", c) for c in (content, b"x" * len(content)))
    repository.maker.record = lambda text: text.replace(right, wrong)
    assert refusal(repository).endswith("vllm/config.py is not as RECORD says")


@pytest.mark.parametrize("part", ["content", "record", "layout"])
def test_a_result_that_fails_its_check_gets_no_name(
    part: str, repository: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builds.write_pieces

    def broken(file: Any, pieces: Any, source: Any) -> None:
        real(file, pieces, source)
        data = bytearray(Path(file.name).read_bytes())
        at = {
            "content": data.index(b"new = 1"),
            "record": data.index(b"vllm/new/mod.py,sha256=") + 25,
            "layout": len(data) - 5,
        }[part]
        data[at] ^= 1
        Path(file.name).write_bytes(data)

    built(repository, "before")
    monkeypatch.setattr(builds, "write_pieces", broken)
    assert refusal(repository)


def test_a_changed_wheel_does_not_lead_back(repository: Any, tmp_path: Path) -> None:
    path = built(repository)
    data = bytearray(path.read_bytes())
    data[60] ^= 1
    path.write_bytes(data)
    with pytest.raises(PatchkitError, match="leads back to a file with sha256"):
        unpatch_wheel(path, tmp_path / "back")
    assert list((tmp_path / "back").iterdir()) == []


def test_a_wheel_of_another_file_than_the_pinned_one_is_refused(
    repository: Any, tmp_path: Path
) -> None:
    path = built(repository)
    _, artifact = repository.upstream()
    from dataclasses import replace

    with pytest.raises(PatchkitError, match="was made from a file with sha256"):
        unpatch_wheel(path, tmp_path / "back", replace(artifact, sha256="0" * 64))


def test_a_wheel_that_patchkit_did_not_make_is_refused(repository: Any, tmp_path: Path) -> None:
    source, _ = repository.upstream()
    with pytest.raises(PatchkitError, match=r"holds no patchkit/provenance.json"):
        unpatch_wheel(source, tmp_path / "back")


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_installers_take_the_file(tool: str, repository: Any, tmp_path: Path) -> None:
    repository.maker.tags = "py3-none-any"
    path = built(repository)
    options = {"uv": ["--offline", "--no-cache", "--no-config"], "pip": ["--no-index", "--quiet"]}
    command = [sys.executable, "-m", *(["uv"] if tool == "uv" else []), "pip", "install"]
    target = tmp_path / "target"
    command += [*options[tool], "--no-deps", "--target", str(target), str(path)]
    subprocess.run(command, check=True, capture_output=True)
    assert (target / "vllm/zz.py").read_bytes() == b"last = 2\n"
    assert (target / "vllm/_C.abi3.so").stat().st_mode & 0o111
    code = "import importlib.metadata as m, vllm; print(m.version('vllm'), vllm.__version__)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=target
    )
    assert done.stdout.split() == ["0.99.0+syv.1", "0.99.0+syv.1"]


def test_lines_are_those_after_the_whole_series(repository: Any, kit: Any) -> None:
    old = kit.ONE["vllm/config.py"]
    above = {**kit.ONE, "vllm/config.py": b"import os\nimport re\n" + old}
    repository.series(one=kit.patch("one", kit.FILES, kit.ONE), up=kit.patch("up", kit.ONE, above))
    outcomes = [outcome for _, outcome in repository.build().patched.outcomes]
    assert [outcome.target_lines for outcome in outcomes] == [(3, 3), (1, 2)]
