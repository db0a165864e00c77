"""The planner against a release's own functions, from the layers to the token count.

Models are made up: full, window and state layers in all mixes, of all formats. What the release
comes to is in startup.py; here both are compared, figure by figure, the float included.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import warnings

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    from vllm.v1.attention.backend import AttentionBackend

from patchkit.kv.birth import Setup
from patchkit.kv.formats import read_formats
from patchkit.kv.layers import AttentionLayer, Layer, Model, StateLayer, StateTensor
from patchkit.kv.layout import Layout, lay_out
from patchkit.kv.pages import STATE
from patchkit.kv.plan import plan
from patchkit.kv.planned import Options, Plan, Refusal
from patchkit.kv.rules import modelled, rules_for
from tests.engine.conftest import package_folder, release_version
from tests.engine.startup import Engine, NotStarted, Started

pytestmark = pytest.mark.engine

FORMATS = read_formats()
RELEASE = release_version(package_folder())
if RELEASE not in modelled():
    pytest.skip(f"{RELEASE} is not modelled", allow_module_level=True)
RULES = rules_for(RELEASE)
CASES = int(os.environ.get("KV_PLAN_CASES", "60"))
HERE = [
    name
    for name in FORMATS.names
    if FORMATS.get(name).needs is None and FORMATS.get(name).missing_on(RELEASE) is None
]

UNEVEN = [name for name in HERE if name.endswith("_per_token_head")]
PORTED = [name for name in FORMATS.names if FORMATS.get(name).needs is not None]
# From 0.28.0 on a backend says how it packs.
PACKS_BY_BACKEND = hasattr(AttentionBackend, "customize_spec")
TILED_KINDS = ("full", "other full", "state")
KINDS = ("full", "full", "other full", "narrow", "window", "other window", "state", "state")
# Weighted: a card, and a CPU sometimes.
PLATFORMS = ("cuda", "cuda", "cuda", "cpu")
BACKENDS = (None, None, None, "TRITON_ATTN", "FLEX_ATTENTION", "FLASHINFER")

# A refusal in our words, and the error of a release that it says beforehand.
SPLIT = " cannot split a padded page"
CAUSES = (
    (" pipeline stages", "a stage has no layer"),
    (" cannot be split into kernel blocks", " has no blocks of "),
    (" does not divide the largest page of ", " is not divisible by the maximum page size "),
    (" cannot pad the page of a recurrent state, ", " not divisible by the maximum page size "),
    (" cannot pad the page of a recurrent state, ", "AssertionError: "),
    (" is padded already, ", "AssertionError: "),
    (" more than the shared page of ", "AssertionError: "),
    (" does not fit into a batch of ", " must be <= max_num_batched_tokens "),
    (" are no multiples of the prefix match unit ", "Invalid prefix_match_unit="),
    (" where there is one group: ", "with a single KV cache group"),
)
# What is found before all else, or says nothing of why.
UNTOLD = ("ValueError: a stage has no layer", "no block")


def planning_module():
    """The release's module of page planning."""
    name = "vllm.v1.core.kv_cache_planning"
    if importlib.util.find_spec(name) is None:
        name = "vllm.v1.core.kv_cache_utils"
    return importlib.import_module(name)


