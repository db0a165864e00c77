"""How a release lays out a model's cache: pages, groups and blocks, before any memory is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchkit.kv.align import Primary, align_to_states, align_to_wider, first_block
from patchkit.kv.birth import Setup, born
from patchkit.kv.capacity import Needs, has_drafter, tokens_in_flight
from patchkit.kv.grouping import Group, group, is_one_group
from patchkit.kv.kernel_blocks import common_block
from patchkit.kv.layers import ITEM_BYTES, AttentionLayer, Model
from patchkit.kv.pages import FULL, STATE, Page
from patchkit.kv.planned import Options, RefusedError
from patchkit.kv.prefix import check_tile, match_unit
from patchkit.kv.promotion import Promotion, promote
from patchkit.kv.ranks import heads_per_rank
from patchkit.kv.rules import Backend, Rules
from patchkit.kv.states import CHECKPOINT_TOKENS, cache_mode, keeps_checkpoints
from patchkit.kv.steps import group_step, page_steps
from patchkit.kv.unify import unify


@dataclass(frozen=True)
class Layout:
    """Pages layer by layer, as born and as they are; groups; what states need beside their own."""

    born: tuple[Page, ...]
    pages: tuple[Page, ...]
    groups: tuple[Group, ...]
    kernel_blocks: tuple[int, ...]  # of the groups, in tokens
    needs: Needs
    steps: tuple[str, ...]
    notes: tuple[str, ...]


def lay_out(setup: Setup, max_model_len: int) -> Layout:
    """Return the layout of a whole model; refused where the release cannot serve it."""
    model, options, rules = setup.model, setup.options, setup.rules
    mode, told = cache_mode(model, options, rules) if model.states else ("none", None)
    checkpoints = bool(model.states) and keeps_checkpoints(mode, options, rules)
    primary = _primary(setup, mode, checkpoints)
    states_block = primary.state_block or _states_block(primary, mode, max_model_len)
    at_birth = tuple(born(setup, layer, primary, states_block) for layer in model.layers)
    needs = Needs(
        tokens_in_flight(model, options, rules), mode, options.draft_tokens, int(checkpoints)
    )
    by = Promotion(
        _named(options, model, rules),
        rules,
        mode,
        max_model_len,
        has_drafter(model, options),
        needs.blocks,
    )
    _check_values(at_birth, rules)
    pages, groups = _grouped(at_birth, by)
    unit = match_unit(groups, primary.block, mode, options, rules)
    check_tile(unit, setup.format.tile, setup.format.name)
    sharing = group_step(groups, pages, options.pipeline_parallel)
    return Layout(
        born=at_birth,
        pages=pages,
        groups=groups,
        kernel_blocks=tuple(_kernel_block(each, pages) for each in groups),
        needs=needs,
        steps=(*primary.steps, *page_steps(at_birth, pages), *sharing),
        notes=() if told is None else (told,),
    )


def _named(options: Options, model: Model, rules: Rules) -> Options:
    """Return the options with the backend that vLLM names by itself on a CPU."""
    sizes = {layer.head_dim for layer in model.attention if not layer.drafter}
    if options.backend or options.platform != "cpu" or len(sizes) == 1:
        return options
    for beginning, backend in rules.backend_of_mixed_heads.items():
        if model.architecture.startswith(beginning):
            return replace(options, backend=backend)
    return options


def _states_block(primary: Primary, mode: str, max_model_len: int) -> int:
    """Return the block of states that nothing was aligned to."""
    return primary.block if mode == "align" else max_model_len


def _primary(setup: Setup, mode: str, checkpoints: bool) -> Primary:
    model, options, rules = setup.model, setup.options, setup.rules
    backends = list(dict.fromkeys(setup.served(layer).backend for layer in model.attention))
    if not backends:
        return Primary(options.block_size or 16)
    primary = Primary(first_block(backends, options.block_size, options.platform, rules))
    first = _first_of_target(setup)
    if model.is_hybrid:
        primary = align_to_states(
            primary.block,
            setup.token_bytes(first),
            max(setup.state_bytes(layer) for layer in model.states),
            backends,
            mode=mode,
            chunk=model.states[0].chunk,
            checkpoint_tokens=CHECKPOINT_TOKENS if checkpoints else 1,
            rules=rules,
        )
        _check_batch(primary, mode, options, rules)
    if setup.stays_wider(first):
        primary = _beside_wider(setup, primary, first, backends[0])
    return primary


def _first_of_target(setup: Setup) -> AttentionLayer:
    """Return the layer whose heads a release takes for those of the model, as config.json has them.

    Values are taken to be as wide as keys.
    """
    first = next(layer for layer in setup.model.attention if not layer.drafter)
    return AttentionLayer(first.index, first.num_kv_heads, first.head_dim, first.head_dim)


def _beside_wider(
    setup: Setup, primary: Primary, first: AttentionLayer, backend: Backend
) -> Primary:
    """Return the block where the first layer stays wider: its backend knows of no packing."""
    heads = heads_per_rank(first.num_kv_heads, setup.options.tensor_parallel)
    elements = 2 * heads * first.head_dim
    wider = elements * ITEM_BYTES[setup.model.dtype]
    return align_to_wider(primary, elements, wider, backend)


def _check_batch(primary: Primary, mode: str, options: Options, rules: Rules) -> None:
    most = options.max_num_batched_tokens
    if mode == "align" and rules.aligned_block_in_one_batch and primary.block > most:
        raise RefusedError(
            f"a block of {primary.block:,} tokens does not fit into a batch of {most:,}, as"
            f" {rules.release} needs where states are cached at the ends of blocks",
            expected=f"max_num_batched_tokens of {primary.block:,} or more",
            hint="no prefix caching, or 0.27.0 or later",
        )


def _check_values(at_birth: Sequence[Page], rules: Rules) -> None:
    """Refuse layers that a release takes for one kind though their values are not equally wide.

    FullAttentionSpec.merge, in v1/kv_cache_interface.py, compares all but the width of values, and
    gives every layer the page of the first.
    """
    alike = {replace(page, shape=page.shape[:2], token_bytes=0) for page in at_birth}
    widths = sorted({page.token_bytes for page in at_birth})
    if at_birth[0].kind != FULL or len(alike) > 1 or len(widths) == 1:
        return
    if rules.merges_value_widths:
        raise RefusedError(
            f"full layers take {', '.join(f'{width:,}' for width in widths)} bytes a token and"
            f" differ in the width of their values alone: {rules.release} gives all of them the"
            " page of the first",
            hint="0.28.0 or later",
        )


def _grouped(at_birth: Sequence[Page], by: Promotion) -> tuple[tuple[Page, ...], tuple[Group, ...]]:
    """Return the pages as they are at last, layer by layer, and the groups of layers.

    Unless one group has them all they are brought to one size.
    """
    options, rules = by.options, by.rules
    pages = tuple(at_birth) if is_one_group(at_birth) else unify(at_birth, rules)
    groups = group(pages, options.group_rule)
    if len(groups) == 1 or not (options.promotion and rules.promotion):
        return pages, groups
    promoted = promote(groups, at_birth, by)
    page_of = {place: each.page for each in promoted for place in each.places}
    return tuple(page_of[place] for place in range(len(pages))), promoted


def _kernel_block(each: Group, pages: Sequence[Page]) -> int:
    if each.page.kind == STATE:
        return each.page.block
    mine = [pages[place] for place in each.places]
    backends = list(dict.fromkeys(page.backend for page in mine if page.backend is not None))
    block = common_block(each.page.block, backends)
    for page in mine:
        if block != page.block and page.page_bytes != page.content_bytes:
            raise RefusedError(
                f"a {page.kind} page of {page.content_bytes:,} bytes would be padded to"
                f" {page.page_bytes:,}, and its block of {page.block:,} tokens split into kernel"
                f" blocks of {block}: {backends[0].name} cannot split a padded page",
                hint="a backend that takes any multiple of 16 tokens, such as TRITON_ATTN",
            )
    return block
