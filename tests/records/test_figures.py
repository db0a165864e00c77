"""What is a figure of speed or memory, and what only looks like one."""

from __future__ import annotations

from decimal import Decimal

import pytest

from patchkit.records.figures import find_figures
from patchkit.records.prose import header_text, markdown_prose, plain_prose
from patchkit.records.units import convert, parse_unit


def figures(text: str) -> list[tuple[str, str]]:
    """Each figure's number as it is written, and its unit, as a Markdown file has them."""
    prose, _ = markdown_prose(text)
    found = find_figures(prose, tables=True)
    return [(text[f.start : f.number_end], f.unit.name) for f in found]


@pytest.mark.parametrize(("text", "found"), [
    ("It takes 7.4 ms.", [("7.4", "ms")]),
    ("63 µs, 63 μs, 63us", [("63", "µs")] * 3),
    ("5s and 5 seconds and a 5-second wait", [("5", "s")] * 3),
    ("under 8 minutes", [("8", "min")]),
    ("692 tok/s, 692 tokens per second, 692 tokens/s", [("692", "tok/s")] * 3),
    ("4.26 TB/s or 4,260 GB/s", [("4.26", "TB/s"), ("4,260", "GB/s")]),
    ("790 TFLOP/s, 790 TFLOPS", [("790", "TFLOP/s")] * 2),
    ("30× and 30 × and 30x and 30 times", [("30", "×")] * 4),
    ("a 4.2x speed-up; 19-fold", [("4.2", "×"), ("19", "×")]),
    ("92%, 92 %, 92 percent", [("92", "%")] * 3),
    ("2.2 GiB, 500 MB", [("2.2", "GiB"), ("500", "MB")]),
    ("at 1 / 8 / 16: 853 / 7,387 / 78 µs", [("853", "µs"), ("7,387", "µs"), ("78", "µs")]),
    ("3 to 5 ms, 3–5 %", [("3", "ms"), ("5", "ms"), ("3", "%"), ("5", "%")]),
    ("31, 42 and 7 ms", [("31", "ms"), ("42", "ms"), ("7", "ms")]),
    ("wrapped 100\nµs here", [("100", "µs")]),
    ("ten times faster than that", [("ten", "×")]),
    ("**100 µs**, _5 ms_", [("100", "µs"), ("5", "ms")]),
    ("in .5 ms or 1e-3 s or -2 %", [(".5", "ms"), ("1e-3", "s"), ("-2", "%")]),
    ("**7** ms, <b>7</b> ms, 7 **ms**, 7&nbsp;ms", [("7", "ms")] * 4),
    ("100k tok/s", [("100", "tok/s")]),
    ("from 3-5 ms to −2 %", [("3", "ms"), ("5", "ms"), ("−2", "%")]),
    ("- wrapped 100\n  µs, > 5\r\n> ms", [("100", "µs"), ("5", "ms")]),
    ("1.5 k tok/s, 2 Mtok/s, 3 tok per s, 4 t/s", [(n, "tok/s") for n in ("1.5", "2", "3", "4")]),
    ("90…135 µs, 7..8 ms, 5 up to 6 s",
     [("90", "µs"), ("135", "µs"), ("7", "ms"), ("8", "ms"), ("5", "s"), ("6", "s")]),
    ("0,5 ms and 12,75 %", [("0,5", "ms"), ("12,75", "%")]),
    ("5 \\%, 5&#160;ms, 2X", [("5", "%"), ("5", "ms"), ("2", "×")]),
    ("by a factor of 5.5, a speedup of 2; ×3 faster", [(n, "×") for n in ("5.5", "2", "3")]),
    ("Twice as fast, 30 times FlashAttention", [("Twice", "×"), ("30", "×")]),
])  # fmt: skip
def test_figures_are_found(text: str, found: list[tuple[str, str]]) -> None:
    assert figures(text) == found


@pytest.mark.parametrize("text", [
    "4 x 256 and 8 × 128",
    "a = 2 * x",
    "vLLM 0.28.0 splits",
    "2,112 bytes a token, 8 query tokens",
    "of 0.28 scratch, 3 styles, 5 memos",
    "an H200 has 132 SMs",
    "tried many times, a few seconds",
    "`7.4 ms` and ``a ` 5 %``",
    "```\n7.4 ms\n```\n",
    "~~~sh\n7.4 ms\n```\n5 %\n~~~\n",
    "> ```\n> 7.4 ms\n> ```\n",
    "Text:\n\n    7.4 ms\n\n    5 %\n",
    "<!-- took 7.4 ms -->",
    "[a](x/5%20b)",
    "ten times a day",
    "called 20 times, run 3 times in all, tried 5 times.",
    "5 `x` s and 5 <!-- x --> s",
    "in step 5\n\ns is taken; H200 × 8, twice as a test",
])  # fmt: skip
def test_what_is_none_is_left_alone(text: str) -> None:
    assert figures(text) == []


