"""Figures against their marks: what is backed, and each way in which one is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchkit.records.claims import RULES, Judged, judge_text
from patchkit.records.record import Workload
from tests.records.made import BF16, LONG, header, library, row, store

ENGINE = {"engine": True, "tree": {"sha256": "cd" * 32, "release": "0.28.0"}}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a kernel and a record of it."""
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "verify.py").write_text("SPLITS = 8\n")
    store(
        tmp_path, "verify-h200",
        row("int8-q8", 100.04), row("bf16-q8", 133.4, BF16),
        row("copy", 4260.0, Workload(), measured="copy", unit="GB/s"),
    )  # fmt: skip
    return tmp_path


def judged(root: Path, text: str, place: str = "docs/kernels.md") -> Judged:
    """The text, held against the records of the project."""
    return judge_text(text, place, library(root))


def said(root: Path, text: str, place: str = "docs/kernels.md") -> list[tuple[str, str]]:
    """What is wrong with the text: rules and facts."""
    return [(f.rule, f.text) for f in judged(root, text, place).findings]


def of_record(figure: str, reference: str = "verify-h200#int8-q8", options: str = "") -> str:
    """A figure marked as one of record."""
    return f"is <!-- record: {reference} {options} -->{figure}<!-- /record -->"


def ratio(figure: str, options: str, pair: str = "verify-h200#int8-q8 / #bf16-q8") -> str:
    """A figure marked as the ratio of two rows."""
    return f"is <!-- ratio: {pair} {options} -->{figure}<!-- /ratio -->"


# Of record --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("figure", "reference", "options"), [
    ("100 µs", "verify-h200#int8-q8", ""),
    ("**100.0 µs**", "verify-h200#int8-q8", ""),
    ("0.10004 ms", "verify-h200#int8-q8", ""),
    ("100 us", "verify-h200#int8-q8.median", "format=.0f"),
    ("100", "verify-h200#int8-q8", "context=131072 batch=1 gpu=\"NVIDIA H200\""),
    ("100", "verify-h200#int8-q8", "context=131,072 kv_format=int8_per_token_head cache=cold"),
    ("99 µs", "verify-h200#int8-q8.min", ""),
    ("109 µs", "verify-h200#int8-q8.max", ""),
    ("0.4 µs", "verify-h200#int8-q8.spread", ""),
    ("30", "verify-h200#int8-q8.n", ""),
    ("4.26 TB/s", "verify-h200#copy", ""),
    ("4,260 GB/s", "verify-h200#copy", "format=,.0f"),
])  # fmt: skip
def test_a_figure_that_its_record_gives_is_backed(
    root: Path, figure: str, reference: str, options: str
) -> None:
    text = f"It takes {of_record(figure, reference, options)} there.\n"
    result = judged(root, text)
    assert result.findings == ()
    assert result.filled == text
    assert result.counts == {"record": 1}


@pytest.mark.parametrize(("figure", "filled", "number"), [
    ("92 µs", "100 µs", "100"),  # the spread is no leave to round otherwise
    ("101 µs", "100 µs", "100"),
    ("0.11 ms", "0.10 ms", "0.10"),
    ("**99.97 µs**", "**100.04 µs**", "100.04"),
    ("0 ms", "0.100 ms", "0.100"),  # nothing that is not 0 is 0
    ("ten times faster", None, None),
])  # fmt: skip
def test_another_figure_is_a_finding_and_is_filled_in(
    root: Path, figure: str, filled: str | None, number: str | None
) -> None:
    result = judged(root, of_record(figure))
    (finding,) = result.findings
    assert finding.rule == "mismatched"
    if number is not None:
        unit = figure.strip("*").split()[-1]
        shown = figure.strip("*").split()[0]
        assert finding.text == f"the figure is {shown}, the record gives {number} {unit}"
    assert result.filled == of_record(filled or figure)
    assert judged(root, result.filled).findings == (() if filled else result.findings)


