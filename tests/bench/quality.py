"""Perplexity by format of the KV cache, of record: `python -m tests.bench.quality`

A small model reads texts whose history comes back from caches as decode reads them
(kvarn_port/demo): all formats as the references compute them, and KVarN by two modes with the
first tokens kept in 16 bit; with --kernels, on a GPU, the Triton kernels beside the references.
Exit status: 0 measured, 2 something is missing, 3 over a target.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.records.run import Run, Workload

ROOT = Path(__file__).parents[2]
GROUP = 128
TOKENS = 12 * GROUP
SINKS = (0, 1, 16, 128)
SINK_MODES = ("reference", "fitted")  # the published mode and the default: with sinks too
KERNEL_STEP = 64  # tokens of a step: tile attention takes no more
# What a perplexity is made of; with any of it changed the figures are old.
SOURCES = (
    "kvarn_port/layout.py",
    *(f"kvarn_port/reference/{name}.py" for name in ("normalise", "rotate", "tiles")),
    *(
        f"kvarn_port/demo/{name}.py"
        for name in ("cache", "divergence", "formats", "measuring", "models", "perplexity", "text")
    ),
    "kvarn_port/demo/texts",
    "tests/bench/quality.py",
)
KERNEL_SOURCES = ("kvarn_port/demo/paged.py", "kvarn_port/kernels")
# By how many percent perplexity may grow, in the mean over texts, by model and format.
TARGETS = {
    "smollm2-135m": {
        "kvarn_k4v4_g128 fitted": 0.5,
        "kvarn_k4v2_g128 fitted": 1.7,
        "int8 per token-head": 0.1,
    }
}
KERNELS_WITHIN = 0.05  # percent, of the references' perplexity
BASELINE = "without quantisation"


@dataclass(frozen=True)
class Cell:
    """A format that the model reads all texts in once, by "kernels" or "references"."""

    form: str
    sink: int = 0
    by: str = "references"

    @property
    def row(self) -> str:
        """Return its name among the rows of a record."""
        words = re.sub(r"[^a-z0-9]+", "-", self.form.lower())
        sink = f"-sink{self.sink}" if self.sink else ""
        return words + sink + ("-kernels" if self.by == "kernels" else "")


@dataclass(frozen=True)
class Measured:
    """The perplexity of each text in a cell, by how many percent it is expected to grow by what
    predictions differ (kvarn_port/demo/divergence.py), and how long that took.
    """

    cell: Cell
    perplexities: list[float]
    expected: list[float]
    wall_s: float


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.quality", description=__doc__)
    parser.add_argument("--model", default="smollm2-135m", help="or gemma3-270m")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="its GGUF, without a package")
    parser.add_argument("--tokens", type=int, default=TOKENS, metavar="N", help="of each text")
    parser.add_argument("--formats", metavar="TEXT", default="", help="those whose names have it")
    parser.add_argument(
        "--sinks",
        type=lambda text: tuple(map(int, text.split(","))),
        default=SINKS,
        metavar="N,…",
        help="first tokens of KVarN kept in 16 bit; others than 0 are no run of the kernels",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--kernels", action="store_true", help="the Triton kernels, on cuda")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at once, on a CPU")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write a run record there")
    parser.add_argument("--manifest", type=Path, metavar="FILE", help="where there is no .git")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    asked = parser.parse_args(argv)
    if asked.tokens <= GROUP + 1:
        parser.error(f"--tokens {asked.tokens}: the first {GROUP} read no packed tile")
    if asked.kernels and asked.device != "cuda":
        parser.error("--kernels: they are measured with --device cuda")
    if asked.device == "cuda":
        asked.jobs = 1
    return asked


def plan(names: Sequence[str], sinks: Sequence[int], *, kernels: bool) -> list[Cell]:
    """Return the cells for some formats: KVarN's with each sink, or by kernels and references."""
    if kernels:
        ways = ("kernels", "references")
        return [Cell(name, by=by) for name in names if name.startswith("kvarn") for by in ways]
    plain = [Cell(name) for name in names if 0 in sinks or not name.startswith("kvarn")]
    tiles = [name for name in names if name.startswith("kvarn") and name.endswith(SINK_MODES)]
    return plain + [Cell(name, sink) for sink in sinks if sink for name in tiles]


