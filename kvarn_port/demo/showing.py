"""What formats cost, as a table, as JSON and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .errors import LayerErrors
from .measuring import Baseline, Result
from .models import MissingError, Model
from .text import Text

SCHEMA = "kvarn-demo/1"
LEGEND = (
    "bits: of a key and of a value, scales included. key, value, output: relative error, mean over "
    "layers.\nThen perplexity over that without quantisation: full earlier tiles of 128 tokens are "
    "read packed,\nthe rest in 16 bit."
)


def table(texts: Sequence[Text], without: Baseline, found: Sequence[Result]) -> str:
    """Return the results as lines of aligned columns."""
    head = ["", "bits", "key", "value", "output", *(text.name for text in texts), "mean"]
    rows = [head]
    plain = [f"{one:.3f}" for one in without.perplexities]
    rows.append(["perplexity without", "", "", "", "", *plain, ""])
    for one in found:
        errors = [f"{of:.4f}" for of in means(one.errors)]
        more = [f"{each:+.2f} %" for each in (*one.increases, one.mean_increase)]
        rows.append([one.form, f"{one.bits:.2f}", *errors, *more])
    widths = [max(len(row[place]) for row in rows) for place in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, "", LEGEND])


def means(errors: Sequence[LayerErrors]) -> list[float]:
    """Return the mean over layers of the errors of keys, values and outputs."""
    each = [(one.key, one.value, one.output) for one in errors]
    return [sum(column) / len(each) for column in zip(*each, strict=True)]


def as_json(
    model: Model, tokens: int, texts: Sequence[Text], without: Baseline, found: Sequence[Result]
) -> dict[str, Any]:
    """Return the results for JSON, with every layer's errors and what was measured."""
    return {
        "schema": SCHEMA,
        "model": {"name": model.name, "head_dim": model.head_dim, "sha256": model.sha256},
        "tokens": tokens,
        "texts": [{"name": text.name, "sha256": text.sha256} for text in texts],
        "without": without.perplexities,
        "formats": [
            {
                "format": one.form,
                "bits": one.bits,
                "perplexities": one.perplexities,
                "increases_percent": one.increases,
                "mean_increase_percent": one.mean_increase,
                "layers": [asdict(layer) for layer in one.errors],
            }
            for one in found
        ],
    }


def check_plot() -> None:
    """Raise MissingError where matplotlib is not installed."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as err:
        raise MissingError(
            "--plot: matplotlib is not installed. Try: pip install matplotlib"
        ) from err


def plot(path: Path, model: str, found: Sequence[Result]) -> None:
    """Write a picture: errors of outputs by layer, and perplexity by bits.

    Raises MissingError where the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.5), layout="constrained")
    by_layer, by_bits = figure.subplots(1, 2)
    for one in found:
        (line,) = by_layer.plot([layer.output for layer in one.errors], label=one.form)
        by_bits.scatter([one.bits], [one.mean_increase], color=line.get_color())
        at = (one.bits, one.mean_increase)
        by_bits.annotate(one.form, at, (4, 2), textcoords="offset points", fontsize=7)
    by_layer.set(xlabel="layer", ylabel="relative error of attention outputs", yscale="log")
    by_layer.legend(fontsize=7)
    by_bits.set(xlabel="bits a value", ylabel="perplexity over that without, %")
    by_bits.margins(x=0.45)
    figure.suptitle(model)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as err:
        raise MissingError(f"--plot {path}: {err}") from err