def test_a_unit_behind_the_mark_is_read_as_the_figures_own(root: Path) -> None:
    assert said(root, of_record("100") + " µs") == []
    assert said(root, of_record("100") + " ms") == [
        ("mismatched", "the figure is 100, the record gives 0.100 ms")
    ]
    assert judged(root, of_record("100") + " ms").filled == of_record("0.100") + " ms"
    assert said(root, of_record("100 µs") + " s") == []
    assert said(root, of_record("100k µs")) == [
        ("bad-mark", "holds a number with a letter for its thousands")
    ]


def test_several_figures_of_a_text_are_filled_in_each_at_its_place(root: Path) -> None:
    pair = "{}, then {} and {}\n"
    wrong = pair.format(of_record("9 µs"), of_record(""), of_record("12345 µs"))
    right = pair.format(of_record("100 µs"), of_record("100 µs"), of_record("100 µs"))
    assert judged(root, wrong).filled == right


def test_an_empty_mark_is_filled_with_number_and_unit(root: Path) -> None:
    for options, filled in [("", "100 µs"), ("unit=ms", "0.100 ms"), ("format=.2f", "100.04 µs")]:
        result = judged(root, of_record("", options=options))
        assert [f.rule for f in result.findings] == ["mismatched"]
        assert result.filled == of_record(filled, options=options)
        assert judged(root, result.filled).findings == ()
    empty = of_record("", "verify-h200#int8-q8.n")
    assert said(root, empty) == [("mismatched", "nothing is filled in, the record gives 30")]
    assert judged(root, empty).filled == of_record("30", "verify-h200#int8-q8.n")


def test_a_figure_is_held_against_the_unit_at_the_head_of_its_column(root: Path) -> None:
    table = "| context | ms |\n|---|---|\n| 128k | {} |\n"
    assert said(root, table.format(of_record("0.100"))) == []
    assert said(root, table.format(of_record("100"))) == [
        ("mismatched", "the figure is 100, the record gives 0.100 ms")
    ]
    assert said(root, table.format("0.100")) == [
        ("unmarked", "0.100 (ms) says nothing of its source")
    ]


@pytest.mark.parametrize(("text", "rule", "fact"), [
    (of_record("100 µs", "verify-h100#int8-q8"), "missing-record", "no record verify-h100"),
    (of_record("100 µs", "verify-h200#int8-q9"), "missing-row",
     "record verify-h200 has no row int8-q9"),
    (of_record("100 µs", "verify-h200#int8-q8.mean"), "missing-row",
     "record verify-h200 has no row int8-q8.mean"),
    (of_record("100 µs", "verify-h200"), "bad-mark",
     "'verify-h200' names no row, as in RECORD#ROW"),
    (of_record("100 MB"), "mismatched", "the figure is in MB, its source in µs"),
    (of_record("fast"), "bad-mark", "holds no figure: 'fast'"),
    (of_record("`100 µs`"), "bad-mark", "holds no figure: 'code'"),
    (of_record(f"100.{'0' * 40} µs"), "bad-mark", "holds or gives a number of too many digits"),
    ('is <!-- arithmetic: "10 ** 90 * 3 / 7" -->5 ms<!-- /arithmetic -->', "bad-mark",
     "holds or gives a number of too many digits"),
    (of_record("100 µs or 5 ms"), "bad-mark", "holds 2 figures, and each needs a mark"),
    (of_record("100 µs", options="format=s"), "bad-mark",
     "format=s is none such as .0f, ,.1f or .3g"),
    (of_record("100 µs", options="unit=parsecs"), "bad-mark", "unit=parsecs is no unit"),
    (of_record("100 µs", options="contxt=5"), "bad-mark", None),
    (of_record("100 µs", options="batch=1 batch=1"), "bad-mark", "batch= is there twice"),
])  # fmt: skip
def test_a_mark_that_backs_nothing_is_a_finding(
    root: Path, text: str, rule: str, fact: str | None
) -> None:
    ((found, text_found),) = said(root, text)
    assert found == rule
    assert fact is None or text_found == fact


def test_the_nearest_name_is_said(root: Path) -> None:
    (finding,) = judged(root, of_record("100 µs", "verify-h20#int8-q8")).findings
    assert finding.hint == "did you mean verify-h200?"


