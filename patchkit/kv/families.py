"""Model families: which architectures are read, and what differs between them (families.toml)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from packaging.version import Version

from patchkit.kv.shipped import shipped_table

QUOTIENT = "hidden_size / num_attention_heads"
HEADS = "num_attention_heads"


@dataclass(frozen=True)
class Pattern:
    """Each `every`-th layer is full attention; the field, where given, says another number."""

    every: int
    field: str | None = None


@dataclass(frozen=True)
class OwnDrafter:
    """The field with the number of drafting layers in a checkpoint, and what it is left out."""

    field: str
    default: int


@dataclass(frozen=True)
class Family:
    """One entry of families.toml, which says what its fields mean."""

    name: str
    model_types: tuple[str, ...]
    windows: str
    architectures: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    drafters: tuple[str, ...] = ()
    nested_drafters: tuple[str, ...] = ()
    window_switch: str | None = None
    full_until: str | None = None
    pattern: Pattern | None = None
    rest: str = "sliding_attention"
    last_is_full: bool = False
    full_layers_differ: bool = False
    caches: str = "own"
    states: str | None = None
    state_dtype_field: str | None = None
    own_drafter: OwnDrafter | None = None
    head_dim_is_quotient: bool = False
    float16: bool = True
    rope_scales_context: bool = True
    defaults: Mapping[str, object] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The architectures that it is read from."""
        return (*self.architectures, *self.nested, *self.drafters, *self.nested_drafters)

    def drafts(self, architecture: str) -> bool:
        """Return whether an architecture of it only drafts for another model."""
        return architecture in (*self.drafters, *self.nested_drafters)

    def nests(self, architecture: str) -> bool:
        """Return whether the text model of an architecture lies under text_config."""
        return architecture in (*self.nested, *self.nested_drafters)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What layer_types may say of a layer."""
        return ("full_attention", self.rest)


@cache
def read_families() -> tuple[Family, ...]:
    """Return the families, in the order of the table."""
    return tuple(_family(entry) for entry in _table()["family"])


def families_of(architecture: str) -> tuple[Family, ...]:
    """Return the families that an architecture is read as, by the model_type of its text model."""
    return tuple(family for family in read_families() if architecture in family.names)


def speculators_architecture(method: str, model_type: str) -> str | None:
    """Return what vLLM calls a drafter in the speculators format; None: one that is not read."""
    names: Mapping[str, str] = _table()["speculators"].get(method, {})
    return names.get(model_type, names.get("any"))


def speculators_methods() -> tuple[str, ...]:
    """Return the methods of the speculators format that are read."""
    return tuple(_table()["speculators"])


def missing_on(architecture: str, release: str) -> str | None:
    """Return why a release ("0.27.0") does not serve an architecture of the table, or None."""
    since = _table()["since"].get(architecture)
    if since is None or Version(release) >= Version(since):
        return None
    return f"{architecture} comes with vLLM {since}"


def yarn_multiplies(release: str) -> bool:
    """Return whether a release takes a context as original length x factor with YaRN."""
    return Version(release) < Version(_table()["context"]["yarn_multiplies_before"])


def drafter_bounds(release: str) -> bool:
    """Return whether a drafter's own context may bound that of its target."""
    return Version(release) >= Version(_table()["context"]["drafter_bounds_from"])


def mixes_dflash_windows(release: str) -> bool:
    """Return whether a release serves a DFlash drafter with windows in some layers only."""
    return Version(release) >= Version(_table()["dflash"]["mixed_windows_from"])


def _family(entry: Mapping[str, Any]) -> Family:
    values: dict[str, Any] = {
        name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()
    }
    for name, made in (("pattern", Pattern), ("own_drafter", OwnDrafter)):
        if name in values:
            values[name] = made(**values[name])
    return Family(**values)


def _table() -> Mapping[str, Any]:
    return shipped_table("patchkit.kv", "families.toml")
