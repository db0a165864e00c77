"""Where a prefix of tokens can be found again: the unit of matching, in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm

from patchkit.kv.grouping import Group
from patchkit.kv.pages import STATE
from patchkit.kv.planned import Options, RefusedError
from patchkit.kv.rules import Rules


def match_unit(
    groups: Sequence[Group], primary_block: int, mode: str, options: Options, rules: Rules
) -> int | None:
    """Return the tokens that a prefix is matched by; None where prefixes are not cached.

    Refused where a block of a group is no multiple of the unit that was asked for
    (resolve_kv_cache_block_sizes, in v1/core/kv_cache_utils.py).
    """
    asked = options.prefix_match_unit
    if asked is not None and not rules.has_prefix_match_unit:
        raise RefusedError(
            f"{rules.release} has no --prefix-match-unit", hint="it comes with 0.26.0"
        )
    if not options.prefix_caching:
        return None
    if len(groups) == 1:
        if rules.single_group_unit_checked and asked not in (None, primary_block):
            raise RefusedError(
                f"prefixes are matched by the block, {primary_block:,} tokens, where there is one"
                f" group: a unit of {asked:,} tokens cannot be had",
                expected=f"{primary_block} or none",
            )
        return primary_block
    blocks = [group.page.block for group in groups]
    if _states_apart(groups, primary_block, mode, rules):
        return lcm(*blocks)
    unit = gcd(*blocks) if asked is None else asked
    uneven = sorted({block for block in blocks if block % unit})
    if uneven:
        raise RefusedError(
            f"blocks of {', '.join(f'{block:,}' for block in uneven)} tokens are no multiples of"
            f" the prefix match unit of {unit:,} tokens",
            expected=f"a divisor of {gcd(*blocks):,}",
        )
    return unit


def _states_apart(groups: Sequence[Group], primary_block: int, mode: str, rules: Rules) -> bool:
    """Return whether states are kept elsewhere than at the ends of blocks, by mode or by block."""
    states = [group.page for group in groups if group.page.kind == STATE]
    if rules.states_apart == "mode":
        return bool(states) and mode != "align"
    return any(page.block != primary_block for page in states)


def check_tile(unit: int | None, tile: int | None, format_name: str) -> None:
    """Refuse a unit that ends inside a tile, which is packed only when it is full."""
    if unit is not None and tile is not None and unit % tile:
        raise RefusedError(
            f"a prefix match unit of {unit:,} tokens ends inside a tile of {tile} tokens of"
            f" {format_name}",
            expected=f"a multiple of {tile}",
            hint="a newer release, a larger --block-size or --no-prefix-caching may do",
        )
