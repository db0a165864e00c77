"""What a release makes of a model at start, by its own functions: the other side of the planner.

What layers ask for, the block that is chosen for them, groups, blocks and capacity come from the
release's own functions, called in the order in which an engine does.
"""

from __future__ import annotations

import inspect
import logging
import os
import warnings
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import vllm.config.vllm as vllm_module
    from vllm.config import CacheConfig, DeviceConfig, VllmConfig
    from vllm.config.model import ModelConfig
    from vllm.distributed.utils import get_pp_indices
    from vllm.model_executor.models import ModelRegistry
    from vllm.model_executor.models.config import MambaModelConfig
    from vllm.platforms.cpu import CpuPlatform
    from vllm.platforms.interface import Platform
    from vllm.v1.attention.backends import utils as backend_utils
    from vllm.v1.attention.backends.registry import AttentionBackendEnum
    from vllm.v1.core import kv_cache_utils
    from vllm.v1.kv_cache_interface import AttentionSpec
    from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec
    from vllm.v1.worker.utils import select_common_block_size

from patchkit.kv.formats import Format, Formats
from patchkit.kv.layers import Layer, Model, StateLayer
from patchkit.kv.planned import Options
from tests.engine.stand_ins import (
    BYTES,
    DTYPES,
    AttentionStandIn,
    StandIn,
    StateStandIn,
    backend_class,
    ported_backend,
    takes_windows,
)


@dataclass(frozen=True)
class Started:
    """What a release comes to: block sizes in tokens, sizes in bytes, groups by their layers."""

    block: int
    pages: dict[str, tuple[int, int]]  # block and page of each layer
    groups: tuple[tuple[str, ...], ...]  # names of layers, which are their places
    needed_bytes: tuple[int, ...]  # at the maximum length, by pipeline stage
    num_blocks: int
    tokens: int
    concurrency: float
    longest: int
    fits: bool
    splits_padded: bool
    kernel_blocks: dict[str, int]  # of each layer that is paged


@dataclass(frozen=True)
class NotStarted:
    """Which error a release stops with."""

    error: str


def boundary_layers(model: Model, cached_as: Format) -> set[int]:
    """The layers that the release leaves unpacked, by its own method."""
    if not cached_as.name.startswith("turboquant_"):
        return set()
    from vllm.model_executor.layers.quantization.turboquant.config import TurboQuantConfig

    text = SimpleNamespace(num_hidden_layers=model.num_layers, layer_types=["full_attention"])
    config = SimpleNamespace(is_hybrid=model.is_hybrid, hf_text_config=text, hf_config=text)
    return {int(index) for index in TurboQuantConfig.get_boundary_skip_layers(config)}


