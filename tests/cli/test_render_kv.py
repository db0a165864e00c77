"""What people see of plans: hand-made ones, whole pages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from patchkit.cli import fitting, render_kv
from patchkit.cli.kv_document import Asked, plan_document
from patchkit.cli.kv_memory import Memory
from patchkit.kv.layers import AttentionLayer, Model, StateLayer
from patchkit.kv.planned import Options, Plan, Refusal
from patchkit.report import counted
from tests.kv.made_plans import MEMORY_BYTES, NVFP4, OPTIONS, auto, int4, kvarn

Out = pytest.CaptureFixture[str]
LAYERS = (
    *(AttentionLayer(n, 4, 256, 256) for n in range(16)),
    *(StateLayer(n, ()) for n in range(48)),
    *(AttentionLayer(n, 4, 256, 256, 2048, drafter=True) for n in range(5)),
)
MEMORY = Memory(MEMORY_BYTES)
MODEL = Model("golden", "Qwen3NextForCausalLM", "bfloat16", 64, 24, 245_760, LAYERS, ("no vision",))


def document(
    *outcomes: Plan | Refusal, compare: bool = False, memory: Memory = MEMORY,
    options: Options = OPTIONS, lengths: tuple[int, ...] = (4096, 32_768, 245_760),
) -> dict[str, Any]:  # fmt: skip
    asked = Asked(MODEL, "v0.28.0", options, memory, lengths, ("what was said",), compare)
    return plan_document(asked, outcomes)


def test_a_plan_is_shown_whole(capsys: Out) -> None:
    render_kv.show_plans(document(kvarn()))
    assert (
        capsys.readouterr().out
        == """\
golden: Qwen3NextForCausalLM, bfloat16, 16 full + 5 window + 48 state layers, 5
  of them a drafter's
vLLM 0.28.0 on cuda; the cache has 4.900 GiB (5,261,334,938 B)

kvarn_k4v2_g128
  tokens            268,169 in all; the engine logs it as `KV cache size`
  concurrency       1.09 requests of 245,760 tokens at once
  longest request   245,760 tokens, of 245,760
  at once           3 requests of 4,096 tokens, or 2 of 32,768, or 1 of 245,760
  limited by        the 245,760 tokens of the model

                                    full         state        window
  format                 kvarn_k4v2_g128             -          auto
  layers                              16            48             5
  groups (block tables)                2             6             1
  window                               -             -  2,048 tokens
  a token in one layer             840 B             -       4,096 B
  block                     2,176 tokens  2,176 tokens    128 tokens
  block as it is born          16 tokens  2,176 tokens     16 tokens
  kernel block                 16 tokens             -     16 tokens
  page                       1,827,840 B   1,827,840 B   1,827,840 B
  padding in it                     none      50,176 B   1,303,552 B
  padding / page                  0.00 %        2.75 %       71.32 %
  blocks of a request        113 a group     9 a group    49 a group

  one block         14,622,720 B: 8 pages of 1,827,840 B
  one request       329 blocks for 245,760 tokens (2 x 113 + 6 x 9 + 1 x 49), of
                    359; 4.480 GiB (4,810,874,880 B)
  fixed state       0.735 GiB (789,626,880 B) a request, of any length
  16-bit tail       0.547 GiB (587,202,560 B) beside the pages, for 64 requests
  how               a block of 2,176 tokens is 17 tiles
                    windows from 16 to 128 tokens
  note              states in float16

  assumed           no vision
                    what was said
"""
    )


def test_one_that_does_not_start_says_by_how_much(capsys: Out) -> None:
    render_kv.show_plans(document(auto()))
    shown = capsys.readouterr().out
    assert (
        """
auto
  does not start    one request of 245,760 tokens needs 15.955 GiB
                    (17,131,634,688 B), 4.900 GiB (5,261,334,938 B) are there
  longest request   64,512 tokens, of 245,760; --max-model-len 64512 starts
  at once           4 requests of 4,096 tokens, or 1 of 32,768, or 0 of 245,760
  limited by        memory
"""
        in shown
    )
    assert "16-bit tail" not in shown
    assert "KV cache size" not in shown


def test_where_but_the_spare_block_is_missing_that_is_said(capsys: Out) -> None:
    plan = kvarn()
    plan = dataclasses.replace(plan, fits=False, available_bytes=plan.needed_bytes)
    render_kv.show_plans(document(plan))
    shown = " ".join(capsys.readouterr().out.split())
    there = "4.480 GiB (4,810,874,880 B)"
    assert f"needs {there}, {there} are there, of which one block is never given out" in shown


def test_tails_that_take_all_there_is_are_said_to(capsys: Out) -> None:
    plan = dataclasses.replace(kvarn(), fits=False, longest=0, available_bytes=-1)
    render_kv.show_plans(document(plan))
    assert (
        """
  does not start    one request of 245,760 tokens needs 4.480 GiB
                    (4,810,874,880 B), and 16-bit tails alone take 0.547 GiB
                    (587,202,560 B)
  longest request   0 tokens, of 245,760