@pytest.mark.parametrize(("text", "fact"), [
    ("<!-- record: verify-h200#int8-q8 -->", "is not closed by <!-- /record -->"),
    ("<!-- /ratio -->", "nothing opens this /ratio"),
    ("<!-- records: verify-h200#int8-q8 -->", "'records' is no kind of mark"),
    ("[arithmetic: 1 + 1]", "stands behind no figure"),
    ("5 ms elsewhere [record: a#b]", "stands behind no figure"),
])  # fmt: skip
def test_a_broken_mark_is_not_passed_over(root: Path, text: str, fact: str) -> None:
    assert ("bad-mark", fact) in said(root, text)


@pytest.mark.parametrize(("text", "broken"), [
    ("{}100 µs<!-- /record --> x\n", True),
    ("a\n  {}100 µs<!-- /record -->\n", True),
    ("a {}100 µs\n<!-- /record --> b\n", True),
    ("a {}100 µs<!-- /record -->\nb\n", False),
    ("- {}100 µs<!-- /record -->\n", False),
    ("{}\n100 µs\n<!-- /record -->\n", False),
])  # fmt: skip
def test_a_comment_that_begins_a_line_would_be_taken_for_html(
    root: Path, text: str, broken: bool
) -> None:
    found = said(root, text.format("<!-- record: verify-h200#int8-q8 -->"))
    fact = "begins a line, which Markdown takes for HTML"
    assert found == ([("bad-mark", fact)] if broken else [])


def test_a_record_is_named_without_its_day_and_the_newest_is_meant(root: Path) -> None:
    store(root, "verify-2026-11-29-h200", row("b", 5.0), began="2026-11-29T10:00:00+00:00")
    store(root, "verify-2026-12-01-h200", row("b", 7.0), began="2026-12-01T10:00:00+00:00")
    store(root, "verify-2026-12-02-cpu", row("b", 9.0), began="2026-12-02T10:00:00+00:00", gpu=None)
    assert said(root, of_record("7 µs", "verify-nope#b"))[0][0] == "missing-record"
    (root / "docs/records/verify-h200.json").unlink()
    assert said(root, of_record("7 µs", "verify-h200#b")) == []
    assert said(root, of_record("9 µs", "verify-cpu#b")) == []
    assert said(root, of_record("5 µs", "verify-2026-11-29-h200#b")) == []


def test_a_mark_inside_code_is_none_and_one_inside_another_neither(root: Path) -> None:
    assert said(root, f"```\n{of_record('1 ms')}\n```\n`{of_record('1 ms')}`\n") == []
    nested = f"<!-- record: verify-h200#int8-q8 -->{of_record('100 µs')}<!-- /record -->"
    assert ("bad-mark", "is not closed by <!-- /record -->") in said(root, nested)


# What makes a record worthless ------------------------------------------------------------------


def test_a_record_whose_source_changed_is_stale(root: Path) -> None:
    (root / "kernels" / "verify.py").write_text("SPLITS = 9\n")
    text = of_record("92 µs")
    result = judged(root, text)
    assert [(f.rule, f.text, f.hint) for f in result.findings] == [
        ("stale", "record verify-h200 is stale: kernels has changed since", "measure again")
    ]
    assert result.filled == text


@pytest.mark.parametrize("change", ["more", "gone"])
def test_a_source_with_a_new_file_or_gone_is_another(root: Path, change: str) -> None:
    if change == "more":
        (root / "kernels" / "more.py").write_text("")
    else:
        (root / "kernels" / "verify.py").unlink()
        (root / "kernels").rmdir()
    assert [rule for rule, _ in said(root, of_record("100 µs"))] == ["stale"]


def test_under_git_a_new_file_makes_a_source_another_unless_it_is_ignored(project: Path) -> None:
    store(project, "verify-h200", row("a", 100.0))
    text = of_record("100 µs", "verify-h200#a")
    (project / "kernels" / "built.so").write_text("")
    assert said(project, text) == []
    (project / "kernels" / "more.py").write_text("")
    assert [rule for rule, _ in said(project, text)] == ["stale"]


def test_an_edited_record_backs_nothing(root: Path) -> None:
    path = root / "docs/records/verify-h200.json"
    path.write_text(path.read_text().replace("100.04", "90.04"))
    assert said(root, of_record("90 µs")) == [
        ("edited-record",
         "record verify-h200 was edited: its content is not what its digest says"),
    ]  # fmt: skip
    assert [name for name, _ in library(root).refused()] == ["verify-h200"]


