"""What one rank has of a model: its heads, its states, and its pipeline stage."""

from __future__ import annotations

from patchkit.kv.layers import AttentionLayer, Model, StateLayer
from patchkit.kv.planned import RefusedError


def heads_per_rank(num_kv_heads: int, tensor_parallel: int) -> int:
    """Return the KV heads of one rank; with more ranks than heads each has a copy of one."""
    return max(1, num_kv_heads // tensor_parallel)


def check_tensor_parallel(model: Model, tensor_parallel: int) -> None:
    """Refuse a number of ranks that does not divide heads or states, or is divided by KV heads."""
    if model.num_attention_heads % tensor_parallel:
        raise RefusedError(
            f"{model.num_attention_heads} attention heads cannot be shared out to"
            f" {tensor_parallel} tensor-parallel ranks",
            expected=f"a divisor of {model.num_attention_heads}",
        )
    for attention in model.attention:
        _check_heads(attention, tensor_parallel)
    for state in model.states:
        _check_state(state, tensor_parallel)


def _check_heads(layer: AttentionLayer, ranks: int) -> None:
    heads = layer.num_kv_heads
    if heads % ranks and ranks % heads:
        whose = "the drafter's" if layer.drafter else "the"
        raise RefusedError(
            f"{whose} {heads} KV heads can neither be shared out to {ranks} tensor-parallel ranks"
            " nor be copied to them evenly",
            expected=f"a divisor or a multiple of {heads}",
        )


def _check_state(layer: StateLayer, ranks: int) -> None:
    for tensor in layer.tensors:
        if tensor.split % ranks:
            raise RefusedError(
                f"{tensor.split:,} rows of the {tensor.name} state cannot be shared out to"
                f" {ranks} tensor-parallel ranks",
                expected=f"a divisor of {tensor.split:,}",
            )


def stages(model: Model, pipeline_parallel: int) -> tuple[tuple[int, ...], ...]:
    """Return the places in `model.layers` that each pipeline stage has, the first stage first.

    Layers that do not come out even go to the stages before the last, from behind
    (get_pp_indices, in distributed/utils.py); a drafter is on the last stage.
    """
    if not 0 < pipeline_parallel <= model.num_layers:
        raise RefusedError(
            f"{model.num_layers} layers cannot be shared out to {pipeline_parallel} pipeline"
            " stages",
            expected=f"1 to {model.num_layers}",
        )
    bounds = _bounds(model.num_layers, pipeline_parallel)
    places: list[list[int]] = [[] for _ in bounds]
    for place, layer in enumerate(model.layers):
        if layer.drafter:
            stage = len(bounds) - 1
        else:
            stage = next(at for at, (start, end) in enumerate(bounds) if start <= layer.index < end)
        places[stage].append(place)
    return tuple(tuple(stage) for stage in places)


def _bounds(num_layers: int, stages: int) -> list[tuple[int, int]]:
    """Return the first layer of each stage, and the one behind its last."""
    sizes = [num_layers // stages] * stages
    for at in range(num_layers % stages):
        sizes[-2 - at] += 1
    starts = [sum(sizes[:at]) for at in range(stages)]
    return list(
        zip(starts, [start + size for start, size in zip(starts, sizes, strict=True)], strict=True)
    )
