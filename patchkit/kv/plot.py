"""Capacity against context as a picture: tokens at once above, requests at once below."""

from __future__ import annotations

import html
import io
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from patchkit.errors import PatchkitError
from patchkit.kv.curves import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("png", "svg", "html")
# Okabe and Ito's colours, which colour-blind people tell apart, without the yellow, which is hardly
# seen on white. Where they run out, lines are dashed.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)))
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "patchkit",  # ids in the file, the same each time
    "font.family": "DejaVu Sans",  # matplotlib brings it along
    "font.size": 9,
    "text.parse_math": False,  # a folder may have dollars in its name
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
}
_LABEL_POINTS = 11.0  # height of a label
_LONGEST_LABEL, _LONGEST_TITLE = 44, 60  # characters
_MOST_MARKS = 9
_REQUESTS = "Requests at once that there is memory for, by the length of each request in tokens"
_LEAST_SPAN = 4.0  # how many times its least value the greatest of an axis is


def picture(curves: Sequence[Curve], title: str, subtitle: str, kind: str) -> bytes:
    """Return a picture of curves as a PNG, an SVG or a page of HTML; the same ones the same bytes.

    Raises PatchkitError where matplotlib is missing.
    """
    try:
        import matplotlib
    except ImportError as err:
        raise PatchkitError(
            "matplotlib is not installed", place="--plot", hint="pip install 'patchkit[plot]'"
        ) from err
    title = title.encode(errors="backslashreplace").decode()  # a name on disk may be no text
    with matplotlib.rc_context(_STYLE):
        figure = _figure(curves, title, subtitle)
        if kind == "png":
            return _saved(figure, "png")
        svg = _saved(figure, "svg")
    return svg if kind == "svg" else _page(curves, title, subtitle, svg.decode()).encode()