"""
        in capsys.readouterr().out
    )


def test_formats_are_compared_in_a_line_each(capsys: Out) -> None:
    render_kv.show_plans(document(auto(), int4(), NVFP4, kvarn(), compare=True))
    assert (
        capsys.readouterr().out
        == """\
golden: Qwen3NextForCausalLM, bfloat16, 16 full + 5 window + 48 state layers, 5
  of them a drafter's
vLLM 0.28.0 on cuda; the cache has 4.900 GiB (5,261,334,938 B)

                              longest    requests at once of     bytes  tokens
format                tokens  request  4,096  32,768  245,760  a token  / auto
auto                  75,391   64,512      4       1        0   65,536    1.00
int4_per_token_head  258,435  245,760      5       3        1   16,896    3.43
kvarn_k4v2_g128      268,169  245,760      3       2        1   13,440    3.56

tokens: in all, as the engine logs them; bytes a token: in all layers that keep
every token, without padding; longest request in tokens; requests at once of so
many tokens
do not start with 245,760 tokens: auto

nvfp4: refused: no card that is named has it, expected a B200
  hint: see the formats

  assumed           no vision
                    what was said
                    states in float16
"""
    )


def test_a_table_that_is_too_wide_goes_on_below(capsys: Out) -> None:
    lengths = tuple(n * 1024 for n in range(1, 11))
    render_kv.show_plans(document(auto(), compare=True, lengths=lengths))
    shown = capsys.readouterr().out
    assert max(map(len, shown.split("\n"))) <= 80
    assert shown.count("\nauto  ") == 2
    for length in lengths:
        assert f"{length:,}" in shown
    assert "auto: states in float16" in shown
    assert "requests at once of  " not in shown  # a heading would stand over some of them only


def test_few_lengths_have_a_shorter_heading(capsys: Out) -> None:
    for lengths, heading in (((4096, 245_760), "longest     at once of     bytes  tokens"),
                             ((245_760,), "longest  at once of bytes  tokens"),
                             ((10_000,), "longest at once of bytes  tokens")):  # fmt: skip
        render_kv.show_plans(document(auto(), compare=True, lengths=lengths))
        shown = capsys.readouterr().out.split("\n")
        assert next(line for line in shown if "longest" in line).endswith(heading)


def test_a_table_that_just_does_not_fit_is_set_closer(capsys: Out) -> None:
    lengths = (4096, 32_768, 65_536, 245_760)
    render_kv.show_plans(document(auto(), int4(), kvarn(), compare=True, lengths=lengths))
    shown = capsys.readouterr().out.split("\n")
    assert shown[5].split() == [
        "format", "tokens", "request", "4,096", "32,768", "65,536", "245,760", "a", "token",
        "/", "auto",
    ]  # fmt: skip
    assert 76 < len(shown[5]) <= 80


def test_refusals_for_one_reason_are_said_once(capsys: Out) -> None:
    refusals = [
        Refusal(name, "v0.28.0", reason.format(name))
        for reason in ("{} has no windows", "the CPU has no backend for {}", "bad tiles of {}")
        for name in ("fp8", "fp8_e4m3")
    ]
    render_kv.show_plans(document(*refusals, compare=True))
    assert capsys.readouterr().out.split("\n")[3:7] == [
        "",
        "fp8, fp8_e4m3: refused: has no windows",
        "fp8, fp8_e4m3: refused: the CPU has no backend for it",
        "fp8, fp8_e4m3: refused: bad tiles",
    ]


def test_what_is_assumed_for_some_formats_names_them(capsys: Out) -> None:
    plans = [
        dataclasses.replace(plan, notes=notes)
        for plan, notes in (
            (auto(), ("all of it",)),
            (int4(), ("int4_per_token_head needs a card", "all of it")),
            (kvarn(), ("kvarn_k4v2_g128 needs a card", "all of it")),
        )
    ]
    render_kv.show_plans(document(*plans, compare=True))
    assert capsys.readouterr().out.endswith("""
                    all of it
                    int4_per_token_head, kvarn_k4v2_g128: needs a card
""")


def test_a_number_of_requests_that_is_the_most_is_marked(capsys: Out) -> None:
    options = dataclasses.replace(OPTIONS, max_num_seqs=3)
    render_kv.show_plans(document(kvarn(), options=options))
    assert (
        """\
  at once           3 requests of 4,096 tokens, or 2 of 32,768, or 1 of 245,760;
                    3 at most (--max-num-seqs)
