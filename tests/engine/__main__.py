"""tests/engine on every pinned release, two at a time: `python -m tests.engine FOLDER [ARG …]`.

The trees are laid out below FOLDER; what follows is given to pytest. Each release has its own
interpreter, with the release in front of all that is installed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.engine.lay_out import lay_out

ROOT = Path(__file__).parents[2]
# Those whose patches differ in what they say; `patchkit test` has a verdict on every release.
EVERYTHING = ("0.28.0", "0.29.0")
# What holds on every pinned release: a format's bytes, where it is modelled the planner, and where
# they are stored the invariants of block promotion and the gate of verify attention. Most of the
# time goes into importing vLLM, so that these share one process.
ON_EVERY_RELEASE = tuple(
    f"tests/engine/test_{name}.py"
    for name in ("kv_formats", "kv_plan", "block_promotion_properties", "spec_decode_verify")
)
# vLLM takes as long as all that to build its models, and what releases read otherwise is little and
# in families.toml: on the release that most is measured on, and on the newest.
MODELS = "tests/engine/test_kv_models.py"
MODEL_RELEASES = ("0.28.0", "0.33.0")
# Allocates as 0.28.0 does; on a GPU it is a part of `nox -s gpu`.
ALLOCATIONS, ALLOCATION_RELEASE = "tests/gpu/test_kv_allocations.py", "0.28.0"
AT_A_TIME = 2  # an interpreter with vLLM takes one core and some 2 GB


def chosen(release: str) -> list[str]:
    """What pytest is given to run on a release."""
    if release in EVERYTHING:
        more = [ALLOCATIONS] if release == ALLOCATION_RELEASE else []
        more += [] if release in MODEL_RELEASES else [f"--ignore={MODELS}"]
        return ["tests/engine", *more]
    return [*ON_EVERY_RELEASE, *([MODELS] if release in MODEL_RELEASES else [])]


def run(release: str, folder: Path, arguments: list[str]) -> tuple[int, str]:
    """The exit status of one release's tests, and what they said."""
    tree = folder / f"v{release}"
    lay_out(f"v{release}", tree)
    # A release that is not there would skip every test: that is no pass.
    assert (tree / "vllm" / "v1").is_dir(), release
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "engine", *chosen(release), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tree), "VLLM_TARGET_DEVICE": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


def main(folder: Path, arguments: list[str]) -> None:
    """Run every pinned release, show each in its turn, and exit with those that failed."""
    pins = tomllib.loads((ROOT / "upstream_pins.toml").read_text())
    releases = [row["version"] for row in pins["releases"]]
    failed = []
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        done = pool.map(lambda release: run(release, folder, arguments), releases)
        for release, (status, said) in zip(releases, done, strict=True):
            print(f"vLLM {release}\n{said}", flush=True)
            if status:
                failed.append(f"vLLM {release}: pytest exits with {status}")
    if failed:
        raise SystemExit("\n".join(failed))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
