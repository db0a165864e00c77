"""The gate of verify attention, and what the kernel is called with, on the release's own backends.

Both backends are executed twice, as released and with the stored series, with the kernels below
them replaced where they are imported: unified attention and FlashAttention by what notes its
arguments, and so verify attention. Nothing is computed.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

if importlib.util.find_spec("vllm") is None:
    pytest.skip("vLLM is not importable", allow_module_level=True)

from tests.engine.conftest import (
    load_source,
    package_folder,
    patched_source,
    stored_series,
    stored_versions,
)

with warnings.catch_warnings():  # vLLM's own imports warn, and a warning is an error here
    warnings.simplefilter("ignore")
    import torch
    from vllm.config import CUDAGraphMode, DeviceConfig, VllmConfig, set_current_vllm_config
    from vllm.distributed import parallel_state
    from vllm.v1.attention.backend import AttentionType

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]
OPTION = "VLLM_SPEC_DECODE_VERIFY"
PACKAGE = "vllm.v1.attention.ops.verify_attention"
KERNELS = f"{PACKAGE}.verify_attention"
HEADS, KV_HEADS, SIZE, BLOCK, BLOCKS = 24, 4, 256, 32, 5
FP8 = torch.float8_e4m3fn


@dataclass
class Backend:
    """One backend, as released and patched; `calls` are those of the kernels, with their names."""

    name: str
    pristine: ModuleType
    patched: ModuleType
    envs: ModuleType
    layer: ModuleType
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


POSITIONAL = (
    "query", "key_cache", "value_cache", "output", "block_table", "query_start", "seq_lens",
)  # fmt: skip


class Scratch:
    """What a layer holds for the kernel: the sizes that it was allocated with."""

    allocated: list[dict[str, Any]] = []  # noqa: RUF012

    def __init__(self, **sizes: Any) -> None:
        self.sizes = sizes
        self.allocated.append(sizes)

    @classmethod
    def allocate(cls, **sizes: Any) -> Scratch:
        return cls(**sizes)


@pytest.fixture(scope="module", params=stored_versions("spec-decode-verify.patch"))
def modules(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, ModuleType]]:
    """The release's modules that the patch changes, by name, and patched ones as `patched NAME`."""
    series, folder = stored_series(request.param), tmp_path_factory.mktemp("verify")
    found: dict[str, ModuleType] = {}
    before = set(sys.modules)
    package = ModuleType(PACKAGE)
    package.__path__ = []  # type: ignore[attr-defined]
    sys.modules[PACKAGE] = package
    with warnings.catch_warnings():  # as above
        warnings.simplefilter("ignore")
        layer = f"{PACKAGE}.layer"
        found["layer"] = load_source(layer, ROOT / "kvarn_port" / "backend" / "verify_layer.py")
        for name in ("envs", "triton_attn", "flash_attn"):
            path = "vllm/envs.py" if name == "envs" else f"vllm/v1/attention/backends/{name}.py"
            source = package_folder().parent / path
            patched = folder / f"{name}.py"
            patched.write_bytes(patched_source(series, source.read_bytes(), path))
            found[name] = load_source(f"patchkit_verify_pristine_{name}", source)
            found[f"patched {name}"] = load_source(f"patchkit_verify_patched_{name}", patched)
    found["layer"].envs = found["patched envs"]  # type: ignore[attr-defined]
    yield found
    for name in set(sys.modules) - before:
        if name.startswith(("patchkit_verify", PACKAGE)):
            del sys.modules[name]


def cuda(capability: int) -> SimpleNamespace:
    """A platform that says it is a GPU of this compute capability, times ten."""
    return SimpleNamespace(
        is_cuda=lambda: True,
        has_device_capability=lambda least: capability >= least,
        device_type="cpu",
    )


@pytest.fixture(params=["triton_attn", "flash_attn"])
def backend(
    request: pytest.FixtureRequest,
    modules: dict[str, ModuleType],
    monkeypatch: pytest.MonkeyPatch,
) -> Backend:
    name = request.param
    found = Backend(
        name, modules[name], modules[f"patched {name}"], modules["patched envs"], modules["layer"]
    )

    def note(kernel: str) -> Callable[..., None]:
        def call(*args: Any, **named: Any) -> None:
            found.calls.append((kernel, dict(zip(POSITIONAL, args, strict=False)) | named))

        return call

    monkeypatch.setattr(found.layer, "current_platform", cuda(80))
    kernels = ModuleType(KERNELS)
    kernels.Scratch, kernels.verify_attention = Scratch, note("verify")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, KERNELS, kernels)
    monkeypatch.setattr(Scratch, "allocated", [])
    old = "unified_attention" if name == "triton_attn" else "flash_attn_varlen_func"
    for module in (found.pristine, found.patched):
        monkeypatch.setattr(module, old, note("old"), raising=False)
        if name == "flash_attn":
            monkeypatch.setattr(module, "flash_attn_supports_sinks", lambda: True, raising=False)
            monkeypatch.setattr(module, "flash_attn_supports_kv_cache_dtype", lambda *_, **__: True)
            if hasattr(module, "_FA4_DENSE_ATTENTION_KERNEL"):
                monkeypatch.setattr(module, "_FA4_DENSE_ATTENTION_KERNEL", note("old"))
    return found


