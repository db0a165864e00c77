"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from patchkit.config import Config
    from patchkit.pins import Pins

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Return the command with `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def here() -> Config:
    """Return the configuration that holds in the working folder."""
    from patchkit.config import find_config

    return find_config(Path.cwd())


def read_pins(config: Config) -> Pins:
    """Return the pins that patchkit ships, with the repository's own laid over them."""
    from patchkit.pins import parse_pins
    from patchkit.upstream import shipped_pins
    from patchkit.workspace import read_file

    pins = shipped_pins()
    if config.pins is not None:
        own = parse_pins(read_file(config.pins).decode(), place=str(config.pins))
        for release in own.releases:
            pins = pins.with_release(release)
    return pins
