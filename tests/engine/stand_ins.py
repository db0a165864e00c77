"""Layers and backends as a model's own code would make them on one rank, without its model.

They know heads, head sizes, a window and a backend. What they ask for is said by the release's own
methods.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import torch
    from vllm.config import VllmConfig
    from vllm.model_executor.layers.attention import Attention
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.model_executor.layers.mamba import abstract as mamba_module
    from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
    from vllm.v1.attention.backend import AttentionType
    from vllm.v1.attention.backends.registry import MambaAttentionBackendEnum

from patchkit.kv.formats import Format
from patchkit.kv.layers import AttentionLayer, StateLayer
from patchkit.kv.planned import Options

MODULES = {
    "FLASH_ATTN": ("flash_attn", "FlashAttentionBackend"),
    "FLASHINFER": ("flashinfer", "FlashInferBackend"),
    "TRITON_ATTN": ("triton_attn", "TritonAttentionBackend"),
    "FLEX_ATTENTION": ("flex_attention", "FlexAttentionBackend"),
    "CPU_ATTN": ("cpu_attn", "CPUAttentionBackend"),
    "TURBOQUANT": ("turboquant_attn", "TurboQuantAttentionBackend"),
}
BYTES = "fp8"  # what a cache of bytes is called, whatever a port packs into them
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives modules of FlashInfer, which has no build for CPUs: every name in them is a class."""

    def find_spec(self, name: str, *_: object) -> Any:
        if name.partition(".")[0] != "flashinfer":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})  # type: ignore[method-assign]
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def flashinfer_stands_in() -> Iterator[None]:
    """Let the module of that backend be imported, whose class says what it takes."""
    finder = Absent()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "flashinfer"]:
            del sys.modules[name]


def backend_class(name: str) -> Any:
    """The release's own class of a backend."""
    module, cls = MODULES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = f"vllm.v1.attention.backends.{module}"
        if name == "FLASHINFER" and path not in sys.modules:
            with flashinfer_stands_in():
                return getattr(importlib.import_module(path), cls)
        return getattr(importlib.import_module(path), cls)


def ported_backend(cached_as: Format) -> Any:
    """A backend as a port brings it: its slots, and its tile as the only kernel block."""

    class Ported(backend_class("TRITON_ATTN")):  # type: ignore[misc]
        @classmethod
        def customize_spec(cls, spec: Any) -> Any:
            slot = cached_as.packing.slot_bytes(spec.head_size, spec.head_size_v, "bfloat16")
            return replace(spec, state_content_bytes=slot)

        @staticmethod
        def get_supported_kernel_block_sizes(*_: object) -> list[Any]:
            return [cached_as.tile]

        @classmethod
        def supports_block_size(cls, block_size: int | None) -> bool:
            return block_size is None or block_size % (cached_as.tile or 1) == 0

        @classmethod
        def supports_sliding_window(cls) -> bool:
            return False

        @classmethod
        def get_preferred_block_size(cls, default_block_size: int) -> int:
            return cached_as.tile or default_block_size

    return Ported


class StandIn(SimpleNamespace):
    """An object with some attributes; all others that a release asks for are None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


class AttentionStandIn(AttentionLayerBase):
    """A layer as its model's code makes it on one rank, with the release's own method."""

    get_kv_cache_spec = Attention.get_kv_cache_spec
    is_draft_layer = False
    attn_type = AttentionType.DECODER

    def __init__(self, layer: AttentionLayer, heads: int, cached: str, backend: Any, dtype: str):
        self.kv_cache_dtype = cached
        self.kv_cache_torch_dtype = torch_dtype(cached, dtype)
        self.sliding_window = layer.window
        self.attn_backend = backend
        self.num_kv_heads = heads
        self.head_size = layer.head_dim
        self.head_size_v = layer.head_dim_v

    def get_attn_backend(self) -> Any:
        return self.attn_backend


class StateStandIn(mamba_module.MambaBase):
    """A layer with a recurrent state, as its model's code makes it on one rank."""

    mamba_type = MambaAttentionBackendEnum.GDN_ATTN
    is_draft_layer = False

    def __init__(self, layer: StateLayer, options: Options):
        self.shapes = tuple(
            (tensor.split // options.tensor_parallel, tensor.per_split, width(tensor, options))
            for tensor in layer.tensors
        )
        self.dtypes = tuple(DTYPES[tensor.dtype] for tensor in layer.tensors)
        self.checkpoints = 64 if options.prefill_checkpoints else None

    def get_state_shape(self) -> Any:
        return self.shapes

    def get_state_dtype(self) -> Any:
        return self.dtypes

    def get_prefill_checkpoint_alignment(self) -> int | None:
        return self.checkpoints

    def get_kv_cache_spec(self, config: VllmConfig) -> Any:
        """The spec, with a block more where a prefill keeps states, as gated delta nets have it."""
        spec = super().get_kv_cache_spec(config)
        if self.checkpoints is None or spec.mamba_cache_mode != "align":
            return spec
        grid = mamba_module.get_mamba_prefill_checkpoint_grid(config)
        return replace(spec, num_prefill_checkpoint_blocks=1, prefill_checkpoint_alignment=grid)


def width(tensor: Any, options: Options) -> int:
    return tensor.width + (options.draft_tokens if tensor.grows_with_drafts else 0)


def torch_dtype(cached: str, dtype: str) -> torch.dtype:
    return DTYPES[dtype] if cached == "auto" else STR_DTYPE_TO_TORCH_DTYPE[cached]


def takes_windows(backend: Any) -> bool:
    """Whether a release would choose a backend for a sliding window; up to 0.25.1 any."""
    return not hasattr(backend, "supports_sliding_window") or backend.supports_sliding_window()
