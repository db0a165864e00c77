"""Formats against a release's own classes: its names, its specs, its backends' packing.

Up to 0.27.1 the spec knows what a format takes; from 0.28.0 on the backend says it, by
`customize_spec`. Both are asked here as the release's own layer asks them.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import warnings
from dataclasses import fields, replace
from typing import get_args

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import torch
    from vllm.config.cache import CacheDType
    from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig
    from vllm.utils import torch_utils
    from vllm.v1 import kv_cache_interface as interface
    from vllm.v1.attention.backends import triton_attn, turboquant_attn

from patchkit.kv.formats import Format, read_formats
from tests.engine.conftest import package_folder, release_version

pytestmark = pytest.mark.engine

FORMATS = read_formats()
RELEASE = release_version(package_folder())
KNOWN = tuple(name for name in FORMATS.names if FORMATS.get(name).needs is None)
HERE = tuple(name for name in KNOWN if FORMATS.get(name).missing_on(RELEASE) is None)
HEADS = (1, 2, 3, 4, 8, 16)
# The last two have values that are narrower, or wider, than keys.
SAME = tuple((size, size) for size in (64, 80, 96, 112, 128, 192, 256, 512))
SIZES = (*SAME, (192, 128), (128, 256))
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
WINDOW = 1024


def torch_dtype(name: str, dtype: str) -> torch.dtype:
    return DTYPES[dtype] if name == "auto" else torch_utils.STR_DTYPE_TO_TORCH_DTYPE[name]


def packing_backend(name: str):
    """The backend whose `customize_spec` packs the format; None where the spec alone does."""
    backend = FORMATS.get(name).backend
    if backend == "TRITON_ATTN":
        return triton_attn.TritonAttentionBackend
    if backend == "TURBOQUANT":
        return turboquant_attn.TurboQuantAttentionBackend
    return FLASHINFER if name.startswith("nvfp4") else None


def backend_source(backend: str) -> str:
    """The source of a backend's class, since not every one can be imported without its kernels."""
    module = {
        "FLASH_ATTN": "flash_attn",
        "FLASHINFER": "flashinfer",
        "TRITON_ATTN": "triton_attn",
        "TURBOQUANT": "turboquant_attn",
        "FLEX_ATTENTION": "flex_attention",
    }[backend]
    path = package_folder() / "v1" / "attention" / "backends" / f"{module}.py"
    source = path.read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith("Backend"):
            return ast.unparse(node)
    raise AssertionError(f"{path} defines no backend")


def method_alone(backend: str, name: str) -> type:
    """A class with one method of a backend whose module cannot be imported without its kernels."""
    names = {
        "replace": replace,
        "get_dtype_size": torch_utils.get_dtype_size,
        "nvfp4_kv_cache_full_dim": torch_utils.nvfp4_kv_cache_full_dim,
    }
    for node in ast.walk(ast.parse(backend_source(backend))):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            node.decorator_list = []
            exec(compile(ast.Module([node], []), backend, "exec"), names)
            return type(backend, (), {name: classmethod(names[name])})
    return type(backend, (), {})


FLASHINFER = method_alone("FLASHINFER", "customize_spec")


def spec_of(name: str, heads: int, sizes: tuple[int, int], dtype: str, window: int | None):
    """The release's spec of a layer whose block is one token."""
    options = {
        "block_size": 1,
        "num_kv_heads": heads,
        "head_size": sizes[0],
        "head_size_v": sizes[1],
        "dtype": torch_dtype(name, dtype),
        "kv_quant_mode": interface.get_kv_quant_mode(name),
    }
    if window is not None:
        return interface.SlidingWindowSpec(sliding_window=window, **options)
    tq_spec = getattr(interface, "TQFullAttentionSpec", None)
    if name.startswith("turboquant_") and tq_spec is not None:
        slot = TurboQuantConfig.from_cache_dtype(name, sizes[0]).slot_size_aligned
        return tq_spec(tq_slot_size=slot, **options)
    return interface.FullAttentionSpec(**options)


def release_bytes(
    name: str, heads: int, sizes: tuple[int, int], dtype: str, window: int | None = None
) -> int:
    """The bytes of a token in one layer, by the release."""
    spec = spec_of(name, heads, sizes, dtype, window)
    backend = packing_backend(name)
    if hasattr(backend, "customize_spec"):
        spec = backend.customize_spec(spec)
    return spec.page_size_bytes


def holds(known: Format, sizes: tuple[int, int]) -> bool:
    return sizes[0] == sizes[1] or not known.packing.same_head_dims


def test_the_table_knows_the_names_of_the_release_and_no_others() -> None:
    known = {*HERE} | {
        name
        for name, other in FORMATS.unplanned.items()
        if other.missing_on(RELEASE) is None and not name.startswith("kvarn_")
    }
    assert known == set(get_args(CacheDType))


@pytest.mark.parametrize("name", HERE)
def test_a_token_takes_what_the_releases_full_layer_takes(name: str) -> None:
    known = FORMATS.get(name)
    for heads in HEADS:
        for sizes in SIZES:
            if holds(known, sizes):
                for dtype in DTYPES:
                    taken = known.token_bytes(heads, *sizes, dtype)
                    assert taken == release_bytes(name, heads, sizes, dtype), (heads, sizes, dtype)