CACHE_DTYPES = {
    "int8_per_token_head": torch.int8,
    "fp8": torch.uint8,
    "fp8_e4m3": torch.uint8,
    "fp8_per_token_head": torch.uint8,
}


def config(**changes: Any) -> VllmConfig:
    made = VllmConfig(device_config=DeviceConfig(device="cpu"))
    made.scheduler_config.max_num_seqs = changes.pop("max_num_seqs", 8)
    made.compilation_config.cudagraph_mode = changes.pop("graphs", CUDAGraphMode.NONE)
    tokens = changes.pop("num_speculative_tokens", 7)
    speculative = SimpleNamespace(num_speculative_tokens=tokens) if tokens is not None else None
    object.__setattr__(made, "speculative_config", speculative)
    assert not changes
    return made


def make_layer(module: ModuleType, name: str, made: VllmConfig, **changes: Any) -> Any:
    """The backend's own layer, or what `kind` makes of its class."""
    kind = module.TritonAttentionImpl if name == "triton_attn" else module.FlashAttentionImpl
    kind = changes.pop("kind", lambda kind: kind)(kind)
    arguments = {
        "num_heads": HEADS, "head_size": SIZE, "scale": SIZE**-0.5, "num_kv_heads": KV_HEADS,
        "alibi_slopes": None, "sliding_window": None, "kv_cache_dtype": "auto",
    } | changes  # fmt: skip
    with set_current_vllm_config(made):
        layer = kind(**arguments)
    if name == "flash_attn":
        layer.vllm_flash_attn_version = 3  # a CPU has none
    return layer


def packed_cache(kv_cache_dtype: str, head_size: int = SIZE, dtype: torch.dtype = torch.bfloat16):
    """A cache `[blocks, heads, tokens, content]` in NHD order, its pages padded by 64 elements."""
    dtype = CACHE_DTYPES.get(kv_cache_dtype, dtype)
    inline = 4 if "per_token_head" in kv_cache_dtype else 0
    content = 2 * (head_size + inline)
    page = BLOCK * KV_HEADS * content + 64
    raw = torch.zeros(BLOCKS * page, dtype=dtype)
    strides = (page, content, KV_HEADS * content, 1)
    return raw.as_strided((BLOCKS, KV_HEADS, BLOCK, content), strides)


def step(module: ModuleType, name: str, **changes: Any) -> Any:
    """A step of two requests, of 8 and 3 new tokens; what only some releases have is nothing."""
    kind = (
        module.TritonAttentionMetadata if name == "triton_attn" else module.FlashAttentionMetadata
    )
    known = {
        "num_actual_tokens": 11, "max_query_len": 8, "max_seq_len": 100,
        "query_start_loc": torch.tensor([0, 8, 11], dtype=torch.int32),
        "seq_lens": torch.tensor([100, 3], dtype=torch.int32),
        "block_table": torch.zeros(2, 4, dtype=torch.int32),
        "seq_threshold_3D": 32, "num_par_softmax_segments": 16,
        "causal": True, "use_cascade": False, "max_num_splits": 0, "max_dcp_context_kv_len": 0,
    } | changes  # fmt: skip
    names = [f.name for f in dataclasses.fields(kind)]
    return kind(**{key: known.get(key) for key in names})


def run(backend: Backend, module: ModuleType, **changes: Any) -> list[tuple[str, dict[str, Any]]]:
    """The kernels' calls of one step of one layer; changes are of the configuration, layer, step.

    `query`, `output` and `cache` are dtypes, `scale` are the layer's scales.
    """
    backend.calls.clear()
    made = config(**{k: changes.pop(k) for k in CONFIG & changes.keys()})
    dtypes = {k: changes.pop(k, torch.bfloat16) for k in ("query", "output", "cache")}
    scale = changes.pop("scale", torch.tensor(1.0))
    extra = {k: changes.pop(k) for k in ("output_scale",) if k in changes}
    attended = {k: changes.pop(k) for k in STEP & changes.keys()}
    layer = make_layer(module, backend.name, made, **changes)
    size = changes.get("head_size", SIZE)
    cache = packed_cache(changes.get("kv_cache_dtype", "auto"), size, dtypes["cache"])
    query = torch.zeros(12, HEADS, size).to(dtypes["query"])  # the last token is padding
    output = torch.empty(12, HEADS, size, dtype=dtypes["output"])
    scales = SimpleNamespace(_q_scale=torch.tensor(2.0), _k_scale=scale, _v_scale=scale)
    layer.forward(
        scales, query, query, query, cache, step(module, backend.name, **attended), output, **extra
    )
    return list(backend.calls)


