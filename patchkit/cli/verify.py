"""`patchkit verify`: whether a tree or a wheel holds its series, hunk by hunk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from patchkit.cli import render, render_installed
from patchkit.cli.options import here, json_option, python_option, series_source, tree_opener
from patchkit.config import Config
from patchkit.errors import ExitCode, UsageError
from patchkit.installed.kept import read_applied
from patchkit.installed.site import Site, find_site
from patchkit.upstream.pins import normalise_version
from patchkit.upstream.progress import Progress
from patchkit.verifying.imported import import_in, interpreter_of, watch_command
from patchkit.verifying.loaded import Imported, Process, faults, wanted_modules
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
@click.option("--release", metavar="REL", help="Hold it against the series stored for this.")
@python_option
@click.option(
    "--imported", is_flag=True, help="Ask an interpreter, too, what it really has loaded."
)
@click.option(
    "--import",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="With --imported: import this; all that the series changes unless given.",
)
@click.option(
    "--after",
    "after_s",
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="With a command: ask after this time, then stop it; it runs to its end unless given.",
)
@json_option
@click.argument("words", nargs=-1, metavar="[-- COMMAND...]")
def command(
    target: str,
    folder: Path | None,
    release: str | None,
    python: str | None,
    imported: bool,
    modules: tuple[str, ...],
    after_s: float | None,
    as_json: bool,
    words: tuple[str, ...],
) -> ExitCode:
    """Say whether a tree or wheel holds its series, hunk by hunk.

    Each hunk is there or not, by its lines and by what they do: a function that nothing calls any
    more, an import without a use and a missing partner are holes as well. The series is the one
    that `apply` or `build-wheel` recorded, unless --series or --release names another. Nothing of
    vLLM is imported. The exit status is 3 where anything is missing or was changed.

    --imported starts the environment's interpreter and asks it what it has loaded: from which file
    each module came, whether its code is the patched one, and which names elsewhere (a from-import,
    a registry, a default) still hold code without the patch. With a command after `--` that is run
    instead, and every Python process of it that loads the package is asked.

    \b
    Examples:
      patchkit verify installed
      patchkit verify dist/vllm-0.28.0+mine.1-*.whl
      patchkit verify /opt/venv --series exported/
      patchkit verify installed --imported
      patchkit verify installed --imported --after 90 -- vllm serve MODEL
    """
    _check_usage(target, imported, modules, after_s, words)
    config = here()
    site = None if target.endswith(".whl") else find_site(target, config.profile, python)
    with render.progress() as progress:
        report = _verify(config, site or Path(target), folder, release, progress)
    loaded = None
    if imported and site is not None:
        loaded = _imported(report, site, python, modules, after_s, words, quiet=as_json)
    document = _document(report, loaded)
    if as_json:
        render.show_json(document)
    else:
        render_installed.show_verify(document)
    return ExitCode(document["exit_code"])


def _check_usage(
    target: str,
    imported: bool,
    modules: tuple[str, ...],
    after_s: float | None,
    words: tuple[str, ...],
) -> None:
    place = "patchkit verify"
    if not imported and (modules or words or after_s is not None):
        what = "--import" if modules else "--after" if after_s is not None else "a command"
        raise UsageError(f"{what} is for --imported", place=place)
    if imported and target.endswith(".whl"):
        raise UsageError(
            "--imported asks an interpreter, which imports no wheel",
            place=place,
            hint="install the wheel, then name the environment",
        )
    if modules and words:
        raise UsageError("--import is for an interpreter without a command", place=place)
    if after_s is not None and not words:
        raise UsageError("--after is for a command", place=place)


def _imported(
    report: Report,
    site: Site,
    python: str | None,
    modules: tuple[str, ...],
    after_s: float | None,
    words: tuple[str, ...],
    *,
    quiet: bool,
) -> Imported:
    wanted = wanted_modules(report.expected)
    if words:
        return watch_command(words, site.root, wanted, after_s, quiet=quiet)
    return import_in(python or interpreter_of(site.root), site.root, wanted, modules)


def _verify(
    config: Config,
    subject: Site | Path,
    folder: Path | None,
    release: str | None,
    progress: Progress,
) -> Report:
    """Return what an installed tree or a wheel holds."""
    named = folder is not None or release is not None

    def given() -> Given:
        source = series_source(config, folder)
        opener = None if source.is_export else tree_opener(config, progress)
        return Given(source, normalise_version(release) if release else None, opener)

    if isinstance(subject, Path):
        return verify_wheel(subject, given() if named else None)
    recorded = not named and read_applied(subject) is not None
    # a repository says what is meant where nothing was recorded
    known = named or (not recorded and bool(series_source(config, None).releases()))
    return verify_site(subject, given() if known else None)


def _document(report: Report, imported: Imported | None) -> dict[str, Any]:
    """Return the report of a verify, as docs/schema/verify-1.json describes it."""
    verified = report.verified
    ok = verified.ok and (imported is None or imported.ok)
    return {
        "schema": "patchkit.verify/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
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
        "imported": None if imported is None else _imported_json(imported),
    }


def _imported_json(imported: Imported) -> dict[str, Any]:
    return {
        "ok": imported.ok,
        "command_status": imported.command_status,
        "faults": list(faults(imported)),
        "processes": [_process_json(process) for process in imported.processes],
    }


def _process_json(process: Process) -> dict[str, Any]:
    return {
        "pid": process.pid,
        "command": list(process.command),
        "modules": [
            {
                "module": module.module,
                "path": module.path,
                "file": module.file,
                "state": module.state.value,
                "names": list(module.names),
            }
            for module in process.modules
        ],
        "holders": [
            {"holder": h.holder, "module": h.module, "name": h.name, "state": h.state}
            for h in process.holders
        ],
        "errors": list(process.errors),
    }
