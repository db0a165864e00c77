"""What the table says of releases, where two follow each other and differ."""

from __future__ import annotations

import pytest

from patchkit.errors import PatchkitError
from patchkit.kv.rules import Backend, modelled, rules_for

ALL = (
    "0.25.0", "0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0",
    "0.32.0", "0.33.0",
)  # fmt: skip


def test_every_release_from_0_25_0_on_is_modelled() -> None:
    assert modelled() == ALL
    assert [rules_for(release).release for release in ALL] == list(ALL)


@pytest.mark.parametrize(
    ("word", "before", "first", "after"),
    [
        ("window_birth", "smallest", "0.30.0", "primary"),
        ("padded_attention", "block stride", "0.29.0", "all"),
        ("padded_states", False, "0.26.0", True),
        ("batches_in_flight", "one", "0.26.0", "concurrent"),
        ("second_runner", "dense", "0.29.0", "all"),
        ("null_block_checked", False, "0.29.0", True),
        ("state_cache_modes", ("none", "align", "all"), "0.32.0", ("none", "align")),
        ("aligned_block_in_one_batch", True, "0.27.0", False),
        ("aligned_to_all_backends", False, "0.32.0", True),
        ("aligned_to_checkpoints", False, "0.33.0", True),
        ("block_of_all_backends", False, "0.31.0", True),
        ("has_prefix_match_unit", False, "0.26.0", True),
        ("single_group_unit_checked", False, "0.32.0", True),
        ("promotion", True, "0.30.0", False),
    ],
)
def test_a_rule_changes_once(word: str, before: object, first: str, after: object) -> None:
    at = ALL.index(first)
    values = [getattr(rules_for(release), word) for release in ALL]
    assert values == [before] * at + [after] * (len(ALL) - at)


def test_backends() -> None:
    rules = rules_for("0.28.0")
    assert rules.backend("TRITON_ATTN", None) == Backend("TRITON_ATTN", (), 16, True)
    assert rules.backend("FLASHINFER", None) == Backend("FLASHINFER", (16, 32, 64), None, True)
    assert rules.backend("TURBOQUANT", None).fixed == (16, 32, 64, 128)
    assert not rules.backend("TURBOQUANT", None).block_stride
    assert rules.backend("KVARN", 64) == Backend("KVARN", (64,), None, True)
    assert rules.backend("CPU_ATTN", None) == Backend("CPU_ATTN", (), 16, False)
    assert rules_for("0.29.0").backend("CPU_ATTN", None).multiple_of == 32


def test_a_backend_takes_what_is_named_and_multiples() -> None:
    both = Backend("BOTH", fixed=(24,), multiple_of=16)
    assert both.sizes == (24, 16)
    assert [block for block in (16, 24, 32, 40) if both.takes(block)] == [16, 24, 32]


def told(error: pytest.ExceptionInfo[PatchkitError]) -> tuple[str, str | None]:
    return str(error.value), error.value.hint


EXPECTED = (
    "expected one of 0.25.0, 0.25.1, 0.26.0, 0.27.0, 0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.31.0,"
    " 0.32.0, 0.33.0"
)


@pytest.mark.parametrize("release", ["0.24.0", "0.27.2", "0.34.0"])
def test_a_release_that_is_not_modelled(release: str) -> None:
    with pytest.raises(PatchkitError) as error:
        rules_for(release)
    fact = f"how vLLM {release} lays out its KV cache is not modelled, {EXPECTED}"
    assert told(error) == (fact, None)


def test_what_is_no_release() -> None:
    with pytest.raises(PatchkitError) as error:
        rules_for("newest")
    assert told(error) == (f"'newest' is no release, {EXPECTED}", None)


def test_a_backend_without_rules() -> None:
    with pytest.raises(PatchkitError) as error:
        rules_for("0.28.0").backend("FLASHMLA", None)
    known = "FLASH_ATTN, TRITON_ATTN, FLEX_ATTENTION, FLASHINFER, TURBOQUANT, CPU_ATTN"
    fact = f"there are no rules for the attention backend 'FLASHMLA', expected one of {known}"
    assert told(error) == (fact, None)


def test_a_release_by_another_spelling() -> None:
    assert rules_for("v0.28").release == "0.28.0"
