"""How long `build-wheel` takes beyond the download, against `wheel unpack` and `wheel pack`.

All on one wheel, in one run, with warm file caches: `python -m tests.bench_wheel v0.28.0 vllm`.
The rebuild by hand does no more than unpack, change one file, and pack.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from patchkit.upstream import Cache, shipped_pins
from patchkit.upstream.fetch import fetch_artifact
from patchkit.upstream.index import Index

RUNS = 5


def main(release: str = "v0.28.0", distribution: str = "vllm", platform: str = "x86_64") -> None:
    """Print both times and their ratio."""
    artifact = shipped_pins().release(release).choose(distribution, platform=platform)
    source = fetch_artifact(artifact, Index(), Cache())
    with tempfile.TemporaryDirectory() as folder:
        options = ["--distribution", distribution, "--platform", platform]
        command = ["patchkit", "build-wheel", release, *options, "--output", f"{folder}/dist"]
        ours = [timed(command) for _ in range(RUNS + 1)][1:]  # the first one compiles Python files
        theirs = timed(["wheel", "unpack", "--dest", f"{folder}/tree", str(source)])
        (tree,) = Path(folder, "tree").iterdir()
        with (tree / "vllm/__init__.py").open("a") as file:
            file.write("\n")
        theirs += timed(["wheel", "pack", "--dest-dir", folder, str(tree)])
    spread = ", ".join(f"{seconds:.2f}" for seconds in ours)
    median = statistics.median(ours)
    print(f"{artifact.filename}, {artifact.size_bytes} bytes")
    print(f"build-wheel, whole command, with the digest of the cached wheel: {spread} s")
    print(f"wheel unpack + wheel pack: {theirs:.1f} s")
    print(f"ratio to the median: {theirs / median:.0f}")


def timed(command: list[str]) -> float:
    """Return the seconds that a module of this environment takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", *command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main(*sys.argv[1:])
