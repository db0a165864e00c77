"""Models as the importable vLLM builds them, on the meta device: what each layer asks a cache for.

Run as `python -m tests.engine.build_models FOLDER < requests.json > answers.json`, in a process of
its own: compiled operators and packages that nothing here calls are replaced by empty ones. Each
request is a config.json, with a drafter's or a method, ranks and draft tokens; each answer has the
layers of target and drafter in order, or the error.
"""

from __future__ import annotations

import dataclasses
import importlib.machinery
import json
import os
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Imported by model files at their top, and used only by weights, images and tokenizers.
ABSENT = ("compressed_tensors", "mistral_common", "torchvision")


class Empty(types.ModuleType):
    """A module with a class for every name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        members = {
            "__class_getitem__": classmethod(lambda cls, _: cls),
            "__init__": lambda self, *args, **more: None,  # noqa: ARG005
        }
        made = type(name, (), members)
        setattr(self, name, made)
        return made


class EmptyModules:
    """A finder of `ABSENT`, asked after all others."""

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] not in ABSENT:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        made = Empty(spec.name)
        made.__path__ = []
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to execute."""


class Operators:
    """A namespace of operators that layers take hold of and nobody calls."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **more: None  # noqa: ARG005


@dataclasses.dataclass
class Group:
    """A group of ranks that never talk."""

    world_size: int
    rank: int = 0
    rank_in_group: int = 0
    local_rank: int = 0
    is_first_rank: bool = True
    is_last_rank: bool = True
    unique_name: str = "none"

    @property
    def ranks(self) -> list[int]:
        return list(range(self.world_size))

    @property
    def device_group(self) -> Group:
        return self

    cpu_group = device_group

    def size(self) -> int:
        return self.world_size


@contextmanager
def ranks(tensor_parallel: int) -> Iterator[None]:
    """vLLM's groups as the first of some tensor parallel ranks sees them."""
    import vllm.distributed.parallel_state as state

    for name in ("_PP", "_DP", "_EP", "_DCP", "_PCP"):
        setattr(state, name, Group(1))
    state._TP = state._WORLD = Group(tensor_parallel)  # type: ignore[assignment]
    yield


def prepare() -> None:
    """Replace what is absent, once vLLM has seen what is there."""
    import torch
    import transformers.models.pixtral.modeling_pixtral as pixtral
    import vllm.platforms
    from vllm.platforms.cpu import CpuPlatform

    # up to 0.27 only an installed vLLM says that it is for the CPU
    vllm.platforms._current_platform = CpuPlatform()
    import vllm._custom_ops
    import vllm.triton_utils

    vllm.triton_utils.HAS_TRITON = True  # the V2 runner asks for it when drafts need it
    # CPUs with these keep states in float32, whatever was asked for (platforms/cpu.py)
    for name in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        setattr(torch.cpu, name, lambda: False)
    sys.meta_path.append(EmptyModules())  # type: ignore[arg-type]
    torch.ops._C = Operators()  # type: ignore[assignment]
    torch.ops._moe_C = Operators()  # type: ignore[assignment]
    # gone from the transformers that later releases run with; of a vision tower
    for name in ("PixtralRotaryEmbedding", "apply_rotary_pos_emb", "position_ids_in_meshgrid"):
        if not hasattr(pixtral, name):
            setattr(pixtral, name, lambda *args, **more: torch.nn.Identity())  # noqa: ARG005


def import_here(architectures: list[str]) -> None:
    """Import the classes of architectures; vLLM would ask another process about each."""
    from vllm.model_executor.models.registry import ModelRegistry

    for name in architectures:
        found = ModelRegistry.models.get(name)
        if found is not None and hasattr(found, "module_name"):
            ModelRegistry.register_model(name, found.load_model_cls())


