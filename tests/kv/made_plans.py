"""Plans made by hand: the golden configurations of a hybrid with a sliding-window drafter."""

from __future__ import annotations

from patchkit.kv.planned import Kind, Options, Plan, Refusal

MEMORY_BYTES = 5_261_334_938
OPTIONS = Options(MEMORY_BYTES, draft_tokens=7, max_num_batched_tokens=2048, max_num_seqs=64)
NVFP4 = Refusal("nvfp4", "v0.28.0", "no card that is named has it", "a B200", "see the formats")


def made_plan(
    name: str, token_bytes: int, block: int, page_bytes: int, window: tuple[str, int, int, int],
    max_model_len: int, tail_bytes: int = 0,
) -> Plan:  # fmt: skip
    """Return a plan of 16 full layers, 48 states and 5 windows of 2,048 tokens, in groups of 8.

    `window` is the format of these, their bytes of a token, their block and the blocks of a
    request of any length.
    """
    window_format, window_bytes, window_block, window_blocks = window

    def full_blocks(tokens: int) -> int:
        return -(-tokens // block)

    def blocks(tokens: int) -> int:
        return 2 * full_blocks(tokens) + 6 * 9 + window_blocks

    content = window_block * window_bytes
    kinds = (
        Kind("full", name, 16, 2, None, token_bytes, 16, block, 16, block * token_bytes,
             page_bytes, full_blocks),
        Kind("state", "", 48, 6, None, 0, block, block, block, 1_777_664, page_bytes, lambda _: 9),
        Kind("window", window_format, 5, 1, 2048, window_bytes, 16, window_block, 16, content,
             page_bytes, lambda _: window_blocks),
    )  # fmt: skip
    num_blocks = MEMORY_BYTES // page_bytes // 8
    needed = blocks(max_model_len)
    longest = min(max_model_len, (num_blocks - 54 - window_blocks) // 2 * block)
    return Plan(
        format=name, release="v0.28.0", options=OPTIONS, max_model_len=max_model_len, kinds=kinds,
        page_bytes=page_bytes, group_size=8, block_bytes=8 * page_bytes, tail_bytes=tail_bytes,
        available_bytes=MEMORY_BYTES, num_blocks=num_blocks, blocks_per_request=needed,
        needed_bytes=needed * 8 * page_bytes, state_bytes_per_request=54 * 8 * page_bytes,
        tokens=num_blocks * max_model_len // needed, concurrency=num_blocks / needed,
        longest=longest, fits=needed <= num_blocks,
        limit="the 245,760 tokens of the model" if needed <= num_blocks else "memory",
        steps=("a block of 2,176 tokens is 17 tiles", "windows from 16 to 128 tokens"),
        notes=("states in float16",), resident=lambda tokens: num_blocks // blocks(tokens),
    )  # fmt: skip


def kvarn() -> Plan:
    """Return the plan that is published: 329 of 359 blocks, 268,169 tokens."""
    window = ("auto", 4096, 128, 49)
    return made_plan(
        "kvarn_k4v2_g128", 840, 2176, 1_827_840, window, 245_760, tail_bytes=587_202_560
    )


def auto() -> Plan:
    """Return one that does not start: a request needs 1,167 blocks of 358."""
    return made_plan("auto", 4096, 448, 1_835_008, ("auto", 4096, 448, 15), 245_760)


def int4() -> Plan:
    """Return one that fits too."""
    return made_plan("int4_per_token_head", 1056, 1696, 1_790_976,
                     ("int4_per_token_head", 1088, 1696, 5), 245_760)  # fmt: skip
