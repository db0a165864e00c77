"""`patchkit verify`: whether a tree or a wheel holds its series, hunk by hunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from patchkit.cli import render
from patchkit.cli.options import here, json_option, python_option, series_source, tree_opener
from patchkit.config import Config
from patchkit.errors import ExitCode
from patchkit.installed.kept import read_applied
from patchkit.installed.site import find_site
from patchkit.upstream.pins import normalise_version
from patchkit.upstream.progress import Progress
from patchkit.verifying.subject import Given, Report, verify_site, verify_wheel


@click.command(short_help="Say whether a tree or wheel holds its series, hunk by hunk.")
@click.argument("target", metavar="installed|DIR|WHEEL")
@click.option(
    "--series",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="An exported series to hold it against.",
)
@click.option("--release", metavar="RELEASE", help="Hold it against the series stored for this.")
@python_option
@json_option
def command(
    target: str, folder: Path | None, release: str | None, python: str | None, as_json: bool
) -> ExitCode:
    """Say whether a tree or wheel holds its series, hunk by hunk.

    Each hunk is there or not, by its lines and by what they do: a function that nothing calls any
    more, an import without a use and a missing partner are holes as well. The series is the one
    that `apply` or `build-wheel` recorded, unless --series or --release names another. Nothing of
    vLLM is imported. The exit status is 3 where anything is missing or was changed.

    \b
    Examples:
      patchkit verify installed
      patchkit verify dist/vllm-0.28.0+mine.1-cp38-abi3-manylinux_2_28_x86_64.whl
      patchkit verify /opt/venv --series exported/
    """
    config = here()
    with render.progress() as progress:
        report = _verify(config, target, folder, release, python, progress)
    document = _document(report)
    if as_json:
        render.show_json(document)
    else:
        render.show_verify(document)
    return ExitCode(document["exit_code"])


def _verify(
    config: Config,
    target: str,
    folder: Path | None,
    release: str | None,
    python: str | None,
    progress: Progress,
) -> Report:
    named = folder is not None or release is not None

    def given() -> Given:
        source = series_source(config, folder)
        opener = None if source.is_export else tree_opener(config, progress)
        return Given(source, normalise_version(release) if release else None, opener)

    if target.endswith(".whl"):
        return verify_wheel(Path(target), given() if named else None)
    site = find_site(target, config.profile, python)
    recorded = not named and read_applied(site) is not None
    # a repository says what is meant where nothing was recorded
    known = named or (not recorded and bool(series_source(config, None).releases()))
    return verify_site(site, given() if known else None)


def _document(report: Report) -> dict[str, Any]:
    """Return the report of a verify, as docs/schema/verify-1.json describes it."""
    verified = report.verified
    return {
        "schema": "patchkit.verify/1",
        "ok": verified.ok,
        "exit_code": int(ExitCode.DONE if verified.ok else ExitCode.FINDINGS),
        "kind": report.kind,
        "place": report.place,
        "distribution": report.distribution,
        "version": report.version,
        "release": report.release,
        "against": report.against,
        "state": verified.state.value,
        "note": report.note,
        "hunks": [
            {
                "series": hunk.spot.series,
                "patch": hunk.spot.patch,
                "hunk": hunk.spot.hunk,
                "path": hunk.spot.path,
                "state": hunk.state,
                "definition": hunk.definition,
                "line": hunk.line,
                "text": hunk.text,
            }
            for hunk in verified.hunks
        ],
        "files": [{"path": f.path, "kind": f.kind, "text": f.text} for f in verified.files],
    }
