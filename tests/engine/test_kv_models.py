"""What config.json files say of caches, against the layers that the importable vLLM builds of them.

vLLM builds each model on the meta device, as its engine would, and every layer says what it asks
a cache for (see build_models.py).
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import PatchkitError
from patchkit.kv.configs import read_model
from patchkit.kv.layers import AttentionLayer, Layer, Model

from .conftest import package_folder, release_version

pytestmark = pytest.mark.engine

CONFIGS = Path(__file__).parents[1] / "kv/configs"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.json"))
TARGETS = [name for name in NAMES if not name.startswith("drafter-")]
HYBRIDS = ["qwen3-next-80b-a3b", "qwen3.5-35b-a3b", "qwen3.8-27b"]
MTP = ("Qwen3NextMTP", "Qwen3_5MTP", "Qwen3_5MoeMTP")


@dataclass(frozen=True)
class Case:
    """One model to be built."""

    target: str
    tp: int = 1
    drafter: str | None = None
    method: str | None = None
    k: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)  # changed fields of the drafter
    options: tuple[tuple[str, str], ...] = ()
    changed: Mapping[str, Any] = field(default_factory=dict)  # changed fields of the target

    def __str__(self) -> str:
        parts = [self.target, f"tp{self.tp}", self.drafter, self.method, self.k and f"k{self.k}"]
        changed = {name: "…" if isinstance(v, list) else v for name, v in self.changed.items()}
        shown = [f"{a}={b}" for a, b in (*self.options, *changed.items())]
        return "-".join(str(part) for part in [*parts, *shown] if part)

    @property
    def config(self) -> dict[str, Any]:
        """The target's config.json."""
        return {**json.loads((CONFIGS / f"{self.target}.json").read_text()), **self.changed}

    @property
    def drafting(self) -> dict[str, Any] | None:
        """The drafter's config.json."""
        if self.drafter is None:
            return None
        return {**json.loads((CONFIGS / f"{self.drafter}.json").read_text()), **self.more}

    @property
    def request(self) -> dict[str, Any]:
        """What build_models.py is asked."""
        drafting = self.drafting
        names = list(MTP) if self.method == "mtp" else []
        if drafting:
            names += [*drafting["architectures"], "EagleLlamaForCausalLM", "Eagle3LlamaForCausalLM"]
        return {
            "target": self.config, "drafter": drafting, "tp": self.tp, "method": self.method,
            "k": self.k, "imports": names, **dict(self.options),
        }  # fmt: skip

    def read(self, version: str) -> Model:
        """Our reading of it."""
        return read_model(
            self.config,
            name="config.json",
            drafter=self.drafting,
            own_drafter=self.method == "mtp",
            release=version,
            **dict(self.options),
        )


