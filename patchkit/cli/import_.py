"""`patchkit import`: foreign patches, taken into a stored series."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from patchkit.adopting.adopt import Adopted, Adoption, Wanted, adopt
from patchkit.adopting.gather import Gathered, gather
from patchkit.adopting.made_on import Ground
from patchkit.adopting.merge import Merged, merge
from patchkit.cli import render, render_import
from patchkit.cli.init import pyproject_text
from patchkit.cli.options import dry_run_option, here, json_option, read_pins, tree_opener
from patchkit.config import PYPROJECT, Config
from patchkit.editing.appending import append, refuse_open_top
from patchkit.editing.delivery import Delivery, plan_delivery
from patchkit.editing.stack import open_stack
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.report import outcome_json
from patchkit.repository.move import OpenTree
from patchkit.repository.workspace import Replacement, Workspace
from patchkit.surveying.base import Base
from patchkit.surveying.fit import Fit
from patchkit.upstream.pins import Pins, normalise_version


@click.command("import", short_help="Take foreign patches into a stored series.")
@click.argument("sources", nargs=-1, required=True, metavar="FILE|DIR|A..B...")
@click.option("--base", metavar="TREE", help="What they were made on; found unless given.")
@click.option(
    "--release", metavar="REL", help="Store them for this release; the base's unless given."
)
@click.option(
    "--series", "folder", metavar="DIR", help="The series folder; the first unless given."
)
@click.option("--reason", metavar="TEXT", help="Why they are needed, for all of them.")
@click.option(
    "--origin", metavar="TEXT", help="Where they come from; the file's name unless given."
)
@click.option("--forwarded", metavar="TEXT", help="What upstream knows of them.")
@click.option("--exit-condition", metavar="TEXT", help="When they may go.")
@click.option("--applies-to", metavar="RANGE", help="For which releases; the one unless given.")
@dry_run_option
@json_option
def command(
    sources: tuple[str, ...],
    base: str | None,
    release: str | None,
    folder: str | None,
    reason: str | None,
    origin: str | None,
    forwarded: str | None,
    exit_condition: str | None,
    applies_to: str | None,
    dry_run: bool,
    as_json: bool,
) -> ExitCode:
    """Take foreign patches into a stored series.

    Files, mailboxes, - for standard input, folders (with a quilt series file or without), and
    ranges of commits: git:REPO@A..B, or A..B in a repository. The release that they were made on is
    found, and they are stored for it in canonical form, after the patches that are stored there.

    What is known goes into their headers; what only a person can say is left empty and listed. The
    exit status is 3, and nothing is written, where they fit no release.

    \b
    Examples:
      patchkit import *.patch
      patchkit import fixes.mbox --base v0.27.1 --dry-run
      patchkit import ../debian --reason "our card has no fp8" --forwarded no
      patchkit import git:../vllm@v0.28.0..mine
      patchkit import nightly.patch --base git:../vllm@main --release v0.29.0
    """
    fields = {
        "Reason": reason,
        "Origin": origin,
        "Forwarded": forwarded,
        "Exit-Condition": exit_condition,
        "Applies-To": applies_to,
    }
    config = here()
    pins = read_pins(config)
    wanted = Wanted(*_trees(base, release, pins), {k: v for k, v in fields.items() if v})
    gathered = gather(sources, lambda: sys.stdin.buffer.read())
    workspace = Workspace(config.state_folder)
    with nullcontext() if dry_run else workspace.locked(), render.progress(lines=True) as progress:
        series = _folder(config, folder)
        opener = tree_opener(config, progress)
        ground = Ground(config, series, opener)
        adoption = adopt(gathered, ground, pins.versions, wanted)
        plan = _plan(config, series, adoption, ground, opener)
        if adoption.ok and adoption.release is not None and not dry_run:
            refuse_open_top(config, adoption.release)
        if plan.merged is not None and not dry_run:
            workspace.commit(_replacements(config, plan))
    document = _document(gathered, adoption, plan, wanted, dry_run=dry_run)
    if as_json:
        render.show_json(document)
    else:
        render_import.show_import(document)
    return ExitCode(document["exit_code"])


@dataclass(frozen=True)
class Plan:
    """What is to be written: the release folder, and a new pyproject.toml where there is none."""

    merged: Merged | None = None
    delivery: Delivery | None = None
    pyproject: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What becomes of other patches of the release, and of what else goes by it."""
        if self.delivery is None or self.merged is None:
            return ()
        carried = [f"{name}: {what}" for name, what in self.delivery.changes if what != "new"]
        return (*carried, *self.delivery.notes)


def _trees(base: str | None, release: str | None, pins: Pins) -> tuple[str | None, str | None]:
    """Return base and release as they are opened; only a pinned release has a place to store."""
    stored = pins.release(release).version if release is not None else None
    if base is None:
        return None, stored
    try:
        version = normalise_version(base)
    except PatchkitError as error:
        if stored is None:
            raise UsageError(
                f"{base!r} is no release, so there is no place to store patches for it",
                place="--base",
                hint="--release REL moves them from there to a release, and stores them for it",
            ) from error
        return base, stored
    return pins.release(version).version, stored


