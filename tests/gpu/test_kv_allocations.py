"""Pages and promoted blocks of a patched release, in the tensors that it really allocates.

Sizes are checked by literal numbers; where each layer's bytes lie, by writing a pattern through
the release's views and reading the raw bytes. On a CUDA device tensors pass 2^31 bytes. Every test
names after "Broken:" what was broken to see it fail.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from types import ModuleType

import pytest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

try:
    with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
        warnings.simplefilter("ignore")
        import torch
        from vllm.v1.core import kv_cache_utils
        from vllm.v1.worker.gpu import attn_utils

        if hasattr(attn_utils, "_reshape_kv_cache"):
            from tests.gpu.hybrid import STATE, Cache, allocate, scale_views
        else:
            pytest.skip("this release allocates otherwise than 0.28.0", allow_module_level=True)
except ImportError as error:
    pytest.skip(f"vLLM is not importable: {error}", allow_module_level=True)
pytestmark = pytest.mark.engine

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCKS = 1300 if DEVICE == "cuda" else 10  # of 1,824,768 bytes: 2.37 GB, or little
PAGE = 1_824_768  # bytes: 864 tokens of 8 x 2(128 + 4)
LAYERS_A_TENSOR = 4  # of the groups: full, two of state, window
UNTOUCHED = 0x5A


@pytest.fixture(scope="module")
def utils(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """The installed release's own planning, with the stored series where it has none."""
    if hasattr(kv_cache_utils, "_promote_small_blocks"):
        return kv_cache_utils
    try:
        from tests.engine.conftest import (
            MODULE,
            load_source,
            package_folder,
            patched_source,
            stored_series,
            stored_versions,
        )
    except ImportError as error:
        pytest.skip(f"the installed vLLM is not patched, and the series cannot be read: {error}")
    stored = stored_versions("block-promotion.patch")
    if not stored:
        pytest.skip("the installed vLLM is not patched, and no series is stored for it")
    path = tmp_path_factory.mktemp("patched") / "kv_cache_utils.py"
    source = (package_folder().parent / MODULE).read_bytes()
    path.write_bytes(patched_source(stored_series(stored[0]), source))
    return load_source("patchkit_allocated", path)


@pytest.fixture(params=["NHD", "HND"])
def cache(utils: ModuleType, request: pytest.FixtureRequest) -> Iterator[Cache]:
    """The cache in two rows of pages, and a little memory more that takes no further block."""
    memory = 2 * BLOCKS * PAGE + 1_000_000
    yield allocate(utils, memory, DEVICE, request.param)
    if DEVICE == "cuda":
        torch.cuda.empty_cache()


def test_the_window_is_promoted_and_all_pages_are_alike(cache: Cache) -> None:
    """Broken: the ratio rounded down; the old page kept as the common one; no promotion at all."""
    groups = cache.plan.kv_cache_groups
    kinds = sorted((g.layer_names[0].partition(".")[0], g.kv_cache_spec.block_size) for g in groups)
    assert kinds == [("full", 864), ("state", 2048), ("state", 2048), ("window", 864)]
    assert {g.kv_cache_spec.page_size_bytes for g in groups} == {PAGE}
    # 864 tokens of the window take the page to the byte; unpromoted it was 1.88 % of one
    assert cache.views["window.0"][0].numel() == PAGE
    assert cache.views["full.0"][0].numel() == 1_797_120


def test_what_is_allocated_is_what_was_planned(cache: Cache) -> None:
    """Broken: a tensor of one page more; layers that share none; blocks of the smaller page."""
    assert cache.plan.num_blocks == BLOCKS
    storages = {raw.untyped_storage().data_ptr(): raw for raw in cache.raw.values()}
    assert [raw.untyped_storage().nbytes() for raw in storages.values()] == [BLOCKS * PAGE] * 2
    assert [tensor.size for tensor in cache.plan.kv_cache_tensors] == [BLOCKS * PAGE] * 2
    for tensor in cache.plan.kv_cache_tensors:
        assert len(tensor.shared_by) == LAYERS_A_TENSOR
        assert len({cache.group_of[name] for name in tensor.shared_by}) == LAYERS_A_TENSOR
    spans = sorted((start, start + BLOCKS * PAGE) for start in storages)
    assert spans[0][1] <= spans[1][0]
    if DEVICE == "cuda":
        assert torch.cuda.memory_allocated() >= 2 * BLOCKS * PAGE


