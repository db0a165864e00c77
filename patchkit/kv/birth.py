"""The pages that layers ask for, before any of them is changed for the sake of the others."""

from __future__ import annotations

from dataclasses import dataclass

from patchkit.errors import PatchkitError
from patchkit.kv.align import Primary
from patchkit.kv.formats import Format, Formats
from patchkit.kv.kernel_blocks import largest_named_within, largest_within, smallest
from patchkit.kv.layers import AttentionLayer, Layer, Model, StateLayer
from patchkit.kv.pages import FULL, STATE, WINDOW, Page
from patchkit.kv.planned import Options, RefusedError
from patchkit.kv.ranks import heads_per_rank
from patchkit.kv.rules import Backend, Rules


@dataclass(frozen=True)
class Served:
    """A format as a platform serves it: with which backend."""

    format: Format
    backend: Backend


@dataclass(frozen=True)
class Setup:
    """What pages are made from: a model, a format, and how the engine is started."""

    model: Model
    format: Format
    formats: Formats
    options: Options
    rules: Rules

    def served(self, layer: AttentionLayer) -> Served:
        """Return the format and the backend of a layer."""
        chosen = self._format_of(layer)
        return Served(chosen, self._backend_of(chosen))

    def token_bytes(self, layer: AttentionLayer) -> int:
        """Return what a token takes in a layer, on one rank."""
        heads = heads_per_rank(layer.num_kv_heads, self.options.tensor_parallel)
        chosen = self._format_of(layer)
        try:
            return chosen.token_bytes(heads, layer.head_dim, layer.head_dim_v, self.model.dtype)
        except PatchkitError as error:
            raise RefusedError(
                f"{chosen.name} cannot hold such heads: {error.fact}", expected=error.expected
            ) from error

    def state_bytes(self, layer: StateLayer) -> int:
        """Return what a state takes, on one rank."""
        ranks, drafts = self.options.tensor_parallel, self.options.draft_tokens
        return sum(tensor.size_bytes(ranks, drafts) for tensor in layer.tensors)

    def stays_wider(self, layer: AttentionLayer) -> bool:
        """Return whether a layer of a dense model is so near an end that it stays `auto`."""
        ends = min(self.format.boundary_layers, self.model.num_layers // 2)
        inner = range(ends, self.model.num_layers - ends)
        return not (self.model.is_hybrid or layer.drafter or layer.index in inner)

    def _format_of(self, layer: AttentionLayer) -> Format:
        if self.stays_wider(layer):
            return self.formats.get("auto")
        if layer.window is None:
            return self.format
        cannot = self.format.no_window_on(self.rules.release)
        if cannot is not None:
            hint = "a model whose layers see everything can have it"
            raise RefusedError(cannot, expected="another format", hint=hint)
        assert self.format.window_format is not None
        return self.formats.get(self.format.window_format)

    def _backend_of(self, chosen: Format) -> Backend:
        if self.options.platform == "cpu":
            return self.rules.backend("CPU_ATTN", None)
        asked = self.options.backend
        name = asked if asked in chosen.backends else chosen.backend
        try:
            return self.rules.backend(name, chosen.tile)
        except PatchkitError as err:
            place = f"{chosen.name}: backends"
            raise PatchkitError(err.fact, place=place, expected=err.expected) from err


def born(setup: Setup, layer: Layer, primary: Primary, block_of_states: int) -> Page:
    """Return the page that a layer asks for.

    Sources: Attention.get_kv_cache_spec, and MambaBase.get_kv_cache_spec in
    model_executor/layers/mamba/abstract.py.
    """
    if isinstance(layer, StateLayer):
        return _state(setup, layer, primary, block_of_states)
    served = setup.served(layer)
    page = Page(
        kind=FULL if layer.window is None else WINDOW,
        format=served.format.name,
        shape=_shape(setup, layer),
        block=primary.block,
        token_bytes=setup.token_bytes(layer),
        window=layer.window,
        backend=served.backend,
    )
    return page if layer.window is None else _window(setup, page, primary)


def _shape(setup: Setup, layer: AttentionLayer) -> tuple[int, ...]:
    heads = heads_per_rank(layer.num_kv_heads, setup.options.tensor_parallel)
    return heads, layer.head_dim, layer.head_dim_v


def _state(setup: Setup, layer: StateLayer, primary: Primary, block: int) -> Page:
    return Page(
        kind=STATE,
        format="",
        shape=layer.tensors,
        block=block,
        token_bytes=0,
        state_bytes=setup.state_bytes(layer),
        padded_bytes=primary.state_page_bytes,
    )


def _window(setup: Setup, page: Page, primary: Primary) -> Page:
    tile, shared = setup.format.tile, primary.state_page_bytes
    if tile is not None and page.format != setup.format.name and shared is not None:
        return _beside_tiles(page, primary.block, shared, tile)
    assert page.backend is not None
    block = _window_block(page, page.backend, primary, setup.rules)
    return _padded_to(page.with_block(block), primary.shared_page_bytes)


def _window_block(page: Page, backend: Backend, primary: Primary, rules: Rules) -> int:
    shared = primary.shared_page_bytes
    if rules.window_birth == "primary":
        budget = shared or page.token_bytes * primary.block
        return largest_within(backend, page.token_bytes, budget)
    if shared is None:
        return smallest(backend)
    return largest_named_within(backend, page.token_bytes, shared)


def _padded_to(page: Page, shared: int | None) -> Page:
    if shared is not None and page.content_bytes > shared:
        raise RefusedError(
            f"{page.block:,} tokens of a sliding-window layer take {page.content_bytes:,} bytes,"
            f" more than the shared page of {shared:,}"
        )
    return page if shared is None else page.padded(shared)


def _beside_tiles(page: Page, primary_block: int, shared: int, tile: int) -> Page:
    """Return a window's page beside tiled ones: whole tiles, in a block that divides theirs.

    The block is what a prefix can be matched by, and a match inside a tile would read what is not
    packed yet: 272 divides 2,176 and fits better than 128, but is no multiple of a tile of 128.
    """
    fitting = [
        block
        for block in range(tile, primary_block + 1, tile)
        if primary_block % block == 0 and block * page.token_bytes <= shared
    ]
    if not fitting:
        raise RefusedError(
            f"a sliding-window layer beside tiles of {tile} tokens takes"
            f" {tile * page.token_bytes:,} bytes a tile, more than the shared page of {shared:,}",
            hint="a smaller tile, or fewer tensor-parallel ranks",
        )
    return page.with_block(max(fitting)).padded(shared)
