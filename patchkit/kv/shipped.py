"""The tables that ship with the package."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any


@cache
def shipped_table(package: str, name: str) -> Mapping[str, Any]:
    """Return a TOML file of a package, read once."""
    return tomllib.loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))
