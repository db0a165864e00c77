"""Requires: what a patch needs of its environment, read, and asked of a real interpreter."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from patchkit import cli
from patchkit.diff.header import parse_header, validate_header
from patchkit.diff.requires import Need, parse_required, parse_requires
from patchkit.errors import PatchkitError
from patchkit.installed.environment import judge, read_environment
from tests.cli.conftest import _check as check

HEADER = """\
Description: x
Reason: a
Origin: b
Forwarded: no
Exit-Condition: c
Applies-To: >=0.99,<0.100
Requires: {}
"""


def test_each_form_is_read_and_said_again() -> None:
    lines = [
        "package triton>=3.4",
        "package flash-attn",
        "module flashinfer.decode",
        "python >=3.11",
        "command nvcc",
        "header cuda/std/atomic",
        "option VLLM_CACHE_ROOT",
        "option MODE=a=b",
        "option MODE=",
    ]
    found = parse_requires("\n".join(lines), "a.patch", 7)
    assert [str(required) for required in found] == lines
    assert [r.need for r in found[:4]] == [Need.PACKAGE, Need.PACKAGE, Need.MODULE, Need.PYTHON]
    assert [r.value for r in found[6:]] == [None, "a=b", ""]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("triton>=3.4", "Requires begins with 'triton>=3.4', expected one of package, module, "
         "python, command, header, option"),
        ("package triton=>3", "Requires names the package 'triton=>3', "
         "expected one like 'package triton>=3.4'"),
        ("package a @ file:///b", "Requires names the package 'a @ file:///b', "
         "expected one like 'package triton>=3.4'"),
        ("package a[b]", "Requires names the package 'a[b]', "
         "expected one like 'package triton>=3.4'"),
        ("package a; python_version > '3'", "Requires names the package "
         '"a; python_version > \'3\'", expected one like \'package triton>=3.4\''),
        ("package", "Requires names the package '', expected one like 'package triton>=3.4'"),
        ("module a-b", "Requires names the module 'a-b', "
         "expected one like 'module flashinfer.decode'"),
        ("python", "Requires names the python '', expected one like 'python >=3.11'"),
        ("command /bin/sh", "Requires names the command '/bin/sh', "
         "expected one like 'command nvcc'"),
        ("header ../a.h", "Requires names the header '../a.h', "
         "expected one like 'header cuda_fp8.h'"),
        ("option 3=4", "Requires names the option '3=4', "
         "expected one like 'option VLLM_CACHE_ROOT=/var/cache'"),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_with_its_line(line: str, said: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        parse_required(line, "a.patch:9")
    assert str(caught.value) == f"a.patch:9: {said}"


def test_a_header_with_an_odd_line_is_told_by_that_line() -> None:
    text = HEADER.format("python >=3.11\n command nvcc\n library x")
    problems = validate_header(parse_header(text.encode(), "a.patch"), "a.patch")
    assert problems == (
        "a.patch:9: Requires begins with 'library', expected one of package, module, python, "
        "command, header, option",
    )
    empty = validate_header(parse_header(HEADER.format("").encode(), "a.patch"), "a.patch")
    assert empty == ("a.patch:7: Requires is empty",)


def asked(line: str, monkeypatch: Any = None, **variables: str) -> tuple[bool, str]:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    required = parse_required(line, "a.patch:1")
    met = judge(required, read_environment(sys.executable, [required]))
    return met.is_met, met.text


def test_an_interpreter_is_asked_for_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import click

    version = __import__("importlib.metadata").metadata.version("click")
    assert asked("package click>=8") == (True, f"{version} is installed")
    assert asked("package click<8") == (False, f"{version} is installed")
    assert asked("package no-such-thing") == (False, "is not installed")
    assert asked("module click.types") == (True, f"is {Path(click.__file__).parent / 'types.py'}")
    assert asked("module click.nothing") == (False, "cannot be found")
    assert asked("module click.types.nothing") == (False, "cannot be found")
    python = sys.version.split()[0]
    assert asked("python >=3.11") == (True, f"it is {python}")
    assert asked("python <3.11") == (False, f"it is {python}")
    tool = tmp_path / "our-tool"
    tool.write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert asked("command our-tool") == (False, "is not on the search path")
    tool.chmod(0o755)
    assert asked("command our-tool") == (True, f"is {tool}")
    (tmp_path / "include").mkdir()
    (tmp_path / "include/ours.h").write_text("")
    assert not asked("header ours.h")[0]
    assert asked("header ours.h", monkeypatch, CUDA_HOME=str(tmp_path)) == (
        True, f"is in {tmp_path / 'include'}",
    )  # fmt: skip
    monkeypatch.delenv("OUR_OPTION", raising=False)
    assert asked("option OUR_OPTION") == (False, "is not set")
    assert asked("option OUR_OPTION=1", monkeypatch, OUR_OPTION="2") == (False, "is set to '2'")
    assert asked("option OUR_OPTION=2") == (True, "is set to '2'")
    assert asked("option OUR_OPTION") == (True, "is set to '2'")


def test_a_module_is_found_without_running_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loud").mkdir()
    (tmp_path / "loud/__init__.py").write_text("raise SystemExit(7)\n")
    (tmp_path / "loud/inner.py").write_text("1 / 0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert asked("module loud.inner") == (True, f"is {tmp_path / 'loud/inner.py'}")


def test_no_interpreter_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        read_environment("./nothing", [])
    assert str(caught.value) == "./nothing: is no Python that runs"


def store(folder: Path, release: str, requires: str) -> None:
    (folder / "pyproject.toml").write_text("[tool.patchkit]\n")
    place = folder / f"patches/v{release}"
    place.mkdir(parents=True)
    (place / "series").write_text("one.patch\n")
    diff = "--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
    header = HEADER.format(requires) if requires else HEADER.rpartition("Requires")[0]
    (place / "one.patch").write_text(header + "\n" + diff)


def test_the_command_asks_for_the_newest_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store(tmp_path, "0.99.0", "package no-such-thing\n python >=3.11")
    store(tmp_path, "0.98.0", "")
    assert cli.run(["requires"]) == 3
    python = sys.version.split()[0]
    assert capsys.readouterr().out == (
        "one.patch: MISSING package no-such-thing: is not installed\n"
        f"one.patch: has python >=3.11: it is {python}\n"
        f"v0.99.0 with {sys.executable}: 1 of 2 requirements met\n"
    )
    assert cli.run(["requires", "v0.99.0", "--json"]) == 3
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert [row["met"] for row in document["requirements"]] == [False, True]
    assert cli.run(["requires", "v0.98.0"]) == 0
    assert capsys.readouterr().out == (
        f"v0.98.0 with {sys.executable}: no patch requires anything\n"
    )
    assert cli.run(["requires", "v0.97.0"]) == 1
    assert capsys.readouterr().err == (
        "error: patches: no series is stored for v0.97.0\n"
        "hint: stored are: v0.98.0, v0.99.0; `patchkit rebase v0.97.0` moves one there\n"
    )
