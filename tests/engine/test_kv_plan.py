"""The planner against a release's own functions, from the layers to the token count.

Models are made up: full, window and state layers in all mixes, of all formats. What the release
comes to is in startup.py; here both are compared, figure by figure, the float included.
"""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.kv.birth import Nursery
from patchkit.kv.formats import read_formats
from patchkit.kv.layers import AttentionLayer, Layer, Model, StateLayer, StateTensor
from patchkit.kv.layout import lay_out
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
CASES = int(os.environ.get("KV_PLAN_CASES", "300"))
HERE = [
    name
    for name in FORMATS.names
    if FORMATS.get(name).needs is None and FORMATS.get(name).missing_on(RELEASE) is None
]


def planning_module():
    """The release's module of page planning."""
    name = "vllm.v1.core.kv_cache_planning"
    if importlib.util.find_spec(name) is None:
        name = "vllm.v1.core.kv_cache_utils"
    return importlib.import_module(name)


@st.composite
def models(draw) -> Model:
    """A model: a few kinds of layers, each repeated, and a drafter sometimes."""
    kinds = draw(
        st.lists(st.sampled_from(["full", "window", "state"]), min_size=1, max_size=4).filter(
            lambda kinds: kinds != ["state"] * len(kinds)
        )
    )
    heads = draw(st.sampled_from([1, 2, 4, 8]))
    size = draw(st.sampled_from([64, 80, 96, 128, 192, 256]))
    shapes = {
        "full": (heads, size, size),
        "window": draw(
            st.sampled_from([(heads, size, size), (2 * heads, size // 2, size // 2), (4, 128, 128)])
        ),
    }
    window = draw(st.sampled_from([128, 1000, 1024, 4096]))
    state = draw(states())
    repeats = draw(st.integers(1, 6))
    layers: list[Layer] = []
    for index in range(repeats * len(kinds)):
        kind = kinds[index % len(kinds)]
        layers.append(made(kind, index, shapes, window, state))
    count = len(layers)
    drafters = draw(st.integers(0, 3))
    if drafters:
        shape = draw(st.sampled_from([shapes["full"], (8, 128, 128), (4, 64, 64)]))
        kept = draw(st.sampled_from([None, 2048]))
        layers += [AttentionLayer(count + n, *shape, kept, drafter=True) for n in range(drafters)]
    return Model(
        name="made up",
        architecture=draw(st.sampled_from(["LlamaForCausalLM", "Qwen3MoeForCausalLM"])),
        dtype=draw(st.sampled_from(["bfloat16", "float16", "float32"])),
        num_layers=count,
        num_attention_heads=64,
        max_model_len=draw(st.integers(1, 300_000)),
        layers=tuple(layers),
    )


def made(kind, index, shapes, window, state) -> Layer:
    if kind == "state":
        return StateLayer(index, state.tensors, chunk=state.chunk)
    return AttentionLayer(index, *shapes[kind], window if kind == "window" else None)


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
        memory_bytes=draw(st.integers(1 << 24, 1 << 36)),
        max_model_len=draw(st.none() | st.integers(1, 200_000)),
        draft_tokens=draw(st.sampled_from([0, 0, 1, 3, 7])),
        prefix_caching=draw(st.booleans()),
        state_cache_mode=draw(st.sampled_from([None, None, *RULES.state_cache_modes])),
        tensor_parallel=draw(st.sampled_from([1, 1, 2, 4, 8])),
        pipeline_parallel=draw(st.sampled_from([1, 1, 1, 2, 3])),
        max_num_batched_tokens=draw(st.sampled_from([512, 2048, 8192])),
        async_scheduling=draw(st.booleans()),
        block_size=draw(st.sampled_from([None, None, None, 16, 32, 64, 128, 256])),
        prefix_match_unit=draw(st.sampled_from([None, None, None, 16, 128]))
        if RULES.has_prefix_match_unit
        else None,
        promotion=False,
    )


def figures(made_up: Model, name: str, asked: Options) -> Started | Refusal:
    """What the planner comes to, in the words of the other side."""
    planned = plan(made_up, FORMATS.get(name), asked, RELEASE, formats=FORMATS)
    if isinstance(planned, Refusal):
        return planned
    nursery = Nursery(made_up, FORMATS.get(name), FORMATS, asked, RULES)
    layout = lay_out(nursery, asked.max_model_len or made_up.max_model_len)
    return planned, layout


def differences(made_up: Model, name: str, asked: Options, engine: Engine) -> list[str]:
    """What planner and release do not agree on: nothing, it is to be hoped."""
    theirs = engine.start(made_up, FORMATS.get(name), asked, FORMATS)
    ours = figures(made_up, name, asked)
    if isinstance(ours, Refusal):
        if isinstance(theirs, NotStarted) or theirs.splits_padded:
            return []
        if any(layer.window for layer in made_up.attention):
            known = FORMATS.get(name).no_window_on(RELEASE)  # it starts, and goes wrong
            if known is not None and ours.reason.startswith(known):
                return []
        return [f"refused: {ours.reason}"]
    if theirs == NotStarted("no block"):
        return [] if not ours[0].fits and ours[0].num_blocks == 0 else ["some block"]
    if isinstance(theirs, NotStarted):
        return [f"not refused: {theirs.error}"]
    planned, layout = ours
    pages = {str(place): (page.block, page.page_bytes) for place, page in enumerate(layout.pages)}
    groups = tuple(tuple(map(str, sorted(group.places))) for group in layout.groups)
    pairs = {
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


def test_the_planner_comes_to_what_the_release_comes_to(engine) -> None:
    @settings(
        max_examples=CASES,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(models(), st.sampled_from(HERE), options())
    def check(made_up: Model, name: str, asked: Options) -> None:
        assert differences(made_up, name, asked, engine) == []

    check()
