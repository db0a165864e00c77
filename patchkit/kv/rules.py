"""What releases of vLLM do with pages, groups and blocks, from the table of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from patchkit.errors import PatchkitError
from patchkit.kv.shipped import shipped_table


@dataclass(frozen=True)
class Backend:
    """An attention backend: the kernel blocks that it takes, in tokens.

    Those are the `fixed` ones, or any multiple of `multiple_of`. With `block_stride` it finds pages
    by their distance, so that there can be room between them.
    """

    name: str
    fixed: tuple[int, ...] = ()
    multiple_of: int | None = None
    block_stride: bool = True

    @property
    def sizes(self) -> tuple[int, ...]:
        """The kernel blocks that are named, and the one that the others are multiples of."""
        return self.fixed if self.multiple_of is None else (*self.fixed, self.multiple_of)

    def takes(self, block: int) -> bool:
        """Return whether a kernel block of so many tokens is one that it takes."""
        multiple = self.multiple_of is not None and block % self.multiple_of == 0
        return multiple or block in self.fixed


@dataclass(frozen=True)
class Rules:
    """What one release does; the table says where each is read."""

    release: str
    window_birth: str  # "smallest" or "primary"
    padded_attention: str  # "block stride" or "all"
    padded_states: bool
    merges_value_widths: bool
    batches_in_flight: str  # "one" or "concurrent"
    second_runner: str  # "dense" or "all"
    second_runner_with_experts: tuple[str, ...]  # architectures
    second_runner_keeps_all_states: bool
    null_block_checked: bool
    state_cache_modes: tuple[str, ...]
    state_cache_default: str  # "all" or "align"
    aligned_block_in_one_batch: bool
    aligned_to_all_backends: bool
    aligned_to_checkpoints: bool
    default_block: Mapping[str, int]  # tokens, by platform
    block_of_all_backends: bool
    has_prefix_match_unit: bool
    single_group_unit_checked: bool
    states_apart: str  # "block" or "mode"
    backend_of_mixed_heads: Mapping[str, str]  # by what an architecture begins with
    promotion: bool
    cpu_formats: tuple[str, ...]
    backends: Mapping[str, Backend]

    def backend(self, name: str, tile: int | None) -> Backend:
        """Return a backend by name, that of a tiled format by its tile.

        Raises PatchkitError for one that there are no rules of.
        """
        if tile is not None:
            return Backend(name, fixed=(tile,))
        if name not in self.backends:
            raise PatchkitError(
                f"there are no rules for the attention backend {name!r}",
                expected=f"one of {', '.join(self.backends)}",
            )
        return self.backends[name]


def rules_for(release: str) -> Rules:
    """Return the rules of a release; raises PatchkitError for one that is not modelled."""
    table = _table()
    releases: list[str] = table["releases"]
    try:
        version = Version(release)
    except InvalidVersion as error:
        raise PatchkitError(f"{release!r} is no release", expected=_span(releases)) from error
    known = next((name for name in releases if Version(name) == version), None)
    if known is None:
        raise PatchkitError(
            f"how vLLM {release} lays out its KV cache is not modelled", expected=_span(releases)
        )
    values = {name: _at(dated, version) for name, dated in table["rules"].items()}
    backends = {
        name: Backend(name, **{word: _at(dated, version) for word, dated in row.items()})
        for name, row in table["backends"].items()
    }
    return Rules(release=known, backends=backends, **values)


def modelled() -> tuple[str, ...]:
    """Return the releases that there are rules for, the oldest first."""
    return tuple(_table()["releases"])


def _table() -> Mapping[str, Any]:
    return shipped_table("patchkit.vllm", "kv_rules.toml")


def _at(dated: Mapping[str, Any], version: Version) -> Any:
    """Return the value that holds for a release: that of the last one that is not later."""
    past = [since for since in dated if Version(since) <= version]
    value = dated[max(past, key=Version)]
    return tuple(value) if isinstance(value, list) else value


def _span(releases: list[str]) -> str:
    return f"one of {', '.join(releases)}"
