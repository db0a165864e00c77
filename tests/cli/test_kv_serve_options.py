"""Options of `vllm serve`, as they are copied from a command line that starts an engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit import cli
from patchkit.cli.speculative import Drafting, read_speculative
from patchkit.errors import UsageError

Out = pytest.CaptureFixture[str]
CONFIGS = Path(__file__).parents[1] / "kv" / "configs"
HYBRID, DFLASH = (
    str(CONFIGS / f"{name}.json") for name in ("qwen3.8-27b", "drafter-dflash2-window")
)
KNOWN = (
    "hint: options of `vllm serve` that the plan does not go by are left out; `patchkit kv-plan "
    "--help` lists those that it knows\n"
)


@pytest.fixture
def document(folder: Path, capsys: Out) -> Callable[..., dict[str, Any]]:
    """Return what gives the document of a command line."""
    assert folder

    def run(*words: str) -> dict[str, Any]:
        assert cli.run(["kv-plan", HYBRID, "--release", "v0.28.0", *words, "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    return run


def said(capsys: Out, *words: str) -> str:
    assert cli.run(["kv-plan", HYBRID, "--memory", "9GiB", *words]) == 2
    return capsys.readouterr().err


def test_a_serve_command_is_planned_as_it_stands(document: Callable[..., dict[str, Any]]) -> None:
    copied = document(
        "--max-model-len", "32768", "--kv-cache-dtype", "fp8", "--tensor-parallel-size", "2",
        "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 3}',
        "--gpu-memory-utilization", "0.9", "--max_num_seqs=64", "--max_num_batched_tokens", "4096",
        "--enable-prefix-caching", "--async-scheduling", "--card", "80GiB", "--weights", "52GiB",
    )  # fmt: skip
    ours = document(
        "--max-model-len", "32768", "--format", "fp8", "--tp", "2", "--mtp", "--draft-tokens", "3",
        "--utilisation", "0.9", "--max-seqs", "64", "--batched-tokens", "4096", "--card", "80GiB",
        "--weights", "52GiB",
    )  # fmt: skip
    assert copied == ours
    assert copied["options"]["async_scheduling"] is copied["options"]["prefix_caching"] is True
    assert copied["options"]["draft_tokens"] == 3
    assert copied["model"]["drafter_layers"] == 1


def test_the_last_of_two_opposite_flags_holds(document: Callable[..., dict[str, Any]]) -> None:
    flags = ("async-scheduling", "enable-prefix-caching")
    words = (f"--{no}{flag}" for flag in flags for no in ("", "no-"))
    off = document("--kv-cache-memory-bytes", "90GiB", *words)["options"]
    assert (off["async_scheduling"], off["prefix_caching"]) == (False, False)


def test_memory_in_the_words_of_serve_is_bytes(
    document: Callable[..., dict[str, Any]], capsys: Out
) -> None:
    served = document("--kv-cache-memory-bytes", "96636764160")
    assert served["memory"]["bytes"] == 90 << 30
    assert served == document("--memory", "96636764160B")
    assert said(capsys, "--kv-cache-memory-bytes", "1").startswith(
        "error: patchkit kv-plan: --memory and --kv-cache-memory-bytes are two names of one amount"
    )


def test_a_drafter_is_read_from_where_the_speculative_config_says(
    document: Callable[..., dict[str, Any]],
) -> None:
    text = json.dumps({"model": DFLASH, "num_speculative_tokens": 7})
    found = document("--memory", "90GiB", "-sc", text)
    assert found["model"]["drafter_layers"] == 5
    assert found == document("--memory", "90GiB", "--spec-model", DFLASH, "--spec-tokens", "7")


@pytest.mark.parametrize(("text", "drafting"), [
    ('{"method": "qwen3_next_mtp", "num_speculative_tokens": 1}', Drafting(1, True, None)),
    ('{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}',
     Drafting(5, False, None)),
    ('{"method": "ngram", "model": "ngram", "num_speculative_tokens": 5}',
     Drafting(5, False, None)),
    ('{"method": "gemma4_mtp", "model": "d", "num_speculative_tokens": 1024}',
     Drafting(1024, False, "d")),
    ('{"model": "d", "num_speculative_tokens": 2, "method": null}', Drafting(2, False, "d")),
])  # fmt: skip
def test_who_drafts_is_in_the_speculative_config(text: str, drafting: Drafting) -> None:
    assert read_speculative(text) == drafting


EXAMPLE = """, expected an object such as '{"method": "mtp", "num_speculative_tokens": 3}'"""


@pytest.mark.parametrize(("text", "fact"), [
    ("{", f"is not JSON{EXAMPLE}"),
    ("[" * 200_000, f"is not JSON{EXAMPLE}"),
    ("3", f"is no JSON object{EXAMPLE}"),
    ('{"method": "mtp"}', f"num_speculative_tokens is no number from 1 to 1024{EXAMPLE}"),
    *((f'{{"method": "mtp", "num_speculative_tokens": {number}}}',
       f"num_speculative_tokens is no number from 1 to 1024{EXAMPLE}")
      for number in ("0", "1025", "true", "1.0")),
    ('{"method": 3, "num_speculative_tokens": 3}', f"method is no text{EXAMPLE}"),
    ('{"method": "eagle3", "num_speculative_tokens": 3}',
     'method eagle3 has a drafter, and no model is named, expected "model" with the path of its '
     "config.json, or of the folder of it"),
    ('{"num_speculative_tokens": 3}',
     'method none has a drafter, and no model is named, expected "model" with the path of its '
     "config.json, or of the folder of it"),
    ('{"method": "mtp", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"}',
     "kv_cache_dtype is not modelled"),
])  # fmt: skip
def test_a_speculative_config_that_says_too_little_is_refused(text: str, fact: str) -> None:
    with pytest.raises(UsageError) as error:
        read_speculative(text)
    assert str(error.value) == f"--speculative-config: {fact}"


def test_drafts_are_said_once(capsys: Out) -> None:
    config = ("-sc", '{"method": "mtp", "num_speculative_tokens": 3}')
    for words in (("--mtp",), ("--drafter", DFLASH), ("--draft-tokens", "3")):
        assert said(capsys, *config, *words) == (
            "error: --speculative-config: --mtp, --drafter and --draft-tokens say the same, "
            "expected the one or the others\n"
        )


def test_an_option_that_no_plan_goes_by_is_to_be_left_out(capsys: Out) -> None:
    unknown = "error: patchkit kv-plan: no such option "
    assert said(capsys, "--enforce-eager") == f"{unknown}'--enforce-eager'\n{KNOWN}"
    assert said(capsys, "--max-model-length", "9") == (
        f"{unknown}'--max-model-length', expected --max-model-len\n{KNOWN}"
    )


@pytest.mark.parametrize("option", ["--num-gpu-blocks-override", "--mamba_block_size"])
def test_an_option_that_would_change_the_cache_is_said_to_be_missing(
    option: str, capsys: Out
) -> None:
    name = option.replace("_", "-")
    assert said(capsys, option, "9") == (
        f"error: patchkit kv-plan: {name} changes the cache, and no plan goes by it\n"
        "hint: without it the plan is that of an engine without it\n"
    )


def test_a_length_that_the_engine_is_to_find_is_what_the_plan_finds(capsys: Out) -> None:
    for word in ("auto", "-1"):
        assert said(capsys, "--max-model-len", word) == (
            f"error: patchkit kv-plan: invalid value for '--max-model-len': {word} is what comes "
            "out as `longest request`; leave it out, or name a length\n"
            "hint: `patchkit kv-plan --help` has examples\n"
        )


def test_a_count_that_is_none_is_said_to_be_none(capsys: Out) -> None:
    assert "'1k' is not a valid integer\n" in said(capsys, "--max-num-seqs", "1k")


def test_a_cache_larger_than_small_cards_is_on_a_larger_card(
    document: Callable[..., dict[str, Any]],
) -> None:
    for memory, tokens in (("69GiB", 2048), ("70GiB", 8192), ("160GiB", 16384)):
        assert document("--memory", memory)["options"]["max_num_batched_tokens"] == tokens


def test_types_are_called_as_vllm_calls_them(document: Callable[..., dict[str, Any]]) -> None:
    plain = document("--memory", "90GiB")
    assert document("--memory", "90GiB", "--dtype", "auto", "--mamba-ssm-cache-dtype=auto") == plain
    for word, dtype in (("half", "float16"), ("float", "float32"), ("float32", "float32")):
        assert document("--memory", "90GiB", "--dtype", word)["model"]["dtype"] == dtype