def test_an_engines_figure_needs_a_verified_tree(root: Path) -> None:
    served = row("decode", 876.0, unit="tok/s", measured="decode")
    store(root, "served", served)
    store(root, "startup", row("load", 40.0, unit="s"), engine=True)
    store(root, "patched", served, **ENGINE)
    fact = "measured an engine and has no verified tree"
    assert said(root, of_record("876 tok/s", "served#decode")) == [
        ("no-tree", f"record served {fact}")
    ]
    assert said(root, of_record("40 s", "startup#load")) == [("no-tree", f"record startup {fact}")]
    assert said(root, of_record("876 tok/s", "patched#decode", "release=0.28.0")) == []
    assert said(root, of_record("876 tok/s", "patched#decode", "release=0.29.0")) == [
        ("other-workload", "record patched: release is 0.28.0, the mark says 0.29.0")
    ]


# Another workload -------------------------------------------------------------------------------


@pytest.fixture
def served(root: Path) -> Path:
    """Throughput measured at 32,768 tokens, decode of 4 new tokens."""
    short = Workload(context=32768, new_tokens=4, batch=8, kv_format="bf16", cache="warm")
    store(root, "served", row("decode", 692.0, short, unit="tok/s"), **ENGINE)
    return root


def test_throughput_measured_at_one_length_is_not_quoted_for_another(served: Path) -> None:
    quoted = of_record("692 tok/s", "served#decode", "context=65536")
    assert said(served, quoted) == [
        ("other-workload", "record served: context is 32768, the mark says 65536")
    ]
    in_words = f"With 65,536 tokens it makes {of_record('692 tok/s', 'served#decode')}.\n"
    assert said(served, in_words) == [
        (
            "other-workload",
            "the text says 65,536 tokens, the record has context 32768, new_tokens 4",
        )
    ]
    assert said(served, in_words.replace("65,536", "32,768")) == []
    assert said(served, in_words.replace("65,536", "32k")) == []
    assert said(served, "65,536 tokens is much. " + in_words.replace("65,536", "32k")) == []


def test_decode_of_four_new_tokens_is_not_quoted_for_more(served: Path) -> None:
    assert said(served, of_record("692 tok/s", "served#decode", "new_tokens=512")) == [
        ("other-workload", "record served: new_tokens is 4, the mark says 512")
    ]
    text = f"Decoding 512 new tokens runs at {of_record('692 tok/s', 'served#decode')}"
    assert said(served, text) == [
        ("other-workload", "the text says 512 new tokens, the record has new_tokens 4")
    ]
    assert said(served, text.replace("512", "4")) == []


def test_the_row_of_a_table_is_held_against_the_lengths_in_it(served: Path) -> None:
    head = "| prompt | speed |\n|---|---|\n| 65,536 tokens | 5 |\n"
    line = f"| {{}} tokens | {of_record('692 tok/s', 'served#decode')} |\n"
    assert said(served, head + line.format("32,768")) == []
    assert [rule for rule, _ in said(served, head + line.format("16,384"))] == ["other-workload"]


# Ratios -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("figure", "options"), [
    ("0.75×", "compare=kv_format"),
    ("75 %", "compare=kv_format context=131072"),
    ("25 %", "compare=kv_format as=less"),
    ("-25 %", "compare=kv_format as=more"),
])  # fmt: skip
def test_a_ratio_of_rows_that_differ_in_one_thing_is_backed(
    root: Path, figure: str, options: str
) -> None:
    assert said(root, ratio(figure, options)) == []
    assert judged(root, ratio(figure, options)).counts == {"ratio": 1}


def test_a_ratio_is_filled_in(root: Path) -> None:
    assert judged(root, ratio("", "compare=kv_format")).filled == ratio(
        "0.750×", "compare=kv_format"
    )
    assert judged(root, ratio("0.750×", "compare=kv_format")).findings == ()
    # 100.04 / 133.4 is 0.74993; the other way around it would be 1.33
    assert said(root, ratio("0.70×", "compare=kv_format")) == [
        ("mismatched", "the figure is 0.70, the ratio gives 0.75 ×")
    ]


