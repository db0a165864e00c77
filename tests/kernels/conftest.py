"""Where kernels run: on a CUDA device, or on the CPU through Triton's interpreter."""

from __future__ import annotations

import importlib.util
import os

import pytest


def pytest_configure() -> None:
    """Leave torch a thread: on cores that processes share, threads of each wait for the others.

    With two threads a process on two cores some tests of a tenth of a second took six.
    """
    if importlib.util.find_spec("torch"):
        import torch

        torch.set_num_threads(1)


@pytest.fixture(scope="session")
def device() -> str:
    """The device of tensors that kernels run on; a test is skipped where there is none."""
    import torch

    if os.environ.get("TRITON_INTERPRET") == "1":
        return "cpu"
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device, and TRITON_INTERPRET=1 is not set")
    return "cuda"


@pytest.fixture
def gpu(device: str) -> str:
    """The CUDA device; a test is skipped under the interpreter."""
    if device != "cuda":
        pytest.skip("long contexts take a CUDA device")
    return device
