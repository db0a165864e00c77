"""The invariants of block promotion, over mixes of layers, on the release's own functions.

Each property names what has to be broken in the patch's function for it to fail: every one of
these was broken, and the property failed.
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
if not stored_versions():
    pytest.skip("no series is stored for this release", allow_module_level=True)

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
    assume(not refused(release.pristine, case))
    return groups(release.pristine, case), groups(release.patched, case)


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


@settings(max_examples=EXAMPLES)
@given(case=cases())
def test_every_page_is_the_common_page_and_none_holds_less_than_its_layer(release, case) -> None:
    """Broken: the ratio rounded down."""
    before, after = both(release, case)
    assert len(pages(after)) == 1
    for group in after:
        spec = group.kv_cache_spec
        if not isinstance(spec, UniformTypeKVCacheSpecs):  # full layers alone: nothing is padded
            assert unpadded_bytes(spec) <= spec.page_size_bytes
    for _, spec in promoted(before, after):
        # the page that is new is one of those that are raised; none of them is half empty
        assert 2 * unpadded_bytes(spec) > spec.page_size_bytes


@settings(max_examples=EXAMPLES)
@given(case=cases())
def test_a_page_is_newly_padded_only_where_blocks_are_known_to_be_read_whole(release, case) -> None:
    """Broken: no such check; a draft model or a backend for a kind of layers not asked for."""
    before, after = both(release, case)
    named = case.backend in ("TRITON_ATTN", "CPU_ATTN")
    whole = named and not case.kind_backends and not case.drafter
    for old, new in zip(before, after, strict=True):
        was, spec = old.kv_cache_spec, new.kv_cache_spec
        if not isinstance(spec, AttentionSpec) or spec.page_size_padded is None:
            continue
        if was.page_size_padded is None or was.block_size != spec.block_size:
            assert whole or spec.kv_quant_mode is TOKEN_HEAD


@settings(max_examples=EXAMPLES)
@given(case=cases())
def test_a_block_is_a_multiple_of_the_one_that_its_layer_was_created_with(release, case) -> None:
    """Broken: the block is raised to what the page of others holds, no multiple."""
    before, after = both(release, case)
    for group in after:
        for name in group.layer_names:
            born = case.layers[name]
            block = group.kv_cache_spec.block_size
            assert block % born.block_size == 0
            if isinstance(born, AttentionSpec) and block > born.block_size:
                assert born.page_size_padded is None
    assert [g.layer_names for g in after] == [g.layer_names for g in before]


@settings(max_examples=EXAMPLES)
@given(case=cases())
def test_no_page_grows_by_more_than_the_promoted_layers_need(release, case) -> None:
    """Broken: a ratio of one block more."""
    before, after = both(release, case)
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


@settings(max_examples=EXAMPLES)
@given(case=cases())
def test_what_the_patch_does_not_concern_is_as_without_it(release, case) -> None:
    """Broken: layers are raised that were padded when they were created, or that are of a kind
    whose block means something else; the configuration is left with another length."""
    config, layers = case.config(), dict(case.layers)
    assume(not refused(release.pristine, case))
    before = groups(release.pristine, case)
    after = release.patched.get_kv_cache_groups(config, layers)
    assert config.model_config.max_model_len == case.max_model_len
    assert layers == case.layers
    (page,) = pages(before)
    candidates = {
        name
        for name, spec in case.layers.items()
        if type(spec) in (FullAttentionSpec, SlidingWindowSpec)
        and spec.page_size_padded is None
        and page % spec.page_size_bytes
    }
    raised = {n for g, w in zip(after, before, strict=True)
              if g.kv_cache_spec.block_size != w.kv_cache_spec.block_size
              for n in g.layer_names}  # fmt: skip
    assert raised in (set(), candidates)
    if not raised:
        assert shapes(after) == shapes(before)
        return
    for group, was in zip(after, before, strict=True):
        if not raised & set(group.layer_names):
            spec, old = group.kv_cache_spec, was.kv_cache_spec
            assert spec in (old, replace(old, page_size_padded=spec.page_size_bytes))


@settings(max_examples=EXAMPLES)
@given(case=cases())
def test_what_cannot_be_unified_is_refused_or_replaced_as_without_the_patch(release, case) -> None:
    """Broken: the refusal of the larger page reaches the caller."""
    assert refused(release.patched, case) == refused(release.pristine, case)


@settings(max_examples=EXAMPLES)
@given(case=cases())
def test_a_request_never_needs_more_from_one_promoted_block_on(release, case) -> None:
    """Broken: no look at what is needed; only at the longest request; only from the largest
    promoted block on."""
    before, after = both(release, case)
    raised = promoted(before, after)
    if not raised:
        return
    first = min(spec.block_size for _, spec in raised)
    for tokens in lengths(case, after, min(first, case.max_model_len)):
        old = needed_bytes(release.pristine, case, before, tokens)
        assert needed_bytes(release.patched, case, after, tokens) <= old, tokens


@settings(max_examples=EXAMPLES)
@given(case=cases(), tokens=st.integers(1, 2000))
def test_below_one_promoted_block_it_needs_more_by_no_more_than_the_page(
    release, case, tokens
) -> None:
    """Broken: a ratio that is rounded down and padded, or any group that takes more blocks."""
    before, after = both(release, case)
    raised = promoted(before, after)
    if not raised:
        return
    (page,), (new,) = pages(before), pages(after)
    old = needed_bytes(release.pristine, case, before, tokens)
    assert needed_bytes(release.patched, case, after, tokens) * page <= old * new


@settings(max_examples=EXAMPLES)
@given(case=cases(blocks_override=None, auto_fit=False), spare=st.integers(-2, 40), odd=st.data())
def test_what_starts_starts_and_holds_no_fewer_tokens(release, case, spare, odd) -> None:
    """Broken: the page that a pool loses where it is no multiple is not counted."""
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
    """Broken: only the longest request is looked at. Where the memory does not hold one promoted
    block, the larger page may cost tokens, as it says in the patch."""
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


@settings(max_examples=EXAMPLES)
@given(case=cases(blocks_override=5000))
def test_a_number_of_blocks_that_is_asked_for_keeps_its_bytes(release, case) -> None:
    """Broken: the number is not asked for."""
    before, after = both(release, case)
    assert shapes(after) == shapes(before)


@settings(max_examples=EXAMPLES)
@given(case=cases(prefix_caching=True))
def test_prefixes_are_found_at_the_same_lengths_and_no_manager_refuses(release, case) -> None:
    """Broken: the common multiple of the blocks grows; the hashed blocks are not asked for."""
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
