"""Perplexity by format of the KV cache, of record: `python -m tests.bench.quality`

A small model reads texts whose history comes back from caches as decode reads them
(kvarn_port/demo). On a CPU all formats as the references compute them, and KVarN's normalisers with
the first tokens kept in 16 bit; on a GPU with --kernels the Triton kernels beside the references.
Exit status: 0 measured, 2 something is missing, 3 over a target.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import multiprocessing
import os
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
KERNEL_STEP = 64  # tokens of a step: tile attention takes no more
# What a perplexity is made of; with any of it changed the figures are old.
SOURCES = (
    "kvarn_port/layout.py",
    *(f"kvarn_port/reference/{name}.py" for name in ("normalise", "rotate", "tiles")),
    *(
        f"kvarn_port/demo/{name}"
        for name in (*("cache.py", "formats.py", "models.py", "perplexity.py", "text.py", "texts"),)
    ),
    "tests/bench/quality.py",
)
# What --kernels runs besides.
KERNEL_SOURCES = (
    "kvarn_port/demo/paged.py",
    *(f"kvarn_port/reference/{name}.py" for name in ("gather", "pack", "tile_attention")),
    "kvarn_port/kernels",
)
# By how many percent perplexity may grow, in the mean over texts, by model and start of a name.
TARGETS = {"smollm2-135m": {"kvarn_k4v4_g128": 0.5, "kvarn_k4v2_g128": 1.7, "int8": 0.1}}
KERNELS_WITHIN = 0.05  # percent, of the references' perplexity
BASELINE = "without quantisation"


@dataclass(frozen=True)
class Cell:
    """What one run of the model over all texts measures; by = "kernels" or "references"."""

    form: str
    sink: int = 0
    by: str = "references"

    @property
    def row(self) -> str:
        """Return its name among the rows of a record."""
        words = self.form.replace("_", "-").replace(" ", "-").lower()
        sink = f"-sink{self.sink}" if self.sink else ""
        return words + sink + ("-kernels" if self.by == "kernels" else "")


@dataclass(frozen=True)
class Measured:
    """The perplexity of each text, and of each token after the first tile its -log p."""

    cell: Cell
    perplexities: list[float]
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
    parser.add_argument("--kernels", action="store_true", help="the Triton kernels, on a GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at once, on a CPU")
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="write a run record there")
    parser.add_argument("--manifest", type=Path, metavar="FILE", help="where there is no .git")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    asked = parser.parse_args(argv)
    if asked.tokens <= GROUP + 1:
        parser.error(f"--tokens {asked.tokens}: the first {GROUP} read no packed tile")
    return asked


def plan(names: Sequence[str], sinks: Sequence[int], *, kernels: bool) -> list[Cell]:
    """Return the cells for some formats: KVarN's with each sink, or by kernels and references."""
    if kernels:
        ways = ("kernels", "references")
        return [Cell(name, by=by) for name in names if name.startswith("kvarn") for by in ways]
    plain = [Cell(name) for name in names if 0 in sinks or not name.startswith("kvarn")]
    kept = [n for n in names if n.startswith("kvarn")]
    return plain + [Cell(name, sink) for sink in sinks if sink for name in kept]


def measurer(asked: argparse.Namespace) -> tuple[Callable[[Cell], Measured], list[str], Any]:
    """Return how to measure a cell, the names of the formats and the loaded model."""
    import torch

    from kvarn_port.demo import measuring, models, paged, text
    from kvarn_port.demo.cache import TorchCache
    from kvarn_port.demo.formats import exact, formats
    from kvarn_port.layout import tile_layout

    if not asked.kernels:
        torch.set_num_threads(1)  # a job a core is faster, and a pool of threads survives no fork
    model = models.load(asked.model, asked.weights, "cuda" if asked.kernels else "cpu")
    texts = [text.read(path) for path in text.OWN]
    ids = text.first_tokens(texts, model.encode, asked.tokens)
    forms = formats(model.head_dim, GROUP) | {BASELINE: exact(GROUP)}

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
        found = measuring.with_caches(model, ids, make, step, GROUP)
        return Measured(cell, found, time.monotonic() - start)

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
    found: dict[Cell, Measured] = {}
    if jobs == 1:
        for cell in cells:
            found[cell] = measure(cell)
            tell(found[cell], len(found), len(cells))
        return found
    _measure = measure
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        for done in as_completed(pool.submit(_job, cell) for cell in cells):
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
    from kvarn_port.demo.perplexity import mean_increase

    return mean_increase(values)