def measurer(asked: argparse.Namespace) -> tuple[Callable[[Cell], Measured], list[str], Any]:
    """Return how to measure a cell, the names of the formats and the loaded model.

    That without quantisation is measured first: the others are compared with it.
    """
    import torch

    from kvarn_port.demo import measuring, models, paged, text
    from kvarn_port.demo.cache import TorchCache
    from kvarn_port.demo.divergence import Divergence, Predictions
    from kvarn_port.demo.formats import exact, formats
    from kvarn_port.layout import tile_layout

    if asked.device == "cpu":
        torch.set_num_threads(1)  # a job a core is faster, and a pool of threads survives no fork
    else:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model = models.load(asked.model, asked.weights, asked.device)
    if asked.kernels and model.windowed:
        raise models.MissingError(f"--kernels: {model.name} has windows, tile attention has none")
    texts = [text.read(path) for path in text.OWN]
    ids = text.first_tokens(texts, model.encode, asked.tokens)
    forms = formats(model.head_dim, GROUP) | {BASELINE: exact(GROUP)}
    kept = Predictions(GROUP)

    def measure(cell: Cell) -> Measured:
        start = time.monotonic()

        def make() -> Any:
            if cell.by == "references":
                return TorchCache(forms[cell.form], cell.sink)
            preset, mode = cell.form.split()
            layout = tile_layout(preset, model.head_dim)
            limits = {"max_query_len": KERNEL_STEP, "max_tokens": asked.tokens}
            return paged.PagedCache(paged.kernel_operations(), layout, mode, **limits)

        step = KERNEL_STEP if cell.by == "kernels" else GROUP
        if cell.form == BASELINE:
            found = measuring.with_caches(model, ids, make, step, GROUP, kept.keep)
            kept.parts = [kept.joined()]
            return Measured(cell, found, [0.0] * len(found), time.monotonic() - start)
        apart = Divergence(kept.parts[0], GROUP)
        found = measuring.with_caches(model, ids, make, step, GROUP, apart.compare)
        return Measured(cell, found, apart.expected(), time.monotonic() - start)

    names = [name for name in forms if asked.formats in name and name != BASELINE]
    return measure, names, model


_measure: Callable[[Cell], Measured] | None = None  # of the forked jobs, which get it by the fork


def _job(cell: Cell) -> Measured:
    assert _measure is not None
    return _measure(cell)


def measured(
    measure: Callable[[Cell], Measured], cells: Sequence[Cell], jobs: int
) -> dict[Cell, Measured]:
    """Return what was measured of each cell, in their order, several at a time."""
    global _measure
    first, *rest = cells
    found = {first: measure(first)}  # before the fork: all jobs compare with it
    tell(found[first], 1, len(cells))
    if jobs == 1:
        for cell in rest:
            found[cell] = measure(cell)
            tell(found[cell], len(found), len(cells))
        return found
    _measure = measure
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for done in as_completed(pool.submit(_job, cell) for cell in rest):
            one = done.result()
            found[one.cell] = one
            tell(one, len(found), len(cells))
    return {cell: found[cell] for cell in cells}


def tell(one: Measured, done: int, of: int) -> None:
    """Say on standard error what came out."""
    each = " ".join(f"{value:.4f}" for value in one.perplexities)
    print(f"{done}/{of} {one.cell.row}: {each} ({one.wall_s:.0f} s)", file=sys.stderr, flush=True)


def increases(one: Measured, without: Measured) -> list[float]:
    """Return by how many percent each perplexity is over that of another run."""
    pairs = zip(one.perplexities, without.perplexities, strict=True)
    return [100 * (value / other - 1) for value, other in pairs]


def mean(values: Sequence[float]) -> float:
    """Return the mean of increases in percent, that of their factors' logarithms."""
    logs = [math.log1p(value / 100) for value in values]
    return 100 * math.expm1(sum(logs) / len(logs))


def misses(model: str, found: dict[Cell, Measured]) -> list[str]:
    """Return what is over a target: in the mean over texts, or kernels beside references."""
    without = found[Cell(BASELINE)]
    texts = []
    for cell, one in found.items():
        limit = TARGETS.get(model, {}).get(cell.form, math.inf)
        grown = mean(increases(one, without))
        if not cell.sink and grown > limit:
            texts.append(f"{cell.row}: {grown:+.3f} %, the target is {limit} %")
        reference = found.get(Cell(cell.form, cell.sink))
        if cell.by == "kernels" and reference is not None:
            worst = max(increases(one, reference), key=abs)
            if abs(worst) > KERNELS_WITHIN:
                limit = f"not over {KERNELS_WITHIN} %"
                texts.append(f"{cell.row}: {worst:+.4f} % of the references, {limit}")
    return texts