@pytest.mark.parametrize(
    "name", [name for name in HERE if FORMATS.get(name).no_window_on(RELEASE) is None]
)
def test_a_token_takes_what_the_releases_window_layer_takes(name: str) -> None:
    known = FORMATS.get(name)
    for heads in HEADS:
        for sizes in SIZES:
            if holds(known, sizes):
                taken = known.token_bytes(heads, *sizes, "bfloat16")
                assert taken == release_bytes(name, heads, sizes, "bfloat16", WINDOW)


@pytest.mark.parametrize("name", [name for name in HERE if name.startswith("turboquant_")])
def test_a_slot_of_turboquant_is_the_releases_for_every_head_dim(name: str) -> None:
    for head_dim in range(1, 513):
        slot = TurboQuantConfig.from_cache_dtype(name, head_dim).slot_size_aligned
        assert FORMATS.get(name).token_bytes(1, head_dim, head_dim, "bfloat16") == slot


def test_a_backend_that_cannot_have_a_window_is_why_turboquant_layers_have_none() -> None:
    backend = turboquant_attn.TurboQuantAttentionBackend
    if hasattr(backend, "supports_sliding_window"):
        assert not backend.supports_sliding_window()
    else:  # the release does not ask, and gives a window layer pages that are not the format's
        sizes = (128, 128)
        name = "turboquant_3bit_nc"
        taken = FORMATS.get(name).token_bytes(4, *sizes, "bfloat16")
        assert release_bytes(name, 4, sizes, "bfloat16", WINDOW) != taken


def test_a_window_layer_has_pages_for_8_bits_where_it_cannot_have_4() -> None:
    name = "int4_per_token_head"
    if name not in HERE:
        pytest.skip(f"{RELEASE} has no {name}")
    taken = release_bytes(name, 4, (128, 128), "bfloat16", WINDOW)
    eight = FORMATS.get("int8_per_token_head").token_bytes(4, 128, 128, "bfloat16")
    assert (taken == eight) == (FORMATS.get(name).no_window_on(RELEASE) is not None)


def test_narrower_values_are_refused_where_the_release_refuses_them_or_has_no_word_for_them() -> (
    None
):
    backend = packing_backend("nvfp4")
    if hasattr(backend, "customize_spec"):
        with pytest.raises(AssertionError, match="asymmetric K/V head sizes"):
            release_bytes("nvfp4", 4, (192, 128), "bfloat16")
    # its slot is computed from one size, whatever the other is
    for name in HERE:
        if name.startswith("turboquant_"):
            same = release_bytes(name, 4, (192, 192), "bfloat16")
            assert release_bytes(name, 4, (192, 128), "bfloat16") == same


@pytest.mark.parametrize("name", HERE)
def test_each_backend_of_a_format_takes_it(name: str) -> None:
    for backend in FORMATS.get(name).backends:
        source = backend_source(backend)
        listed = re.search(r"supported_kv_cache_dtypes[^=]*= \[([^\]]*)\]", source)
        assert listed is not None
        # FLASH_ATTN up to 0.27 takes fp8 by a method beside its list
        method = re.search(r"kv_cache_dtype in \(([^)]*)\)", source)
        names = listed[1] + (method[1] if method and backend == "FLASH_ATTN" else "")
        assert f"'{name}'" in names, backend


def test_no_other_backend_for_cuda_takes_a_format_that_is_for_one() -> None:
    for name in HERE:
        backends = FORMATS.get(name).backends
        if len(backends) == 1:
            others = {"FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "TURBOQUANT"} - {*backends}
            for backend in others:
                assert f"'{name}'" not in backend_source(backend), (name, backend)


def test_a_tile_of_kvarn_is_what_a_spec_of_its_slot_takes() -> None:
    known = [name for name in FORMATS.names if name.startswith("kvarn_")]
    assert len(known) == 6
    for name in known:
        tiled = FORMATS.get(name)
        for heads in HEADS:
            for head_dim in (64, 128, 256, 512):
                slot = tiled.token_bytes(1, head_dim, head_dim, "bfloat16")
                options = {
                    "block_size": tiled.tile,
                    "num_kv_heads": heads,
                    "head_size": head_dim,
                    "dtype": torch.uint8,
                }
                if hasattr(interface, "TQFullAttentionSpec"):
                    spec = interface.TQFullAttentionSpec(tq_slot_size=slot, **options)
                else:
                    spec = interface.FullAttentionSpec(state_content_bytes=slot, **options)
                taken = tiled.token_bytes(heads, head_dim, head_dim, "bfloat16")
                assert spec.page_size_bytes == tiled.tile * taken


def test_the_hook_that_a_port_of_kvarn_needs_came_when_the_spec_class_went() -> None:
    names = {field.name for field in fields(interface.AttentionSpec)}
    assert hasattr(interface, "TQFullAttentionSpec") != ("state_content_bytes" in names)
