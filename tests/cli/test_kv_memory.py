"""What the cache has: as given, or what a card leaves."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from patchkit.cli.kv_memory import Given, Memory, read_memory
from patchkit.errors import PatchkitError, UsageError


def given(**texts: str) -> Given:
    fields = ("memory", "card", "utilisation", "weights", "overhead")
    return Given(*(texts.get(name) for name in fields))


def refused(ranks: int = 1, model: Path = Path("m"), **texts: str) -> PatchkitError:
    with pytest.raises(PatchkitError) as error:
        read_memory(given(**texts), model, ranks)
    return error.value


def test_memory_is_taken_as_it_is_given() -> None:
    assert read_memory(given(memory="4.9GiB"), Path("m"), 4) == Memory(5_261_334_937)


def test_a_card_leaves_what_weights_and_overhead_do_not_take() -> None:
    texts = {"card": "24GiB", "utilisation": "0.9", "weights": "16GiB", "overhead": "1GiB"}
    found = read_memory(given(**texts), Path("m"), 1)
    # 0.9 x 25,769,803,776 = 23,192,823,398.4, less 17 x 1,073,741,824
    assert found == Memory(
        4_939_212_390, 25_769_803_776, Decimal("0.9"), 17_179_869_184, 1_073_741_824, ()
    )


def test_weights_are_shared_by_ranks_and_overhead_is_not() -> None:
    texts = {"card": "24GiB", "utilisation": "1", "weights": "10B", "overhead": "1GiB"}
    found = read_memory(given(**texts), Path("m"), 3)
    assert found.size_bytes == 23 * 2**30 - 4  # 10 / 3, rounded up
    assert found.notes == (
        "the weights are shared evenly: 0.000 GiB (4 B) on each of 3 ranks",
    )  # fmt: skip


def test_what_is_assumed_of_a_card_is_said() -> None:
    found = read_memory(given(card="24GiB", weights="16GiB"), Path("m"), 1)
    # 0.92 x 25,769,803,776 = 23,708,219,473.92, less 17.5 x 1,073,741,824
    assert found.size_bytes == 4_917_737_553
    assert found.notes == (
        "--utilisation 0.92, as vLLM has it",
        "--overhead 1.5GiB a rank for activations and CUDA graphs; an engine logs `Available KV "
        "cache memory`, which --memory takes",
    )


def test_weights_are_those_of_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}" + bytes(100))
    texts = {"card": "24GiB", "utilisation": "0.5", "overhead": "0B"}
    for found in (
        read_memory(given(**texts), tmp_path, 1),
        read_memory(given(**texts, weights=f"{tmp_path}/"), Path("m"), 1),
    ):
        assert found.size_bytes == 12 * 2**30 - 100
        assert found.weights_bytes == 100
        assert found.notes == (f"weights 0.000 GiB (100 B): model.safetensors in {tmp_path}",)


def test_without_weights_a_card_says_nothing(tmp_path: Path) -> None:
    error = refused(model=tmp_path, card="24GiB")
    assert isinstance(error, UsageError)
    assert str(error) == (
        "patchkit kv-plan: nothing says what the weights take, expected --weights with an amount "
        "such as 17.6GiB, or with a checkpoint folder"
    )


def test_nothing_at_all_is_answered_with_both_ways() -> None:
    error = refused()
    assert isinstance(error, UsageError)
    assert str(error) == (
        "patchkit kv-plan: nothing says how much memory the cache has, expected --memory 20GiB, or "
        "--card 24GiB with --weights 16GiB"
    )
    assert error.hint == "an engine logs it as `Available KV cache memory`"


def test_memory_and_a_card_are_two_ways() -> None:
    assert str(refused(memory="1GiB", card="24GiB", overhead="0B")) == (
        "patchkit kv-plan: --memory is what the cache gets, --card, --overhead would be for "
        "nothing, expected --memory alone, or --card with --weights"
    )


def test_a_cache_of_nothing_is_refused() -> None:
    assert isinstance(refused(memory="0GiB"), UsageError)
    assert str(refused(memory="0GiB")) == "--memory: a cache of 0 B holds nothing, expected 20GiB"
    error = refused(card="24GiB", utilisation="1", weights="23GiB", overhead="1GiB")
    assert not isinstance(error, UsageError)
    assert str(error) == (
        "patchkit kv-plan: nothing is left for the cache: 1 of 24.000 GiB is 24.000 GiB, weights "
        "take 23.000 GiB and the rest 1.000 GiB"
    )


@pytest.mark.parametrize(("text", "said"), [
    ("0", "0 of a card"), ("1.01", "1.01 of a card"), ("nan", "nan of a card"),
    ("-inf", "-inf of a card"), ("92 %", "'92 %' is no number"),
])  # fmt: skip
def test_a_share_is_above_0_and_up_to_1(text: str, said: str) -> None:
    error = refused(card="24GiB", weights="1GiB", utilisation=text)
    assert error.fact == said
    assert error.expected == "a share above 0 and up to 1, such as 0.92"


def test_weights_that_are_no_path_and_no_amount_are_refused() -> None:
    error = refused(card="24GiB", weights="a" * 300)
    assert error.fact == f"{'a' * 300!r} is no amount of memory"
