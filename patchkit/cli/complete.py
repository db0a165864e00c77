"""What a shell offers for a word that is being typed: stored releases, patches, series folders.

Asked at each press of the tab key: names of files are read, and nothing is said where the
repository is not in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def _folders() -> Iterator[tuple[Path, str]]:
    from patchkit.config import find_config

    config = find_config(Path.cwd())
    for folder in config.series:
        yield config.root / folder, folder


def _completer(names: Callable[[], Iterator[str]]) -> Complete:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
        from patchkit.errors import PatchkitError

        try:
            found = dict.fromkeys(names())
        except (PatchkitError, OSError):
            return []
        return [name for name in found if name.startswith(incomplete)]

    return complete


def _stored() -> Iterator[str]:
    for path, _ in _folders():
        yield from sorted(entry.name for entry in path.glob("v[0-9]*") if entry.is_dir())


def _pinned() -> Iterator[str]:
    from patchkit.upstream import shipped_pins

    yield from (f"v{version}" for version in shipped_pins().versions)


def _patches() -> Iterator[str]:
    for path, _ in _folders():
        yield from sorted(entry.name for entry in path.glob("v[0-9]*/*.patch"))


def _series() -> Iterator[str]:
    yield from (folder for _, folder in _folders())


stored_releases = _completer(_stored)
pinned_releases = _completer(_pinned)
patches = _completer(_patches)
series_folders = _completer(_series)
