"""Forecasts kept in the user's cache, under a digest of all that they were made from.

A move is a function of the stored series, the two trees, the verdicts and this program, so that a
kept forecast is the one that would be made again. What cannot be read any more is made anew.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from patchkit.config import Config
from patchkit.errors import PatchkitError
from patchkit.repository.memory import read_memory
from patchkit.repository.move import Request, choose_bases
from patchkit.repository.session import folder_digest
from patchkit.repository.store import Stored, read_stored, stored_releases
from patchkit.repository.verdicts import is_fresh, read_verdicts
from patchkit.repository.workspace import write_file
from patchkit.series.anchoring import series_inputs
from patchkit.surveying.forecast import Forecast, Outlook, PatchForecast, SeriesForecast

FORMAT = 1
TreeDigest = Callable[[str], str | None]


class Kept:
    """The forecasts that a folder of the cache holds, for one repository.

    `tree_digest` names the content of a release's tree without opening it, or gives None.
    """

    def __init__(self, folder: Path, config: Config, tree_digest: TreeDigest) -> None:
        self._folder = folder / f"forecasts-{FORMAT}"
        self._config = config
        self._tree_digest = tree_digest

    def read(self, target: str) -> Forecast | None:
        """Return the forecast for a release that is kept, None where there is none."""
        path = self._path(target)
        try:
            document = json.loads(path.read_bytes()) if path is not None else None
            return None if document is None else replace(_forecast(document), kept=True)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, found: Forecast) -> None:
        """Keep a forecast, unless it is none; a cache that cannot be written keeps nothing."""
        path = self._path(found.target) if found.error is None else None
        if path is None:
            return
        try:
            write_file(path, json.dumps(asdict(found)).encode())
        except OSError:
            return

    def _path(self, target: str) -> Path | None:
        key = self._key(target)
        return None if key is None else self._folder / f"{key}.json"

    def _key(self, target: str) -> str | None:
        """Return the digest of all that a forecast is made from, None where that has none."""
        config = self._config
        try:
            request = Request(target, is_release=True, backwards=True)
            parts = [str(FORMAT), program_digest(), repr(config.profile), target]
            trees = [self._tree_digest(target)]
            for folder, release in choose_bases(config, request, request.release).items():
                parts += self._below(folder, release)
                stored = read_stored(config.root, folder, release)
                parts += [folder, release, _series_digest(stored)]
                parts += self._verdicts(stored, target)
                parts += self._decided(stored)
                trees.append(self._tree_digest(release))
        except PatchkitError:
            return None
        if None in trees:
            return None
        return hashlib.sha256("\0".join([*parts, *map(str, trees)]).encode()).hexdigest()

    def _below(self, folder: str, release: str) -> list[str]:
        """What a series is made on: those of the same release that come before it."""
        root = self._config.root
        lower = takewhile(lambda name: name != folder, self._config.series)
        return [
            f"{name} {release} {_series_digest(read_stored(root, name, release))}"
            for name in lower
            if release in stored_releases(root, name)
        ]

    def _decided(self, stored: Stored) -> list[str]:
        """What is remembered, and what the releases hold for which people wrote something."""
        root = self._config.root
        memory = [replace(entry, used_on=()) for entry in read_memory(root, stored.folder)]
        inputs = series_inputs(stored.series, stored.place)
        written = {a.release for patch in inputs for a in patch.adaptations}
        written |= {entry.adaptation.release for entry in memory}
        return [
            *map(repr, memory),
            *(
                f"{folder} {release} {_series_digest(read_stored(root, folder, release))}"
                for folder in self._config.series
                for release in stored_releases(root, folder)
                if release in written
            ),
        ]

    def _verdicts(self, stored: Stored, target: str) -> list[str]:
        """What the tests say of patches on the target, and whether that holds."""
        root = self._config.root
        return [
            f"{verdict} {is_fresh(root, stored, verdict)}"
            for verdict in read_verdicts(root, stored.folder)
            if verdict.release == target and verdict.patch in stored.series.patches
        ]


def _series_digest(stored: Stored) -> str:
    series = stored.series
    order = " ".join(f"{entry.name} -p{entry.strip}" for entry in series.entries)
    # where the folder says only that it is the same as another, what that one holds
    digests = map(folder_digest, (stored.files, series.patches, series.anchors))
    return " ".join([order, str(series.overlay), *digests])


@cache
def program_digest() -> str:
    """Return the digest of this program's own text, and of the Python that reads the trees."""
    top = Path(__file__).parents[1]
    total = hashlib.sha256(repr(sys.version_info[:3]).encode())
    for path in sorted(top.rglob("*.py")):
        total.update(path.relative_to(top).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def _forecast(document: dict[str, Any]) -> Forecast:
    series = tuple(_series(entry) for entry in document["series"])
    return Forecast(**{**document, "series": series})


def _series(document: dict[str, Any]) -> SeriesForecast:
    patches = tuple(
        PatchForecast(**{**entry, "outlook": Outlook(entry["outlook"])})
        for entry in document["patches"]
    )
    return SeriesForecast(**{**document, "patches": patches, "notes": tuple(document["notes"])})
