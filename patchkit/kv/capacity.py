"""What requests take, in blocks and bytes, and how long they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchkit.kv.grouping import Group
from patchkit.kv.layers import Model
from patchkit.kv.pages import STATE, WINDOW, Page
from patchkit.kv.planned import Options
from patchkit.kv.rules import Rules
from patchkit.kv.states import cache_mode

NULL_BLOCKS = 1  # a block pool keeps the first for what is no block


def concurrent_batches(model: Model, options: Options, rules: Rules) -> int:
    """Return how many batches run at a time (VllmConfig.max_concurrent_batches)."""
    stages = options.pipeline_parallel
    # CpuPlatform turns asynchronous scheduling off whoever asks for it.
    if not options.async_scheduling or options.platform == "cpu":
        return stages
    if _second_runner(model, options, rules):
        return stages + 1
    return 2 if stages == 1 else stages


def _second_runner(model: Model, options: Options, rules: Rules) -> bool:
    """Return whether the second of the two model runners is the default."""
    mode = cache_mode(model, options, rules)[0] if model.states else options.state_cache_mode
    if mode == "all" and not rules.second_runner_keeps_all_states:
        return False
    dense = not model.has_experts or model.architecture in rules.second_runner_with_experts
    return rules.second_runner == "all" or (dense and not model.is_hybrid)


def has_drafter(model: Model, options: Options) -> bool:
    """Return whether tokens are drafted."""
    return options.draft_tokens > 0 or any(layer.drafter for layer in model.layers)


def tokens_in_flight(model: Model, options: Options, rules: Rules) -> int:
    """Return the tokens that may be scheduled before blocks behind a window are given back."""
    one = rules.batches_in_flight == "one"
    batches = 1 if one else concurrent_batches(model, options, rules)
    return batches * options.max_num_batched_tokens


@dataclass(frozen=True)
class Needs:
    """What the blocks of a request depend on, beside its tokens and the page."""

    in_flight: int  # tokens
    mode: str  # of states
    draft_tokens: int
    checkpoint_blocks: int = 0

    def blocks(self, page: Page, tokens: int) -> int:
        """Return the blocks that a request of so many tokens needs in one group of such a page.

        These are the `max_memory_usage_bytes` of the specs in v1/kv_cache_interface.py. A window
        need not start where a block does, which takes one more.
        """
        if page.kind == STATE and self.mode != "all":
            kept = 2 + self.checkpoint_blocks if self.mode == "align" else 1
            return kept + self.draft_tokens
        if page.kind == WINDOW:
            assert page.window is not None
            return -(-min(page.window - 1 + self.in_flight, tokens) // page.block) + 1
        drafts = self.draft_tokens if page.kind == STATE else 0
        return -(-tokens // page.block) + drafts


def block_bytes(groups: Sequence[Group], pages: Sequence[Page], places: Sequence[int]) -> int:
    """Return what one block id takes in the layers at `places`: its pages in the largest group."""
    mine = set(places)
    return max(
        sum(pages[place].page_bytes for place in group.places if place in mine) for group in groups
    )


def longest(needed_bytes: Callable[[int], int], available_bytes: int, most: int) -> int:
    """Return the most tokens whose needed bytes are available, 0 where not even one's are.

    Needed bytes do not fall with the length (_estimate_max_model_len_from_groups).
    """
    if needed_bytes(1) > available_bytes:
        return 0
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if needed_bytes(middle) <= available_bytes:
            low = middle
        else:
            high = middle - 1
    return low
