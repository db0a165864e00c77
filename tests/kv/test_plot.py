"""Pictures of capacity: which kinds, the same bytes, and what is written in them."""

from __future__ import annotations

import dataclasses
import re
import struct
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from patchkit.errors import PatchkitError
from patchkit.kv import plot
from patchkit.kv.curves import Curve, curves
from tests.kv.made_plans import auto, int4, kvarn

DRAWN = curves([auto(), int4(), kvarn()])
SVG = "{http://www.w3.org/2000/svg}"


def drawn(kind: str, some: tuple[Curve, ...] = DRAWN) -> bytes:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    return plot.picture(some, "A & B", "vLLM 0.28.0", kind)


def texts(svg: bytes) -> list[str]:
    """The texts of a picture: matplotlib leaves each as a comment beside its outlines."""
    return [text.strip() for text in re.findall(r"<!--(.*?)-->", svg.decode())]


def test_a_png_is_one() -> None:
    found = drawn("png")
    assert found.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", found[16:24])
    assert 900 < width < 1700
    assert height == 1110


def test_the_same_plans_give_the_same_bytes() -> None:
    here = b"".join(drawn(kind) for kind in plot.KINDS)
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]; from tests.kv import test_plot as t;"
        "sys.stdout.buffer.write(b''.join(t.drawn(kind) for kind in t.plot.KINDS))"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, root], capture_output=True, check=True
    )
    assert done.stdout == here
    assert b"<dc:date>" not in here


def test_each_format_is_named_beside_its_line_and_axes_say_their_units() -> None:
    found = texts(drawn("svg"))
    for text in (
        "auto", "int4_per_token_head", "kvarn_k4v2_g128", "A &amp; B", "vLLM 0.28.0",
        "tokens held at once", "requests at once that there is memory for",
        "length of each request, tokens",
        "131,072", "200,000",
    ):  # fmt: skip
        assert text in found, text
    assert found.count("auto") == 1


def test_axes_have_no_marks_but_round_numbers() -> None:
    narrow = Curve(("auto",), (1000, 1500, 2100), (50.0, 34.0, 24.5))
    found = texts(drawn("svg", (narrow,)))
    assert sorted(text for text in found if re.search(r"\d", text)) == [
        "1,024", "100,000", "2,048", "20", "30", "30,000", "40", "40,000", "50", "50,000",
        "60", "60,000", "80,000", "vLLM 0.28.0",
    ]  # fmt: skip


def test_every_line_looks_otherwise() -> None:
    looks = [(plot._look(n)["color"], str(plot._look(n)["linestyle"])) for n in range(21)]
    assert len(set(looks)) == 21
    assert {dashes for _, dashes in looks[:7]} == {"-"}
    many = tuple(dataclasses.replace(DRAWN[0], formats=(f"format{n}",)) for n in range(21))
    assert {f"format{n}" for n in range(21)} <= set(texts(drawn("svg", many)))


def test_labels_do_not_cover_each_other() -> None:
    assert plot._apart([5.0, 50.0], 11, 100) == [5.0, 50.0]
    assert plot._apart([50.0, 50.0, 50.0], 11, 100) == [61.0, 50.0, 39.0]
    assert plot._apart([50.0, 52.0, 10.0], 10, 100) == [46.0, 56.0, 10.0]
    assert plot._apart([99.0, 99.0, 20.0], 11, 100) == [100.0, 89.0, 20.0]
    assert plot._apart([1.0, 2.0, 50.0], 10, 100) == [0.0, 10.0, 50.0]
    assert plot._apart([99.0, 99.0, 84.0], 10, 100) == [100.0, 90.0, 80.0]
    assert plot._apart([], 11, 100) == []
    close = [50.0, 59.0, 61.0, 40.0]
    found = sorted(plot._apart(close, 10, 200))
    assert all(b - a >= 10 - 1e-9 for a, b in pairwise(found))


def test_marks_are_round_numbers() -> None:
    assert plot._round_numbers(0.9, 25) == [1, 2, 5, 10, 20]
    assert plot._round_numbers(23_000, 150_000) == [
        30_000, 40_000, 50_000, 60_000, 80_000, 100_000, 150_000,
    ]  # fmt: skip
    assert plot._round_numbers(1, 100_000) == [1, 10, 100, 1000, 10_000, 100_000]
    assert plot._round_numbers(1.1, 1.4) == []


def test_a_page_needs_nothing_else_and_has_the_figures() -> None:
    page = drawn("html").decode()
    assert not re.search(r"(?:src|href)=\"(?!#)", page.replace("xlink:href", "href"))
    assert "<title>A &amp; B</title>" in page
    svg = page[page.index("<svg") : page.index("</svg>") + 6]
    assert ElementTree.fromstring(svg).tag == f"{SVG}svg"
    rows = re.findall(r"<tr>(.*?)</tr>", page.replace("\n", ""))
    cells = [re.findall(r"<t[dh]>(.*?)</t[dh]>", row) for row in rows]
    assert cells[0][:3] == ["format", "256", "512"]
    assert cells[0][-2:] == ["131,072", "longest request"]
    # auto: 358 blocks, of which 256 tokens take 2 + 54 + 15
    assert cells[1][:2] == ["auto", "1,290"]
    assert cells[1][-2:] == ["-", "64,512 tokens"]
    assert cells[3][-1] == "245,760 tokens"
    assert cells[5][:2] == ["auto", "5.04"]
    named = dataclasses.replace(DRAWN[0], formats=("<b>own</b>",))
    assert "<td>&lt;b&gt;own&lt;/b&gt;</td>" in drawn("html", (named,)).decode()


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PatchkitError) as refused:
        plot.picture(DRAWN, "A", "B", "svg")
    assert str(refused.value) == "--plot: matplotlib is not installed"
    assert refused.value.hint == "pip install 'patchkit[plot]'"


def test_an_axis_of_nearly_one_value_has_marks_and_shows_how_near_they_are() -> None:
    lengths = (256, 300, 512, 40_960)
    alike = Curve(("auto",), lengths, tuple(n / size for n, size in zip(
        (145_000, 130_000, 145_600, 145_632), lengths, strict=True)))  # fmt: skip
    found = texts(drawn("svg", (alike,)))
    for mark in ("80,000", "100,000", "150,000", "200,000"):
        assert mark in found
    low, high = plot._widened(130_000, 145_632)
    assert low * 2 <= 145_632 * 1.1
    assert high / low == pytest.approx(4)
    assert plot._widened(1, 100) == (1, 100)


def test_a_title_is_written_as_it_stands() -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    for title, shown in (("a $x^{ b$ \\foo", "a $x^{ b$ \\foo"), ("m\udcff", "m\\udcff"),
                         ("模型", "模型")):  # fmt: skip
        for kind in plot.KINDS:
            found = plot.picture(DRAWN, title, "vLLM 0.28.0", kind)
            assert kind == "png" or shown.encode() in found


def test_a_long_title_is_cut_where_the_picture_ends() -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    found = texts(plot.picture(DRAWN, "m" * 61, "vLLM 0.28.0", "svg"))
    assert "m" * 57 + "..." in found
