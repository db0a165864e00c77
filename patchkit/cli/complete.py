"""What a shell offers for a word that is being typed: stored releases, patches, series folders.

Asked at each press of the tab key: names of files are read, and nothing is said where the
repository is not in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from pathlib import Path

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

Names = Callable[[], Iterator[str]]


def _folders() -> Iterator[tuple[Path, str]]:
    from patchkit.config import find_config

    config = find_config(Path.cwd())
    for folder in config.series:
        yield config.root / folder, folder


def stored() -> Iterator[str]:
    """Yield the releases that the repository holds."""
    for path, _ in _folders():
        yield from sorted(entry.name for entry in path.glob("v[0-9]*") if entry.is_dir())


def pinned() -> Iterator[str]:
    """Yield the releases that patchkit knows."""
    from patchkit.upstream import shipped_pins

    yield from (f"v{version}" for version in shipped_pins().versions)


def patches() -> Iterator[str]:
    """Yield the names of stored patches."""
    for path, _ in _folders():
        yield from sorted(entry.name for entry in path.glob("v[0-9]*/*.patch"))


def series() -> Iterator[str]:
    """Yield the series folders."""
    yield from (folder for _, folder in _folders())


def formats() -> Iterator[str]:
    """Yield the KV formats that are shipped."""
    from patchkit.kv.formats import read_formats

    yield from read_formats().names


def planned() -> Iterator[str]:
    """Yield the releases whose KV caches are modelled."""
    from patchkit.kv.rules import modelled

    yield from (f"v{version}" for version in modelled())


def pages() -> Iterator[str]:
    """Yield what `patchkit help` has a page of."""
    from patchkit.cli import COMMANDS
    from patchkit.cli.manual import TOPICS

    yield from (*COMMANDS, *TOPICS)


class Offered(StringParamType):
    """A text for which names are offered, and files where it may be one."""

    def __init__(self, *names: Names, files: bool = False) -> None:
        self.names, self.files = names, files

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the names that begin as the word does."""
        from patchkit.errors import PatchkitError

        found: dict[str, None] = {}
        for names in self.names:
            try:
                found.update(dict.fromkeys(names()))
            except (PatchkitError, OSError):
                continue
        items = [CompletionItem(name) for name in found if name.startswith(incomplete)]
        return [*items, CompletionItem(incomplete, type="file")] if self.files else items


RELEASE, ANY_RELEASE = Offered(stored), Offered(stored, pinned)
PATCH, PATCH_OF_RELEASE = Offered(patches), Offered(stored, patches)
PATCH_OF_ANY = Offered(pinned, patches)
FILE, FOLDER = Offered(files=True), Offered(series)
TREE, INSTALLED = Offered(pinned, files=True), Offered(lambda: iter(["installed"]), files=True)

_BY_METAVAR = {
    "REL": RELEASE, "RELEASE": RELEASE, "[RELEASE]": RELEASE, "[RELEASE]...": RELEASE,
    "A": RELEASE, "B": RELEASE, "TREE": TREE, "PATCH": PATCH, "[PATCH]...": PATCH,
    "installed|DIR": INSTALLED, "installed|DIR|WHEEL": INSTALLED,
    "[RELEASE] [PATCH[#HUNK]]": PATCH_OF_RELEASE, "[RELEASE|PATCH]...": PATCH_OF_ANY,
    "PATCH[#HUNK]": PATCH, "FILE|DIR|A..B...": FILE, "[COMMAND|TOPIC]": Offered(pages),
    "[VERSION | --base TREE PATCH...]": Offered(stored, files=True), "A,B": PATCH, "N|PATCH": PATCH,
}  # fmt: skip
_BY_NAME: Mapping[tuple[str, str], Offered] = {
    ("build-wheel", "release"): RELEASE, ("rebase", "version"): ANY_RELEASE,
    ("requires", "release"): RELEASE, ("test", "release"): ANY_RELEASE,
    ("init", "release"): ANY_RELEASE, ("why", "release"): ANY_RELEASE,
    ("exits", "releases"): ANY_RELEASE,
    ("drop", "patch"): PATCH, ("edit", "patch"): PATCH, ("split", "patch"): PATCH,
    ("record", "patch"): PATCH, ("rename", "old"): PATCH, ("fold", "patches"): PATCH,
    ("port", "patches"): FILE, ("where", "patches"): FILE, ("lint", "names"): FILE,
    ("claims", "paths"): FILE,
    ("unpatch", "wheel"): FILE,
    ("kv-plan", "release"): Offered(planned), ("kv-plan", "formats"): Offered(formats),
    ("kv-plan", "model"): FILE, ("kv-plan", "drafter"): FILE, ("kv-plan", "weights"): FILE,
    ("kv-plan", "own_formats"): FILE, ("kv-plan", "plot"): FILE,
}  # fmt: skip


def offer(name: str, command: click.Command) -> click.Command:
    """Return a copy of a command whose parameters say what they may be."""
    command = copy(command)
    command.params = [copy(param) for param in command.params]
    for param in command.params:
        found = _BY_NAME.get((name, param.name or "")) or _BY_METAVAR.get(param.metavar or "")
        if found is None and "--series" in param.opts:
            found = FOLDER
        if found is not None and isinstance(param.type, (StringParamType, click.Path)):
            param.type = found
    return command
