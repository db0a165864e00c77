"""`patchkit kv-plan` from the command line: published figures, what is refused, what is written."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from patchkit import cli
from patchkit.upstream import shipped_pins

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]
CONFIGS = Path(__file__).parents[1] / "kv" / "configs"
QWEN3 = str(CONFIGS / "qwen3-8b.json")
GOLDEN = (
    str(CONFIGS / "qwen3.8-27b.json"),
    "--drafter", str(CONFIGS / "drafter-dflash2-window.json"),
    "--release", "v0.28.0", "--state-dtype", "float16", "--group-rule", "even",
    "--batched-tokens", "2048",
)  # fmt: skip
POOL, BESIDE_TAILS = ("--memory", "5583457484B"), ("--memory", "5261334938B", "--max-seqs", "1")


@pytest.fixture
def plan(folder: Path, capsys: Out, check: Check) -> Callable[..., dict[str, Any]]:
    """Return what runs the command and gives the document, held against its schema."""
    assert folder

    def run(*words: str, status: int = 0) -> dict[str, Any]:
        assert cli.run(["kv-plan", *words, "--json"]) == status
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        check(document)
        assert document["exit_code"] == status
        return document

    return run


def said(capsys: Out, *words: str, status: int = 2) -> str:
    """Return what is said on standard error."""
    assert cli.run(["kv-plan", *words]) == status
    out, err = capsys.readouterr()
    assert out == ""
    return err


@pytest.mark.parametrize(("words", "tokens", "blocks", "sizes"), [
    ((*POOL, "--draft-tokens", "7", "--max-model-len", "65536", "--no-prefix-caching"),
     69_758, (357, 380), (448, 448)),
    ((*POOL, "--draft-tokens", "7", "--max-model-len", "131072", "--no-prefix-caching",
      "--format", "int8_per_token_head"), 138_696, (361, 382), (864, 864)),
    ((*POOL, "--draft-tokens", "7", "--max-model-len", "131072",
      "--format", "int8_per_token_head"), 136_429, (367, 382), (864, 864)),
    ((*POOL, "--draft-tokens", "15", "--max-model-len", "57344", "--no-async"),
     57_669, (352, 354), (480, 480)),
])  # fmt: skip
def test_the_published_token_counts_come_out_to_the_token(
    words: tuple[str, ...], tokens: int, blocks: tuple[int, int], sizes: tuple[int, int],
    plan: Callable[..., dict[str, Any]],
) -> None:  # fmt: skip
    (found,) = plan(*GOLDEN, *words)["plans"]
    assert found["tokens"] == tokens
    assert (found["blocks_per_request"], found["num_blocks"]) == blocks
    assert {kind["kind"]: kind["block"] for kind in found["kinds"] if kind["format"]} == {
        "full": sizes[0], "window": sizes[1],
    }  # fmt: skip


def test_a_tiled_format_has_its_tail_taken_off(plan: Callable[..., dict[str, Any]]) -> None:
    words = ("--draft-tokens", "7", "--max-model-len", "245760", "--format", "kvarn_k4v2_g128")
    (one,) = plan(*GOLDEN, *BESIDE_TAILS, *words)["plans"]
    assert (one["tokens"], one["blocks_per_request"], one["num_blocks"]) == (268_169, 329, 359)
    (many,) = plan(*GOLDEN, "--memory", "5261334938B", "--max-seqs", "64", *words,
                   status=3)["plans"]  # fmt: skip
    assert many["tail_bytes"] == 64 * one["tail_bytes"]
    assert many["available_bytes"] == 5_261_334_938 - many["tail_bytes"]


def test_the_longest_request_is_a_whole_number_of_blocks(
    plan: Callable[..., dict[str, Any]],
) -> None:
    words = ("--draft-tokens", "15", "--no-async", "--format", "int8_per_token_head")
    (found,) = plan(*GOLDEN, *POOL, *words, status=3)["plans"]
    assert found["longest"] == 121 * 944
    assert found["max_model_len"] == 262_144


def test_options_are_called_as_vllm_calls_them(plan: Callable[..., dict[str, Any]]) -> None:
    ours = plan(
        QWEN3, "--memory", "9GiB", "--format", "fp8", "--draft-tokens", "3", "--tp", "2",
        "--pp", "3", "--batched-tokens", "4000", "--max-seqs", "7", "--no-async",
        "--no-prefix-caching", "--backend", "FLASH_ATTN", "--max-model-len", "32000",
        "--state-cache-mode", "none", "--block-size", "32",
    )  # fmt: skip
    theirs = plan(
        QWEN3, "--memory", "9GiB", "--kv-cache-dtype", "fp8", "--spec-tokens", "3", "-tp", "2",
        "-pp", "3", "--max-num-batched-tokens", "4k", "--max-num-seqs", "7",
        "--no-async-scheduling", "--no-enable-prefix-caching", "--attention-backend", "FLASH_ATTN",
        "--max-model-len", "32,000", "--mamba-cache-mode", "none", "--block-size", "32",
    )  # fmt: skip
    assert ours == theirs
    assert ours["options"] == {
        "max_model_len": 32_000, "draft_tokens": 3, "prefix_caching": False,
        "state_cache_mode": "none", "prefix_match_unit": None, "tensor_parallel": 2,
        "pipeline_parallel": 3, "max_num_batched_tokens": 4000, "max_num_seqs": 7,
        "async_scheduling": False, "block_size": 32, "backend": "FLASH_ATTN",
        "platform": "cuda", "promotion": True, "group_rule": "upstream",
        "prefill_checkpoints": False,
    }  # fmt: skip
    longest = plan(QWEN3, "--memory", "9GiB", "--max-model-len", "32K", "--pristine",
                   "--prefix-match-unit", "16", "--group-rule", "even")  # fmt: skip
    assert longest["options"]["max_model_len"] == 32_768
    assert longest["options"]["prefix_match_unit"] == 16
    assert longest["options"]["promotion"] is False
    assert longest["options"]["group_rule"] == "even"


@pytest.mark.parametrize("text", ["0", "-2", "1.5k", "", "K", "1e4", "٣٢", "9" * 40])
def test_what_is_no_number_of_tokens_is_refused(text: str, folder: Path, capsys: Out) -> None:
    assert folder
    error = said(capsys, QWEN3, "--memory", "9GiB", f"--max-model-len={text}")
    assert error.startswith("error: patchkit kv-plan: invalid value for '--max-model-len': ")
    assert "is no number of tokens, such as 32768 or 32K" in error


def test_the_batch_is_that_of_vllm_serve_on_such_a_card(
    plan: Callable[..., dict[str, Any]],
) -> None:
    def batch(*words: str) -> tuple[int, int]:
        options = plan(QWEN3, *words, "--release", "v0.28.0")["options"]
        return options["max_num_batched_tokens"], options["max_num_seqs"]

    assert batch("--memory", "9GiB") == (2048, 256)
    assert batch("--card", "80GiB", "--weights", "16GiB") == (8192, 1024)
    assert batch("--card", "80GiB", "--weights", "16GiB", "--max-seqs", "9") == (8192, 9)
    assert batch("--memory", "9GiB", "--platform", "cpu") == (2048, 128)


def test_lengths_are_usual_ones_or_those_that_are_asked_for(
    plan: Callable[..., dict[str, Any]], capsys: Out
) -> None:
    memory = ("--memory", "9GiB")
    assert plan(QWEN3, *memory)["lengths"] == [4096, 32_768, 40_960]
    short = plan(QWEN3, *memory, "--max-model-len", "4096")
    assert short["lengths"] == [4096]
    assert plan(QWEN3, *memory, "--at", "40960")["lengths"] == [40_960]
    asked = plan(QWEN3, *memory, "--at", "8K", "--at", "100", "--at", "8192")
    assert asked["lengths"] == [100, 8192, 40_960]
    assert [row["tokens"] for row in asked["plans"][0]["resident"]] == [100, 8192, 40_960]
    assert said(capsys, QWEN3, *memory, "--at", "64K") == (
        "error: --at: 65,536 tokens are more than the 40,960 of the longest request\n"
        "hint: --max-model-len says what the engine takes\n"
    )


def test_the_release_is_the_newest_stored_else_the_newest_pinned(
    folder: Path, plan: Callable[..., dict[str, Any]]
) -> None:
    memory = ("--memory", "9GiB")
    assert plan(QWEN3, *memory)["release"] == f"v{shipped_pins().versions[-1]}"
    for release in ("v0.26.0", "v0.27.1"):
        (folder / "patches" / release).mkdir(parents=True)
    assert plan(QWEN3, *memory)["release"] == "v0.27.1"
    assert plan(QWEN3, *memory, "--release", "0.28")["release"] == "v0.28.0"
    (folder / "pyproject.toml").write_text('[tool.patchkit]\nseries = ["patches", "old"]\n')
    (folder / "old" / "v0.9.0").mkdir(parents=True)
    assert plan(QWEN3, *memory)["release"] == "v0.27.1"


def test_a_release_that_is_not_modelled_or_none_at_all_is_refused(
    folder: Path, capsys: Out
) -> None:
    assert folder
    error = said(capsys, QWEN3, "--memory", "9GiB", "--release", "0.20", status=1)
    assert error.startswith("error: how vLLM 0.20.0 lays out its KV cache is not modelled")
    error = said(capsys, QWEN3, "--memory", "9GiB", "--release", "newest")
    assert error.startswith("error: --release: 'newest' is not a version, expected a version like")
    (folder / "patches" / "v0.24.0").mkdir(parents=True)
    error = said(capsys, QWEN3, "--memory", "9GiB", status=1)
    assert error.startswith("error: how vLLM 0.24.0 lays out its KV cache is not modelled")
    assert error.endswith("hint: it is the newest that is stored here; --release takes another\n")


def test_all_formats_are_compared_and_one_that_fits_is_enough(
    plan: Callable[..., dict[str, Any]],
) -> None:
    words = ("--memory", "5GiB", "--release", "v0.28.0", "--max-seqs", "16", "--compare")
    document = plan(QWEN3, *words)
    assert document["plans"][0]["format"] == "auto"
    assert document["plans"][0]["fits"] is False
    assert document["plans"][0]["ratio_to_auto"] == 1.0
    by_name = {found["format"]: found for found in document["plans"]}
    assert by_name["fp8"]["fits"] is True
    assert by_name["fp8"]["bytes_per_token"] == 36 * 2 * 8 * 128
    assert by_name["kvarn_k4v2_g128"]["bytes_per_token"] == 36 * 864
    assert by_name["fp8"]["ratio_to_auto"] == by_name["fp8"]["tokens"] / by_name["auto"]["tokens"]
    nothing = plan(QWEN3, "--memory", "1MiB", "--compare", status=3)
    assert {found["fits"] for found in nothing["plans"]} == {False}


def test_types_are_the_models_unless_others_are_given(
    plan: Callable[..., dict[str, Any]],
) -> None:
    (found,) = plan(QWEN3, "--memory", "90GiB")["plans"]
    assert found["bytes_per_token"] == 36 * 2 * 8 * 128 * 2
    document = plan(QWEN3, "--memory", "90GiB", "--dtype", "float32")
    assert document["model"]["dtype"] == "float32"
    assert document["plans"][0]["bytes_per_token"] == 36 * 2 * 8 * 128 * 4


def test_a_config_is_read_as_the_release_reads_it(plan: Callable[..., dict[str, Any]]) -> None:
    words = (str(CONFIGS / "qwen3-8b-yarn.json"), "--memory", "90GiB", "--release")
    # YaRN multiplies the original 32,768 by 4, since 0.30.0 what the file says is taken as it is
    assert plan(*words, "v0.28.0")["model"]["max_model_len"] == 131_072
    assert plan(*words, "v0.33.0")["model"]["max_model_len"] == 40_960


def test_a_format_that_is_refused_is_a_finding(plan: Callable[..., dict[str, Any]]) -> None:
    document = plan(QWEN3, "--memory", "9GiB", "--tp", "3", "--format", "auto", "--format", "fp8",
                    status=3)  # fmt: skip
    assert document["plans"] == []
    assert [refusal["format"] for refusal in document["refusals"]] == ["auto", "fp8"]
    assert "3" in document["refusals"][0]["reason"]


def test_a_mistyped_format_is_answered_with_near_ones(folder: Path, capsys: Out) -> None:
    assert folder
    error = said(capsys, QWEN3, "--memory", "9GiB", "--format", "int8_per_tokn_head")
    assert error.startswith("error: --format: no format is named 'int8_per_tokn_head', expected")
    assert "hint: near int8_per_token_head" in error


@pytest.mark.parametrize(("words", "fact"), [
    (("--compare", "--format", "fp8"),
     "patchkit kv-plan: --compare takes all formats, and --format names some"),
    (("--format", "fp8", "--format", "fp8"), "patchkit kv-plan: --format fp8 is given twice"),
    (("--mtp", "--drafter", QWEN3),
     "patchkit kv-plan: --mtp is the model's own drafter, --drafter another one"),
    (("--mtp",), "patchkit kv-plan: --mtp without --draft-tokens, expected how many tokens it "
                 "drafts, such as --draft-tokens 3"),
    (("--drafter", QWEN3), "patchkit kv-plan: --drafter without --draft-tokens, expected how many "
                           "tokens it drafts, such as --draft-tokens 3"),
    (("--plot", "kv.pdf"), "--plot: kv.pdf says no kind of picture, expected a name that ends in "
                           ".png, .svg or .html"),
])  # fmt: skip
def test_options_that_contradict_each_other_are_refused(
    words: tuple[str, ...], fact: str, folder: Path, capsys: Out
) -> None:
    assert folder
    error = said(capsys, QWEN3, "--memory", "9GiB", *words)
    assert error.split("\n")[0] == f"error: {fact}"


def test_a_folder_with_weights_is_a_model_too(
    folder: Path, plan: Callable[..., dict[str, Any]]
) -> None:
    (folder / "m").mkdir()
    shutil.copy(QWEN3, folder / "m" / "config.json")
    header = (2).to_bytes(8, "little") + b"{}"
    (folder / "m" / "model.safetensors").write_bytes(header + bytes(1000))
    document = plan("m", "--card", "24GiB", "--overhead", "0B", "--utilisation", "0.5",
                    "--tp", "2")  # fmt: skip
    assert document["model"]["name"] == "m"
    assert document["memory"]["weights_bytes"] == 1000
    assert document["memory"]["bytes"] == 12 * 2**30 - 500
    assert document["notes"][0] == "weights 0.000 GiB (1,000 B): model.safetensors in m"


def test_a_config_that_is_wrong_is_refused_with_its_place(folder: Path, capsys: Out) -> None:
    (folder / "config.json").write_text('{"architectures": ["NoSuchModel"]}')
    error = said(capsys, "config.json", "--memory", "9GiB", status=1)
    assert error.startswith("error: config.json: ")
    assert "NoSuchModel" in error
    (folder / "config.json").write_text('{"architectures": }')
    error = said(capsys, "config.json", "--memory", "9GiB", status=1)
    assert error.startswith("error: config.json:1:19: is not JSON")


@pytest.mark.parametrize(("field", "value", "most"), [
    ("num_hidden_layers", 100_001, "100,000"),
    ("num_hidden_layers", 10**30, "100,000"),
    ("head_dim", 2**40 + 1, "1,099,511,627,776"),
])  # fmt: skip
def test_a_config_with_numbers_that_no_model_has_is_refused(
    field: str, value: int, most: str, folder: Path, capsys: Out
) -> None:
    config = json.loads(Path(QWEN3).read_bytes())
    config.pop("layer_types", None)
    (folder / "config.json").write_text(json.dumps({**config, field: value}))
    error = said(capsys, "config.json", "--memory", "9GiB", status=1)
    assert error.startswith(f"error: config.json: {field}: is ")
    assert error.rstrip().endswith(f", expected {most} at most")


def test_formats_of_a_users_own_are_planned(
    folder: Path, plan: Callable[..., dict[str, Any]]
) -> None:
    (folder / "own.toml").write_text(
        '[formats.own_8bit]\nbackends = ["TRITON_ATTN"]\nkey = {bits = 8}\nvalue = {bits = 8}\n'
    )
    words = ("--memory", "9GiB", "--formats", "own.toml")
    (found,) = plan(QWEN3, *words, "--format", "own_8bit")["plans"]
    assert found["bytes_per_token"] == 36 * 2 * 8 * 128
    compared = plan(QWEN3, *words, "--compare")["plans"]
    assert "own_8bit" in [one["format"] for one in compared]


def test_drafts_without_a_drafter_are_noted(plan: Callable[..., dict[str, Any]]) -> None:
    notes = plan(QWEN3, "--memory", "9GiB", "--draft-tokens", "4")["notes"]
    assert notes == [
        "drafts without a drafter, as from n-grams: it caches nothing, and vLLM then starts with "
        "--no-async-scheduling"
    ]


def test_drafts_of_the_models_own_layers_are_not(plan: Callable[..., dict[str, Any]]) -> None:
    document = plan(str(CONFIGS / "qwen3-next-80b-a3b.json"), "--memory", "90GiB", "--mtp",
                    "--draft-tokens", "2", "--state-cache-mode", "align")  # fmt: skip
    assert document["model"]["drafter_layers"] == 1
    assert not any("without a drafter" in note for note in document["notes"])


def test_a_length_beyond_the_models_is_noted(plan: Callable[..., dict[str, Any]]) -> None:
    words = ("--memory", "90GiB", "--max-model-len")
    assert plan(QWEN3, *words, "40960")["notes"] == []
    assert plan(QWEN3, *words, "40961")["notes"] == [
        "--max-model-len 40,961 is more than the 40,960 tokens of the model: vLLM refuses that "
        "without VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 or rope scaling"
    ]


def test_what_a_batch_is_assumed_to_be_is_said_where_it_matters(
    plan: Callable[..., dict[str, Any]],
) -> None:
    oss = str(CONFIGS / "gpt-oss-20b.json")
    windows = "--max-num-batched-tokens 2,048, as `vllm serve` has it on cards below 70 GiB; "
    assert plan(oss, "--memory", "9GiB")["notes"] == [f"{windows}windows keep what is in flight"]
    assert plan(oss, "--memory", "9GiB", "--batched-tokens", "2048")["notes"] == []
    words = ("--memory", "9GiB", "--format", "kvarn_k4v2_g128", "--release", "v0.28.0")
    document = plan(QWEN3, *words)
    tail_gib = document["plans"][0]["tail_bytes"] / 2**30
    assert document["notes"] == [
        "--max-num-seqs 256, as `vllm serve` has it on cards below 70 GiB; so many 16-bit tails "
        f"take up to {tail_gib:.3f} GiB of the cache, fewer take less"
    ]
    assert plan(QWEN3, *words, "--max-seqs", "256")["notes"] == []


def test_how_states_are_cached_is_said(plan: Callable[..., dict[str, Any]]) -> None:
    words = (str(CONFIGS / "qwen3.8-27b.json"), "--memory", "90GiB", "--release", "v0.28.0")
    said = "--mamba-cache-mode {}, as vLLM has it {} prefix caching"
    assert plan(*words)["notes"] == [said.format("align", "with")]
    without = plan(*words, "--no-prefix-caching")
    assert without["notes"] == [said.format("none", "without")]
    assert plan(*words, "--state-cache-mode", "align")["notes"] == []
    refused = plan(*words, "--tp", "5", status=3)
    assert refused["notes"] == []


@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_a_picture_is_written(kind: str, folder: Path, capsys: Out) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    path = folder / "pictures" / f"kv.{kind}"
    words = ["kv-plan", QWEN3, "--memory", "9GiB", "--compare", "--plot"]
    assert cli.run([*words, f"pictures/kv.{kind}"]) == 0
    assert capsys.readouterr().out.endswith(f"drawn in pictures/kv.{kind}\n")
    first = path.read_bytes()
    assert first.startswith({"png": b"\x89PNG", "svg": b"<?xml", "html": b"<!DOCTYPE"}[kind])
    assert cli.run([*words, str(path), "--json"]) == 0
    assert path.read_bytes() == first
    assert cli.run([*words, f"kv.{kind.upper()}"]) == 0
    assert (folder / f"kv.{kind.upper()}").read_bytes() == first
    capsys.readouterr()


def test_a_picture_says_what_it_is_of(
    folder: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    (folder / "my-model").mkdir()
    shutil.copy(QWEN3, folder / "my-model" / "config.json")
    monkeypatch.chdir(folder / "my-model")
    words = ("--memory", "9GiB", "--release", "v0.28.0", "--plot", "kv.svg")
    for model, more, second in (
        ("config.json", (), "vLLM 0.28.0, 9.000 GiB of cache"),
        (".", ("--tp", "2", "--draft-tokens", "1"),
         "vLLM 0.28.0, 9.000 GiB of cache on each of 2 ranks, 1 draft token"),
    ):  # fmt: skip
        assert cli.run(["kv-plan", model, *words, *more]) == 0
        drawn = (folder / "my-model" / "kv.svg").read_text()
        assert "<!-- my-model -->" in drawn
        assert f"<!-- {second} -->" in drawn
    capsys.readouterr()


@pytest.mark.parametrize(("words", "why"), [
    (("--memory", "1MiB"), "does not start"),
    (("--memory", "9GiB", "--tp", "3"), "auto: refused: 32 attention heads"),
])  # fmt: skip
def test_where_no_request_fits_the_plan_says_why_and_nothing_is_drawn(
    words: tuple[str, ...], why: str, folder: Path, capsys: Out
) -> None:
    assert cli.run(["kv-plan", QWEN3, *words, "--plot", "kv.svg"]) == 3
    out, err = capsys.readouterr()
    assert why in out
    assert "drawn" not in out
    assert err == "nothing is drawn: no request fits\n"
    assert list(folder.iterdir()) == []
    assert cli.run(["kv-plan", QWEN3, *words]) == 3
    assert capsys.readouterr().err == ""


def test_a_picture_in_no_place_is_refused(folder: Path, capsys: Out) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    (folder / "kv.svg").mkdir()
    error = said(capsys, QWEN3, "--memory", "9GiB", "--plot", "kv.svg", status=1)
    assert error == "error: kv.svg: cannot be written: is a directory\n"
    assert list(folder.iterdir()) == [folder / "kv.svg"]


def test_without_matplotlib_nothing_is_written(
    folder: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    error = said(capsys, QWEN3, "--memory", "9GiB", "--plot", "kv.svg", status=1)
    assert error == (
        "error: --plot: matplotlib is not installed\nhint: pip install 'patchkit[plot]'\n"
    )
    assert list(folder.iterdir()) == []


def test_the_plan_for_people_is_what_the_document_says(folder: Path, capsys: Out) -> None:
    assert folder
    assert cli.run(["kv-plan", QWEN3, "--memory", "9GiB", "--release", "v0.28.0"]) == 0
    shown = capsys.readouterr().out
    # 9 GiB are 4,096 blocks of 36 pages of 16 tokens, one of them the null block
    assert "  one block         2,359,296 B: 36 pages of 65,536 B\n" in shown
    assert "2,560 blocks for 40,960 tokens, of 4,096" in shown
    assert max(map(len, shown.split("\n"))) <= 80


def test_a_backend_is_named_as_vllm_takes_it_and_an_unknown_one_of_a_format_is_located(
    folder: Path, capsys: Out, plan: Callable[..., dict[str, Any]]
) -> None:
    words = (QWEN3, "--memory", "9GiB", "--release", "v0.28.0")
    assert plan(*words, "--backend", "triton_attn")["options"]["backend"] == "TRITON_ATTN"
    side = "{ bits = 6, token_bytes = 4 }"
    (folder / "own.toml").write_text(
        f'[formats.mine]\nkey = {side}\nvalue = {side}\nbackends = ["MINE"]\n'
    )
    error = said(capsys, *words, "--formats", "own.toml", "--format", "mine", status=1)
    assert error.startswith(
        "error: mine: backends: there are no rules for the attention backend 'MINE', expected one "
    )


def test_the_schema_describes_every_field() -> None:
    path = Path(__file__).parents[2] / "docs" / "schema" / "kv-plan-1.json"

    def undescribed(schema: dict[str, Any]) -> Iterator[str]:
        for name, field in schema.get("properties", {}).items():
            if "description" not in field and "const" not in field:
                yield name
            yield from undescribed(field)
            yield from undescribed(field.get("items", {}))

    assert list(undescribed(json.loads(path.read_bytes()))) == []


def test_a_full_disk_behind_the_output_is_no_bug(
    folder: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("patchkit.cli.render_kv.say", full)
    assert cli.run(["kv-plan", QWEN3, "--memory", "9GiB"]) == 1
    assert capsys.readouterr().err == "error: no space left on device\n"