CONFIG = {"max_num_seqs", "graphs", "num_speculative_tokens"}
STEP = {
    "max_query_len", "causal", "use_cascade", "mm_prefix_range_tensor",
    "mm_prefix_query_range_tensor", "rswa_prefix_lens", "query_start_loc", "seq_lens",
}  # fmt: skip


def kernels(calls: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [name for name, _ in calls]


def told(value: Any) -> Any:
    """What makes two arguments the same: of tensors all but their elements and addresses."""
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), value.stride(), value.storage_offset()
    return value


REQUESTS = 9
MANY = {
    "query_start_loc": torch.arange(REQUESTS + 1, dtype=torch.int32),
    "seq_lens": torch.ones(REQUESTS, dtype=torch.int32),
}
# What is changed of a layer and step that go through verify attention, and which way it goes then.
GATE: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "verify"),
    "the longest query is one token": ({"max_query_len": 1}, "old"),
    "the longest query is two tokens": ({"max_query_len": 2}, "verify"),
    "the longest query is at the least limit": ({"max_query_len": 16}, "verify"),
    "a prefill": ({"max_query_len": 17}, "old"),
    "seventeen tokens are a verify step": (
        {"max_query_len": 17, "num_speculative_tokens": 16},
        "verify",
    ),
    "one more than a verify step": ({"max_query_len": 18, "num_speculative_tokens": 16}, "old"),
    "no speculation": ({"num_speculative_tokens": None}, "verify"),
    "not causal": ({"causal": False}, "old"),
    "a window": ({"sliding_window": 4096}, "verify"),
    "softcap": ({"logits_soft_cap": 30.0}, "old"),
    "ALiBi": ({"alibi_slopes": [0.5] * HEADS}, "old"),
    "sinks": ({"sinks": torch.zeros(HEADS)}, "old"),
    "cross attention": ({"attn_type": AttentionType.ENCODER_DECODER}, "old"),
    "R-SWA": ({"rswa_prefix_lens": torch.zeros(2, dtype=torch.int32)}, "old"),
    "a head size without a kernel": ({"head_size": 96}, "old"),
    "head size 64": ({"head_size": 64}, "verify"),
    "head size 128": ({"head_size": 128}, "verify"),
    "more requests than the configured maximum": (MANY, "old"),
    "as many requests as the configured maximum": (MANY | {"max_num_seqs": 9}, "verify"),
    "as many sequence lengths as buffers": ({"seq_lens": torch.ones(3, dtype=torch.int32)}, "old"),
    "a cache of another dtype than queries": ({"cache": torch.float16}, "old"),
    "fp16": (dict.fromkeys(("query", "output", "cache"), torch.float16), "verify"),
    "a cache in e4m3": ({"kv_cache_dtype": "fp8"}, "verify"),
    "a cache in e4m3 and queries too": ({"kv_cache_dtype": "fp8_e4m3", "query": FP8}, "verify"),
    "e4m3 with a scale a head": (
        {"kv_cache_dtype": "fp8", "scale": torch.ones(1, KV_HEADS)},
        "old",
    ),
    "mixed batches are captured whole": ({"graphs": CUDAGraphMode.FULL}, "old"),
    "decode is captured whole": ({"graphs": CUDAGraphMode.FULL_AND_PIECEWISE}, "verify"),
    "only decode is captured": ({"graphs": CUDAGraphMode.FULL_DECODE_ONLY}, "verify"),
    "a layer of one's own": ({"kind": lambda kind: type("Other", (kind,), {})}, "old"),
}
TRITON: dict[str, tuple[dict[str, Any], str]] = {
    "a cache of int8 and scales": ({"kv_cache_dtype": "int8_per_token_head"}, "verify"),
    "a cache of e4m3 and scales": ({"kv_cache_dtype": "fp8_per_token_head"}, "old"),
    "lookback of chunks": ({"chunk_lookback": 1}, "old"),
    "a multimodal prefix": ({"mm_prefix_range_tensor": torch.zeros(2, 1, 2)}, "old"),
    "the output is quantised": ({"output_scale": torch.tensor(1.0), "output": FP8}, "old"),
    "float32": (dict.fromkeys(("query", "output", "cache"), torch.float32), "verify"),
    "causal by request": ({"causal": torch.ones(2, dtype=torch.bool)}, "old"),
}
FLASH: dict[str, tuple[dict[str, Any], str]] = {
    "a multimodal prefix": ({"mm_prefix_query_range_tensor": torch.zeros(11, 2)}, "old"),
}