@st.composite
def models(draw, *, tiled: bool = False) -> Model:
    """A model: a few kinds of layers, repeated, and a drafter sometimes.

    One for a format that is `tiled` has no windows, which a port keeps out of the release's hands.
    """
    kinds = draw(st.lists(st.sampled_from(TILED_KINDS if tiled else KINDS), min_size=1, max_size=4))
    heads = draw(st.sampled_from([1, 2, 4, 8]))
    size = draw(st.sampled_from([64, 128, 256] if tiled else [64, 80, 96, 128, 192, 256]))
    wide = (heads, size, size)
    halved = (2 * heads, size // 2, size // 2)
    shapes = {
        "full": wide,
        "other full": draw(st.sampled_from([(8, 64, 64) if tiled else halved, (4, 128, 128)])),
        "narrow": (heads, size, 64),
        "window": draw(st.sampled_from([wide, wide, halved, (heads, size, 128)])),
        "other window": draw(st.sampled_from([wide, halved, (4, 128, 128)])),
    }
    windows = draw(st.tuples(*[st.sampled_from([128, 1000, 1024, 4096])] * 2))
    kept = {"window": windows[0], "other window": windows[1]}
    state = draw(states())
    layers: list[Layer] = []
    for index in range(draw(st.integers(1, 6)) * len(kinds)):
        kind = kinds[index % len(kinds)]
        if kind == "state":
            layers.append(StateLayer(index, state.tensors, chunk=state.chunk))
        else:
            layers.append(AttentionLayer(index, *shapes[kind], kept.get(kind)))
    if not any(isinstance(layer, AttentionLayer) for layer in layers):
        layers.append(AttentionLayer(len(layers), *wide))
    count = len(layers)
    shape = draw(st.sampled_from([wide, (8, 128, 128), (4, 64, 64)]))
    drafted = None if tiled else draw(st.sampled_from([None, 2048]))
    for index in range(count, count + draw(st.sampled_from([0, 0, 1, 2, 5]))):
        layers.append(AttentionLayer(index, *shape, drafted, drafter=True))
    return Model(
        name="made up",
        architecture=draw(st.sampled_from(["LlamaForCausalLM", "GraniteMoeForCausalLM"])),
        has_experts=draw(st.booleans()),
        dtype=draw(st.sampled_from(["bfloat16", "float16", "float32"])),
        num_layers=count,
        num_attention_heads=64,
        max_model_len=draw(st.integers(1, 300_000)),
        layers=tuple(layers),
    )


@st.composite
def uneven_models(draw) -> Model:
    """A hybrid with windows whose pages do not divide those of its full layers."""
    heads, size = draw(st.sampled_from([(4, 256), (2, 256), (8, 128), (4, 128)]))
    state = draw(states())
    full, kept = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    count = full * (1 + kept)
    layers: list[Layer] = []
    for index in range(count):
        if index % (1 + kept) == kept:
            layers.append(AttentionLayer(index, heads, size, size))
        else:
            layers.append(StateLayer(index, state.tensors, chunk=state.chunk))
    narrow = (2 * heads, size // 2, size // 2, draw(st.sampled_from([512, 2048])))
    for index in range(count, count + draw(st.integers(1, 5))):
        layers.append(AttentionLayer(index, *narrow, drafter=True))
    return Model(
        name="made up",
        architecture="Made",
        dtype=draw(st.sampled_from(["bfloat16", "float32"])),
        num_layers=count,
        num_attention_heads=64,
        max_model_len=draw(st.sampled_from([4096, 40_000, 131_072])),
        layers=tuple(layers),
    )


@st.composite
def states(draw) -> StateLayer:
    heads = draw(st.sampled_from([16, 32, 48]))
    size = draw(st.sampled_from([64, 128]))
    dtype = draw(st.sampled_from(["float32", "float16", "bfloat16"]))
    tensors = (
        StateTensor("convolution", heads * 64, 1, "bfloat16", 3, grows_with_drafts=True),
        StateTensor("recurrent", heads, size * size, dtype),
    )
    return StateLayer(0, tensors, chunk=draw(st.sampled_from([None, None, 128, 256])))


@st.composite
def options(draw) -> Options:
    return Options(
        memory_bytes=draw(st.integers(1 << 24, 1 << 36) | st.integers(0, 1 << 24)),
        max_model_len=draw(st.none() | st.integers(1, 200_000) | st.integers(1, 64)),
        draft_tokens=draw(st.sampled_from([0, 0, 1, 3, 7, 40])),
        prefix_caching=draw(st.booleans()),
        state_cache_mode=draw(st.sampled_from([None, None, *RULES.state_cache_modes])),
        tensor_parallel=draw(st.sampled_from([1, 1, 2, 4, 8])),
        pipeline_parallel=draw(st.sampled_from([1, 1, 1, 2, 3, 4])),
        max_num_batched_tokens=draw(st.sampled_from([512, 2048, 8192, 1 << 16])),
        async_scheduling=draw(st.booleans()),
        block_size=draw(st.sampled_from([None, None, None, 16, 24, 32, 48, 64, 128, 256, 512])),
        prefix_match_unit=draw(st.sampled_from([None, None, 8, 16, 48, 128]))
        if RULES.has_prefix_match_unit
        else None,
        backend=draw(st.sampled_from(BACKENDS)),
        platform=draw(st.sampled_from(PLATFORMS)),
        prefill_checkpoints=RULES.aligned_to_checkpoints and draw(st.booleans()),
    )


def backend_for(name: str, asked: Options) -> Options:
    """The same options, with a platform and a backend that take the format."""
    if asked.platform == "cpu":
        if name in RULES.cpu_formats:
            return replace(asked, backend=None)
        asked = replace(asked, platform="cuda")
    taken = asked.backend is None or asked.backend in FORMATS.get(name).backends
    return asked if taken else replace(asked, backend=None)


def figures(made_up: Model, name: str, asked: Options) -> tuple[Plan, Layout] | Refusal:
    """What the planner comes to, in the words of the other side."""
    planned = plan(made_up, FORMATS.get(name), asked, RELEASE, formats=FORMATS)
    if isinstance(planned, Refusal):
        return planned
    setup = Setup(made_up, FORMATS.get(name), FORMATS, asked, RULES)
    layout = lay_out(setup, asked.max_model_len or made_up.max_model_len)
    return planned, layout


def is_right(refusal: Refusal, theirs: Started | NotStarted, made_up: Model, name: str) -> bool:
    """Whether a release stops for the same reason, or would start and then go wrong."""
    if isinstance(theirs, NotStarted) and theirs.error in UNTOLD:
        return True
    if isinstance(theirs, NotStarted) and any(
        mine in refusal.reason and real in theirs.error for mine, real in CAUSES
    ):
        return True
    if not isinstance(theirs, NotStarted) and SPLIT in refusal.reason:
        return theirs.splits_padded
    windows = FORMATS.get(name).no_window_on(RELEASE)
    if windows is not None and any(layer.window for layer in made_up.attention):
        return refusal.reason.startswith(windows)
    ours = (
        " cannot hold such heads: ",
        " ends inside a tile of ",
        " gives all of them the page of the first",
    )
    return any(words in refusal.reason for words in ours)


def differences(made_up: Model, name: str, asked: Options, engine: Engine) -> list[str]:
    """What planner and release do not agree on: nothing, it is to be hoped."""
    asked = backend_for(name, asked)
    ours = figures(made_up, name, asked)
    if not isinstance(ours, Refusal):  # rows beside the pages take nothing from the release's pages
        asked = replace(asked, memory_bytes=max(0, ours[0].available_bytes))
    theirs = engine.start(made_up, FORMATS.get(name), asked, FORMATS)
    if isinstance(ours, Refusal):
        return [] if is_right(ours, theirs, made_up, name) else [f"refused: {ours.reason}"]
    if theirs == NotStarted("no block"):
        return [] if not ours[0].fits and ours[0].num_blocks == 0 else ["some block"]
    if isinstance(theirs, NotStarted):
        return [f"not refused: {theirs.error}"]
    planned, layout = ours
    pages = {str(place): (page.block, page.page_bytes) for place, page in enumerate(layout.pages)}
    groups = tuple(tuple(map(str, sorted(group.places))) for group in layout.groups)
    kernel_blocks = {
        str(place): size
        for group, size in zip(layout.groups, layout.kernel_blocks, strict=True)
        for place in group.places
        if group.page.kind != STATE
    }
    pairs = {
        "kernel blocks": (kernel_blocks, theirs.kernel_blocks),
        "pages": (pages, theirs.pages),
        "groups": (groups, theirs.groups),
        "num_blocks": (planned.num_blocks, theirs.num_blocks),
        "needed": (planned.needed_bytes in theirs.needed_bytes, True),
        "tokens": (planned.tokens, theirs.tokens),
        "concurrency": (planned.concurrency, theirs.concurrency),
        "longest": (planned.longest, theirs.longest),
        "fits": (planned.fits, theirs.fits),
        "split": (False, theirs.splits_padded),
    }
    return [f"{what}: {mine} != {real}" for what, (mine, real) in pairs.items() if mine != real]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(planning_module())


CHECKED = settings(
    max_examples=CASES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@CHECKED
@given(models(), st.sampled_from(HERE), options())
def test_the_planner_comes_to_what_the_release_comes_to(engine, made_up, name, asked) -> None:
    asked = replace(asked, promotion=False)
    assert differences(made_up, name, asked, engine) == []


@pytest.mark.skipif(not RULES.promotion, reason=f"the block-promotion patch is not for {RELEASE}")
def test_the_planner_comes_to_what_the_patched_release_comes_to(release) -> None:
    engine = Engine(release.patched)
    promoted = set()

    @CHECKED
    @given(models() | uneven_models(), st.sampled_from(UNEVEN) | st.sampled_from(HERE), options())
    def check(made_up: Model, name: str, asked: Options) -> None:
        assert differences(made_up, name, asked, engine) == []
        asked = backend_for(name, asked)
        with_it = figures(made_up, name, asked)
        without = figures(made_up, name, replace(asked, promotion=False))
        if not isinstance(with_it, Refusal) and not isinstance(without, Refusal):
            promoted.add(with_it[1].pages != without[1].pages)

    check()
    assert promoted == {True, False} or RULES.padded_states is False


@pytest.mark.skipif(
    not PACKS_BY_BACKEND,
    reason=f"{RELEASE} asks no backend how it packs, so that a port has to change the layer",
)
@CHECKED
@given(models(tiled=True), st.sampled_from(PORTED), options())
def test_a_port_that_packs_tiles_comes_to_what_is_planned(engine, made_up, name, asked) -> None:
    asked = replace(asked, promotion=False)
    assert differences(made_up, name, asked, engine) == []
