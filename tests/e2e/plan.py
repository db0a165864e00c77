"""Starts an engine for each case and prints what it has laid out: `python plan.py CASE …`.

It runs in the interpreter that has vLLM and generates nothing. What an engine says in its log and
what its objects hold are both printed, one JSON line a case: a planner is held against both.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.e2e.cases import CASES, Case
from tests.e2e.generate import prepare

# Of what an engine logs, that which a planner can say before.
SAYS = ("attention block size", "mamba page size", "padding layers", "KV cache size")


def keep_messages() -> list[str]:
    """A list to which each such message is added from now on.

    Records are caught where they are made: an engine may set its loggers up anew as it starts.
    """
    texts: list[str] = []
    make = logging.getLogRecordFactory()

    def keeping(*arguments: Any, **options: Any) -> logging.LogRecord:
        record = make(*arguments, **options)
        text = record.getMessage()
        if record.name.startswith("vllm.") and any(words in text for words in SAYS):
            texts.append(text)
        return record

    logging.setLogRecordFactory(keeping)
    return texts


def one_spec(spec: Any) -> Any:
    """The spec of a group; where it holds one for each layer, that of the first."""
    return next(iter(getattr(spec, "kv_cache_specs", {"": spec}).values()))


def groups_of(config: Any) -> list[dict[str, Any]]:
    """The block tables: what their layers are and how many, tokens of a block, bytes of a page."""
    specs = [(group, one_spec(group.kv_cache_spec)) for group in config.kv_cache_groups]
    return [
        {
            "spec": type(spec).__name__,
            "layers": len(group.layer_names),
            "block": spec.block_size,
            "page": spec.page_size_bytes,
        }
        for group, spec in specs
    ]


def start(case: Case, folder: str) -> dict[str, Any]:
    """What an engine lays out for a case, or the reason for which it does not start."""
    from vllm import LLM

    try:
        llm = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            enforce_eager=True,
            disable_log_stats=True,
            **case.arguments,
        )
    except (ValueError, NotImplementedError) as err:
        return {"error": str(err)}
    core = llm.llm_engine.engine_core.engine_core
    config, cache = core.scheduler.kv_cache_config, core.vllm_config.cache_config
    return {
        "groups": groups_of(config),
        "num_blocks": config.num_blocks,
        # An engine may change it, by what the machine's kernels take.
        "state_dtype": cache.mamba_ssm_cache_dtype,
    }


def forget_messages() -> None:
    """Let each message be logged again: an engine logs some once in a process."""
    from vllm import logger

    for function in vars(logger).values():
        if hasattr(function, "cache_clear"):
            function.cache_clear()


def plan(name: str, messages: list[str]) -> dict[str, Any]:
    """What an engine of a case is, has and says; nothing of it is left for the next."""
    from vllm import __version__
    from vllm.distributed import cleanup_dist_env_and_memory

    messages.clear()
    forget_messages()
    case = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(case.config))
        found = start(case, folder)
    gc.collect()
    cleanup_dist_env_and_memory()
    return {"case": name, "version": __version__, **found, "log": [*messages]}


def main(names: Sequence[str]) -> None:
    """Print what the engines of these cases lay out."""
    prepare()
    messages = keep_messages()
    for name in names:
        print("RESULT " + json.dumps(plan(name, messages)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
