"""A Hugging Face config.json as a model of the cache: which layers keep what.

Read as vLLM and transformers' configuration classes read it; what they fill in is in the notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from patchkit.errors import PatchkitError
from patchkit.kv.config_fields import Fields
from patchkit.kv.context import max_model_len
from patchkit.kv.families import HEADS, QUOTIENT, drafter_bounds, missing_on, mixes_dflash_windows
from patchkit.kv.layers import AttentionLayer, Layer, Model, StateLayer, StateTensor
from patchkit.kv.precision import model_dtype, state_dtype
from patchkit.kv.rules import modelled
from patchkit.kv.text_model import TextModel, find_text_model
from patchkit.kv.windows import (
    FULL,
    LINEAR,
    common_window,
    layer_kinds,
    layer_windows,
    sliding_window,
)

# Of which one says how many experts a model has (get_num_experts, in
# transformers_utils/model_arch_config_convertor.py).
_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")


@dataclass(frozen=True)
class _Heads:
    """What one layer keeps of a token."""

    num_kv_heads: int
    head_dim: int


def read_model(
    target: Mapping[str, object],
    *,
    name: str,
    drafter: Mapping[str, object] | None = None,
    drafter_name: str = "",
    own_drafter: bool = False,
    dtype: str | None = None,
    state_dtype: str | None = None,
    release: str | None = None,
) -> Model:
    """Return a model, with its drafter, from parsed config.json files.

    `name` and `drafter_name` are the files, for people. `own_drafter` takes the drafting (MTP)
    layers of the target's own checkpoint. `dtype` and `state_dtype` are as --dtype and
    --mamba-ssm-cache-dtype; None is what vLLM takes. Contexts and drafters' windows are as
    `release` has them ("0.28.0"; None: the newest that is modelled). Raises PatchkitError, with
    file and field, for a model that is not known or a field that is missing or makes no sense.
    """
    if drafter is not None and own_drafter:
        fact = "a drafter is given, and the target's own is asked for"
        raise PatchkitError(fact, place=drafter_name or None, expected="one of the two")
    release = release or modelled()[-1]
    text = _read_text_model(target, name, release, drafter=False)
    dtype = model_dtype(text, dtype)
    layers, common = _target_layers(text, dtype, state_dtype)
    context = max_model_len(text.fields, text.family, release)
    has_experts = _has_experts(text.fields)
    notes = text.fields.notes
    if own_drafter:
        layers = (*layers, *_own_drafter(text))
    if drafter is not None:
        drafting = _read_text_model(drafter, drafter_name or "the drafter", release, drafter=True)
        layers = (*layers, *_drafter_layers(drafting, common, release))
        _note_context(drafting, context, release)
        notes = [*notes, *(f"drafter: {note}" for note in drafting.fields.notes)]
    return Model(
        name=name,
        architecture=text.architecture,
        dtype=dtype,
        num_layers=text.fields.count("num_hidden_layers"),
        num_attention_heads=text.fields.count("num_attention_heads"),
        max_model_len=context,
        layers=layers,
        has_experts=has_experts,
        notes=tuple(notes),
    )


def _read_text_model(
    config: Mapping[str, object], file: str, release: str, *, drafter: bool
) -> TextModel:
    """The text model of a file, which the release must have."""
    text = find_text_model(config, file, drafter=drafter)
    missing = missing_on(text.architecture, release)
    if missing is not None:
        expected = f"an architecture that vLLM {release} has"
        raise text.top.wrong("architectures", missing, expected)
    return text


def _has_experts(fields: Fields) -> bool:
    """Whether a model is a mixture of experts; a dense one may have null for their number."""
    left_out = [name for name in _EXPERTS if name not in fields.values]
    said = [name for name in _EXPERTS if fields.given(name)]
    return any(fields.number(name) for name in (*said, *left_out))


def _target_layers(
    text: TextModel, dtype: str, asked: str | None
) -> tuple[tuple[Layer, ...], int | None]:
    """The layers of a target, and the window that layers without one of their own have."""
    fields, family = text.fields, text.family
    number = fields.count("num_hidden_layers")
    window = sliding_window(fields, family)
    kinds = layer_kinds(fields, family, number, window)
    common = common_window(kinds, window)
    windows = layer_windows(fields, family, kinds, window, common, number)
    states = family.states and _gated_delta_net(fields, dtype, state_dtype(text, asked, dtype))
    heads = _heads(text, kinds or (FULL,) * number)
    layers: list[Layer] = []
    for index in range(_first_without_cache(text, kinds, number)):
        if states and kinds and kinds[index] == LINEAR:
            layers.append(StateLayer(index, states))
        else:
            one = heads[index]
            layers.append(
                AttentionLayer(index, one.num_kv_heads, one.head_dim, one.head_dim, windows[index])
            )
    return tuple(layers), common


def _drafter_layers(
    text: TextModel, common: int | None, release: str
) -> tuple[AttentionLayer, ...]:
    """The layers of a drafter, which is kept in the target's type and cache configuration."""
    fields, family = text.fields, text.family
    if family.states:
        fact = f"{text.architecture} has recurrent states, which no drafter keeps"
        hint = "MTP layers of the target's own checkpoint need no config.json"
        raise fields.wrong("layer_types", fact, "a drafter of attention layers", hint)
    if family.caches == "none":
        fields.note("all its layers read the target's caches")
        return ()
    number = fields.count("num_hidden_layers")
    window = sliding_window(fields, family)
    kinds = layer_kinds(fields, family, number, window)
    windows = layer_windows(fields, family, kinds, window, common, number)
    if family.windows == "dflash":
        _check_dflash_windows(fields, windows, release)
    heads = _heads(text, kinds or (FULL,) * number)
    return tuple(
        AttentionLayer(i, one.num_kv_heads, one.head_dim, one.head_dim, windows[i], drafter=True)
        for i, one in enumerate(heads[: _first_without_cache(text, kinds, number)])
    )


