"""Who is compared: one module each, one protocol. What a peer is imported from may be absent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from tests.bench.kernels.caches import Inputs
    from tests.bench.kernels.cases import Case


class Peer(Protocol):
    """A column of the table."""

    name: str
    kv_format: str
    compiles: bool  # whether its first call compiles, so that it pays to do so beforehand
    follows_lengths: bool  # whether its calls read the lengths anew each time
    bound: float  # relative RMS error that its output may have

    def available(self) -> str | None:
        """Why it cannot be called here, or None."""

    def skips(self, case: Case, free_bytes: int) -> str | None:
        """Why a case is not for it, or None."""

    def prepare(self, inputs: Inputs) -> list[Callable[[], Any]]:
        """A call for each block table, which returns its output; nothing is allocated later."""


@runtime_checkable
class Judge(Protocol):
    """A column that is no attention: it says itself how wrong it is, and what it has to move."""

    def error(self, inputs: Inputs, call: Callable[[], Any]) -> float:
        """The error of a call over the first table."""

    def moved_bytes(self, case: Case) -> int:
        """The bytes that every right kernel reads and writes."""


def imported(name: str) -> tuple[Any, str | None]:
    """A module and None, or None and the reason why it cannot be imported."""
    import importlib

    try:
        return importlib.import_module(name), None
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        first = str(error).strip().partition("\n")[0]
        return None, f"{name}: {type(error).__name__}: {first}"


def versions() -> dict[str, str]:
    """The versions of what takes part, "absent" where it is not installed."""
    from importlib import metadata

    found = {}
    for name in ("torch", "triton", "vllm"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "absent"
    if found["vllm"] == "absent":  # a tree on the path has no distribution
        module, _ = imported("vllm._version")
        found["vllm"] = str(getattr(module, "__version__", "absent"))
    return found
