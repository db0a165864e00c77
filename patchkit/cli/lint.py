"""`patchkit lint`: what is wrong with the headers of patches, rule by rule."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from patchkit.cli import render, render_know
from patchkit.cli.options import here, json_option, read_pins, series_folders, series_option
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.linting.rule import Finding, Severity
from patchkit.linting.subject import Looking, Subject
from patchkit.repository.workspace import Replacement, Workspace, write_file
from patchkit.upstream.pins import normalise_version


@click.command(short_help="Say what is wrong with the headers of patches.")
@click.argument("names", nargs=-1, metavar="[PATCH]...", type=click.Path())
@click.option(
    "--release",
    metavar="REL",
    help="Of the stored series, this release only.",
)
@series_option
@click.option("--strict", is_flag=True, help="A warning is a finding too.")
@click.option("--fix", is_flag=True, help="Mend names, order and trailing blanks.")
@json_option
def command(
    names: tuple[str, ...],
    release: str | None,
    folder: str | None,
    strict: bool,
    fix: bool,
    as_json: bool,
) -> ExitCode:
    """Say what is wrong with the headers of patches.

    All that is stored is looked at, or the files that are named (`-` is standard input); one that
    lies in a stored release is held against its series as well. Each finding has its line, the name
    of its rule (all are in docs/lint.md) and how to put it right. With --fix the mechanical ones
    are put right: misspelt names, the order of fields, blanks at the end of lines. The exit status
    is 3 where there is an error, with --strict also where there is a warning.

    \b
    Examples:
      patchkit lint
      patchkit lint --release v0.29.0 --strict
      patchkit lint --fix fix.patch
    """
    config = here()
    if names and (release or folder):
        raise UsageError("--release and --series are for stored series", place="patchkit lint")
    if fix and "-" in names:
        raise UsageError("--fix needs files", place="patchkit lint")
    # where the day begins first, it is this day by now
    today = (datetime.now(UTC) + timedelta(hours=14)).date()
    looking = Looking(config, read_pins(config, may_be_missing=True).versions, today)
    broken: list[Finding] = []
    if names:
        subjects = [_named(looking, name) for name in names]
    else:
        subjects, broken = _stored(looking, config, folder, release)
    linted = [subject.linted(fix=fix) for subject in subjects]
    _write(config, linted, plain=bool(names))
    document = _document(linted, broken, strict)
    if as_json:
        render.show_json(document)
    else:
        render_know.show_lint(document)
    return ExitCode(document["exit_code"])


def _named(looking: Looking, name: str) -> Subject:
    if name == "-":
        return looking.plain(sys.stdin.buffer.read(), "standard input")
    return looking.at_file(name)


def _stored(
    looking: Looking, config: Config, folder: str | None, release: str | None
) -> tuple[list[Subject], list[Finding]]:
    """Return the stored patches, and what cannot be read; refuse a release that holds none."""
    wanted = normalise_version(release) if release else None
    subjects, broken = looking.at_stored(series_folders(config, folder), wanted)
    if wanted is not None and not subjects and not broken:
        raise PatchkitError(
            f"no patch is stored for v{wanted}", place=", ".join(config.series),
            hint="`patchkit status` lists what is stored",
        )  # fmt: skip
    return subjects, broken


def _write(config: Config, linted: Sequence[Subject], *, plain: bool) -> None:
    """Write what was mended: of a store all or nothing, plain files one by one."""
    wanted = [entry for entry in linted if entry.mended is not None]
    if not wanted:
        return
    if plain:
        for entry in wanted:
            write_file(entry.path, entry.mended or b"")
        return
    workspace = Workspace(config.state_folder)
    with workspace.locked():
        workspace.commit([Replacement(entry.path, entry.mended) for entry in wanted])


# The document ------------------------------------------------------------------------------------


def _document(linted: Sequence[Subject], broken: Sequence[Finding], strict: bool) -> dict[str, Any]:
    """Return the findings as docs/schema/lint-1.json describes them."""
    findings = [*broken, *(found for entry in linted for found in entry.findings)]
    errors = sum(found.severity is Severity.ERROR for found in findings)
    failed = errors > 0 or (strict and bool(findings))
    return {
        "schema": "patchkit.lint/1",
        "ok": not failed,
        "exit_code": int(ExitCode.FINDINGS if failed else ExitCode.DONE),
        "strict": strict,
        "patches": len(linted),
        "errors": errors,
        "warnings": len(findings) - errors,
        "findings": [
            {
                "place": found.place,
                "line": found.lineno,
                "rule": found.rule,
                "severity": found.severity.value,
                "text": found.text,
                "hint": found.hint,
            }
            for found in findings
        ],
        "fixed": [
            {"place": entry.place, "line": one.lineno, "rule": one.rule, "text": one.text}
            for entry in linted
            for one in entry.repairs
        ],
    }
