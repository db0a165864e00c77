"""Which layers of a model see a window, and which have a recurrent state in place of keys."""

from __future__ import annotations

from patchkit.kv.config_fields import Fields
from patchkit.kv.families import Family

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"


def sliding_window(fields: Fields, family: Family) -> int | None:
    """Return the window that sliding layers have, in tokens; None where there is none.

    vLLM takes 0 as none (`ModelConfig.__post_init__`), and families with a switch have none
    until it is on.
    """
    if family.window_switch and not fields.flag(family.window_switch):
        return None
    if "sliding_window" in fields.values and not fields.given("sliding_window"):
        return None
    return fields.number("sliding_window") or None


def layer_kinds(
    fields: Fields, family: Family, num_layers: int, window: int | None
) -> tuple[str, ...] | None:
    """Return the kind of each layer: as listed, or as the family fills in; None: neither."""
    kinds = fields.texts("layer_types", family.kinds, num_layers)
    if kinds is None and family.pattern:
        every = family.pattern.every
        if family.pattern.field and fields.given(family.pattern.field):
            every = fields.count(family.pattern.field)
        fields.fill("layer_types", f"full attention in layers {every}, {2 * every} … (from 1)")
        kinds = tuple(family.rest if (i + 1) % every else FULL for i in range(num_layers))
    if kinds is None and family.full_until:
        first = fields.number(family.full_until) if window else num_layers
        kinds = tuple(SLIDING if i >= first else FULL for i in range(num_layers))
    if kinds and family.last_is_full and kinds[-1] != FULL:
        fields.note(f"the last layer is taken as full attention, not as {kinds[-1]}")
        kinds = (*kinds[:-1], FULL)
    return kinds


def common_window(kinds: tuple[str, ...] | None, window: int | None) -> int | None:
    """Return the window of layers that say none of their own (`CacheConfig.sliding_window`)."""
    return window if kinds is None or set(kinds) == {SLIDING} else None


def layer_windows(
    fields: Fields,
    family: Family,
    kinds: tuple[str, ...] | None,
    window: int | None,
    common: int | None,
    num_layers: int,
) -> tuple[int | None, ...]:
    """Return the window of each layer, in tokens; None is all of them.

    `common` is that of the target: a drafter's layers share its cache configuration.
    """
    if family.windows == "one kind" and kinds and len(set(kinds)) > 1:
        expected = "one kind of layers"
        hint = f"vLLM serves {family.name} with windows in all layers or in none"
        raise fields.wrong(family.full_until or "layer_types", "mixes layers", expected, hint)
    if family.windows == "even":
        listed = tuple(FULL if i % 2 else SLIDING for i in range(num_layers))
        if kinds != listed:
            hint = f"vLLM gives the window to every second layer of {family.name}, come what may"
            raise fields.wrong(
                "layer_types", "is another order", "sliding, full, sliding, full …", hint
            )
    if family.windows == "dflash":
        kinds, window = _dflash(fields, kinds, window, num_layers)
    if kinds is None or family.windows in ("uniform", "one kind"):
        return (common,) * num_layers
    own = tuple(window if kind == SLIDING else None for kind in kinds)
    return tuple(common if one is None else one for one in own)


def _dflash(
    fields: Fields, kinds: tuple[str, ...] | None, window: int | None, num_layers: int
) -> tuple[tuple[str, ...], int | None]:
    """Kinds and window as `_resolve_layer_attention` of qwen3_dflash.py has them."""
    own = fields.part("dflash_config") or Fields({}, fields.file)
    if own.flag("use_swa") and SLIDING not in (kinds or ()):
        kinds = (SLIDING,) * num_layers
    kinds = kinds or (FULL,) * num_layers
    if own.given("swa_window_size"):
        window = own.count("swa_window_size")
    if SLIDING in kinds and window is None:
        expected = "the window of the sliding layers, in tokens"
        hint = "or dflash_config.swa_window_size; sliding_window holds with use_sliding_window"
        raise fields.wrong("sliding_window", "there is none", expected, hint)
    return kinds, window
