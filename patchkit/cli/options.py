"""Options that several commands share, and what they are turned into."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from patchkit.config import Config
    from patchkit.installed.source import Source
    from patchkit.stacking.rebase import PatchInput
    from patchkit.tree import SourceTree
    from patchkit.upstream.index import Index
    from patchkit.upstream.pins import Pins
    from patchkit.upstream.progress import Progress

Command = TypeVar("Command", bound=Callable[..., Any])


def json_option(command: Command) -> Command:
    """Return the command with `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(command)


def series_option(command: Command) -> Command:
    """Return the command with `--series`, a folder of the repository."""
    text = "This series folder only."
    return click.option("--series", "folder", metavar="DIR", help=text)(command)


def stored_release_option(command: Command) -> Command:
    """Return the command with `--release`, one that is stored."""
    text = "The stored release; the highest unless given."
    return click.option("--release", metavar="REL", help=text)(command)


def dry_run_option(command: Command) -> Command:
    """Return the command with `--dry-run`."""
    text = "Say what would be written, and write nothing."
    return click.option("--dry-run", is_flag=True, help=text)(command)


def forget_decisions_option(command: Command) -> Command:
    """Return the command with `--forget-decisions`."""
    text = "Drop adaptations and accepted drifts of lost hunks."
    return click.option("--forget-decisions", is_flag=True, help=text)(command)


def jobs_option(command: Command) -> Command:
    """Return the command with `--jobs`."""
    text = "How many processes to use at most; one a processor, up to eight, unless given."
    return click.option("--jobs", metavar="N", type=click.IntRange(1), help=text)(command)


def python_option(command: Command) -> Command:
    """Return the command with `--python`."""
    text = "The interpreter whose `installed` is meant; our own unless given."
    return click.option("--python", metavar="PATH", help=text)(command)


def selection_options(command: Command) -> Command:
    """Return the command with `--only`, `--without` and `--selection`."""
    only = click.option("--only", metavar="A,B", help="These patches, and what they depend on.")
    without = click.option("--without", metavar="A,B", help="All patches but these.")
    text = "Patches that pyproject.toml lists together."
    return only(without(click.option("--selection", metavar="NAME", help=text)(command)))


def selection_words(only: str | None, without: str | None, name: str | None) -> dict[str, Any]:
    """Return the options of a selection as `select_patches` takes them."""
    parts = {
        key: tuple(word for word in (text or "").replace(",", " ").split() if word)
        for key, text in (("only", only), ("without", without))
    }
    return {**parts, "name": name}


def series_source(config: Config, folder: Path | None) -> Source:
    """Return the exported series in a folder, the repository's own where none is given."""
    from patchkit.installed.source import read_export, repository_source

    return repository_source(config) if folder is None else read_export(folder)


def here() -> Config:
    """Return the configuration that holds in the working folder."""
    from patchkit.config import find_config

    return find_config(Path.cwd())


def read_pins(config: Config, *, may_be_missing: bool = False) -> Pins:
    """Return the pins that patchkit ships, with the repository's own laid over them."""
    from patchkit.repository.workspace import read_file
    from patchkit.upstream import shipped_pins
    from patchkit.upstream.pins import parse_pins

    pins = shipped_pins()
    if config.pins is not None and (config.pins.exists() or not may_be_missing):
        own = parse_pins(read_file(config.pins).decode(), place=str(config.pins))
        for release in own.releases:
            pins = pins.with_release(release)
    return pins


def tree_opener(
    config: Config, progress: Progress, pins: Pins | None = None
) -> Callable[[str], SourceTree]:
    """Return what opens a tree by its spelling, each once, with the repository's pins or others."""
    from patchkit.upstream import open_tree

    pins = read_pins(config) if pins is None else pins

    @cache
    def index() -> Index:
        from patchkit.upstream.index import Index  # takes its time to be imported

        return Index()

    @cache
    def opened(spec: str) -> SourceTree:
        return open_tree(spec, pins=pins, index=index, progress=progress)

    return opened


def read_patch_files(names: Sequence[str]) -> list[PatchInput]:
    """Return the patches of files, in order; `-` is standard input, a mailbox gives one a mail."""
    from patchkit.errors import UsageError
    from patchkit.repository.workspace import read_file
    from patchkit.stacking.rebase import read_inputs

    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        place = click.get_current_context().command_path
        raise UsageError(f"{twice[0]} is given twice", place=place)
    inputs: list[PatchInput] = []
    for name in names:
        data = sys.stdin.buffer.read() if name == "-" else read_file(Path(name))
        inputs += read_inputs(data, "standard input" if name == "-" else name)
    return inputs


def series_folders(config: Config, folder: str | None) -> tuple[str, ...]:
    """Return the series folders that are meant; refuse where none of them holds a release."""
    from patchkit.errors import PatchkitError
    from patchkit.repository.store import stored_releases

    folders = config.series
    if folder is not None:
        path = (Path.cwd() / folder).resolve()
        if not path.is_relative_to(config.root):
            raise PatchkitError(
                "is outside the repository", place=folder, expected=f"a folder in {config.root}"
            )
        folders = (path.relative_to(config.root).as_posix(),)
    if not any(stored_releases(config.root, name) for name in folders):
        raise PatchkitError(
            "no series is stored",
            place=", ".join(folders),
            hint="`patchkit init --from v0.28.0` starts one",
        )
    return folders


def shown_path(path: Path) -> str:
    """Return a path as people know it: from the working folder where it lies below that."""
    here, path = Path.cwd(), path.absolute()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)