def add_rows(
    run: Run, model: str, texts: Sequence[str], tokens: int, found: dict[Cell, Measured]
) -> None:
    """Add each perplexity and its increase to a record, and the mean increase over the texts."""
    without = found[Cell(BASELINE)]

    def add(measured: str, value: float, unit: str, workload: Workload, row: str) -> None:
        run.add(measured, [value], unit, workload, row=row, subject=model)

    for cell, one in found.items():
        workload = Workload(context=tokens, kv_format=cell.form, block_size=GROUP)
        sink = f"the first {cell.sink} tokens in 16 bit, " if cell.sink else ""
        what = f"{sink}{cell.by}"
        for text, value in zip(texts, one.perplexities, strict=True):
            row = f"ppl-{cell.row}-{text}"
            add(f"perplexity, {text}, {what}", value, "perplexity", workload, row)
        if cell == without.cell:
            continue
        grown = increases(one, without)
        of = {"mean": mean(grown), "most": max(grown), "expected": mean(one.expected)}
        of |= dict(zip(texts, grown, strict=True))
        for name, value in of.items():
            row = cell.row if name == "mean" else f"{cell.row}-{name}"
            add(f"perplexity more, {name}, {what}", value, "%", workload, row)
        reference = found.get(Cell(cell.form, cell.sink))
        if cell.by == "kernels" and reference is not None:
            apart = max(abs(value) for value in increases(one, reference))
            name = f"perplexity apart from the references, {what}"
            add(name, apart, "%", workload, f"{cell.row}-apart")


def begin(asked: argparse.Namespace) -> Run:
    """Return the run of record that begins now; raises PatchkitError where the tree is changed."""
    kind = "-kernels" if asked.kernels else ""
    return Run.begin(
        f"kvarn-quality-{asked.model}{kind}",
        root=ROOT,
        sources=SOURCES + (KERNEL_SOURCES if asked.kernels else ()),
        command=["python", "-m", "tests.bench.quality", *sys.argv[1:]],
        manifest=asked.manifest,
        uses_gpu=asked.device == "cuda",
    )


def table(texts: Sequence[str], found: dict[Cell, Measured]) -> str:
    """Return a line for each cell: perplexity without, then by how much it grows."""
    without = found[Cell(BASELINE)]
    width = max(len(cell.row) for cell in found)
    lines = [" " * width + "".join(f"{text:>10}" for text in (*texts, "mean", "expected"))]
    for cell, one in found.items():
        if cell == without.cell:
            values = [f"{value:10.4f}" for value in one.perplexities]
        else:
            grown = increases(one, without)
            values = [f"{value:+9.3f}%" for value in (*grown, mean(grown), mean(one.expected))]
        lines.append(cell.row.ljust(width) + "".join(values))
    return "\n".join(lines)


def run(asked: argparse.Namespace) -> int:
    """Measure, show, write the record, and return the exit status."""
    record = begin(asked) if asked.record else None
    measure, names, model = measurer(asked)
    cells = [Cell(BASELINE), *plan(names, asked.sinks, kernels=asked.kernels)]
    found = measured(measure, cells, asked.jobs)
    texts = [path.stem for path in _own_texts()]
    print(
        json.dumps([asdict(one) for one in found.values()]) if asked.json else table(texts, found)
    )
    print(f"weights: {model.sha256}", file=sys.stderr)
    if record is not None:
        weights = f"{asked.model} {model.sha256[:16]}"  # which ones, by their file's digest
        add_rows(record, weights, texts, asked.tokens, found)
        print(f"record: {record.write(asked.record)}", file=sys.stderr)
    over = misses(asked.model, found)
    for line in over:
        print(f"over: {line}", file=sys.stderr)
    return 3 if over else 0


def _own_texts() -> Sequence[Path]:
    from kvarn_port.demo.text import OWN

    return OWN


def main(argv: Sequence[str]) -> int:
    """Run, and say what is missing."""
    asked = arguments(argv)
    if importlib.util.find_spec("torch") is None:
        print("error: torch: not installed. Try: pip install torch", file=sys.stderr)
        return 2
    from kvarn_port.demo.models import MissingError

    try:
        return run(asked)
    except (MissingError, PatchkitError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
