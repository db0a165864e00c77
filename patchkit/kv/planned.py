"""A plan as a value: what a release makes of a model, a format and an amount of memory.

Sizes are of one rank, the one with the least room, unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """How the engine is started; what is None is what the release does by itself.

    `memory_bytes` is what one rank has for the cache, 16-bit tail rows of a tiled format included.
    """

    memory_bytes: int
    max_model_len: int | None = None  # tokens; None: the model's
    draft_tokens: int = 0
    prefix_caching: bool = True
    state_cache_mode: str | None = None  # "none", "align" or "all"; None: by prefix caching
    prefix_match_unit: int | None = None  # tokens
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    async_scheduling: bool = True
    block_size: int | None = None  # tokens, as --block-size
    backend: str | None = None  # attention backend; None: the first that takes the format
    platform: str = "cuda"  # or "cpu"
    promotion: bool = True  # with patches/…/block-promotion.patch, on releases that it is for
    group_rule: str = "upstream"  # or "even": see kv.grouping
    prefill_checkpoints: bool = False  # of states, as FlashInfer's kernels for them keep


@dataclass(frozen=True)
class Kind:
    """Layers of one kind, which have one block and one page: full, window or state."""

    kind: str
    format: str  # what these layers cache; "" for states
    layers: int
    groups: int  # block tables; 0 where the layers of the kind before share theirs
    window: int | None  # tokens
    token_bytes: int  # of one layer, unpadded; 0 for states
    born_block: int  # tokens, as the layer asks for it
    block: int  # tokens, as the engine has it
    kernel_block: int  # tokens, as a kernel sees it
    content_bytes: int  # of a page
    page_bytes: int
    blocks_per_request: Callable[[int], int] = field(compare=False)  # of one group, by tokens

    @property
    def padding_bytes(self) -> int:
        """What a page is padded by."""
        return self.page_bytes - self.content_bytes


def blocks_of(kinds: Sequence[Kind], tokens: int) -> int:
    """Return the blocks that a request of so many tokens takes, in all groups together."""
    return sum(kind.groups * kind.blocks_per_request(tokens) for kind in kinds)


@dataclass(frozen=True)
class Plan:
    """What fits."""

    format: str
    release: str
    options: Options
    max_model_len: int  # tokens
    kinds: tuple[Kind, ...]
    page_bytes: int
    group_size: int  # layers of one group, which share a block id
    block_bytes: int  # of one block id: page_bytes x group_size, or what the groups take
    tail_bytes: int  # 16-bit rows of a tiled format, beside the pages; 0 for others
    available_bytes: int  # for pages
    num_blocks: int
    blocks_per_request: int  # at max_model_len
    needed_bytes: int  # for one request at max_model_len
    state_bytes_per_request: int
    tokens: int  # as the engine logs "KV cache size"
    concurrency: float  # as the engine logs "Maximum concurrency"
    longest: int  # tokens: the longest request that fits, at most the model's maximum
    fits: bool  # whether the engine starts
    limit: str  # what bounds the context, for people
    steps: tuple[str, ...]  # how blocks and pages came about, for people
    notes: tuple[str, ...]  # what was assumed
    resident: Callable[[int], int] = field(compare=False)  # requests of that many tokens at once


@dataclass(frozen=True)
class Refusal:
    """Why a release cannot serve this model in this format, as a value."""

    format: str
    release: str
    reason: str
    expected: str | None = None
    hint: str | None = None


class RefusedError(Exception):
    """Raised where a release would refuse to start, or would go wrong; `plan` makes a value of it.

    The three texts are those of `Refusal`.
    """

    def __init__(self, reason: str, *, expected: str | None = None, hint: str | None = None):
        self.reason = reason
        self.expected = expected
        self.hint = hint
        super().__init__(reason)
