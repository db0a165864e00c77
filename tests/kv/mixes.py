"""Models that tests plan for, and how: the model of the published counts, and small ones."""

from __future__ import annotations

from dataclasses import replace

from patchkit.kv.formats import read_formats
from patchkit.kv.layers import AttentionLayer, Layer, Model, StateLayer, StateTensor
from patchkit.kv.plan import plan
from patchkit.kv.planned import Kind, Options, Plan, Refusal

FORMATS = read_formats()
GIB = 1 << 30
POOL = 5_583_457_484  # bytes for pages, of the published counts with formats of 16 and 8 bits
TILED_POOL = 5_261_334_938  # bytes for pages, of those with tiles
FULL_LAYERS = 16
STATES = (
    StateTensor("convolution", 10240, 1, "float16", width=3, grows_with_drafts=True),
    StateTensor("recurrent", 48, 128 * 128, "float16"),
)


def model(
    *layers: Layer, heads: int = 24, dtype: str = "bfloat16", longest: int = 262_144
) -> Model:
    """A model of these layers."""
    own = sum(not layer.drafter for layer in layers)
    name = (
        "HybridForCausalLM" if any(isinstance(layer, StateLayer) for layer in layers) else "Dense"
    )
    return Model("a model", name, dtype, own, heads, longest, layers)


def full(
    count: int, heads: int = 4, size: int = 256, *, first: int = 0, drafter: bool = False
) -> list[Layer]:
    """Layers that see everything, one behind another."""
    places = range(first, first + count)
    return [AttentionLayer(place, heads, size, size, drafter=drafter) for place in places]


def windows(
    count: int,
    heads: int = 8,
    size: int = 128,
    window: int = 2048,
    *,
    first: int = 0,
    drafter: bool = False,
) -> list[Layer]:
    """Layers with a sliding window, one behind another."""
    places = range(first, first + count)
    return [AttentionLayer(place, heads, size, size, window, drafter) for place in places]


def published(
    drafter: bool = True, state_dtype: str = "float16", chunk: int | None = None
) -> Model:
    """16 full layers of 4 x 256 among 48 states, and a drafter's 5 of 8 x 128 with a window."""
    states = tuple(replace(tensor, dtype=state_dtype) for tensor in STATES)
    own: list[Layer] = []
    for place in range(64):
        own += full(1, first=place) if place % 4 == 3 else [StateLayer(place, states, chunk=chunk)]
    return model(*own, *(windows(5, drafter=True) if drafter else []))


def options(memory_bytes: int = POOL, **words: object) -> Options:
    """As the published counts were made, but for these words: a request at a time, groups of 8."""
    usual: dict[str, object] = {
        "max_num_batched_tokens": 2048,
        "max_num_seqs": 1,
        "group_rule": "even",
    }
    return Options(memory_bytes=memory_bytes, **{**usual, **words})  # type: ignore[arg-type]


def tried(mix: Model, name: str, how: Options, release: str = "0.28.0") -> Plan | Refusal:
    """A plan, or why there is none."""
    return plan(mix, FORMATS.get(name), how, release, formats=FORMATS)


def planned(mix: Model, name: str, how: Options, release: str = "0.28.0") -> Plan:
    """A plan."""
    found = tried(mix, name, how, release)
    assert isinstance(found, Plan), found
    return found


def refused(mix: Model, name: str, how: Options, release: str = "0.28.0") -> Refusal:
    """Why there is no plan."""
    found = tried(mix, name, how, release)
    assert isinstance(found, Refusal), found
    return found


def kind(of: Plan, name: str) -> Kind:
    """The only kind of layers of this name."""
    (found,) = (each for each in of.kinds if each.kind == name)
    return found


def tail(name: str, draft_tokens: int) -> int:
    """Bytes beside the pages that one request takes in the full layers of the published model."""
    return FULL_LAYERS * FORMATS.get(name).tail_bytes(4, 256, 256, draft_tokens)