def misses(model: str, found: dict[Cell, Measured]) -> list[str]:
    """Return what is over a target: in the mean over texts, or kernels beside references."""
    without = found[Cell(BASELINE)]
    texts = []
    for cell, one in found.items():
        for start, limit in TARGETS.get(model, {}).items():
            grown = mean(increases(one, without))
            if cell.form.startswith(start) and not cell.sink and grown > limit:
                texts.append(f"{cell.row}: {grown:+.3f} %, the target is {limit} %")
        reference = found.get(Cell(cell.form, cell.sink))
        if cell.by == "kernels" and reference is not None:
            worst = max(increases(one, reference), key=abs)
            if abs(worst) > KERNELS_WITHIN:
                texts.append(f"{cell.row}: {worst:+.4f} % of the references, not {KERNELS_WITHIN}")
    return texts


def add_rows(run: Run, model: str, texts: Sequence[str], tokens: int, found: dict) -> None:
    """Add each perplexity and its increase to a record, and the mean increase over the texts."""
    without = found[Cell(BASELINE)]
    for cell, one in found.items():
        workload = Workload(context=tokens, kv_format=cell.form, block_size=GROUP)
        sink = f", the first {cell.sink} tokens in 16 bit" if cell.sink else ""
        what = f"{model}{sink}, {cell.by}"
        for text, value in zip(texts, one.perplexities, strict=True):
            name = f"{cell.row}-{text}"
            run.add(f"perplexity of {text}, {what}", [value], "e^nats", workload, row=f"ppl-{name}")
        if cell == without.cell:
            continue
        grown = increases(one, without)
        for text, value in zip(texts, grown, strict=True):
            run.add(
                f"perplexity more, {text}, {what}", [value], "%", workload, row=f"{cell.row}-{text}"
            )
        run.add(f"perplexity more, mean, {what}", [mean(grown)], "%", workload, row=cell.row)
        run.add(
            f"perplexity more, most, {what}", [max(grown)], "%", workload, row=f"{cell.row}-most"
        )
        reference = found.get(Cell(cell.form, cell.sink))
        if cell.by == "kernels" and reference is not None:
            apart = [abs(value) for value in increases(one, reference)]
            run.add(
                f"perplexity apart from the references, {what}",
                [max(apart)], "%", workload, row=f"{cell.row}-apart",
            )  # fmt: skip


def begin(asked: argparse.Namespace) -> Run:
    """Return the run of record that begins now; raises PatchkitError where the tree is changed."""
    kind = "-kernels" if asked.kernels else ""
    return Run.begin(
        f"kvarn-quality-{asked.model}{kind}",
        root=ROOT,
        sources=SOURCES + (KERNEL_SOURCES if asked.kernels else ()),
        command=["python", "-m", "tests.bench.quality", *sys.argv[1:]],
        manifest=asked.manifest,
        uses_gpu=asked.kernels,
    )


def table(texts: Sequence[str], found: dict[Cell, Measured]) -> str:
    """Return a line for each cell: perplexity without, then by how much it grows."""
    without = found[Cell(BASELINE)]
    width = max(len(cell.row) for cell in found)
    lines = [" " * width + "".join(f"{text:>10}" for text in (*texts, "mean"))]
    for cell, one in found.items():
        if cell == without.cell:
            values = [f"{value:10.4f}" for value in one.perplexities]
        else:
            grown = increases(one, without)
            values = [f"{value:+9.3f}%" for value in (*grown, mean(grown))]
        lines.append(cell.row.ljust(width) + "".join(values))
    return "\n".join(lines)


def run(asked: argparse.Namespace) -> int:
    """Measure, show, write the record, and return the exit status."""
    record = begin(asked) if asked.record else None
    measure, names, model = measurer(asked)
    cells = [Cell(BASELINE), *plan(names, asked.sinks, kernels=asked.kernels)]
    found = measured(measure, cells, 1 if asked.kernels else asked.jobs)
    texts = [path.stem for path in _own_texts()]
    print(
        json.dumps([asdict(one) for one in found.values()]) if asked.json else table(texts, found)
    )
    print(f"weights: {model.sha256}", file=sys.stderr)
    if record is not None:
        add_rows(record, asked.model, texts, asked.tokens, found)
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