def _check_dflash_windows(fields: Fields, windows: tuple[int | None, ...], release: str) -> None:
    """Refuse a DFlash drafter whose layers a release does not tell from each other."""
    if len(set(windows)) > 1 and not mixes_dflash_windows(release):
        hint = "later releases serve it"
        expected = f"windows in all layers or none, as vLLM {release} has them"
        raise fields.wrong("layer_types", "has windows in some layers", expected, hint)


def _note_context(text: TextModel, context: int, release: str) -> None:
    """Note that a drafter has a shorter context, where its release may hold the target to it.

    It does so with a drafter that is a model of its own; which it is, vLLM is told by an option.
    """
    fields = text.fields
    if text.family.drafts(text.architecture) or not drafter_bounds(release):
        return
    own = max_model_len(fields, text.family, release)
    if own < context:
        fields.note(f"as a model of its own it may bound the context to {own} tokens")


def _own_drafter(text: TextModel) -> tuple[AttentionLayer, ...]:
    """The MTP layers of a checkpoint: full attention with the target's heads."""
    own = text.family.own_drafter
    if own is None:
        fact = f"{text.architecture} is read without drafting layers of its own"
        expected = "a drafter's config.json, or a model with MTP layers (Qwen3-Next, Qwen3.5)"
        raise PatchkitError(fact, place=text.top.file, expected=expected)
    if text.fields.given(own.field):
        number = text.fields.count(own.field)
    else:
        number = own.default
        text.fields.fill(own.field, number)
    one = _heads(text, (FULL,))[0]
    return tuple(
        AttentionLayer(i, one.num_kv_heads, one.head_dim, one.head_dim, drafter=True)
        for i in range(number)
    )


def _heads(text: TextModel, kinds: tuple[str, ...]) -> tuple[_Heads, ...]:
    """What each layer keeps of a token."""
    fields = text.fields
    common = _Heads(_num_kv_heads(fields), _head_dim(text))
    if not text.family.full_layers_differ:
        return (common,) * len(kinds)
    if fields.given("per_layer_config"):
        return _heads_by_layer(fields, common, len(kinds))
    full = replace(common, head_dim=fields.count("global_head_dim"))
    if fields.flag("attention_k_eq_v") and fields.given("num_global_key_value_heads"):
        number = _dividing(fields, "num_global_key_value_heads")
        full = replace(full, num_kv_heads=number)
    return tuple(full if kind == FULL else common for kind in kinds)