def _folder(config: Config, folder: str | None) -> str:
    """Return the series folder that is meant: only what pyproject.toml lists is found again."""
    if folder is None:
        return config.series[0]
    path = (Path.cwd() / folder).resolve()
    known = {(config.root / name).resolve(): name for name in config.series}
    if path not in known:
        raise PatchkitError(
            "is not a series folder of this repository",
            place=folder,
            expected=", ".join(config.series),
            hint=f"add it to `series` in [tool.patchkit] of {PYPROJECT}",
        )
    return known[path]


def _plan(
    config: Config, folder: str, adoption: Adoption, ground: Ground, opener: OpenTree
) -> Plan:
    if not adoption.ok or adoption.release is None:
        return Plan()
    release = adoption.release
    merged = merge(config, folder, release, adoption.patches, ground.bare(release))
    stack = open_stack(config, release, lambda _: ground.bare(release))
    revision = append(config, stack, folder, merged.content)
    delivery = plan_delivery(config, revision, folder, opener)
    return Plan(merged, delivery, pyproject_text(config.root / PYPROJECT))


def _replacements(config: Config, plan: Plan) -> list[Replacement]:
    assert plan.delivery is not None
    wanted = list(plan.delivery.replacements)
    if plan.pyproject is not None:
        wanted.append(Replacement(config.root / PYPROJECT, plan.pyproject.encode()))
    return wanted


def _document(
    gathered: Gathered, adoption: Adoption, plan: Plan, wanted: Wanted, *, dry_run: bool
) -> dict[str, Any]:
    """Return the report of an import, as docs/schema/import-1.json describes it."""
    found = adoption.made_on
    base: dict[str, Any] | None = None
    nearest: dict[str, Any] | None = None
    if isinstance(found.base, Base):
        base = {
            "name": found.base.name,
            "proof": found.base.proof.value,
            "text": found.base.text,
            "alike": list(found.base.alike),
            "as_well": list(found.base.as_well),
        }
    else:
        nearest = {"releases": list(found.base.nearest), "text": found.base.text}
    needs = plan.merged.needs if plan.merged else {}
    return {
        "schema": "patchkit.import/1",
        "ok": adoption.ok,
        "exit_code": int(ExitCode.DONE if adoption.ok else ExitCode.FINDINGS),
        "dry_run": dry_run,
        "base": base,
        "nearest": nearest,
        "releases": _rows(found.fits, found.unopened or {}, base["name"] if base else None),
        "hunks": max((len(fit.hunks) for fit in found.fits.values()), default=0),
        "way": found.way.value,
        "order": found.order,
        "release": adoption.release,
        "given_base": wanted.base is not None,
        "path": plan.merged.place if plan.merged else None,
        "set_up": [PYPROJECT] if plan.pyproject is not None else [],
        "patches": [_patch(patch, needs.get(patch.name, ())) for patch in adoption.patches],
        "notes": list(plan.notes),
        "moved": [outcome_json(outcome) for outcome in adoption.moved],
        "lost": list(adoption.lost),
        "passed_over": [{"name": name, "reason": why} for name, why in gathered.passed_over],
    }


def _rows(
    fits: Mapping[str, Fit], unopened: Mapping[str, str], base: str | None
) -> list[dict[str, Any]]:
    rows = [_row(release, fit, base) for release, fit in fits.items()]
    empty = {"base": False, "fits": False, "applying": 0, "present": 0, "neither": 0}
    for release, reason in unopened.items():
        more = {"proven": 0, "foreign": 0, "lines_off": 0, "open": [], "reason": reason}
        rows.append({"release": release, **empty, **more})
    return rows


def _row(release: str, fit: Fit, base: str | None) -> dict[str, Any]:
    still = [hunk for hunk in fit.hunks if hunk.offset is None and not hunk.there]
    open_hunks = [hunk for hunk in fit.hunks if hunk.offset is None]
    reason = str(fit.error) if fit.error else None
    if open_hunks and reason is None:
        first = (still or open_hunks)[0]
        reason = f"{first.patch.rpartition('/')[2]}#{first.number} {first.reason}"
    return {
        "release": release,
        "base": release == base,
        "fits": fit.fits,
        "applying": fit.applying,
        "present": fit.present,
        "neither": len(still),
        "proven": fit.proven,
        "foreign": fit.foreign,
        "lines_off": fit.lines_off,
        "open": [
            {
                "place": hunk.place,
                "patch": hunk.patch,
                "hunk": hunk.number,
                "path": hunk.path,
                "reason": hunk.reason,
            }
            for hunk in open_hunks
        ],
        "reason": reason,
    }


def _patch(patch: Adopted, needs: Sequence[str]) -> dict[str, Any]:
    return {
        "name": patch.name,
        "source": patch.source,
        "hunks": patch.hunks,
        "paths": list(patch.paths),
        "fill_in": list(patch.fill_in),
        "depends_on": list(needs),
        "unshipped": [
            {"path": u.path, "section": u.section.value, "hunks": u.hunks} for u in patch.unshipped
        ],
        "notes": list(patch.notes),
    }
