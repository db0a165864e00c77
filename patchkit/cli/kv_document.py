"""Plans as one document, from which both the lines for people and the JSON are made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchkit.cli.kv_memory import Memory
from patchkit.errors import ExitCode
from patchkit.kv.layers import Model
from patchkit.kv.planned import Kind, Options, Plan, Refusal


@dataclass(frozen=True)
class Asked:
    """What plans were made of, and for which lengths their requests are counted."""

    model: Model
    release: str
    options: Options
    memory: Memory
    lengths: tuple[int, ...]  # tokens
    notes: tuple[str, ...]
    compare: bool


def plan_document(asked: Asked, outcomes: Sequence[Plan | Refusal]) -> dict[str, Any]:
    """Return what docs/schema/kv-plan-1.json describes; refusals come last."""
    plans = [outcome for outcome in outcomes if isinstance(outcome, Plan)]
    fitting = [plan for plan in plans if plan.fits]
    fine = bool(fitting) if asked.compare else len(fitting) == len(outcomes)
    auto = next((plan for plan in plans if plan.format == "auto"), None) if asked.compare else None
    return {
        "schema": "patchkit.kv-plan/1",
        "ok": fine,
        "exit_code": int(ExitCode.DONE if fine else ExitCode.FINDINGS),
        "model": _model(asked.model),
        "release": asked.release,
        "options": _options(asked.options),
        "memory": _memory(asked.memory),
        "compare": asked.compare,
        "lengths": list(asked.lengths),
        "plans": [_plan(plan, asked, auto) for plan in plans],
        "refusals": [
            {
                "format": refusal.format,
                "reason": refusal.reason,
                "expected": refusal.expected,
                "hint": refusal.hint,
            }
            for refusal in outcomes
            if isinstance(refusal, Refusal)
        ],
        "notes": [*asked.model.notes, *asked.memory.notes, *asked.notes],
    }


def _model(model: Model) -> dict[str, Any]:
    kinds = Counter("window" if layer.window else "full" for layer in model.attention)
    return {
        "name": model.name,
        "architecture": model.architecture,
        "dtype": model.dtype,
        "max_model_len": model.max_model_len,
        "full_layers": kinds["full"],
        "window_layers": kinds["window"],
        "state_layers": len(model.states),
        "drafter_layers": sum(layer.drafter for layer in model.layers),
    }


def _options(options: Options) -> dict[str, Any]:
    return {
        name: getattr(options, name)
        for name in Options.__dataclass_fields__
        if name != "memory_bytes"
    }


def _memory(memory: Memory) -> dict[str, Any]:
    return {
        "bytes": memory.size_bytes,
        "card_bytes": memory.card_bytes,
        "utilisation": None if memory.utilisation is None else str(memory.utilisation),
        "weights_bytes": memory.weights_bytes,
        "overhead_bytes": memory.overhead_bytes,
    }


def _plan(plan: Plan, asked: Asked, auto: Plan | None) -> dict[str, Any]:
    return {
        "format": plan.format,
        "fits": plan.fits,
        "tokens": plan.tokens,
        "max_model_len": plan.max_model_len,
        "concurrency": plan.concurrency,
        "longest": plan.longest,
        "limit": plan.limit,
        "resident": [{"tokens": n, "requests": plan.resident(n)} for n in asked.lengths],
        "bytes_per_token": bytes_per_token(plan),
        "ratio_to_auto": plan.tokens / auto.tokens if auto and auto.tokens else None,
        "page_bytes": plan.page_bytes,
        "group_size": plan.group_size,
        "block_bytes": plan.block_bytes,
        "num_blocks": plan.num_blocks,
        "blocks_per_request": plan.blocks_per_request,
        "needed_bytes": plan.needed_bytes,
        "available_bytes": plan.available_bytes,
        "state_bytes_per_request": plan.state_bytes_per_request,
        "tail_bytes": plan.tail_bytes,
        "kinds": [_kind(kind, plan.max_model_len) for kind in plan.kinds],
        "steps": list(plan.steps),
        "notes": [note for note in plan.notes if note not in asked.model.notes],
    }


def _kind(kind: Kind, tokens: int) -> dict[str, Any]:
    return {
        "kind": kind.kind,
        "format": kind.format or None,
        "layers": kind.layers,
        "groups": kind.groups,
        "window": kind.window,
        "token_bytes": kind.token_bytes,
        "born_block": kind.born_block,
        "block": kind.block,
        "kernel_block": kind.kernel_block,
        "content_bytes": kind.content_bytes,
        "page_bytes": kind.page_bytes,
        "padding_bytes": kind.padding_bytes,
        "blocks_per_request": kind.blocks_per_request(tokens),
    }


def bytes_per_token(plan: Plan) -> int:
    """Return what a token takes in bytes in all layers that keep every token, padding left out."""
    return sum(kind.layers * kind.token_bytes for kind in plan.kinds if kind.window is None)