def test_each_view_stays_in_the_page_of_its_block(cache: Cache) -> None:
    """Broken: the block stride of the unpadded page; the view moved by 4 bytes."""
    for name, view in cache.views.items():
        size, start = view.element_size(), cache.raw[name].data_ptr()
        assert view.shape[0] == BLOCKS
        assert view.stride(0) * size == PAGE, name
        first = view.data_ptr() - start
        last = sum((n - 1) * s for n, s in zip(view.shape[1:], view.stride()[1:], strict=True))
        assert first == 0
        assert first + (last + 1) * size <= PAGE, name


def test_every_block_holds_the_bytes_of_its_own_layer_alone(
    cache: Cache, request: pytest.FixtureRequest
) -> None:
    """Blocks are dealt to the groups in turn; all layers write, then all pages are read.

    Broken: the block stride of the unpadded page; scale views from the strides of NHD in HND;
    scales of values at those of keys; tensors shared within a group.
    """
    for raw in cache.raw.values():
        raw.fill_(UNTOUCHED)
    heads_first = request.node.callspec.params["cache"] == "HND"
    groups = len(cache.plan.kv_cache_groups)
    for name in cache.views:
        write(cache, name, range(cache.group_of[name], BLOCKS, groups))
    for tensor in cache.plan.kv_cache_tensors:
        pages = cache.raw[tensor.shared_by[0]].view(BLOCKS, PAGE)
        owners = {cache.group_of[name]: name for name in tensor.shared_by}
        for block in range(BLOCKS):
            name = owners[block % groups]
            right = torch.full((PAGE,), UNTOUCHED, dtype=torch.int8, device=DEVICE)
            held = content(name, block, heads_first)
            right[: held.numel()] = held
            assert torch.equal(pages[block], right), (name, block)


def seed_of(name: str, block: int) -> int:
    """A number of a layer and block; neighbours differ by what no code wraps around to."""
    kind, _, index = name.partition(".")
    return 17 * int(index) + 59 * ("full", "state", "window").index(kind) + 7 * block


def codes(name: str, block: int, heads: int, tokens: int, size: int, side: int) -> torch.Tensor:
    """The codes of keys (side 0) or values (1) of a block: `[tokens, heads, size]` int8."""
    number = torch.arange(tokens * heads, device=DEVICE).view(tokens, heads, 1) * 13
    number = number + torch.arange(size, device=DEVICE) * 3 + seed_of(name, block) + 101 * side
    return (number % 251 - 125).to(torch.int8)


def scales(name: str, block: int, heads: int, tokens: int, side: int) -> torch.Tensor:
    """The scales of a block: `[tokens, heads]` float32, all distinct within it."""
    number = torch.arange(tokens * heads, device=DEVICE).view(tokens, heads)
    return ((number + 1) * (1 if side == 0 else -1)).float() + seed_of(name, block) / 8192


def write(cache: Cache, name: str, blocks: range) -> None:
    """Write a layer's blocks through the views that the release's backend reads."""
    view = cache.views[name]
    if name.startswith("state"):
        for block in blocks:
            view[block].view(-1)[:STATE] = codes(name, block, 1, 1, STATE, 0).view(-1)
        return
    _, heads, tokens, width = view.shape
    size = width // 2 - 4
    key, value = view.transpose(1, 2).split(width // 2, dim=-1)
    kept = scale_views_without_reset(cache, name)
    for block in blocks:
        for side, data in enumerate((key, value)):
            data[block, ..., :size] = codes(name, block, heads, tokens, size, side)
            kept[side][block] = scales(name, block, heads, tokens, side)


def scale_views_without_reset(cache: Cache, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The backend's views of a layer's scales. It fills them with 1, which is undone here."""
    before = cache.raw[name].clone()
    made = scale_views(cache.views[name])
    cache.raw[name].copy_(before)
    return made


def content(name: str, block: int, heads_first: bool) -> torch.Tensor:
    """The bytes that a page begins with, put together from nothing but sizes."""
    if name.startswith("state"):
        return codes(name, block, 1, 1, STATE, 0).view(-1)
    heads, tokens, size = (4, 864, 256) if name.startswith("full") else (8, 864, 128)
    parts = []
    for side in (0, 1):
        parts.append(codes(name, block, heads, tokens, size, side))
        scale = scales(name, block, heads, tokens, side)
        parts.append(scale[..., None].view(torch.int8))
    token = torch.cat(parts, dim=-1)  # [tokens, heads, content]
    return (token.transpose(0, 1) if heads_first else token).contiguous().view(-1)
