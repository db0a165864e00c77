"""The user's configuration: `[tool.patchkit]` of the nearest pyproject.toml, with its defaults."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from patchkit.errors import UsageError
from patchkit.profile import Profile, override_profile
from patchkit.vllm.profile import VLLM

PYPROJECT = "pyproject.toml"
PINS = "upstream_pins.toml"
KEYS = ("series", "pins", "profile", "selections", "history", "records", "claims")


@dataclass(frozen=True)
class Config:
    """What a repository says of itself.

    `root` is the folder that paths are relative to. `series` names the series folders, in the order
    in which they compose. `pins` are laid over those that the package ships; None where the
    repository has none of its own. `profile` is the shipped one with the repository's changes.
    `selections` maps a name to the patches that `build-wheel --selection` takes. `history` is a git
    repository of upstream's, with a tag for each release. `records` is the folder of run records,
    relative to the root; `claims` are patterns of the files whose figures are held against them.
    """

    root: Path
    series: tuple[str, ...] = ("patches",)
    pins: Path | None = None
    profile: Profile = VLLM
    selections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    history: Path | None = None
    records: str = "docs/records"
    claims: tuple[str, ...] = ("README.md", "docs/**/*.md")

    @property
    def pins_to_write(self) -> Path:
        """The file that `pin` adds a release to."""
        return self.pins or self.root / PINS

    @property
    def state_folder(self) -> Path:
        """The folder of what patchkit keeps while it works; never a part of the repository."""
        return self.root / ".patchkit"


def find_config(start: Path) -> Config:
    """Return the configuration that holds in a folder: the nearest `[tool.patchkit]` upward.

    Without one the folder itself is the root, with the defaults.
    """
    start = start.resolve()
    for folder in (start, *start.parents):
        path = folder / PYPROJECT
        if path.is_file():
            table = _read_table(path, _shown(path, start))
            if table is not None:
                return parse_config(table, root=folder, place=_shown(path, start))
    return _with_default_pins(Config(root=start))


def parse_config(table: dict[str, Any], *, root: Path, place: str) -> Config:
    """Return the configuration from a `[tool.patchkit]` table."""
    for key in table:
        if key not in KEYS:
            raise UsageError(
                f"unknown key {key!r} in [tool.patchkit]",
                place=place,
                expected="one of " + ", ".join(KEYS),
            )
    config = Config(
        root=root,
        series=_names(table, "series", ("patches",), place),
        pins=_path(table, "pins", root, place),
        profile=_profile(table.get("profile", {}), f"{place}: tool.patchkit.profile"),
        selections=_selections(table.get("selections", {}), place),
        history=_path(table, "history", root, place, "the path of a git repository"),
        records=_folder(table.get("records", Config.records), "records", place),
        claims=_names(table, "claims", Config.claims, place),
    )
    return _with_default_pins(config)


def _with_default_pins(config: Config) -> Config:
    beside = config.root / PINS
    if config.pins is None and beside.is_file():
        return replace(config, pins=beside)
    return config


def _read_table(path: Path, place: str) -> dict[str, Any] | None:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise UsageError(f"not valid TOML: {err}", place=place) from err
    table = document.get("tool", {}).get("patchkit")
    if table is not None and not isinstance(table, dict):
        raise UsageError(
            f"tool.patchkit is {_toml_type(table)}",
            place=place,
            expected="a table, [tool.patchkit]",
        )
    return table


def _names(
    table: dict[str, Any], key: str, default: tuple[str, ...], place: str
) -> tuple[str, ...]:
    """Return the series folders, or the patterns of files with claims."""
    value = table.get(key, list(default))
    what = "folders" if key == "series" else "files"
    expected = f'a list of {what}, such as ["{default[0]}"]'
    if not isinstance(value, list):
        raise UsageError(f"{key} is {_toml_type(value)}", place=place, expected=expected)
    if not value:
        raise UsageError(f"{key} is empty", place=place, expected=expected)
    names = tuple(_folder(folder, f"{key}[{n}]", place) for n, folder in enumerate(value))
    for number, folder in enumerate(names):
        if folder in names[:number]:
            raise UsageError(
                f"{key}[{number}] names {folder!r} a second time",
                place=place,
                expected="each series folder once" if key == "series" else "each once",
            )
    return names


def _folder(value: object, key: str, place: str) -> str:
    if not isinstance(value, str):
        fact = f"{key} is {_toml_type(value)}"
        raise UsageError(fact, place=place, expected="the name of a folder")
    parts = Path(value).parts
    if not parts or Path(value).is_absolute() or ".." in parts:
        raise UsageError(
            f"{key} is {value!r}",
            place=place,
            expected="a folder within the repository, relative to pyproject.toml",
        )
    return Path(value).as_posix()


def _path(
    table: dict[str, Any],
    key: str,
    root: Path,
    place: str,
    expected: str = "the path of a TOML file",
) -> Path | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        fact = f"{key} is {_toml_type(value)}" if value != "" else f"{key} is empty"
        raise UsageError(fact, place=place, expected=expected)
    return root / Path(value).expanduser()


def _profile(value: object, place: str) -> Profile:
    if not isinstance(value, dict):
        raise UsageError(
            f"is {_toml_type(value)}", place=place, expected="a table, [tool.patchkit.profile]"
        )
    return override_profile(VLLM, value, place)


def _selections(value: object, place: str) -> dict[str, tuple[str, ...]]:
    expected = 'a table of lists of patches, such as kv = ["block-promotion"]'
    if not isinstance(value, dict):
        raise UsageError(f"selections is {_toml_type(value)}", place=place, expected=expected)
    for name, patches in value.items():
        texts = isinstance(patches, list) and all(isinstance(patch, str) for patch in patches)
        if not texts or not patches:
            raise UsageError(f"selections.{name} is no such list", place=place, expected=expected)
    return {name: tuple(patches) for name, patches in value.items()}


def _toml_type(value: object) -> str:
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    names |= {list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")


def _shown(path: Path, start: Path) -> str:
    return path.name if path.parent == start else str(path)