@pytest.mark.parametrize("case", [*GATE, *(f"{c} (own)" for c in dict.fromkeys([*TRITON, *FLASH]))])
def test_only_what_the_kernel_implements_goes_through_it(
    backend: Backend, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = TRITON if backend.name == "triton_attn" else FLASH
    cases = GATE if case in GATE else {f"{name} (own)": row for name, row in own.items()}
    if case not in cases:
        return  # the other backend's
    monkeypatch.setenv(OPTION, "1")
    changes, way = cases[case]
    assert kernels(run(backend, backend.patched, **dict(changes))) == [way]


@pytest.mark.parametrize("group", ["dcp", "pcp"])
def test_ranks_that_share_a_context_keep_the_old_way(
    backend: Backend, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "1")
    assert make_layer(backend.patched, backend.name, config()).verify is not None
    ranks = SimpleNamespace(world_size=2, rank_in_group=0)
    monkeypatch.setattr(parallel_state, f"get_{group}_group", lambda: ranks)
    if group == "dcp":  # how releases from 0.31.0 on read it
        read = "get_dcp_world_size_and_rank"
        monkeypatch.setattr(parallel_state, read, lambda *_: (2, 0), raising=False)
    made = config()
    object.__setattr__(made, "model_config", SimpleNamespace(dtype=torch.bfloat16))
    assert make_layer(backend.patched, backend.name, made).verify is None


@pytest.mark.parametrize("value", [None, "", "0"])
@pytest.mark.parametrize("dtype", ["auto", "fp8", "int8_per_token_head"])
def test_without_the_option_the_release_makes_the_calls_that_it_makes(
    backend: Backend, value: str | None, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend.name == "flash_attn" and dtype == "int8_per_token_head":
        return
    if value is not None:
        monkeypatch.setenv(OPTION, value)
    for changes in ({}, {"max_query_len": 1}, {"sliding_window": 64}, {"causal": False}):
        before, after = (
            run(backend, module, kv_cache_dtype=dtype, **changes)
            for module in (backend.pristine, backend.patched)
        )
        assert [(n, {k: told(v) for k, v in c.items()}) for n, c in after] == [
            (n, {k: told(v) for k, v in c.items()}) for n, c in before
        ]
        assert kernels(after) == ["old"]
    assert Scratch.allocated == []


@pytest.mark.parametrize("dtype", ["auto", "fp8", "int8_per_token_head"])
def test_the_kernel_reads_the_very_elements_that_the_release_reads(
    backend: Backend, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backend.name == "flash_attn" and dtype == "int8_per_token_head":
        return
    ((_, old),) = run(backend, backend.pristine, kv_cache_dtype=dtype)
    monkeypatch.setenv(OPTION, "1")
    ((_, new),) = run(backend, backend.patched, kv_cache_dtype=dtype)
    # NHD, a page padded by 64: a token's step is 4 heads of keys and values, and what is inline.
    content = 2 * (SIZE + (4 if dtype == "int8_per_token_head" else 0))
    strides = (BLOCK * 4 * content + 64, 4 * content, content, 1)
    for key, mine, offset in (("k", "key_cache", 0), ("v", "value_cache", content // 2)):
        assert new[mine].dtype == old[key].dtype
        assert tuple(new[mine].shape) == (BLOCKS, BLOCK, 4, 256)
        assert new[mine].stride() == old[key].stride() == strides
        assert new[mine].storage_offset() == old[key].storage_offset() == offset
    if dtype == "int8_per_token_head":
        for key, mine in (("k_scale_cache", "key_scale"), ("v_scale_cache", "value_scale")):
            assert told(new[mine]) == told(old[key])
            assert new[mine].dtype == torch.float32
            assert tuple(new[mine].shape) == (BLOCKS, BLOCK, 4)
        # float32 elements: the scales lie behind 256 codes, and behind 256 + 4 + 256.
        assert new["key_scale"].storage_offset() == 64
        assert new["value_scale"].storage_offset() == 129
        assert new["key_scale"].stride() == ((32 * 4 * 520 + 64) // 4, 520, 130)
    elif dtype == "auto":
        assert new["key_scale"] is new["value_scale"] is None
    else:
        assert (new["key_scale"].item(), new["value_scale"].item()) == (1.0, 1.0)


def test_where_upstream_is_faster_it_keeps_the_steps_that_it_splits(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "1")
    splits = hasattr(backend.pristine, "MAX_3D_QUERY_LEN")  # Triton's, from 0.33.0 on: 8 tokens
    for faster, ways in ((True, ["verify"] * 3), (False, ["old" if splits else "verify"] * 2)):
        monkeypatch.setattr(backend.layer, "FASTER_THAN_UPSTREAM_SPLIT", faster)
        taken = [run(backend, backend.patched, max_query_len=length) for length in (2, 8, 9)]
        assert [way for calls in taken for way in kernels(calls)] == [*ways, "verify"][:3]


def test_the_kernel_is_told_of_the_step_and_of_the_layer(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "1")
    ((_, call),) = run(backend, backend.patched, sliding_window=100)
    assert tuple(call["query"].shape) == tuple(call["output"].shape) == (11, 24, 256)
    assert call["query_start"].tolist() == [0, 8, 11]
    assert call["seq_lens"].tolist() == [100, 3]
    assert tuple(call["block_table"].shape) == (2, 4)
    assert (call["max_query_len"], call["softmax_scale"], call["window"]) == (8, 0.0625, 100)
    ((_, call),) = run(backend, backend.patched)
    assert call["window"] == 0


def test_the_scale_is_what_the_layer_has_at_the_step(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "1")

    def kind(kind: type) -> Any:
        def make(**arguments: Any) -> Any:
            layer = kind(**arguments)
            layer.scale = 0.25  # as the Transformers backend does in forward
            return layer

        return make

    ((way, call),) = run(backend, backend.patched, kind=kind)
    assert (way, call["softmax_scale"]) == ("verify", 0.25)
    ((_, old),) = run(backend, backend.pristine, kind=kind)
    assert old["softmax_scale"] == 0.25


def test_a_gpu_whose_shared_memory_is_too_small_keeps_the_old_way(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "1")
    monkeypatch.setattr(backend.layer, "current_platform", cuda(75))
    assert kernels(run(backend, backend.patched)) == ["old"]
    assert Scratch.allocated == []


def test_quantised_queries_are_widened_and_their_scale_goes_with_the_keys(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "1")
    changes = {"kv_cache_dtype": "fp8", "query": FP8, "scale": torch.tensor(0.5)}
    ((_, call),) = run(backend, backend.patched, **changes)
    assert call["query"].dtype == torch.bfloat16
    assert call["key_cache"].dtype == call["value_cache"].dtype == FP8
    assert (call["key_scale"].item(), call["value_scale"].item()) == (1.0, 0.5)


def test_scratch_is_allocated_with_layers_once_a_shape_from_configured_maxima(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "1")
    made = config(max_num_seqs=6, num_speculative_tokens=20)
    first, second, other = (
        make_layer(backend.patched, backend.name, made, head_size=size) for size in (256, 256, 128)
    )
    assert first.verify.scratch is second.verify.scratch
    assert first.verify.scratch is not other.verify.scratch
    sizes = {
        "max_requests": 6, "max_query_len": 21, "num_query_heads": 24, "num_kv_heads": 4,
        "device": torch.device("cpu"),
    }  # fmt: skip
    assert Scratch.allocated == [sizes | {"head_dim": 256}, sizes | {"head_dim": 128}]


def test_many_requests_at_most_are_given_scratch(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "1")
    make_layer(backend.patched, backend.name, config(max_num_seqs=1024))
    assert [sizes["max_requests"] for sizes in Scratch.allocated] == [256]


def test_a_build_without_triton_imports_no_kernel(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, KERNELS)
    make_layer(backend.patched, backend.name, config())
    assert KERNELS not in sys.modules


def test_nonsense_is_refused_at_start(
    modules: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(OPTION, "yes")
    # Its own module, since what starts an engine has all options read once and kept.
    envs = load_source("patchkit_verify_started", Path(modules["patched envs"].__file__ or ""))
    with pytest.raises(ValueError, match=f"Invalid value 'yes' for {OPTION}"):
        envs.enable_envs_cache()


@pytest.mark.parametrize(("value", "on"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_the_option_is_part_of_the_compile_cache_key(
    modules: dict[str, ModuleType],
    value: str | None,
    on: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if value is not None:
        monkeypatch.setenv(OPTION, value)
    envs = modules["patched envs"]
    assert getattr(envs, OPTION) is on
    assert envs.compile_factors()[OPTION] is on
    assert OPTION not in modules["envs"].compile_factors()
