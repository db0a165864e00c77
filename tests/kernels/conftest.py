"""Where kernels run: on a CUDA device, or on the CPU through Triton's interpreter."""

from __future__ import annotations

import os

import pytest


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