"""
        in capsys.readouterr().out
    )
    render_kv.show_plans(document(kvarn(), options=options, compare=True))
    shown = " ".join(capsys.readouterr().out.split())
    assert "requests at once of so many tokens; 3 at most (--max-num-seqs)" in shown


def test_layers_that_share_a_block_table_are_said_to(capsys: Out) -> None:
    plan = kvarn()
    kinds = (*plan.kinds[:2], dataclasses.replace(plan.kinds[2], groups=0))
    render_kv.show_plans(document(dataclasses.replace(plan, kinds=kinds)))
    shown = capsys.readouterr().out
    assert "  groups (block tables)                2             6        shared\n" in shown
    assert "  blocks of a request        113 a group     9 a group        shared\n" in shown
    assert "(2 x 113 + 6 x 9), of 359" in " ".join(shown.split())


def test_one_group_needs_no_sum(capsys: Out) -> None:
    plan = kvarn()
    kind = dataclasses.replace(plan.kinds[0], groups=1)
    render_kv.show_plans(document(dataclasses.replace(plan, kinds=(kind,))))
    shown = " ".join(capsys.readouterr().out.split())
    assert "329 blocks for 245,760 tokens, of 359;" in shown


def test_a_unit_stays_with_its_number() -> None:
    text = "x" * 70 + " 5,261,334 B and"
    assert render_kv.wrapped(text) == ["x" * 70, "5,261,334 B and"]
    assert render_kv.wrapped("x" * 75 + " 7 Bytes") == ["x" * 75 + " 7", "Bytes"]
    assert render_kv.wrapped("x" * 70 + " of 21.09 % of it") == ["x" * 70 + " of", "21.09 % of it"]


def test_ranks_a_card_and_a_pristine_release_are_said(capsys: Out) -> None:
    memory = Memory(1 << 30, 24 << 30, Decimal("0.9"), 31 << 30, 3 << 29)
    options = dataclasses.replace(
        OPTIONS, tensor_parallel=2, pipeline_parallel=2, promotion=False, platform="cpu"
    )
    render_kv.show_plans(document(NVFP4, memory=memory, options=options))
    assert capsys.readouterr().out.split("\n")[2:8] == [
        "vLLM 0.28.0 on cpu, pristine; the cache of each of 4 ranks has 1.000 GiB",
        "  (1,073,741,824 B)",
        "  = 0.9 x 24.000 GiB - weights 7.750 GiB - overhead 1.500 GiB",
        "",
        "nvfp4: refused: no card that is named has it, expected a B200",
        "  hint: see the formats",
    ]


def test_the_exit_says_whether_it_fits() -> None:
    def status(*outcomes: Plan | Refusal, compare: bool) -> tuple[bool, int]:
        found = document(*outcomes, compare=compare)
        return found["ok"], found["exit_code"]

    assert status(kvarn(), compare=False) == (True, 0)
    assert status(kvarn(), auto(), compare=False) == (False, 3)
    assert status(kvarn(), NVFP4, compare=False) == (False, 3)
    assert status(kvarn(), auto(), NVFP4, compare=True) == (True, 0)
    assert status(auto(), NVFP4, compare=True) == (False, 3)


def test_the_document_is_what_its_schema_says(check: Callable[[dict[str, Any]], None]) -> None:
    memory = Memory(1 << 30, 24 << 30, Decimal("0.9"), 31 << 30, 3 << 29)
    for found in (
        document(auto(), NVFP4, kvarn(), compare=True),
        document(kvarn(), memory=memory),
    ):
        check(found)
    assert found["memory"] == {
        "bytes": 1_073_741_824, "card_bytes": 25_769_803_776, "utilisation": "0.9",
        "weights_bytes": 33_285_996_544, "overhead_bytes": 1_610_612_736,
    }  # fmt: skip
    (plan,) = found["plans"]
    assert plan["ratio_to_auto"] is None
    assert plan["bytes_per_token"] == 13_440  # 16 layers of 840
    assert plan["resident"][1] == {"tokens": 32_768, "requests": 2}
    assert plan["kinds"][2] == {
        "kind": "window", "format": "auto", "layers": 5, "groups": 1, "window": 2048,
        "token_bytes": 4096, "born_block": 16, "block": 128, "kernel_block": 16,
        "content_bytes": 524_288, "page_bytes": 1_827_840, "padding_bytes": 1_303_552,
        "blocks_per_request": 49,
    }  # fmt: skip
    assert found["model"]["drafter_layers"] == 5


def test_on_a_narrow_terminal_sentences_fit_and_on_a_wide_one_they_stay_short(
    capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    for width, longest in ((60, 60), (200, 80), (10, 55)):  # the widest column of a table stays
        monkeypatch.setattr(fitting, "line_width", lambda width=width: width)
        monkeypatch.setattr(render_kv, "line_width", lambda width=width: width)
        render_kv.show_plans(document(auto(), kvarn()))
        assert max(map(len, capsys.readouterr().out.split("\n"))) <= longest, width


def test_a_closed_output_is_as_wide_as_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", None)
    assert fitting.line_width() == 80


def test_many_requests_are_counted_as_all_numbers_are() -> None:
    assert counted(1024, "request") == "1,024 requests"