@pytest.mark.parametrize("text", [
    "```\ncode\n```\n7.4 ms\n",  # behind the fence
    "- item\n\n    7.4 ms in the item\n",  # a list's own paragraph is no code
    "text\n    7.4 ms\n",  # nor is a line that goes on
    "a ` tick\n\n7.4 ms and a ` tick\n",  # ticks of two paragraphs are no pair
    "`` a ` 7.4 ms",
    "\\`7.4 ms\\`",
    "```sh``` 7.4 ms\n",  # three ticks in a line are inline code
    "````\n```\n````\n7.4 ms\n",
    "<!-- a --> 7.4 ms <!-- b -->",
    "<!-- a\n```\n-->\n7.4 ms\n",  # in a comment a fence is none
    "```\n<!-- a\n```\n-->\n7.4 ms\n",  # nor is a comment in a fence
])  # fmt: skip
def test_prose_beside_code_is_no_code(text: str) -> None:
    assert figures(text) == [("7.4", "ms")]


def test_numbers_below_or_beside_a_unit_are_figures() -> None:
    text = (
        "| context | time, µs | `x`, ms | speed |\n"
        "|---|---:|---|---|\n"
        "| 4,096 | 51.5 / 50.2 | 7 | v2 |\n"
        "| 16,384 | **88** (n = 30) | 0.28.0 | 3 % |\n"
        "| GB/s | 1 | 2 | 3 |\n"
        "\n"
        "| 5 | 6 | 7 | 8 |\n"
    )
    assert figures(text) == [
        ("51.5", "µs"), ("50.2", "µs"), ("7", "ms"), ("88", "µs"), ("30", "µs"), ("3", "%"),
        ("1", "µs"), ("2", "ms"), ("3", "GB/s"),
    ]  # fmt: skip


def test_a_unit_behind_a_slash_and_a_speed_up_are_heads_too() -> None:
    text = "| VRAM/GiB | Speed-up | steps/s |\n|---|---|---|\n| 14 | 1.9 | 7 |\n"
    assert figures(text) == [("14", "GiB"), ("1.9", "×")]


def test_words_at_the_head_of_a_table_are_no_units() -> None:
    text = "| x | min | times | n |\n|---|---|---|---|\n| 1 | 2 | 3 | 4 |\n"
    assert figures(text) == []


def test_blanked_text_keeps_every_offset_and_line() -> None:
    text = "a\r\n```\r\n5 ms\r\n```\r\n<!-- x\r\n5 ms -->b 5 ms"
    prose, comments = markdown_prose(text)
    assert len(prose) == len(text)
    assert prose.count("\r\n") == text.count("\r\n")
    assert comments == [(19, "<!-- x\r\n5 ms -->")]
    assert prose.split("\r\n")[-1] == " " * 8 + "b 5 ms"


def test_of_a_patch_the_header_alone_is_read() -> None:
    head = "Description: saves 5 ms\n of `7 ms`\n\n"
    patch = head + "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-5 ms\n+4 ms\n"
    assert header_text(patch) == head
    assert header_text(head + "--- a/x\n+++ b/x\n") == head
    assert plain_prose(head) == "Description: saves 5 ms\n of " + " " * 6 + "\n\n"


@pytest.mark.parametrize(("value", "unit", "to", "amount"), [
    ("7386.7", "µs", "ms", "7.3867"),
    ("4260", "GB/s", "TB/s", "4.26"),
    ("1", "GiB", "MB", "1073.741824"),
    ("0.75", "×", "%", "75"),
    ("3", "lines", "lines", "3"),
])  # fmt: skip
def test_amounts_are_converted_exactly(value: str, unit: str, to: str, amount: str) -> None:
    assert convert(Decimal(value), unit, to) == Decimal(amount)


def test_a_decimal_comma_is_no_comma_of_thousands() -> None:
    values = [f.value for f in find_figures("0,5 ms, 1,500 ms, 1,500.5 ms, 1,5 ms", tables=False)]
    assert values == [Decimal("0.5"), Decimal(1500), Decimal("1500.5"), Decimal("1.5")]


def test_units_of_two_kinds_are_not_converted() -> None:
    assert convert(Decimal(1), "ms", "MB") is None
    assert convert(Decimal(1), "tok/s", "req/s") is None
    assert convert(Decimal(1), "lines", "ms") is None
    assert parse_unit("bytes") is None
