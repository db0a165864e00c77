"""How recurrent states are cached: in which mode, in how many blocks of a request."""

from __future__ import annotations

from patchkit.kv.layers import Model
from patchkit.kv.planned import Options, RefusedError
from patchkit.kv.rules import Rules

CHECKPOINT_TOKENS = 64  # between states kept inside a prefill (FLASHINFER_GDN_CHECKPOINT_ALIGNMENT)


def cache_mode(model: Model, options: Options, rules: Rules) -> tuple[str, str | None]:
    """Return the mode that a release takes, "none", "align" or "all", and what is to be told of it.

    Without prefix caching states are kept for running requests only. With it they are kept at the
    ends of blocks, unless "all" is asked for, or is the default up to 0.27.1, and the kernels can
    (MambaModelConfig, in model_executor/models/config.py).
    """
    asked = options.state_cache_mode
    if asked is not None and asked not in rules.state_cache_modes:
        known = ", ".join(rules.state_cache_modes)
        raise RefusedError(f"{rules.release} has no state cache mode {asked!r}", expected=known)
    if not options.prefix_caching:
        told = None
        if asked not in (None, "none"):
            told = f"state cache mode {asked!r} is 'none' without prefix caching"
        return "none", told
    wanted = rules.state_cache_default if asked in (None, "none") else asked
    told = f"state cache mode 'none' is {wanted!r} with prefix caching" if asked == "none" else None
    if wanted == "all" and not all(layer.chunk for layer in model.states):
        wanted = "align"
        if asked is not None:
            told = f"state cache mode {asked!r} is 'align', since these states have no chunks"
    return wanted, told


def keeps_checkpoints(mode: str, options: Options, rules: Rules) -> bool:
    """Return whether a prefill keeps states inside it, which needs a block more."""
    return options.prefill_checkpoints and mode == "align" and rules.aligned_to_checkpoints
