"""A plan: what a release makes of a model, a format and an amount of memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from patchkit.errors import PatchkitError
from patchkit.kv.birth import Setup
from patchkit.kv.capacity import (
    NULL_BLOCKS,
    block_bytes,
    concurrent_batches,
    longest,
)
from patchkit.kv.formats import Format, Formats
from patchkit.kv.layers import AttentionLayer, Model
from patchkit.kv.layout import Layout, lay_out
from patchkit.kv.pages import FULL, STATE, WINDOW, Page
from patchkit.kv.planned import Kind, Options, Plan, Refusal, RefusedError, blocks_of
from patchkit.kv.ranks import check_tensor_parallel, heads_per_rank, stages
from patchkit.kv.rules import Rules, rules_for

HELD = {FULL: "full attention", WINDOW: "sliding windows", STATE: "recurrent states"}


def plan(
    model: Model, kv_format: Format, options: Options, release: str, *, formats: Formats
) -> Plan | Refusal:
    """Return what fits, or why the release cannot serve this model in this format.

    `formats` holds what other layers than those of `kv_format` cache. Raises PatchkitError for a
    release that is not modelled, and for options that make no sense.
    """
    rules = rules_for(release)
    _check(options)
    try:
        setup = Setup(model, kv_format, formats, options, rules)
        _check_format(kv_format, options, rules)
        check_tensor_parallel(model, options.tensor_parallel)
        most = options.max_model_len or model.max_model_len
        layout = lay_out(setup, most)
        return _planned(setup, layout, most)
    except RefusedError as refused:
        return Refusal(
            kv_format.name, rules.release, refused.reason, refused.expected, refused.hint
        )


def _check(options: Options) -> None:
    """Raise PatchkitError for options that no engine could be started with."""
    least = {
        "memory_bytes": 0,
        "draft_tokens": 0,
        "tensor_parallel": 1,
        "pipeline_parallel": 1,
        "max_num_batched_tokens": 1,
        "max_num_seqs": 1,
        "max_model_len": 1,
        "block_size": 1,
        "prefix_match_unit": 1,
    }
    for name, low in least.items():
        value = getattr(options, name)
        if value is not None and value < low:
            raise PatchkitError(f"{name} is {value}", expected=f"{low} or more")
    for name, known in {"platform": ("cuda", "cpu"), "group_rule": ("upstream", "even")}.items():
        value = getattr(options, name)
        if value not in known:
            raise PatchkitError(f"{name} is {value!r}", expected=f"one of {', '.join(known)}")


def _check_format(kv_format: Format, options: Options, rules: Rules) -> None:
    """Refuse a format that the release, the platform or the chosen backend does not take."""
    missing = kv_format.missing_on(rules.release)
    if missing is not None:
        raise RefusedError(missing)
    if options.platform == "cpu":
        if kv_format.name not in rules.cpu_formats:
            known = ", ".join(rules.cpu_formats)
            raise RefusedError(f"the CPU has no backend for {kv_format.name}", expected=known)
    elif options.backend is not None and options.backend not in kv_format.backends:
        raise RefusedError(
            f"the attention backend {options.backend} does not take {kv_format.name}",
            expected=", ".join(kv_format.backends),
        )


@dataclass(frozen=True)
class Stage:
    """One pipeline stage: its layers by their places, and the room that one of its ranks has."""

    places: tuple[int, ...]
    block_bytes: int
    tail_bytes: int
    available_bytes: int

    @property
    def num_blocks(self) -> int:
        """The blocks that its memory holds."""
        return max(0, self.available_bytes // self.block_bytes)


def _stages(setup: Setup, layout: Layout) -> list[Stage]:
    found = []
    for number, places in enumerate(stages(setup.model, setup.options.pipeline_parallel), 1):
        size = block_bytes(layout.groups, layout.pages, places)
        if size == 0:
            raise RefusedError(f"pipeline stage {number} has no layer with a cache")
        tail = sum(_tail_bytes(setup, place) for place in places)
        tail *= setup.options.max_num_seqs
        found.append(Stage(places, size, tail, setup.options.memory_bytes - tail))
    return found


def _tail_bytes(setup: Setup, place: int) -> int:
    """Return the 16-bit rows that one request keeps in one layer, beside its pages."""
    layer = setup.model.layers[place]
    if not isinstance(layer, AttentionLayer):
        return 0
    heads = heads_per_rank(layer.num_kv_heads, setup.options.tensor_parallel)
    return setup.served(layer).format.tail_bytes(
        heads, layer.head_dim, layer.head_dim_v, setup.options.draft_tokens
    )


def _planned(setup: Setup, layout: Layout, most: int) -> Plan:
    options, rules = setup.options, setup.rules
    stage = min(_stages(setup, layout), key=lambda each: each.num_blocks)
    kinds = _kinds(layout, stage)
    blocks = partial(blocks_of, kinds)

    def resident(tokens: int) -> int:
        """Requests of so many tokens that are in memory at once, at most max_num_seqs.

        One block is never given out: the pool keeps it to stand for none. No request is longer
        than the maximum.
        """
        usable = max(0, stage.num_blocks - NULL_BLOCKS)
        return 0 if tokens > most else min(options.max_num_seqs, usable // blocks(tokens))

    checked_bytes = stage.available_bytes
    if rules.null_block_checked:
        checked_bytes -= NULL_BLOCKS * stage.block_bytes
    longest_tokens = longest(lambda tokens: stage.block_bytes * blocks(tokens), checked_bytes, most)
    # In the release's own floating point, since that is the number that it logs.
    concurrency = stage.num_blocks / blocks(most)
    state_blocks = blocks_of([kind for kind in kinds if kind.kind == STATE], most)
    return Plan(
        format=setup.format.name,
        release=rules.release,
        options=options,
        max_model_len=most,
        kinds=kinds,
        page_bytes=max(page.page_bytes for page in layout.pages),
        group_size=max(_members(each.places, stage) for each in layout.groups),
        block_bytes=stage.block_bytes,
        tail_bytes=stage.tail_bytes,
        available_bytes=stage.available_bytes,
        num_blocks=stage.num_blocks,
        blocks_per_request=blocks(most),
        needed_bytes=stage.block_bytes * blocks(most),
        state_bytes_per_request=stage.block_bytes * state_blocks,
        tokens=int(concurrency * most),
        concurrency=concurrency,
        longest=longest_tokens,
        fits=longest_tokens == most,
        limit=_limit(setup, kinds, longest_tokens, most),
        steps=layout.steps,
        notes=_notes(setup, layout, stage, blocks(longest_tokens), most),
        resident=resident,
    )


def _kinds(layout: Layout, stage: Stage) -> tuple[Kind, ...]:
    """Return the kinds of layers of a stage, in the order of their groups."""
    tables: dict[Page, int] = {}
    members: dict[Page, list[int]] = {}
    kernel_blocks: dict[Page, int] = {}
    for each, kernel_block in zip(layout.groups, layout.kernel_blocks, strict=True):
        tables[each.page] = tables.get(each.page, 0) + 1
        for place in each.places:
            members.setdefault(layout.pages[place], []).append(place)
            kernel_blocks[layout.pages[place]] = kernel_block
    return tuple(
        Kind(
            kind=page.kind,
            format=page.format,
            layers=_members(places, stage),
            groups=tables.get(page, 0),
            window=page.window,
            token_bytes=page.token_bytes,
            born_block=layout.born[places[0]].block,
            block=page.block,
            kernel_block=kernel_blocks[page],
            content_bytes=page.content_bytes,
            page_bytes=page.page_bytes,
            blocks_per_request=partial(layout.needs.blocks, page),
        )
        for page, places in members.items()
    )


def _members(places: Sequence[int], stage: Stage) -> int:
    return len(set(places) & set(stage.places))


def _limit(setup: Setup, kinds: Sequence[Kind], longest_tokens: int, most: int) -> str:
    if longest_tokens == most:
        whose = "model's maximum" if most == setup.model.max_model_len else "maximum asked for"
        return f"the {whose}, {most:,} tokens"
    held: dict[str, int] = {}
    for kind in kinds:
        blocks = kind.groups * kind.blocks_per_request(max(1, longest_tokens))
        held[kind.kind] = held.get(kind.kind, 0) + blocks
    chief = FULL if longest_tokens and FULL in held else max(held, key=lambda kind: held[kind])
    total = sum(held.values())
    return f"memory: {held[chief]:,} of {total:,} blocks of a request hold {HELD[chief]}"


def _notes(setup: Setup, layout: Layout, stage: Stage, blocks: int, most: int) -> tuple[str, ...]:
    model, kv_format, options, rules = setup.model, setup.format, setup.options, setup.rules
    notes = [*model.notes, *layout.notes]
    if kv_format.needs is not None:
        notes.append(f"{kv_format.name} needs {kv_format.needs}")
    if kv_format.card is not None and options.platform == "cuda":
        notes.append(f"{kv_format.name} needs a card with {kv_format.card}")
    heads = min((layer.num_kv_heads for layer in model.attention), default=options.tensor_parallel)
    if heads < options.tensor_parallel:
        notes.append(
            f"{heads} KV heads on {options.tensor_parallel} ranks: each rank keeps one, and each"
            f" head is kept {options.tensor_parallel // heads} times"
        )
    if most > model.max_model_len:
        notes.append(f"the model is made for {model.max_model_len:,} tokens")
    if blocks == stage.num_blocks and not rules.null_block_checked:
        notes.append(
            f"{rules.release} starts where the longest request needs all {blocks:,} blocks, but one"
            " is never given out: that request cannot be served"
        )
    if options.pipeline_parallel > 1 and any(page.window for page in layout.pages):
        batches = concurrent_batches(model, options, rules)
        notes.append(f"taken to run {batches} batches at a time, as its default runner does")
    unlike = [
        str(number)
        for number, places in enumerate(stages(model, options.pipeline_parallel), 1)
        if model.is_hybrid
        and not any(isinstance(model.layers[place], AttentionLayer) for place in places)
    ]
    if unlike:
        notes.append(
            f"pipeline stage {', '.join(unlike)} has states alone, whose pages are taken to be"
            " those of the other stages; vLLM aligns each stage by its own attention layers"
        )
    return tuple(notes)
