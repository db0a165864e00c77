"""Whether a release needs block promotion: run by `patchkit test`, with and without the patch.

Nothing here asks for a version. The specs are those that the release's own layers choose, since a
spec made by hand would show the waste on every release; and the function that makes groups of one
page size of them is looked for, since it has moved between modules.
"""

import pkgutil
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import pytest
import torch
import vllm.v1.core
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.mamba.abstract import MambaBase
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

BLOCK = 864  # tokens: what releases choose for these layers where state layers are beside them
STATE_PAGE = (
    BLOCK * 4 * (256 + 4) * 2
)  # bytes: the page of a full layer, which states are padded to
WINDOW = 2048
MODEL_LEN = 32768  # tokens of the longest request
# A page that is padded by a small part is fine; sixteen tokens in a page for 864 are not.
TOLERATED = 1.1


class State(torch.nn.Module, MambaBase):
    """A gated delta net layer: 48 heads of 128 x 128, and a convolution over 10,240 channels."""

    mamba_type = "gdn_attention"

    def get_state_shape(self):
        return ((10240, 10), (48, 128, 128))

    def get_state_dtype(self):
        return (torch.float16, torch.float16)


def find_grouping():
    """The release's function from a configuration and specs to groups, in whichever module."""
    found = []
    for info in pkgutil.iter_modules(vllm.v1.core.__path__, "vllm.v1.core."):
        if info.name.rpartition(".")[2].startswith("kv_cache"):
            function = getattr(import_module(info.name), "get_kv_cache_groups", None)
            if function is not None and function not in found:
                found.append(function)
    assert len(found) == 1, f"functions that make groups: {found}"
    return found[0]


def engine_config():
    config = VllmConfig(device_config=DeviceConfig(device="cpu"))
    cache = config.cache_config
    cache.cache_dtype = "int8_per_token_head"
    cache.block_size = cache.mamba_block_size = BLOCK
    cache.mamba_page_size_padded = STATE_PAGE
    if hasattr(cache, "kv_cache_layout"):
        cache.kv_cache_layout = "LBNHC"  # what the engine resolves it to for these backends
    config.scheduler_config.async_scheduling = False
    config.scheduler_config.disable_hybrid_kv_cache_manager = False
    return config


def attention(config, name, heads, size, window):
    with set_current_vllm_config(config):
        Attention(
            num_heads=heads,
            head_size=size,
            scale=1.0,
            num_kv_heads=heads,
            cache_config=config.cache_config,
            per_layer_sliding_window=window,
            prefix=name,
            attn_backend=TritonAttentionBackend,
        )


def layers(*, with_state):
    """16 full layers of 4 x 256, a drafter's 5 of 8 x 128 with a window, and 48 state layers."""
    config = engine_config()
    for index in range(16):
        attention(config, f"full.{index}", 4, 256, None)
    for index in range(5):
        attention(config, f"window.{index}", 8, 128, WINDOW)
    if with_state:
        for index in range(48):
            config.compilation_config.static_forward_context[f"state.{index}"] = State()
    # some releases ask the model whether it is one whose layers cannot have windows
    config.model_config = SimpleNamespace(use_mla=False)
    return get_kv_cache_spec(config)


def unified(specs):
    """What the release's groups make of the layers; a refusal to start is told, not raised."""
    config = engine_config()
    config.model_config = SimpleNamespace(max_model_len=MODEL_LEN, use_mla=False)
    try:
        groups = find_grouping()(config, dict(specs))
    except (NotImplementedError, AssertionError) as refusal:
        return {}, f"{type(refusal).__name__}: {refusal}"
    return {
        name: getattr(group.kv_cache_spec, "kv_cache_specs", {}).get(name, group.kv_cache_spec)
        for group in groups
        for name in group.layer_names
    }, None


def pads_state_layers():
    """Whether the release can bring a state layer to a page that is larger than its own."""
    state = MambaSpec(block_size=BLOCK, shapes=((1000,),), dtypes=(torch.int8,))
    full = FullAttentionSpec(block_size=BLOCK, num_kv_heads=1, head_size=64, dtype=torch.int8)
    return unified({"state": state, "full": full})[1] is None


@pytest.fixture(autouse=True)
def _importable():
    """Find the function before a test counts: where it is nowhere, nothing has been proven."""
    find_grouping()


def test_a_token_takes_about_the_bytes_that_its_layers_hold():
    born = layers(with_state=pads_state_layers())
    after, refusal = unified(born)
    if refusal is not None:
        # Layers that are born with the primary block leave nothing to promote; that a release has
        # no way to bring them to one page is another matter.
        assert {spec.block_size for spec in born.values()} == {BLOCK}, refusal
    for name, spec in after.items():
        if not name.startswith("state"):
            held = born[name].page_size_bytes / born[name].block_size
            taken = spec.page_size_bytes / spec.block_size
            assert taken <= TOLERATED * held, (
                f"{name} takes {taken:.0f} bytes a token and holds {held:.0f}"
            )


def test_state_layers_that_are_the_largest_do_not_keep_the_engine_from_starting():
    born = layers(with_state=True)
    after, refusal = unified(born)
    largest = max(spec.page_size_bytes for spec in born.values())
    # Where an attention layer is born with a larger page, the release has a refusal of its own.
    assert refusal is None or largest > STATE_PAGE
    assert len({spec.page_size_bytes for spec in after.values()}) <= 1
