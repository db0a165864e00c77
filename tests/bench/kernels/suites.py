"""The suites of kernel benchmarks: what is compared on which cases, and what is to be reached.

Another kernel is another module with a suite, and its name in `SUITES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.kernels.cases import Case
from tests.bench.kernels.ratios import Target

if TYPE_CHECKING:
    from tests.bench.kernels.bench import Bench

SUITES = ("verify_attention", "tile_attention", "store_pack", "prefill")

ROOT = Path(__file__).parents[3]
# What measures every suite; what only prints is not among it.
MEASURING = (
    *("bench.py", "caches.py", "cases.py", "columns.py", "oracle.py", "peers"),
    *("tile_pools.py", "timing.py"),
)


@dataclass(frozen=True)
class Suite:
    """One kernel's benchmark; what needs torch is imported when it is called."""

    name: str  # of its records, with hyphens
    sources: tuple[str, ...]  # files and folders whose change makes measured rows stale
    cases: tuple[Case, ...]
    quick: tuple[Case, ...]  # some of them, for a first look
    tiny: tuple[Case, ...]  # for a CPU, through the interpreter
    columns: tuple[str, ...]
    formats: Mapping[str, str]  # of each column, as records name KV formats
    targets: tuple[Target, ...]
    judged_on: str  # the GPU that the targets are for, a part of its name

    def bench(self, cases: Sequence[Case], device: str, **options: Any) -> Bench:
        """What measures the suite's cases on a device."""
        from tests.bench.kernels.bench import Bench

        return Bench(self, cases, device, **options)


def sources(name: str, *patterns: str) -> tuple[str, ...]:
    """The kernels that match, what measures them, and the suite's own module.

    Whose change makes a measured time stale: other kernels are not among them.
    """
    package = ROOT / "kvarn_port"
    kernels = sorted(file for pattern in patterns for file in package.glob(pattern))
    return (
        *(file.relative_to(ROOT).as_posix() for file in kernels),
        *(f"tests/bench/kernels/{part}" for part in MEASURING),
        f"tests/bench/kernels/{name}.py",
    )


def suite(name: str) -> Suite:
    """The suite of a name, with hyphens or underscores."""
    from importlib import import_module

    module = import_module(f"tests.bench.kernels.{name.replace('-', '_')}")
    return module.SUITE
