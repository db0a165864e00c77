"""The memory in which the splits of verify attention leave their parts, allocated once."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .verify_plan import PROGRAMS_PER_SM, Device, Plan, block_ms, rows_of

# For Triton's interpreter: a few splits, and shared memory as on an H200.
INTERPRETED = Device(sm_count=16, shared_bytes=227 << 10, has_tma=True)


@dataclass(frozen=True)
class Scratch:
    """The parts of every split: outputs, maxima and sums, one cell a query row and split.

    part_out: [cells * head_dim] float32, not normalised
    part_max: [cells] float32, base 2; -inf where a split has no key
    part_sum: [cells] float32

    Takes 4 * (head_dim + 2) bytes a cell. It never grows, so that captured graphs stay right.
    """

    part_out: torch.Tensor
    part_max: torch.Tensor
    part_sum: torch.Tensor
    head_dim: int
    device: Device

    @classmethod
    def allocate(
        cls,
        *,
        max_requests: int,
        max_query_len: int,
        num_query_heads: int,
        num_kv_heads: int,
        head_dim: int,
        device: torch.device | str,
    ) -> Scratch:
        """Return scratch for every call within these maxima.

        With 256 requests of 8 query tokens, 24 query and 4 KV heads of 256: 65 MiB on an H200.
        """
        facts = read_device(torch.device(device))
        ratio = num_query_heads // num_kv_heads
        cells = max(
            _cells(block_m, max_query_len * ratio, ratio, max_requests, num_kv_heads, facts)
            for block_m in block_ms(max_query_len * ratio)
        )
        return cls(
            torch.empty(cells * head_dim, dtype=torch.float32, device=device),
            torch.empty(cells, dtype=torch.float32, device=device),
            torch.empty(cells, dtype=torch.float32, device=device),
            head_dim,
            facts,
        )

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the three tensors."""
        return 4 * (self.part_out.numel() + self.part_max.numel() + self.part_sum.numel())

    def check(self, plan: Plan, requests: int, num_kv_heads: int, head_dim: int) -> None:
        """Raise ValueError where the parts of a plan do not fit."""
        if head_dim != self.head_dim:
            raise ValueError(f"head_dim is {head_dim}, scratch was allocated for {self.head_dim}")
        cells = plan.programs(requests, num_kv_heads) * plan.block_m
        if cells > self.part_max.numel():
            raise ValueError(
                f"{requests} requests of {plan.tiles} query tiles need {cells} cells of scratch, "
                f"{self.part_max.numel()} were allocated; allocate for the configured maxima"
            )


def read_device(device: torch.device) -> Device:
    """Return the facts of a CUDA device, or those that Triton's interpreter is given."""
    if device.type != "cuda":
        return INTERPRETED
    found = torch.cuda.get_device_properties(device)
    return Device(
        found.multi_processor_count, found.shared_memory_per_block_optin, found.major >= 9
    )


def _cells(
    block_m: int, rows: int, ratio: int, requests: int, num_kv_heads: int, device: Device
) -> int:
    """Return the most cells of calls with this tile: splits stop at some programs a processor."""
    used = rows_of(block_m, ratio)
    unsplit = -(-rows // used) * num_kv_heads
    programs = max(requests * unsplit, PROGRAMS_PER_SM * device.sm_count)
    return programs * block_m