def _heads_by_layer(fields: Fields, common: _Heads, number: int) -> tuple[_Heads, ...]:
    """What transformers writes when it saves a model whose layers differ."""
    table = fields.part("per_layer_config")
    assert table is not None
    heads = [common] * number
    for key in table.values:
        # written with leading zeros
        if not key.isdecimal() or int(key) >= number:
            raise fields.wrong(f"per_layer_config.{key}", "is no layer", f"0 to {number - 1}")
        layer = table.part(key) or Fields({}, fields.file)
        if layer.given("head_dim"):
            heads[int(key)] = replace(heads[int(key)], head_dim=layer.count("head_dim"))
        if layer.given("num_key_value_heads"):
            kv_heads = layer.count("num_key_value_heads")
            heads[int(key)] = replace(heads[int(key)], num_kv_heads=kv_heads)
    return tuple(heads)


def _num_kv_heads(fields: Fields) -> int:
    if not fields.given("num_key_value_heads") and (
        fields.defaults.get("num_key_value_heads") == HEADS
    ):
        number = fields.count(HEADS)
        fields.fill("num_key_value_heads", number, HEADS)
        return number
    return _dividing(fields, "num_key_value_heads")


def _dividing(fields: Fields, name: str) -> int:
    """A number of KV heads, of which each serves as many query heads."""
    heads, number = fields.count(HEADS), fields.count(name)
    if heads % number:
        raise fields.wrong(name, f"is {number}", f"a divisor of {HEADS}, {heads}")
    return number


def _head_dim(text: TextModel) -> int:
    """Values of a head; vLLM computes it for some families, come what may."""
    fields = text.fields
    computed = fields.defaults.get("head_dim") == QUOTIENT
    if fields.given("head_dim"):
        head_dim = fields.count("head_dim")
        if text.family.head_dim_is_quotient and head_dim != (quotient := _quotient(fields)):
            hint = f"vLLM's {text.family.name} computes it and reads no such field"
            expected = f"{QUOTIENT} = {quotient}, or no such field"
            raise fields.wrong("head_dim", f"is {head_dim}", expected, hint)
        return head_dim
    if not computed:
        return fields.count("head_dim")
    head_dim = _quotient(fields)
    fields.fill("head_dim", head_dim, QUOTIENT)
    return head_dim


def _quotient(fields: Fields) -> int:
    hidden, heads = fields.count("hidden_size"), fields.count(HEADS)
    if hidden % heads:
        raise fields.wrong("hidden_size", f"is {hidden}", f"a multiple of {HEADS}, {heads}")
    return hidden // heads


def _first_without_cache(text: TextModel, kinds: tuple[str, ...] | None, number: int) -> int:
    """Where the layers begin that read the caches of others."""
    shared = text.fields.number("num_kv_shared_layers")
    if text.family.caches == "own" or not shared:
        return number
    name = "num_kv_shared_layers"
    first = number - shared
    if first <= 0:
        raise text.fields.wrong(name, f"is {shared}", f"less than num_hidden_layers, {number}")
    for kind in (kinds or ())[first:]:
        if kind not in (kinds or ())[:first]:
            expected = f"a layer of {kind} before the last {shared}, whose cache they read"
            raise text.fields.wrong(name, f"is {shared}", expected)
    text.fields.note(f"the last {shared} layers read the caches of layers before them")
    return first


def _gated_delta_net(fields: Fields, dtype: str, ssm_dtype: str) -> tuple[StateTensor, ...]:
    """The two tensors of `MambaStateShapeCalculator.gated_delta_net_state_shape`.

    The convolution keeps kernel - 1 columns of queries, keys and values; ranks share out the key
    heads, each with its value heads.
    """
    keys, values = fields.count("linear_num_key_heads"), fields.count("linear_num_value_heads")
    key_dim, value_dim = fields.count("linear_key_head_dim"), fields.count("linear_value_head_dim")
    kernel = fields.count("linear_conv_kernel_dim")
    if values % keys:
        expected = f"a multiple of linear_num_key_heads, {keys}"
        raise fields.wrong("linear_num_value_heads", f"is {values}", expected)
    if kernel < 2:
        raise fields.wrong("linear_conv_kernel_dim", f"is {kernel}", "2 or more")
    channels = 2 * key_dim + values // keys * value_dim  # of one key head
    conv = StateTensor("conv", keys, channels, dtype, kernel - 1, grows_with_drafts=True)
    return conv, StateTensor("recurrent", values, value_dim * key_dim, ssm_dtype)
