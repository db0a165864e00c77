"""The invariants of block promotion, over mixes of layers, on the release's own functions.

A property says after "Broken:" what was broken in the patch's function to see it fail. The rule
file beside this one fails for the rest of what was broken there.
"""

from __future__ import annotations

import importlib.util
import inspect
import logging
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.engine.conftest import stored_versions

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)
if not stored_versions("block-promotion.patch"):
    pytest.skip("no block-promotion.patch is stored for this release", allow_module_level=True)

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    from hypothesis import assume, given, settings
    from hypothesis import strategies as st
    from vllm.v1.kv_cache_interface import (
        AttentionSpec,
        FullAttentionSpec,
        MambaSpec,
        SlidingWindowSpec,
        UniformTypeKVCacheSpecs,
    )

    from tests.engine.kv_cases import (
        TOKEN_HEAD,
        Case,
        block_row_bytes,
        cases,
        groups,
        needed_bytes,
        pages,
        refused,
        shapes,
        stage_groups,
        started,
        unpadded_bytes,
    )

pytestmark = pytest.mark.engine
EXAMPLES = 200  # mixes a property


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    """The release logs each padding layer and each memory figure, of thousands of mixes."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def both(release: Any, case: Case) -> tuple[list[Any], list[Any]]:
    """The groups of the release as it is, and with the patch."""
    try:
        before = groups(release.pristine, case)
    except (NotImplementedError, AssertionError):  # the release cannot bring them to one page
        assume(False)
    return before, groups(release.patched, case)


def promoted(before: list[Any], after: list[Any]) -> list[tuple[Any, Any]]:
    """The specs (before, after) of the groups whose block was raised."""
    pairs = [(b.kv_cache_spec, a.kv_cache_spec) for b, a in zip(before, after, strict=True)]
    return [(b, a) for b, a in pairs if b.block_size != a.block_size]


def lengths(case: Case, after: list[Any], first: int) -> list[int]:
    """The lengths, in tokens from the first on, at which a request may need a block more."""
    blocks = {group.kv_cache_spec.block_size for group in after}
    windows = {
        spec.sliding_window + case.in_flight
        for spec in case.layers.values()
        if isinstance(spec, SlidingWindowSpec)
    }
    found = {k * block + 1 for block in blocks for k in (*range(1, 24), 100, 1000)}
    found |= {window + rest for window in windows for rest in (-2, -1, 0, 1)}
    found |= {first, case.max_model_len}
    return sorted(tokens for tokens in found if first <= tokens <= case.max_model_len)


def every_page_is_the_common_page_and_none_holds_less_than_its_layer(
    _case: Case, before: list[Any], after: list[Any]
) -> None:
    """Broken: a ratio of one block more."""
    assert len(pages(after)) == 1
    for group in after:
        spec = group.kv_cache_spec
        if not isinstance(spec, UniformTypeKVCacheSpecs):  # full layers alone: nothing is padded
            assert unpadded_bytes(spec) <= spec.page_size_bytes
    for _, spec in promoted(before, after):
        # the page that is new is one of those that are raised; none of them is half empty
        assert 2 * unpadded_bytes(spec) > spec.page_size_bytes


def a_page_is_newly_padded_only_where_blocks_are_known_to_be_read_whole(
    case: Case, before: list[Any], after: list[Any]
) -> None:
    """Broken: no such check."""
    named = case.backend in ("TRITON_ATTN", "CPU_ATTN")
    whole = named and not case.kind_backends and not case.drafter
    for old, new in zip(before, after, strict=True):
        was, spec = old.kv_cache_spec, new.kv_cache_spec
        if not isinstance(spec, AttentionSpec) or spec.page_size_padded is None:
            continue
        if was.page_size_padded is None or was.block_size != spec.block_size:
            assert whole or spec.kv_quant_mode is TOKEN_HEAD


def a_block_is_a_multiple_of_the_one_that_its_layer_was_created_with(
    case: Case, before: list[Any], after: list[Any]
) -> None:
    """Broken: a block that is no multiple; a layer that was created with padding raised."""
    for old, new in zip(before, after, strict=True):
        block = new.kv_cache_spec.block_size
        if block == old.kv_cache_spec.block_size:  # the release's own, which may be another kind's
            continue
        for name in new.layer_names:
            assert block % case.layers[name].block_size == 0
            assert case.layers[name].page_size_padded is None
    assert [g.layer_names for g in after] == [g.layer_names for g in before]


def no_page_grows_by_more_than_the_promoted_layers_need(
    _case: Case, before: list[Any], after: list[Any]
) -> None:
    """Broken: the ratio rounded down."""
    raised = promoted(before, after)
    (old,), (new,) = pages(before), pages(after)
    if not raised:
        assert new == old
        return
    assert old < new < 2 * old
    assert new == max(unpadded_bytes(spec) for _, spec in raised)
    for was, spec in raised:
        born = unpadded_bytes(was)
        assert spec.block_size == was.block_size * -(-old // born)
        assert old % born  # an integer ratio is the release's own affair


def what_the_patch_does_not_concern_is_as_without_it(
    case: Case, before: list[Any], after: list[Any]
) -> None:
    """Broken: the groups of hidden states not looked for."""
    (page,) = pages(before)
    candidates = {
        name
        for name, spec in case.layers.items()
        if type(spec) in (FullAttentionSpec, SlidingWindowSpec)
        and spec.page_size_padded is None
        and page % spec.page_size_bytes
    }
    # one that was created with padding may share its group with one that was padded just now
    together = {n for g in before if candidates.issuperset(g.layer_names) for n in g.layer_names}
    raised = {n for g, w in zip(after, before, strict=True)
              if g.kv_cache_spec.block_size != w.kv_cache_spec.block_size
              for n in g.layer_names}  # fmt: skip
    assert raised in (set(), together)
    if not raised:
        assert shapes(after) == shapes(before)
        return
    for group, was in zip(after, before, strict=True):
        if not raised & set(group.layer_names):
            spec, old = group.kv_cache_spec, was.kv_cache_spec
            assert spec in (old, replace(old, page_size_padded=spec.page_size_bytes))


INVARIANTS = (
    every_page_is_the_common_page_and_none_holds_less_than_its_layer,
    a_page_is_newly_padded_only_where_blocks_are_known_to_be_read_whole,
    a_block_is_a_multiple_of_the_one_that_its_layer_was_created_with,
    no_page_grows_by_more_than_the_promoted_layers_need,
    what_the_patch_does_not_concern_is_as_without_it,
)


@settings(max_examples=2 * EXAMPLES)
@given(case=cases())
def test_each_invariant_of_the_groups_holds_and_refusals_are_the_release_s_own(
    release, case
) -> None:
    """Broken: what the invariants say."""
    config, layers = case.config(), dict(case.layers)
    if refused(release.pristine, case):
        assert refused(release.patched, case)
        return
    before = groups(release.pristine, case)
    after = release.patched.get_kv_cache_groups(config, layers)
    assert config.model_config.max_model_len == case.max_model_len
    assert layers == case.layers
    for holds in INVARIANTS:
        holds(case, before, after)


@settings(max_examples=EXAMPLES)
@given(case=cases(), short=st.integers(1, 2000))
def test_a_request_needs_less_by_a_page_from_one_promoted_block_on(release, case, short) -> None:
    """And below it no more than the page grew.

    Broken: no look at what is needed; the growth of the pages not counted.
    """
    before, after = both(release, case)
    raised = promoted(before, after)
    if not raised:
        return
    first = min(spec.block_size for _, spec in raised)
    row = block_row_bytes(after)
    for tokens in lengths(case, after, min(first, case.max_model_len)):
        old = needed_bytes(release.pristine, case, before, tokens)
        assert needed_bytes(release.patched, case, after, tokens) + row <= old, tokens
    (page,), (new,) = pages(before), pages(after)
    old = needed_bytes(release.pristine, case, before, short)
    assert needed_bytes(release.patched, case, after, short) * page <= old * new


@settings(max_examples=EXAMPLES)
@given(case=cases(blocks_override=None, auto_fit=False), spare=st.integers(-2, 40), odd=st.data())
def test_what_starts_starts_and_holds_no_fewer_tokens(release, case, spare, odd) -> None:
    """Broken: the length of the configuration not put back."""
    before, _ = both(release, case)
    memory = []
    for made in stage_groups(release.pristine, case, before):
        row = block_row_bytes(made)
        assume(row)
        rest = odd.draw(st.integers(0, row - 1))
        needed = needed_bytes(release.pristine, case, made, case.max_model_len)
        memory.append(needed + (1 + spare) * row + rest)
    old = started(release.pristine, case, memory)
    new = started(release.patched, case, memory)
    if old is not None:
        assert new is not None
        assert new[0] == old[0]
        assert new[1] >= old[1]
        assert new[2] >= old[2]


@settings(max_examples=EXAMPLES)
@given(case=cases(blocks_override=None, auto_fit=True), tokens=st.integers(1, 200_000))
def test_a_length_that_is_fitted_to_the_memory_is_no_shorter(release, case, tokens) -> None:
    """Where the memory does not hold one promoted block, the larger page may cost tokens, as the
    patch says."""
    before, after = both(release, case)
    memory = []
    for made in stage_groups(release.pristine, case, before):
        assume(block_row_bytes(made))
        needed = needed_bytes(release.pristine, case, made, min(tokens, case.max_model_len))
        memory.append(needed + block_row_bytes(made))
    old = started(release.pristine, case, memory)
    raised = promoted(before, after)
    if old is None or (raised and old[0] < min(spec.block_size for _, spec in raised)):
        return
    new = started(release.patched, case, memory)
    assert new is not None
    assert new[0] >= old[0]


@settings(max_examples=EXAMPLES // 4)
@given(case=cases(blocks_override=5000))
def test_a_number_of_blocks_that_is_asked_for_keeps_its_bytes(release, case) -> None:
    """Broken: the number not looked at."""
    before, after = both(release, case)
    assert shapes(after) == shapes(before)


@settings(max_examples=EXAMPLES)
@given(case=cases(prefix_caching=True))
def test_prefixes_are_found_at_the_same_lengths_and_no_manager_refuses(release, case) -> None:
    """Broken: the common multiple of the blocks, or the hashed blocks, not looked at."""
    before, after = both(release, case)
    if not promoted(before, after):
        return
    old, new = (
        release.pristine.resolve_kv_cache_block_sizes(_Groups(made), case.config())
        for made in (before, after)
    )
    assert new[0] == old[0]
    assert new[1] % old[1] == 0
    # What the coordinator of 0.26 and later aligns hits to, and the window manager asserts.
    partial = any(
        isinstance(g.kv_cache_spec, MambaSpec)
        and g.kv_cache_spec.mamba_cache_mode == "align"
        and g.kv_cache_spec.block_size > new[1]
        for g in after
    )
    alignment = new[1] if partial else new[0]
    for _, spec in promoted(before, after):
        assert alignment % spec.block_size == 0
    assert math.lcm(*(g.kv_cache_spec.block_size for g in after)) == new[0]


class _Groups:
    """As much of a KVCacheConfig as its block sizes are resolved from."""

    def __init__(self, made: list[Any]) -> None:
        self.kv_cache_groups = made


def test_the_release_s_own_unification_is_untouched(release) -> None:
    for name in ("unify_kv_cache_spec_page_size", "_get_kv_cache_groups_uniform_page_size"):
        sources = [inspect.getsource(vars(m)[name]) for m in (release.pristine, release.patched)]
        assert sources[0] == sources[1]
