"""`patchkit forecast`: what the next releases will do to what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click
from packaging.version import Version

from patchkit.cli import render, render_forecast
from patchkit.cli.options import (
    here,
    jobs_option,
    json_option,
    read_pins,
    series_folders,
    tree_opener,
)
from patchkit.cli.where import MOST_PROCESSES, PinnedTrees
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.repository.store import read_stored, stored_releases
from patchkit.series.selection import same_patch
from patchkit.surveying.forecast import Forecast, forecasts
from patchkit.surveying.kept import Kept
from patchkit.surveying.workers import cpu_count
from patchkit.upstream.pins import Pins, normalise_version
from patchkit.upstream.progress import Progress


@click.command(short_help="Say what the next releases will do to what is stored.")
@click.argument("names", nargs=-1, metavar="[RELEASE|PATCH]...")
@click.option(
    "--target",
    "trees",
    multiple=True,
    metavar="TREE",
    help="A folder, an archive or git:REPO@REF; may be given more than once.",
)
@click.option("--pre", is_flag=True, help="Pre-releases too.")
@click.option("--pinned", is_flag=True, help="Pinned releases only; the index is not asked.")
@click.option("--must-land", is_flag=True, help="Exit with 3 unless all of it lands on each.")
@click.option("--why", is_flag=True, help="Print reasons in full.")
@jobs_option
@json_option
def command(
    names: tuple[str, ...],
    trees: tuple[str, ...],
    pre: bool,
    pinned: bool,
    must_land: bool,
    why: bool,
    jobs: int | None,
    as_json: bool,
) -> ExitCode:
    """Say what the next releases will do to what is stored.

    The stored series are moved, from the nearest stored release, onto each release that is newer
    than the newest stored one: those that are pinned, and those that the package index has besides.
    Releases that are named, and trees given with --target, are taken instead. A patch that is named
    is told of alone. Nothing is written, no pin either.

    The exit status is 0 whatever comes of it, and 3 where a release could not be looked at. With
    --must-land it is 3 unless everything lands on each of them, on ground that held.

    \b
    Examples:
      patchkit forecast
      patchkit forecast --pre --why
      patchkit forecast 0.33.0 block-promotion
      patchkit forecast --target git:../vllm@main --must-land
    """
    config = here()
    releases, patches = _sorted_out(config, names)
    if (pre or pinned) and (releases or trees):
        raise UsageError(
            "--pre and --pinned choose among all newer releases, and what to look at is named",
            place="patchkit forecast",
        )
    with render.progress(lines=True) as progress:
        if releases or trees:
            chosen = _named(config, releases, progress)
        else:
            chosen = _newer(config, progress, pre=pre, pinned=pinned)
        workers = jobs or min(cpu_count(), MOST_PROCESSES)
        found = [*ask_releases(config, chosen.pins, chosen.releases, workers, progress)]
        openers = (tree_opener(config, progress, chosen.pins), PinnedTrees(chosen.pins))
        found += forecasts(config, trees, openers, workers, progress, is_release=False)
    named = (*releases, *trees)
    if error := next((one.error for one in found if one.target in named and one.error), None):
        raise PatchkitError(error)
    document = _document(found, chosen, patches, must_land=must_land)
    if as_json:
        render.show_json(document)
    else:
        render_forecast.show_forecast(document, reasons=why)
    return ExitCode(document["exit_code"])


@dataclass(frozen=True)
class Chosen:
    """The releases to ask, the pins that open them, and those that only this run has pinned."""

    releases: tuple[str, ...]
    pins: Pins
    unpinned: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def _sorted_out(config: Config, names: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the releases and the patches among some names; refuse what is neither."""
    stored: list[tuple[str, str]] = []
    for folder in series_folders(config, None):
        for release in stored_releases(config.root, folder)[-1:]:
            patches_of = read_stored(config.root, folder, release).series.patches
            stored += [(folder, patch) for patch in patches_of]
    releases, patches = [], []
    for name in names:
        try:
            releases.append(normalise_version(name))
        except PatchkitError as err:
            called = [patch for folder, patch in stored if same_patch(name, folder, patch)]
            if not called:
                known = ", ".join(sorted({patch for _, patch in stored}))
                raise UsageError(
                    f"{name!r} is neither a release nor a stored patch",
                    place="patchkit forecast",
                    expected=f"0.33.0, or one of {known}",
                ) from err
            patches += called
    return tuple(dict.fromkeys(releases)), tuple(dict.fromkeys(patches))