MIXED = ["sliding_attention", "full_attention"] * 16
CASES = [
    *(Case(name) for name in TARGETS),
    *(Case(name, 1, None, "mtp", 3) for name in HYBRIDS),
    Case("qwen3.8-27b", 2, None, "mtp", 7),
    Case("qwen3-next-80b-a3b", 2),
    Case("qwen3.8-27b", options=(("state_dtype", "float16"),)),
    Case("qwen3.8-27b", method="mtp", k=7, options=(("state_dtype", "float16"),)),
    Case("qwen3.5-35b-a3b", options=(("dtype", "float16"),)),
    Case("llama-3.1-8b", tp=16),  # more ranks than heads: each has one
    Case("gemma-4-31b-text", tp=8),  # 4 heads in the full layers, 16 in the others
    Case("llama-3.1-8b", 1, "drafter-eagle-llama-3-8b", "eagle", 3),
    Case("llama-3.1-8b", 2, "drafter-eagle3-llama-3.1-8b", "eagle3", 3),
    Case("llama-3.1-8b", 1, "drafter-speculators-eagle3", "eagle3", 3),
    Case("qwen3.8-27b", 1, "drafter-dflash2-window", "dflash", 7),
    Case("qwen3.8-27b", 1, "drafter-dflash-full", "dflash", 7),
    Case("qwen3.8-27b", 1, "drafter-dflash-mixed", "dflash", 7),
    # of layers that say none of their own, the target's window holds, not the drafter's
    Case("llama-3.1-8b", 1, "mistral-7b-v0.1", "draft_model", 3, {"vocab_size": 128256}),
    Case("mistral-7b-v0.1", 1, "llama-3.1-8b", "draft_model", 3, {"vocab_size": 32000}),
    Case("mistral-7b-v0.1", changed={"sliding_window": 0}),
    Case("gemma-2-2b", changed={"sliding_window": 0}),
    Case("llama-3.1-8b", changed={"layer_types": MIXED, "sliding_window": 1024}),
    Case("mixtral-8x7b", changed={"sliding_window": 4096}),
    Case("mixtral-8x7b", changed={"layer_types": MIXED, "sliding_window": 4096}),
    Case("qwen3-30b-a3b", changed={"sliding_window": 4096, "use_sliding_window": True}),
    Case("qwen3-30b-a3b", changed={"sliding_window": 4096, "use_sliding_window": False}),
    Case(
        "qwen2.5-7b",
        changed={"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 0},
    ),
    Case("qwen3-8b", changed={"rope_scaling": {"rope_type": "linear", "factor": 2.5}}),
    Case("qwen3-8b", changed={"model_max_length": 65536, "max_position_embeddings": 32768}),
    Case("qwen3-8b", changed={"max_seq_len": 1234}),
    Case("qwen3-8b", changed={"torch_dtype": "float32"}),
    Case("gemma-3-1b", changed={"torch_dtype": "float16"}),
]
IDS = [str(case) for case in CASES]


def version() -> str:
    """The importable vLLM's."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("no vLLM can be imported")
    return release_version(package_folder())


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What vLLM builds of all cases, in one process."""
    version()
    folder = tmp_path_factory.mktemp("built")
    requests = {name: case.request for name, case in zip(IDS, CASES, strict=True)}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.engine.build_models", str(folder)],
        input=json.dumps(requests), text=True, env=env, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "answers.json").read_text())


def asked(layer: Layer, tp: int, k: int, dtype: str) -> dict[str, Any]:
    """What a layer of ours asks for on one rank, as build_models.py has it."""
    if isinstance(layer, AttentionLayer):
        return {
            "spec": "FullAttentionSpec" if layer.window is None else "SlidingWindowSpec",
            "num_kv_heads": max(1, layer.num_kv_heads // tp),
            "head_dim": layer.head_dim, "head_dim_v": layer.head_dim_v,
            "window": layer.window, "dtype": dtype,
        }  # fmt: skip
    return {
        "state_bytes": sum(tensor.size_bytes(tp, k) for tensor in layer.tensors),
        "dtypes": [tensor.dtype for tensor in layer.tensors],
    }


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_layers_and_context_are_those_that_vllm_builds(
    case: Case, answers: Mapping[str, Any]
) -> None:
    release = version()
    answer = answers[str(case)]
    if "NotImplementedError: DFlash does not yet support mixed" in answer.get("error", ""):
        with pytest.raises(PatchkitError, match="has windows in some layers"):
            case.read(release)
        return
    try:
        model = case.read(release)
    except PatchkitError as error:
        if " comes with vLLM " not in error.fact:
            raise
        assert "error" in answer
        pytest.skip(error.fact)
    if "AmbiguousGlobalPerLayerAttributeError: 'head_dim'" in answer.get("error", ""):
        assert case.target.startswith("gemma-4")
        pytest.skip(f"vLLM {release} reads no Gemma 4 with the transformers that is here")
    assert "error" not in answer, answer["trace"]
    layers = [asked(layer, case.tp, case.k, model.dtype) for layer in model.layers]
    drafting = [layer.drafter for layer in model.layers]
    assert drafting == sorted(drafting)
    assert layers == [*answer["target"], *answer.get("drafter", ())]
    assert sum(drafting) == len(answer.get("drafter", ()))
    context = answer["max_model_len"]
    if context != model.max_model_len and case.method == "draft_model":
        # vLLM is told which kind of drafter it is, we are not
        assert f"may bound the context to {context}" in model.notes[-1]
        context = model.max_model_len
    ours = (model.max_model_len, model.dtype, model.num_layers, model.num_attention_heads)
    theirs = (answer[name] for name in ("dtype", "num_layers", "num_attention_heads"))
    assert ours == (context, *theirs)