def _saved(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph ")  # a name in letters that the font lacks
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
    return buffer.getvalue()


def _figure(curves: Sequence[Curve], title: str, subtitle: str) -> Figure:
    from matplotlib.figure import Figure

    right = 0.5 + 0.075 * max(len(_shortened(curve.name)) for curve in curves)  # inches: labels
    figure = Figure(figsize=(6.2 + right, 7.4))
    width, height = figure.get_size_inches()
    above, below = figure.subplots(2, 1, sharex=True)
    figure.subplots_adjust(left=0.85 / width, right=1 - right / width, top=1 - 0.95 / height,
                           bottom=0.6 / height, hspace=0.14)  # fmt: skip
    figure.text(
        0.12 / width,
        1 - 0.3 / height,
        _shortened(title, _LONGEST_TITLE),
        fontsize=12,
        fontweight="bold",
    )
    figure.text(0.12 / width, 1 - 0.55 / height, subtitle, fontsize=9, color="#444444")
    _draw(above, [(curve.lengths, curve.tokens) for curve in curves])
    _draw(below, [(curve.lengths, curve.requests) for curve in curves])
    above.set_title("tokens held at once", loc="left", fontsize=9.5)
    below.set_title("requests at once that there is memory for", loc="left", fontsize=9.5)
    below.set_xlabel("length of each request, tokens")
    _scale(above, below, curves)
    _label(figure, above, curves)
    return figure


def _draw(axes: Axes, lines: Sequence[tuple[Sequence[float], Sequence[float]]]) -> None:
    for number, (xs, ys) in enumerate(lines):
        axes.plot(xs, ys, **_look(number), linewidth=1.6)
        axes.plot(xs[-1:], ys[-1:], color=_look(number)["color"], marker="o", markersize=3.5)


def _look(number: int) -> dict[str, Any]:
    dashes = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    return {"color": _COLOURS[number % len(_COLOURS)], "linestyle": dashes}


def _scale(above: Axes, below: Axes, curves: Sequence[Curve]) -> None:
    """Both ways by octaves; the marks are lengths that people use."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    first = min(curve.lengths[0] for curve in curves)
    last = max(curve.lengths[-1] for curve in curves)
    below.set_xscale("log", base=2)
    below.set_xlim(first, last * 1.02)
    marks = [1 << n for n in range(40) if first <= 1 << n <= last]
    below.xaxis.set_major_locator(FixedLocator(marks[::-1][:: 1 if len(marks) <= 9 else 2][::-1]))
    below.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{int(x):,}"))
    below.xaxis.set_minor_locator(NullLocator())
    for axes in (above, below):
        axes.set_yscale("log", base=10)
        low, high = _widened(*axes.get_ylim())
        axes.set_ylim(low, high)
        axes.yaxis.set_major_locator(FixedLocator(_round_numbers(low, high)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.10g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def _widened(low: float, high: float) -> tuple[float, float]:
    """Return a range that is wide enough for small differences to look small, and for marks."""
    middle = (low * high) ** 0.5
    return min(low, middle / _LEAST_SPAN**0.5), max(high, middle * _LEAST_SPAN**0.5)


def _round_numbers(low: float, high: float) -> list[float]:
    """Return round numbers of a range, as many as can be told apart."""
    found: list[float] = []
    for digits in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        more = [
            digit * 10.0**power for power in range(-3, 14) for digit in digits
            if low <= digit * 10.0**power <= high
        ]  # fmt: skip
        if found and len(more) > _MOST_MARKS:
            break
        found = more
    return found


def _label(figure: Figure, axes: Axes, curves: Sequence[Curve]) -> None:
    """Write the formats beside the edge, each near the height at which its line ends."""
    to_points = 72 / figure.dpi
    box = axes.get_window_extent()
    height = float(box.height) * to_points
    ends = [
        (float(axes.transData.transform((1, curve.tokens[-1]))[1]) - float(box.y0)) * to_points
        for curve in curves
    ]
    places = _apart(ends, _LABEL_POINTS, height)
    for number, (curve, place) in enumerate(zip(curves, places, strict=True)):
        look = _look(number)
        axes.annotate(
            _shortened(curve.name), xy=(curve.lengths[-1], curve.tokens[-1]), xycoords="data",
            xytext=(1.045, place / height), textcoords="axes fraction", va="center", fontsize=8.5,
            color=look["color"], annotation_clip=False,
            arrowprops={**look, "arrowstyle": "-", "lw": 0.6, "shrinkA": 2, "shrinkB": 2,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def _shortened(name: str, most: int = _LONGEST_LABEL) -> str:
    return name if len(name) <= most else f"{name[: most - 3]}..."


def _apart(places: Sequence[float], least: float, height: float) -> list[float]:
    """Return places in their order, moved as little as it takes to be `least` apart and inside."""

    def centre(members: Sequence[int]) -> float:
        half = least * (len(members) - 1) / 2
        mean = sum(places[member] for member in members) / len(members)
        return max(min(mean, height - half), half)

    blocks: list[list[int]] = []  # of neighbours, from the lowest; each is spread about its centre
    for n in sorted(range(len(places)), key=lambda n: (places[n], -n)):
        members = [n]
        while blocks:
            room = least * (len(members) + len(blocks[-1])) / 2
            if centre(members) - centre(blocks[-1]) >= room:
                break
            members = blocks.pop() + members
        blocks.append(members)
    found = [0.0] * len(places)
    for members in blocks:
        for at, member in enumerate(members):
            found[member] = centre(members) + least * (at - (len(members) - 1) / 2)
    return found


def _page(curves: Sequence[Curve], title: str, subtitle: str, svg: str) -> str:
    """Return a page that needs nothing else: the picture, and its figures as a table."""
    picture = svg[svg.index("<svg") :]
    return "\n".join(
        [
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>',
            "<style>body{font:15px/1.4 sans-serif;margin:2em;max-width:64em}"
            "svg{max-width:100%;height:auto}table{border-collapse:collapse}"
            "td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid #ddd}"
            "td:first-child,th:first-child{text-align:left}</style></head><body>",
            picture,
            *_table(curves, "Tokens held at once, by the length of each request in tokens", 0),
            *_table(curves, _REQUESTS, 1),
            f"<p>{html.escape(subtitle)}</p></body></html>\n",
        ]
    )


def _table(curves: Sequence[Curve], caption: str, which: int) -> Iterator[str]:
    marks = sorted({n for curve in curves for n in curve.lengths if n & (n - 1) == 0})
    yield f"<h2>{caption}</h2><table><tr><th>format</th>"
    yield "".join(f"<th>{n:,}</th>" for n in marks) + "<th>longest request</th></tr>"
    for curve in curves:
        at = dict(zip(curve.lengths, curve.requests, strict=True))
        cells = "".join(f"<td>{_cell(n, at.get(n), which)}</td>" for n in marks)
        longest = f"<td>{curve.lengths[-1]:,} tokens</td>"
        yield f"<tr><td>{html.escape(curve.name)}</td>{cells}{longest}</tr>"
    yield "</table>"


def _cell(tokens: int, requests: float | None, which: int) -> str:
    if requests is None:
        return "-"
    return f"{requests:,.2f}" if which else f"{int(tokens * requests):,}"