def _named(config: Config, releases: Sequence[str], progress: Progress) -> Chosen:
    """The releases that are named; of one that is not pinned the index is asked."""
    pins = read_pins(config, may_be_missing=True)
    missing = [release for release in releases if release not in pins.versions]
    return _with_unpinned(Chosen(tuple(releases), pins), missing, progress)


def _newer(config: Config, progress: Progress, *, pre: bool, pinned: bool) -> Chosen:
    """The releases above all that is stored."""
    pins = read_pins(config, may_be_missing=True)
    stored = [r for folder in config.series for r in stored_releases(config.root, folder)]
    newest = max(map(Version, stored))
    offered: list[Version] = []
    notes: list[str] = []
    if not pinned:
        from patchkit.upstream.index import Index
        from patchkit.upstream.pinning import offered_versions

        try:
            offered = offered_versions(Index())
        except PatchkitError as error:
            notes.append(f"the index was not asked: {error}")
    known = {Version(version) for version in pins.versions}
    wanted = sorted(
        version
        for version in {*known, *offered}
        if version > newest and (pre or not version.is_prerelease)
    )
    missing = [str(version) for version in wanted if version not in known]
    chosen = Chosen(tuple(map(str, wanted)), pins, notes=tuple(notes))
    return _with_unpinned(chosen, missing, progress, may_fail=True)


def _with_unpinned(
    chosen: Chosen, missing: Sequence[str], progress: Progress, *, may_fail: bool = False
) -> Chosen:
    """Pin releases for this run alone, without writing that down."""
    if not missing:
        return chosen
    from patchkit.upstream.index import Index
    from patchkit.upstream.pinning import pin_release

    index, pins = Index(), chosen.pins
    failed, notes = [], list(chosen.notes)
    for version in missing:
        try:
            pins = pins.with_release(pin_release(version, index, pins, progress))
        except PatchkitError as error:
            if not may_fail:
                raise
            failed.append(version)
            notes.append(f"{version} was not asked: {error}")
    releases = tuple(release for release in chosen.releases if release not in failed)
    unpinned = tuple(release for release in missing if release not in failed)
    return Chosen(releases, pins, unpinned, tuple(notes))


def ask_releases(
    config: Config, pins: Pins, wanted: Sequence[str], jobs: int | None, progress: Progress
) -> Iterator[Forecast]:
    """Yield the forecast for each release, one that an earlier run made where it still holds."""
    from patchkit.upstream.cache import default_root

    def digest(version: str) -> str:
        artifact = pins.release(version).choose()
        return artifact.record_sha256 or artifact.sha256

    kept = Kept(default_root(), config, digest)
    known = {version: kept.read(version) for version in wanted}
    missing = [version for version in wanted if known[version] is None]
    openers = (tree_opener(config, progress, pins), PinnedTrees(pins))
    made = forecasts(config, missing, openers, jobs or min(cpu_count(), MOST_PROCESSES), progress)
    for version in wanted:
        found = known[version]
        if found is None:
            found = next(made)
            kept.write(found)
        yield found


def forecast_json(found: Forecast) -> dict[str, Any]:
    """Return a forecast as docs/schema/forecast-1.json describes one."""
    return {
        "target": found.target,
        "version": found.version,
        "made": found.made,
        "seconds": found.seconds,
        "kept": found.kept,
        "lands": found.lands,
        "error": found.error,
        "series": [
            {
                "folder": series.folder,
                "base": series.base,
                "notes": list(series.notes),
                "patches": [
                    {**asdict(patch), "outlook": patch.outlook.value, "lands": patch.lands}
                    for patch in series.patches
                ],
            }
            for series in found.series
        ],
    }


def _only(found: Forecast, patches: Sequence[str]) -> Forecast:
    """Return a forecast with the patches that are named alone."""
    if not patches:
        return found
    series = []
    for one in found.series:
        chosen = tuple(patch for patch in one.patches if patch.patch in patches)
        if chosen:
            lands = all(patch.lands for patch in chosen)
            series.append(replace(one, patches=chosen, notes=(), lands=lands))
    return replace(found, series=tuple(series))


def _document(
    found: Sequence[Forecast], chosen: Chosen, patches: Sequence[str], *, must_land: bool
) -> dict[str, Any]:
    """Return the report of a forecast, as docs/schema/forecast-1.json describes it."""
    shown = [_only(forecast, patches) for forecast in found]
    ok = all(forecast.lands if must_land else forecast.error is None for forecast in shown)
    return {
        "schema": "patchkit.forecast/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "must_land": must_land,
        "unpinned": list(chosen.unpinned),
        "targets": [forecast_json(forecast) for forecast in shown],
        "notes": list(chosen.notes),
    }