def test_two_records_that_differ_in_more_are_refused_and_the_fields_named(root: Path) -> None:
    other = replace(BF16, draft_length=3, cached_tokens=0)
    gpu = header(root)["gpu"] | {"power_limit_w": 500.0}
    store(root, "limited", row("bf16-q8", 133.4, other), gpu=gpu)
    text = ratio("0.75×", "compare=kv_format", "verify-h200#int8-q8 / limited#bf16-q8")
    assert said(root, text) == [
        ("not-comparable",
         "the rows differ in more than kv_format: draft_length: 7 and 3; "
         "cached_tokens: 131064 and 0; power_limit_w: 700.0 and 500.0"),
    ]  # fmt: skip
    assert judged(root, text).filled == text


MACHINE: dict[str, Any] = {"cpu": "Xeon", "cores": 16}
VERSIONS = {"python": "3.12.3", "torch": "2.11.0", "triton": "3.6.0", "vllm": "0.28.0"}


@pytest.mark.parametrize(("name", "workload", "fields", "options"), [
    ("context", {"context": 65536}, {}, {}),
    ("new_tokens", {"new_tokens": 1}, {}, {}),
    ("batch", {"batch": 8}, {}, {}),
    ("draft_length", {"draft_length": None}, {}, {}),
    ("cached_tokens", {"cached_tokens": 0}, {}, {}),
    ("block_size", {"block_size": 16}, {}, {}),
    ("cache", {"cache": "warm"}, {}, {}),
    ("subject", {}, {"subject": "FlashAttention 3"}, {}),
    ("measured", {}, {"measured": "prefill"}, {}),
    ("unit", {}, {"unit": "ms"}, {}),
    ("gpu", {}, {}, {"gpu": "name"}),
    ("driver", {}, {}, {"gpu": "driver"}),
    ("torch", {}, {}, {"machine": {**MACHINE, "versions": VERSIONS | {"torch": "2.12.0"}}}),
    ("vllm", {}, {}, {"machine": {**MACHINE, "versions": VERSIONS | {"vllm": None}}}),
    ("cpu", {}, {}, {"machine": {**MACHINE, "cpu": "EPYC", "versions": VERSIONS}}),
    ("cores", {}, {}, {"machine": {**MACHINE, "cores": 2, "versions": VERSIONS}}),
    ("command", {}, {}, {"command": ["bench.py", "--eager"]}),
    ("command", {}, {}, {"command": ["bench.py --graphs"]}),
])  # fmt: skip
def test_each_other_condition_makes_two_rows_incomparable(
    root: Path, name: str, workload: dict[str, Any], fields: dict[str, Any], options: dict[str, Any]
) -> None:
    if "gpu" in options:
        options = {"gpu": header(root)["gpu"] | {options["gpu"]: "other"}}
    store(root, "other", row("bf16-q8", 133.4, replace(BF16, **workload), **fields), **options)
    text = ratio("0.75×", "compare=kv_format", "verify-h200#int8-q8 / other#bf16-q8")
    ((rule, fact),) = said(root, text)
    assert rule == "not-comparable"
    assert fact.startswith(f"the rows differ in more than kv_format: {name}: ")
    assert fact.count(";") == 0


def test_the_variant_behind_a_comma_and_the_thing_compared_in_the_command_may_differ(
    root: Path,
) -> None:
    one, other = ["b.py", "--kv=int8_per_token_head"], ["b.py", "--kv=bf16", "--manifest", "x"]
    store(root, "one", row("a", 100.0, measured="verify, int8"), command=one)
    store(root, "other", row("a", 200.0, BF16, measured="verify, bf16"), command=other)
    assert said(root, ratio("0.50×", "compare=kv_format", "one#a / other#a")) == []


