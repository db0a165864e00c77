"""nvidia-smi's answers, as it gives them."""

from __future__ import annotations

import pytest

from patchkit.errors import PatchkitError
from patchkit.records.machine import GpuState, choose_gpu, parse_gpus
from tests.records.conftest import H200

TWO = H200 + (
    "1, GPU-77777777-0d7e-4b1f-9c53-1f0c7c1f2a11, NVIDIA GeForce RTX 3090, 550.54.14, 280.00 W, "
    "210 MHz, 405 MHz, P8, 24.10 W, [N/A]\n"
)
LAPTOP = "0, GPU-1, NVIDIA T1200, 535.1, [N/A], 300, 405, [Not Supported], [N/A], 44\n"


def test_what_a_driver_does_not_say_is_none() -> None:
    (gpu,) = parse_gpus(LAPTOP)
    assert gpu.power_limit_w is None
    assert gpu.state == GpuState(300.0, 405.0, None, None, 44.0)


def test_units_are_read_over() -> None:
    gpu = parse_gpus(TWO)[1]
    assert (gpu.name, gpu.driver, gpu.power_limit_w) == (
        "NVIDIA GeForce RTX 3090", "550.54.14", 280.0,
    )  # fmt: skip
    assert gpu.state == GpuState(210.0, 405.0, "P8", 24.1, None)


@pytest.mark.parametrize(("visible", "index"), [
    (None, 0), ("1", 1), ("1,0", 1), ("GPU-7777", 1), ("", None), ("-1", None), ("4", None),
])  # fmt: skip
def test_the_gpu_is_the_one_that_cuda_calls_the_first(
    visible: str | None, index: int | None
) -> None:
    gpu = choose_gpu(TWO, visible)
    assert (gpu.index if gpu else None) == index


def test_a_slice_of_a_gpu_is_no_gpu_and_not_none_either() -> None:
    with pytest.raises(PatchkitError, match="a slice of a GPU is measured"):
        choose_gpu(H200, "MIG-5a1c6f8e")
    assert choose_gpu(H200, "-1") is None


def test_no_answer_is_no_gpu() -> None:
    assert choose_gpu("", None) is None
    assert choose_gpu("\n", None) is None


@pytest.mark.parametrize("text", [
    "No devices were found\n",
    "Field \"clocks.sm\" is not a valid field to query.\n",
    H200.replace("700.00", "much"),
])  # fmt: skip
def test_another_answer_is_refused(text: str) -> None:
    with pytest.raises(PatchkitError, match="nvidia-smi: cannot be understood"):
        parse_gpus(text)
