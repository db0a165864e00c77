"""Generates with one engine in this process and writes a JSON file: `python run.py FOLDER FILE`.

It runs in the interpreter that has vLLM, and imports nothing that needs installing besides. The
engine stays in this process, so that calls of its kernels can be counted and its cache be changed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.gpu.engine.prompts import Prompt, prompts

OPTION = "VLLM_SPEC_DECODE_VERIFY"
VARIABLES = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "HF_HUB_OFFLINE": "1",
}
DRAFTED = 7
# Where the kernels are called from, by what they are counted as.
OPS = "vllm.v1.attention.ops"
BACKENDS = "vllm.v1.attention.backends"
COUNTED = {
    "verify": (f"{OPS}.verify_attention.verify_attention", "verify_attention"),
    "unified": (f"{BACKENDS}.triton_attn", "unified_attention"),
    "flash": (f"{BACKENDS}.flash_attn", "flash_attn_varlen_func"),
}


def count_calls() -> dict[str, int]:
    """Wrap the functions of COUNTED that there are; their calls so far, by name."""
    calls: dict[str, int] = {}
    for name, (module_name, function_name) in COUNTED.items():
        try:
            found = importlib.util.find_spec(module_name) is not None
        except ModuleNotFoundError:
            found = False
        module = importlib.import_module(module_name) if found else None
        function = getattr(module, function_name, None)
        if function is not None:
            calls[name] = 0
            setattr(module, function_name, _counting(function, name, calls))
    return calls


def _counting(function: Callable[..., Any], name: str, calls: dict[str, int]) -> Callable[..., Any]:
    def counted(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return function(*arguments, **named)

    return counted


def start(folder: str, options: argparse.Namespace) -> Any:
    """An engine that drafts by n-grams, of the backend and cache that the options name."""
    from vllm import LLM

    chosen = {"attention_backend": options.backend} if options.backend else {}
    return LLM(
        model=folder,
        skip_tokenizer_init=True,
        dtype="bfloat16",
        enforce_eager=not options.graphs,
        kv_cache_dtype=options.cache,
        enable_prefix_caching=False,
        max_model_len=8192,
        max_num_seqs=16,
        max_num_batched_tokens=8192,
        kv_cache_memory_bytes=256 << 20,
        gpu_memory_utilization=0.1,
        speculative_config={
            "method": "ngram",
            "num_speculative_tokens": DRAFTED,
            "prompt_lookup_min": 2,
            "prompt_lookup_max": 4,
        },
        disable_log_stats=False,
        seed=0,
        **chosen,
    )


def generate(
    llm: Any,
    chosen: list[Prompt],
    calls: dict[str, int],
    *,
    logprobs: int | None = 2,
    swap: Callable[[Any, str, Prompt], bool] | None = None,
) -> dict[str, Any]:
    """Greedy tokens and top-2 margins of each prompt, and how many calls each step made.

    `swap` is asked for each prompt once it has a token, until it has done something.
    """
    from vllm import SamplingParams

    engine = llm.llm_engine
    for prompt in chosen:
        sampling = SamplingParams(
            temperature=0,
            max_tokens=len(prompt.induced),
            ignore_eos=True,
            detokenize=False,
            logprobs=logprobs,
        )
        engine.add_request(prompt.name, {"prompt_token_ids": list(prompt.tokens)}, sampling)
    outputs: dict[str, Any] = {}
    by_name = {prompt.name: prompt for prompt in chosen}
    steps = []
    decoding_from: tuple[float, int] | None = None
    while engine.has_unfinished_requests():
        before = dict(calls)
        for output in engine.step():
            outputs[output.request_id] = output
        # Steps in which prompts are read, or parts of them, are none of these.
        steps.append(
            {"decoding": decoding_from is not None, **{n: calls[n] - before[n] for n in calls}}
        )
        if decoding_from is None and len(outputs) == len(chosen):
            decoding_from = time.perf_counter(), generated(outputs)
        if swap is not None and any(swap(llm, name, by_name[name]) for name in outputs):
            swap = None
    assert decoding_from is not None
    ended = time.perf_counter()
    return {
        "decoding": {
            "seconds": ended - decoding_from[0],
            "tokens": generated(outputs) - decoding_from[1],
        },
        "tokens": {name: list(output.outputs[0].token_ids) for name, output in outputs.items()},
        "margins": {name: margins(output.outputs[0].logprobs) for name, output in outputs.items()},
        "steps": steps,
        "swapped": swap is None,
    }


def generated(outputs: dict[str, Any]) -> int:
    """How many tokens there are so far."""
    return sum(len(output.outputs[0].token_ids) for output in outputs.values())


def margins(logprobs: Any) -> list[float]:
    """By how much the best token of each position is above the second, in logits."""
    found = []
    for position in logprobs or ():
        best = sorted((entry.logprob for entry in position.values()), reverse=True)
        found.append(best[0] - best[1])
    return found


def swap_scales(llm: Any, name: str, prompt: Prompt) -> bool:
    """Swap the scales of two pages of a request in each layer; whether it was the one for it.

    One of them holds what the request copies next.
    """
    if name != "far":
        return False
    core = llm.llm_engine.engine_core.engine_core
    manager = core.scheduler.kv_cache_manager
    owner = next(key for key in core.scheduler.requests if key.partition("-")[0] == name)
    (blocks,) = manager.get_block_ids(owner)
    size = core.vllm_config.cache_config.block_size
    page = (prompt.source + 4) // size
    one, other = blocks[page], blocks[page + 2]
    for layer in core.vllm_config.compilation_config.static_forward_context.values():
        swap_pages(layer.impl._k_scale_cache, one, other)
        swap_pages(layer.impl._v_scale_cache, one, other)
    return True


def swap_pages(cache: Any, one: int, other: int) -> None:
    """Swap two blocks of a cache, which the engine may have made in inference mode."""
    import torch

    with torch.inference_mode():
        kept = cache[one].clone()
        cache[one] = cache[other]
        cache[other] = kept


def drafting(llm: Any) -> dict[str, int]:
    """How many drafts were made, of how many tokens, and how many of these were accepted."""
    prefix = "vllm:spec_decode_num_"
    found = {metric.name: metric for metric in llm.get_metrics()}
    return {
        name: int(found[f"{prefix}{name}"].value)
        for name in ("drafts", "draft_tokens", "accepted_tokens")
    }


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="the checkpoint")
    parser.add_argument("file", help="where the run is written")
    parser.add_argument("--verify", action="store_true", help=f"{OPTION}=1")
    parser.add_argument("--graphs", action="store_true", help="not eager")
    parser.add_argument("--backend", default="", help="of attention; the engine's own without")
    parser.add_argument("--cache", default="auto", help="the format of the KV cache")
    parser.add_argument("--swap", action="store_true", help="swap the scales of two pages")
    parser.add_argument("--longest", type=int, default=8192, help="leave longer prompts out")
    parser.add_argument("--count", type=int, default=96, help="tokens for each prompt")
    parser.add_argument("--repeat", type=int, default=0, help="times to generate again, timed")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Generate as the options say, and write what came of it."""
    options = parse(arguments)
    os.environ.update(VARIABLES)
    os.environ[OPTION] = "1" if options.verify else "0"
    logging.getLogger("vllm").setLevel(logging.WARNING)
    vocabulary = json.loads((Path(options.folder) / "config.json").read_text())["vocab_size"]
    chosen = [p for p in prompts(vocabulary, options.count) if len(p.tokens) <= options.longest]
    from vllm import __version__

    calls = count_calls()
    llm = start(options.folder, options)
    captured = dict(calls)
    result = generate(llm, chosen, calls, swap=swap_scales if options.swap else None)
    result |= {
        "version": __version__,
        "options": vars(options),
        "captured": captured,
        "drafting": drafting(llm),
        "induced": {prompt.name: list(prompt.induced) for prompt in chosen},
    }
    repeated = (generate(llm, chosen, calls, logprobs=None) for _ in range(options.repeat))
    result["again"] = [one["decoding"] for one in repeated]
    if options.swap and not result["swapped"]:
        raise RuntimeError("no scales were swapped")
    Path(options.file).write_text(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1:])