def test_a_patched_tree_is_compared_with_another_of_its_release(root: Path) -> None:
    local = {"machine": {**MACHINE, "versions": VERSIONS | {"vllm": "0.28.0+patchkit.1"}}}
    store(root, "one", row("a", 100.0), **ENGINE, **local)
    tree = {"sha256": "ef" * 32, "release": "0.28.0"}
    store(root, "other", row("a", 200.0), engine=True, tree=tree)
    assert said(root, ratio("2.0×", "compare=tree", "other#a / one#a")) == []
    newer = {"engine": True, "tree": {"sha256": "ef" * 32, "release": "0.29.0"}}
    store(root, "other", row("a", 200.0), **newer)
    ((rule, fact),) = said(root, ratio("2.0×", "compare=tree", "other#a / one#a"))
    assert (rule, fact) == (
        "not-comparable", "the rows differ in more than tree: release: 0.29.0 and 0.28.0",
    )  # fmt: skip


def test_what_follows_from_a_length_may_differ_with_it(root: Path) -> None:
    """Of a kernel all but the new tokens are cached, and all new tokens but one are drafts."""
    short = replace(LONG, context=65536, cached_tokens=65528)
    one = replace(LONG, new_tokens=1, draft_length=0, cached_tokens=131071)
    other = replace(LONG, context=65536, cached_tokens=9)
    drafts = replace(LONG, new_tokens=1, draft_length=3, cached_tokens=131071)
    store(root, "rows", *(row(name, 50.02, workload) for name, workload in (
        ("short", short), ("one", one), ("other", other), ("drafts", drafts),
    )))  # fmt: skip
    pair = "verify-h200#int8-q8 / rows#{}"
    assert said(root, ratio("2.0×", "compare=context", pair.format("short"))) == []
    assert said(root, ratio("2.0×", "compare=new_tokens", pair.format("one"))) == []
    differ = "the rows differ in more than {}: {}"
    for name, compare, fields in (
        ("other", "context", "cached_tokens: 131064 and 9"),
        ("drafts", "new_tokens", "draft_length: 7 and 3"),
        ("short", "kv_format", "context: 131072 and 65536; cached_tokens: 131064 and 65528"),
        ("one", "draft_length", "new_tokens: 8 and 1; cached_tokens: 131064 and 131071"),
    ):
        assert said(root, ratio("2.0×", f"compare={compare}", pair.format(name))) == [
            ("not-comparable", differ.format(compare, fields))
        ]


def test_a_sentence_may_state_the_length_of_either_row(root: Path) -> None:
    store(root, "short", row("a", 50.02, replace(LONG, context=65536)))
    stated = "At 65,536 tokens of context it "
    pair = ratio("2.0×", "compare=context", "verify-h200#int8-q8 / short#a")
    assert said(root, stated + pair) == []
    assert said(root, stated.replace("65,536", "16,384") + pair) == [
        (
            "other-workload",
            "the text says 16,384 tokens, the record has context 131072, new_tokens 8, "
            "cached_tokens 131064, draft_length 7, block_size 448, context 65536",
        )
    ]


@pytest.mark.parametrize(("options", "pair", "rule", "fact"), [
    ("compare=kv_format", "verify-h200#int8-q8 / #int8-q8", "not-comparable",
     "the rows do not differ in kv_format"),
    ("compare=kv_format", "verify-h200#int8-q8.min / #bf16-q8", "not-comparable",
     "min and value are compared"),
    ("compare=kv_format", "verify-h200#int8-q8", "bad-mark",
     "'verify-h200#int8-q8' is no ratio, as in RECORD#ROW / RECORD#ROW"),
    ("compare=kvformat", "verify-h200#int8-q8 / #bf16-q8", "bad-mark",
     "compare=kvformat names nothing that two rows may differ in"),
    ("compare=measured", "verify-h200#int8-q8 / #bf16-q8", "bad-mark",
     "compare=measured names nothing that two rows may differ in"),
    ("", "verify-h200#int8-q8 / #bf16-q8", "bad-mark",
     "compare= names nothing that two rows may differ in"),
    ("compare=kv_format as=faster", "verify-h200#int8-q8 / #bf16-q8", "bad-mark",
     "as=faster is neither of, more nor less"),
    ("compare=kv_format context=65536", "verify-h200#int8-q8 / #bf16-q8", "other-workload",
     "record verify-h200: context is 131072, the mark says 65536"),
])  # fmt: skip
def test_a_ratio_of_nothing_is_refused(
    root: Path, options: str, pair: str, rule: str, fact: str
) -> None:
    assert said(root, ratio("0.75×", options, pair)) == [(rule, fact)]


