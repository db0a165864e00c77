"""`patchkit where`: plain patch files, tried on every release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from patchkit.cli import render, render_where
from patchkit.cli.options import (
    here,
    jobs_option,
    json_option,
    read_patch_files,
    read_pins,
    tree_opener,
)
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.outcome import Status
from patchkit.report import outcome_json
from patchkit.surveying.base import Base, NoBase, said_ranges
from patchkit.surveying.fit import Fit
from patchkit.surveying.standing import REACHED, Standing
from patchkit.surveying.survey import Survey, begin, standings
from patchkit.surveying.workers import cpu_count
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree
from patchkit.upstream.pins import Pins, normalise_version

# Each takes half a second to start and some 300 MB (2026-11-30): more hardly pay for 15 releases.
MOST_PROCESSES = 8


@click.command(short_help="Say what each release makes of plain patch files.")
@click.argument("patches", nargs=-1, required=True, metavar="PATCH...")
@click.option("--base", metavar="TREE", help="What the patches were made on, where that is known.")
@click.option(
    "--releases",
    metavar="RANGE",
    help="These releases only: '>=0.25,<0.30', or their names, 0.25.0,0.28.0.",
)
@click.option("--must-land", is_flag=True, help="Exit with 3 unless they land on each as they are.")
@click.option("--why", is_flag=True, help="Print the evidence for each hunk that is not plain.")
@jobs_option
@json_option
def command(
    patches: tuple[str, ...],
    base: str | None,
    releases: str | None,
    must_land: bool,
    why: bool,
    jobs: int | None,
    as_json: bool,
) -> ExitCode:
    """Say what each release makes of plain patch files.

    The release that they were made on is found by blob ids, or by the lines that every hunk needs;
    from there they are moved to each pinned release, older ones too. Several files are taken as a
    series, in the given order; - is standard input. Nothing is written.

    The exit status is 0 when each release has a verdict, whatever it is, and 3 when one has none.
    With --must-land it is 3 unless each takes or has every hunk, on ground that held.

    \b
    Examples:
      patchkit where fix.patch
      patchkit where fix.patch --releases '>=0.28' --why
      patchkit where fix.patch --releases 0.32.0,0.33.0 --must-land
      git diff v0.28.0 | patchkit where - --base git:.@v0.28.0
    """
    config = here()
    inputs = read_patch_files(patches)
    pins = read_pins(config)
    wanted = choose_releases(releases, pins)
    given = _named(base, pins)
    with render.progress(lines=True) as progress:
        opener = tree_opener(config, progress)
        survey = begin(inputs, wanted, pins.versions, opener, given)
        openers = (opener, PinnedTrees(pins))
        found = standings(
            survey, wanted, openers, jobs or min(cpu_count(), MOST_PROCESSES), progress
        )
        rows = (_row(standing) for standing in found)
        shown = (
            list(rows) if as_json else render_where.show_where(_head(survey), _lines(survey), rows)
        )
    document = _document(survey, shown, must_land=must_land)
    if as_json:
        render.show_json(document)
    else:
        render_where.show_where_end(_lines(survey), document, reasons=why)
    return ExitCode(document["exit_code"])


@dataclass(frozen=True)
class PinnedTrees:
    """What opens trees in another process: the pins that hold here, and the cache as it is."""

    pins: Pins

    def __call__(self, spec: str) -> SourceTree:
        """Return the tree that a spelling names."""
        return open_tree(spec, pins=self.pins)


def choose_releases(text: str | None, pins: Pins) -> tuple[str, ...]:
    """Return the pinned releases that a range or a list of names means, all unless one is given."""
    if text is None:
        return pins.versions
    words = [word for word in text.replace(",", " ").split() if word]
    if all(word[0].lower() == "v" or word[0].isdigit() for word in words):
        chosen = {pins.release(word).version for word in words}
    else:
        try:
            allowed = SpecifierSet(text)
        except InvalidSpecifier as err:
            raise UsageError(
                f"{text!r} is neither a range nor a list of releases",
                place="--releases",
                expected="'>=0.25,<0.30' or 0.25.0,0.28.0",
            ) from err
        chosen = set(allowed.filter(pins.versions, prereleases=True))
    if not chosen:
        order = list(pins.versions)
        raise UsageError(
            f"no pinned release is in {text!r}",
            place="--releases",
            hint=f"pinned are {said_ranges(order, order)}" if order else "none is pinned",
        )
    return tuple(version for version in pins.versions if version in chosen)


def _named(base: str | None, pins: Pins) -> str | None:
    """The base as given, a pinned release under its version."""
    if base is None:
        return None
    try:
        version = normalise_version(base)
    except PatchkitError:
        return base
    return version if version in pins.versions else base


def _row(standing: Standing) -> dict[str, Any]:
    """One release, as docs/schema/where-1.json describes it."""
    return {
        "release": standing.release,
        "verdict": standing.verdict.value,
        "base": standing.is_base,
        "lands": standing.lands,
        "counts": {status.value: standing.counts[status] for status in Status},
        "open": standing.open,
        "drifted": standing.drifted,
        "fit": _fit(standing.fit),
        "reason": standing.reason,
        "outcomes": [outcome_json(outcome) for outcome in standing.outcomes],
    }


def _fit(fit: Fit | None) -> dict[str, Any] | None:
    if fit is None:
        return None
    return {
        "applying": fit.applying,
        "present": fit.present,
        "lines_off": fit.lines_off,
        "proven": fit.proven,
        "foreign": fit.foreign,
        "hunks": [
            {
                "patch": hunk.patch,
                "hunk": hunk.number,
                "path": hunk.path,
                "offset": hunk.offset,
                "present": hunk.there,
                "reason": hunk.reason,
            }
            for hunk in fit.hunks
        ],
    }


def _head(survey: Survey) -> dict[str, Any]:
    """What is known before the patches land anywhere."""
    base = survey.base
    found = nearest = None
    if isinstance(base, Base):
        found = {
            "name": base.name,
            "proof": base.proof.value,
            "text": base.text,
            "alike": list(base.alike),
            "as_well": list(base.as_well),
        }
    else:
        nearest = {"releases": list(base.nearest), "text": base.text}
    fit = survey.base_fit
    return {
        "patches": [patch.name for patch in survey.patches],
        "hunks": len(fit.hunks),
        "base": found,
        "nearest": nearest,
        "unshipped": [
            {"patch": u.patch, "path": u.path, "section": u.section.value, "hunks": u.hunks}
            for u in fit.unshipped
        ],
        "notes": list(survey.notes),
    }


def _lines(survey: Survey) -> list[str]:
    """What is said first: the base and the other releases that fit, or that there is none."""
    base, order = survey.base, list(survey.fits)
    if isinstance(base, NoBase):
        several = len(survey.patches) > 1
        hint = (
            "the patches were taken as one series; they may fit one by one"
            if several
            else "--base names what it was made on: a folder, or a commit as git:REPO@REF"
        )
        return [f"fits no release: {base.text}", f"hint: {hint}"]
    lines = [f"base {base.name}: {base.text}"]
    if base.alike:
        lines.append(f"  just as well: {said_ranges(base.alike, order)}")
    if base.as_well:
        lines.append(f"  every hunk applies, too: {said_ranges(base.as_well, order)}")
    return lines


def _document(survey: Survey, rows: list[dict[str, Any]], *, must_land: bool) -> dict[str, Any]:
    """Return the report of a survey, as docs/schema/where-1.json describes it."""
    ok = all(row["verdict"] in REACHED and (row["lands"] or not must_land) for row in rows)
    return {
        "schema": "patchkit.where/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "must_land": must_land,
        **_head(survey),
        "releases": rows,
    }
