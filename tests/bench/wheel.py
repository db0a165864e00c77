"""How long a patched wheel takes beyond the download, against `wheel unpack` and `wheel pack`.

All on one wheel, in one run, with warm file caches: `python -m tests.bench.wheel v0.28.0 vllm`.
The rebuild by hand does no more than unpack, change one file, and pack.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from patchkit.config import find_config
from patchkit.repository.store import read_stored
from patchkit.series.selection import select_patches
from patchkit.upstream import Cache, shipped_pins
from patchkit.upstream.fetch import fetch_artifact
from patchkit.upstream.index import Index
from patchkit.upstream.pins import Artifact
from patchkit.wheel.build import Wanted, build_wheel

RUNS = 5


def main(release: str = "v0.28.0", distribution: str = "vllm", platform: str = "x86_64") -> None:
    """Print the times and their ratio."""
    artifact = shipped_pins().release(release).choose(distribution, platform=platform)
    source = fetch_artifact(artifact, Index(), Cache())
    print(f"{artifact.filename}, {artifact.size_bytes} bytes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        wanted = whole_series(artifact, release.removeprefix("v"))
        dist = Path(folder, "dist")
        ours = repeated(lambda: build_wheel(wanted, source, dist), dist)
        say("build, from the fetched wheel to the named file", ours)
        command = ["patchkit", "build-wheel", release, "--distribution", distribution]
        command += ["--platform", platform, "--output", str(dist)]
        whole = repeated(lambda: run(*command), dist)
        say("whole command, digest of the cached wheel included", whole)
        theirs = timed(lambda: run("wheel", "unpack", "--dest", f"{folder}/tree", str(source)))
        (tree,) = Path(folder, "tree").iterdir()
        with (tree / "vllm/__init__.py").open("a") as file:
            file.write("\n")
        theirs += timed(lambda: run("wheel", "pack", "--dest-dir", folder, str(tree)))
    print(f"wheel unpack and wheel pack: {theirs:.1f} s")
    print(f"ratio to the median build: {theirs / statistics.median(ours):.0f}")


def whole_series(artifact: Artifact, version: str) -> Wanted:
    """Return a build with all that the repository stores for a release."""
    root = find_config(Path.cwd()).root
    stored = read_stored(root, "patches", version)
    patches = {("patches", name): data for name, data in stored.series.patches.items()}
    return Wanted(artifact, root, (stored,), select_patches(patches))


def repeated(work: Callable[[], object], folder: Path) -> list[float]:
    """Return the seconds of some runs; the first, which compiles Python files, is not counted.

    What a run wrote is removed, and the disk left to finish, before the next one starts.
    """
    seconds = []
    for _ in range(RUNS + 1):
        shutil.rmtree(folder, ignore_errors=True)
        os.sync()
        seconds.append(timed(work))
    return seconds[1:]


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run(*command: str) -> None:
    """Run a module of this environment."""
    subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.DEVNULL)


def say(what: str, seconds: list[float]) -> None:
    """Print the median and every run."""
    runs = ", ".join(f"{second:.2f}" for second in seconds)
    print(f"{what}: {statistics.median(seconds):.2f} s ({runs})", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