class Engine:
    """One release, and its module of pages, groups and capacity, as released or as patched."""

    def __init__(self, planning: ModuleType):
        self.planning = planning
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.config = VllmConfig(device_config=DeviceConfig(device="cpu"))
        for name in ("vllm", planning.__name__):  # thousands of warnings of padding layers
            logging.getLogger(name).setLevel(logging.CRITICAL)

    def start(
        self, model: Model, cached_as: Format, options: Options, formats: Formats
    ) -> Started | NotStarted:
        """Return what the release makes of it, or the error that it stops with."""
        state = [layer for layer in model.states if not layer.drafter]
        resolved = SimpleNamespace(
            get_mamba_state_shape_from_config=lambda _: StateStandIn(state[0], options).shapes,
            get_mamba_state_dtype_from_config=lambda _: StateStandIn(state[0], options).dtypes,
        )
        try:
            with (
                patch.object(ModelRegistry, "resolve_model_cls", lambda *_, **__: (resolved, "")),
                patch.object(vllm_module, "HAS_TRITON", True),
            ):
                return self._start(model, cached_as, options, formats)
        except (NotImplementedError, AssertionError, ValueError) as error:
            return NotStarted(f"{type(error).__name__}: {error}")

    def _start(
        self, model: Model, cached_as: Format, options: Options, formats: Formats
    ) -> Started | NotStarted:
        if options.pipeline_parallel > model.num_layers:
            raise ValueError("a stage has no layer")
        self.configure(model, cached_as, options)
        if model.states:
            MambaModelConfig.verify_and_update_config(self.config)
        self.ported = ported_backend(cached_as) if cached_as.needs else None
        workers = self._layers(model, cached_as, options, formats)
        self.stand_ins = {name: layer for worker in workers for name, layer in worker.items()}
        context = self.config.compilation_config.static_forward_context
        # Each worker aligns with its own layers, and comes to the same if it has attention layers.
        context.clear()
        context.update(self.stand_ins)
        platform = CpuPlatform if options.platform == "cpu" else Platform
        platform.update_block_size_for_backend(self.config)
        self.config.validate_block_size()
        specs = []
        for worker in workers:
            context.clear()
            context.update(worker)
            specs.append(get_kv_cache_spec(self.config))
        if any(not worker for worker in specs):
            raise ValueError("a stage has no layer with a cache")
        self._resolve_layout(specs)
        return self._count(specs, options)

    def _resolve_layout(self, specs: list[dict[str, Any]]) -> None:
        """Choose the order of dimensions, as the engine does from 0.29.0 on."""
        if hasattr(backend_utils, "resolve_kv_cache_layout"):
            backends = {layer.get_attn_backend() for layer in self.stand_ins.values()}
            layouts = backend_utils.get_supported_kv_cache_layouts(backends)
            every = [spec for worker in specs for spec in worker.values()]
            names = [[layout.name for layout in layouts]] * len(specs)
            backend_utils.resolve_kv_cache_layout(self.config, names, every)

    def configure(self, model: Model, cached_as: Format, options: Options) -> None:
        """Make the release's configuration that of a model and of options."""
        config = self.config
        given = {} if options.block_size is None else {"block_size": options.block_size}
        cached = BYTES if cached_as.needs else cached_as.name
        config.cache_config = CacheConfig(
            enable_prefix_caching=options.prefix_caching, cache_dtype=cached, **given
        )
        if options.state_cache_mode is not None:
            config.cache_config.mamba_cache_mode = options.state_cache_mode
        if options.prefix_match_unit is not None:
            config.cache_config.prefix_match_unit = options.prefix_match_unit
        skipped = sorted(boundary_layers(model, cached_as))
        config.cache_config.kv_cache_dtype_skip_layers = [str(index) for index in skipped]
        config.parallel_config.tensor_parallel_size = options.tensor_parallel
        config.parallel_config.pipeline_parallel_size = options.pipeline_parallel
        config.scheduler_config.async_scheduling = options.async_scheduling
        config.scheduler_config.max_num_batched_tokens = options.max_num_batched_tokens
        config.scheduler_config.max_num_seqs = options.max_num_seqs
        config.scheduler_config.disable_hybrid_kv_cache_manager = False
        drafts = StandIn(
            num_speculative_tokens=options.draft_tokens,
            method="mtp",
            use_multi_module_mtp=lambda: False,
            use_eagle=lambda: False,
            use_eagle_block_drop=lambda: False,
            use_dflash=lambda: False,
            uses_draft_model=lambda: False,
        )
        drafted = options.draft_tokens or any(layer.drafter for layer in model.layers)
        config.speculative_config = drafts if drafted else None
        named = options.backend
        config.attention_config.backend = named and AttentionBackendEnum[named]
        config.model_config = self._model(model, options)
        if options.platform == "cpu":
            with patch.dict(os.environ):
                CpuPlatform.check_and_update_config(config)

    def _model(self, model: Model, options: Options) -> Any:
        attention = [layer for layer in model.attention if not layer.drafter]
        most = options.max_model_len or model.max_model_len
        stand_in = StandIn(
            dtype=DTYPES[model.dtype],
            is_hybrid=model.is_hybrid,
            is_moe=model.has_experts,
            runner_type="generate",
            architecture=model.architecture,
            architectures=[model.architecture],
            max_model_len=most,
            original_max_model_len=most,
            supports_mamba_prefix_caching=all(layer.chunk for layer in model.states),
            get_mamba_chunk_size=lambda: max(layer.chunk or 0 for layer in model.states),
            model_arch_config=SimpleNamespace(total_num_kv_heads=attention[0].num_kv_heads),
            get_total_num_kv_heads=lambda: attention[0].num_kv_heads,
            get_num_attention_heads=lambda parallel: (
                model.num_attention_heads // parallel.tensor_parallel_size
            ),
            get_head_size=lambda: attention[0].head_dim,
            hf_config=SimpleNamespace(model_type="stand_in"),
            hf_text_config=SimpleNamespace(model_type="stand_in"),
        )
        stand_in.get_num_kv_heads = partial(ModelConfig.get_num_kv_heads, stand_in)
        return stand_in

    def _layers(
        self, model: Model, cached_as: Format, options: Options, formats: Formats
    ) -> list[dict[str, Any]]:
        """The layers of each pipeline stage, by name."""
        skipped = boundary_layers(model, cached_as)
        stages: list[dict[str, Any]] = [{} for _ in range(options.pipeline_parallel)]
        bounds = [
            get_pp_indices(model.num_layers, rank, options.pipeline_parallel)
            for rank in range(options.pipeline_parallel)
        ]
        for place, layer in enumerate(model.layers):
            at = next(
                (n for n, (start, end) in enumerate(bounds) if start <= layer.index < end), -1
            )
            stage = stages[-1 if layer.drafter else at]
            stage[f"{place}"] = self._stand_in(layer, model, cached_as, options, formats, skipped)
        return stages

    def _stand_in(
        self,
        layer: Layer,
        model: Model,
        cached_as: Format,
        options: Options,
        formats: Formats,
        skipped: set[int],
    ) -> Any:
        if isinstance(layer, StateLayer):
            return StateStandIn(layer, options)
        cached = "auto" if layer.index in skipped and not layer.drafter else cached_as.name
        chosen = formats.get(cached)
        name = options.backend if options.backend in chosen.backends else chosen.backend
        name = "CPU_ATTN" if options.platform == "cpu" else name
        backend = self.ported or backend_class(name)
        if self.ported is not None:
            cached = BYTES
        if layer.window is not None and not takes_windows(backend):
            raise ValueError(f"{name} has no sliding windows")
        if options.block_size is not None and not backend.supports_block_size(options.block_size):
            raise ValueError(f"{name} has no blocks of {options.block_size}")
        heads = max(1, layer.num_kv_heads // options.tensor_parallel)
        return AttentionStandIn(layer, heads, cached, backend, model.dtype)

    def _count(self, specs: list[dict[str, Any]], options: Options) -> Started | NotStarted:
        """Groups, blocks and capacity; a check of memory that fails is noted and passed by."""
        planning, config = self.planning, self.config
        checks: list[tuple[int, int, bool]] = []
        check = planning._check_enough_kv_cache_memory

        def checked(available: int, needed: Any, most: int, estimate: Any) -> None:
            try:
                check(available, needed, most, estimate)
            except ValueError:
                checks.append((needed(), estimate(available) if available > 0 else 0, False))
            else:
                checks.append((needed(), estimate(available), True))

        memory = [options.memory_bytes] * len(specs)
        whole = ()
        if hasattr(planning, "get_global_kv_cache_groups"):
            whole = (planning.get_global_kv_cache_groups(config, specs),)
        with patch.object(planning, "_check_enough_kv_cache_memory", checked):
            try:
                configs = planning.get_kv_cache_configs(config, specs, memory, *whole)
            except ZeroDivisionError:  # no block at all; an engine has stopped before
                assert not all(fits for _, _, fits in checks)
                return NotStarted("no block")
        scheduled = kv_cache_utils.generate_scheduler_kv_cache_config(configs)
        kv_cache_utils.resolve_kv_cache_block_sizes(scheduled, config)
        tokens, concurrency = kv_cache_utils.get_kv_cache_capacity(config, scheduled)
        pages: dict[str, tuple[int, int]] = {}
        groups: list[list[str]] = [[] for _ in scheduled.kv_cache_groups]
        for one in configs:
            for at, group in enumerate(one.kv_cache_groups):
                groups[at] += group.layer_names
                for name in group.layer_names:
                    spec = layer_spec(group.kv_cache_spec, name)
                    pages[name] = (spec.block_size, spec.page_size_bytes)
        every = [group for one in configs for group in one.kv_cache_groups]
        kernel_blocks = {n: size for group in every for n, size in self._kernel_blocks(group)}
        return Started(
            block=config.cache_config.block_size,
            pages=pages,
            groups=tuple(tuple(sorted(names, key=int)) for names in groups),
            needed_bytes=tuple(needed for needed, _, _ in checks),
            num_blocks=scheduled.num_blocks,
            tokens=tokens,
            concurrency=concurrency,
            longest=min(estimate for _, estimate, _ in checks),
            fits=all(fits for _, _, fits in checks),
            splits_padded=any(self._splits_padded(group, kernel_blocks) for group in every),
            kernel_blocks=kernel_blocks,
        )

    def _kernel_blocks(self, group: Any) -> list[tuple[str, int]]:
        """The kernel block of each layer of a group on one rank; none of states."""
        paged = attention_specs(group)
        if not paged:
            return []
        backends = {self.stand_ins[name].attn_backend: spec for name, spec in paged.items()}
        given = [list(backends.values())] if "kv_cache_specs" in SELECT_PARAMETERS else []
        block = group.kv_cache_spec.block_size
        size = select_common_block_size(block, list(backends), *given)
        return [(name, size) for name in paged]

    def _splits_padded(self, group: Any, kernel_blocks: dict[str, int]) -> bool:
        """Whether a padded page is to be split into kernel blocks, which no release can.

        From 0.29.0 on that stops the start, before it reads and writes where it should not.
        """
        return any(
            kernel_blocks[name] != group.kv_cache_spec.block_size and is_padded(spec)
            for name, spec in attention_specs(group).items()
        )


def attention_specs(group: Any) -> dict[str, Any]:
    """The specs of the layers of a group that are paged, by name."""
    specs = {name: layer_spec(group.kv_cache_spec, name) for name in group.layer_names}
    return {name: spec for name, spec in specs.items() if isinstance(spec, AttentionSpec)}


def is_padded(spec: Any) -> bool:
    return spec.page_size_bytes != replace(spec, page_size_padded=None).page_size_bytes


SELECT_PARAMETERS = inspect.signature(select_common_block_size).parameters


def layer_spec(spec: Any, name: str) -> Any:
    """The spec of one layer of a group, which may hold unlike ones."""
    return spec.kv_cache_specs[name] if hasattr(spec, "kv_cache_specs") else spec