def layers(config: Any, seen: set[str]) -> list[dict[str, Any]]:
    """What the layers that were built since ask for; those that share a cache ask for none."""
    found = []
    for name, layer in config.compilation_config.static_forward_context.items():
        if name in seen or not hasattr(layer, "get_kv_cache_spec"):
            continue
        seen.add(name)
        if getattr(layer, "kv_sharing_target_layer_name", None) is None:
            spec = layer.get_kv_cache_spec(config)
            if spec is not None:
                found.append(spec_values(spec))
    return found


def spec_values(spec: Any) -> dict[str, Any]:
    """A cache specification as JSON has it."""
    if type(spec).__name__ == "MambaSpec":
        unpadded = dataclasses.replace(spec, page_size_padded=None)
        dtypes = [str(dtype).removeprefix("torch.") for dtype in spec.dtypes]
        return {"state_bytes": unpadded.page_size_bytes, "dtypes": dtypes}
    return {
        "spec": type(spec).__name__,
        "num_kv_heads": spec.num_kv_heads,
        "head_dim": spec.head_size,
        "head_dim_v": getattr(spec, "head_size_v", spec.head_size),
        "window": getattr(spec, "sliding_window", None),
        "dtype": str(spec.dtype).removeprefix("torch."),
    }


def build(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The answer to one request."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    speculative = None
    if request.get("method"):
        speculative = {"method": request["method"], "num_speculative_tokens": request["k"]}
    for part in ("target", "drafter"):
        if request.get(part):
            (folder / part).mkdir(exist_ok=True)
            (folder / part / "config.json").write_text(json.dumps(request[part]))
    if request.get("drafter"):
        assert speculative is not None
        speculative["model"] = str(folder / "drafter")
    import_here([*request["target"]["architectures"], *request.get("imports", ())])
    more = {"mamba_ssm_cache_dtype": request["state_dtype"]} if request.get("state_dtype") else {}
    arguments = EngineArgs(
        model=str(folder / "target"),
        skip_tokenizer_init=True,
        tensor_parallel_size=request["tp"],
        dtype=request.get("dtype") or "auto",
        enforce_eager=True,
        load_format="dummy",
        limit_mm_per_prompt={"image": 0, "video": 0},
        speculative_config=speculative,
        **more,
    )
    config = arguments.create_engine_config()
    seen: set[str] = set()
    answer: dict[str, Any] = {
        "max_model_len": config.model_config.max_model_len,
        "dtype": str(config.model_config.dtype).removeprefix("torch."),
        "num_layers": config.model_config.get_total_num_hidden_layers(),
        "num_attention_heads": config.model_config.model_arch_config.total_num_attention_heads,
    }
    with (
        ranks(request["tp"]),
        set_current_vllm_config(config),
        torch.device("meta"),
        set_default_torch_dtype(config.model_config.dtype),
    ):
        initialize_model(vllm_config=config)
        answer["target"] = layers(config, seen)
        if speculative is not None:
            drafting = config.speculative_config.draft_model_config
            if request["method"] == "draft_model":
                # as vllm/v1/spec_decode/draft_model.py has it: all but the model is shared
                drafted = dataclasses.replace(config, model_config=drafting, quant_config=None)
                with set_current_vllm_config(drafted):
                    initialize_model(vllm_config=drafted, prefix="draft_model")
                answer["drafter"] = layers(drafted, seen)
            else:
                initialize_model(vllm_config=config, model_config=drafting)
                answer["drafter"] = layers(config, seen)
    return answer


def main() -> None:
    """Answer the requests of standard input."""
    os.environ.update(HF_HUB_OFFLINE="1", VLLM_LOGGING_LEVEL="ERROR")
    folder = Path(sys.argv[1])
    prepare()
    answers = {}
    for name, request in json.load(sys.stdin).items():
        try:
            answers[name] = build(request, folder)
        except Exception as error:
            kind = type(error).__name__
            answers[name] = {"error": f"{kind}: {error}", "trace": traceback.format_exc()}
    (folder / "answers.json").write_text(json.dumps(answers))


if __name__ == "__main__":
    main()