# Published, and sums ----------------------------------------------------------------------------


def test_a_published_figure_has_a_source_and_conditions(root: Path) -> None:
    mark = "is <!-- published: {} -->7.4 ms against 1.3 ms<!-- /published -->"
    whole = 'source="a pull request" conditions="RTX 3090, one layer, 8 query tokens"'
    assert said(root, mark.format(whole)) == []
    for options, lacking in [('source="x"', "conditions"), ('conditions="x"', "source"),
                             ('source=" " conditions="x"', "source"), ("", "source")]:  # fmt: skip
        assert said(root, mark.format(options)) == [
            ("no-source", f"a published figure without its {lacking}")
        ]
    assert said(root, "is <!-- published: source=x conditions=y -->fast<!-- /published -->") == [
        ("bad-mark", "holds no figure")
    ]
    assert said(root, mark.format(whole + " context=5")) == [
        ("bad-mark", "context= means nothing in a mark of published")
    ]


def test_a_sum_is_worked_out(root: Path) -> None:
    mark = 'is <!-- arithmetic: "100 * 16 * 2112 / 1797120" -->{}<!-- /arithmetic -->'
    assert said(root, mark.format("1.88 %")) == []
    assert said(root, mark.format("1.89 %")) == [
        ("mismatched", "the figure is 1.89, the sum gives 1.88 %")
    ]
    assert judged(root, mark.format("2.1 %")).filled == mark.format("1.9 %")
    assert [rule for rule, _ in said(root, mark.replace("16 *", "x *").format("1.88 %"))] == [
        "bad-mark"
    ]


# Plain text -------------------------------------------------------------------------------------


def test_in_a_patch_header_the_mark_stands_in_brackets_behind_the_figure(root: Path) -> None:
    text = (
        "Description: Split the verify\n"
        " It takes 100 µs [record: verify-h200#int8-q8\n context=131072] and 75 %\n"
        " [ratio: verify-h200#int8-q8 / #bf16-q8 compare=kv_format] of that, 1.88 %\n"
        " [arithmetic: 100 * 16 * 2112 / 1,797,120] of it, published 7.4 ms\n"
        ' [published: source="PR 1" conditions="one layer, 5 ms pause"].\n'
        "\n"
        "diff --git a/x b/x\n+# 5 ms\n"
    )
    result = judged(root, text, "patches/v0.28.0/verify.patch")
    assert result.findings == ()
    assert result.counts == {"record": 1, "ratio": 1, "arithmetic": 1, "published": 1}
    wrong = text.replace("100 µs", "90 µs").replace("context=131072", "context=131072 batch=1")
    assert judged(root, wrong, "x.patch").filled == wrong.replace("90 µs", "100 µs")
    assert said(root, text.replace("[record: ", "[recorded: "), "x.patch") == [
        ("unmarked", "100 µs says nothing of its source")
    ]


def test_brackets_that_a_generated_page_escaped_are_read(root: Path) -> None:
    text = "used 1.88 % \\[arithmetic: 100 \\* 16 \\* 2112 / 1797120\\] of it\n"
    assert said(root, text) == []


def test_lines_and_places_are_those_of_the_file(root: Path) -> None:
    text = "a\r\n\r\n```\r\n1 ms\r\n```\r\n2 ms\r\n" + of_record("92 µs") + "\r\n"
    result = judged(root, text)
    assert [(f.place, f.lineno, f.rule) for f in result.findings] == [
        ("docs/kernels.md", 6, "unmarked"), ("docs/kernels.md", 7, "mismatched"),
    ]  # fmt: skip
    assert result.filled == text.replace("92 µs", "100 µs")


def test_every_rule_has_a_test_here() -> None:
    source = Path(__file__).read_text()
    assert [rule for rule in RULES if f'"{rule}"' not in source] == []


def test_the_value_compared_is_the_samples_median_not_its_spread(root: Path) -> None:
    store(root, "spread", replace(row("a", 50.0, LONG), least=1.0, most=2.0))
    assert said(root, of_record("50 µs", "spread#a")) == []
