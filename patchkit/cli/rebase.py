"""`patchkit rebase`: the stored series, moved to another release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from patchkit.cli import render, render_move, render_resolve
from patchkit.cli.moved import rebase_document
from patchkit.cli.options import here, json_option, tree_opener
from patchkit.cli.stopped import abort_rebase, emptied, show_stopped, shown_folder, state_folder
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.placing.resolution import Resolution
from patchkit.repository import session
from patchkit.repository.deliver import (
    Storing,
    plan_deliveries,
    replacements,
    resolutions_stored,
)
from patchkit.repository.memory import remembered
from patchkit.repository.move import Request, SeriesMove, move_all
from patchkit.repository.stop import (
    accepted_drifts,
    first_open,
    lay_out_git,
    lay_out_stop,
    refuse_what_does_not_hold,
    request_of,
    settle,
    skip_of,
    sources_of,
)
from patchkit.repository.workspace import Replacement, Workspace
from patchkit.upstream.pins import normalise_version


@dataclass(frozen=True)
class Report:
    """How a rebase is reported: as JSON or a table, and with the commits of which repository."""

    as_json: bool = False
    table: bool = False
    history: Path | None = None


STEPS = ("go_on", "skip", "abort", "status")


@click.command(short_help="Move the stored series to another vLLM release.")
@click.argument("version", required=False)
@click.option("--from", "base", metavar="REL", help="Move from this stored release.")
@click.option("--update", is_flag=True, help="Replace what is stored for the release.")
@click.option("--target", metavar="TREE", help="Move onto a folder, archive or git:REPO@REF.")
@click.option("--output", metavar="DIR", type=click.Path(path_type=Path), help="Store it there.")
@click.option(
    "--test", is_flag=True, help="Make the verdicts on the patches for the release first."
)
@click.option("--python", metavar="PATH", help="With --test: run the tests with this interpreter.")
@click.option("--continue", "go_on", is_flag=True, help="Go on with the files that you edited.")
@click.option(
    "--accept-drift", is_flag=True, help="With --continue: what drifted is right as it landed."
)
@click.option("--skip", is_flag=True, help="Go on without the open patch; needs --yes.")
@click.option("--abort", is_flag=True, help="Forget the rebase that has stopped.")
@click.option("--status", is_flag=True, help="Say where a rebase has stopped, and what is left.")
@click.option(
    "--hunk", "hunks", type=int, multiple=True, metavar="N", help="--skip only this hunk."
)
@click.option("--yes", is_flag=True, help="Confirm --skip.")
@click.option(
    "--history",
    metavar="REPO",
    type=click.Path(path_type=Path),
    help="Name the commits of this upstream repository that changed what hunks stand on.",
)
@click.option("--table", is_flag=True, help="Print a Markdown table for a pull request.")
@click.option("--reason", metavar="TEXT", help="Why that is so; stored with what you decided.")
@json_option
def command(
    version: str | None,
    base: str | None,
    update: bool,
    target: str | None,
    output: Path | None,
    test: bool,
    python: str | None,
    go_on: bool,
    accept_drift: bool,
    skip: bool,
    abort: bool,
    status: bool,
    hunks: tuple[int, ...],
    yes: bool,
    history: Path | None,
    table: bool,
    reason: str | None,
    as_json: bool,
) -> ExitCode:
    """Move the stored series to another vLLM release.

    The base is the nearest lower release that is stored. The result is stored where every hunk
    landed and nothing drifted; a release that is stored already is compared, and replaced only with
    --update. A hunk that did not land stops the rebase: edit the files it lays out in
    .patchkit/rebase/files and --continue, --skip the patch, or --abort.

    An edit is remembered as soon as it is accepted, and used again, also on other releases, where
    it is proven to be right there; `patchkit resolutions` lists what is remembered. With a git
    repository of upstream's at hand, the commits that changed what hunks stand on are named.

    A patch that `patchkit test` found superseded on the release is left out, with the reason.
    A hunk that landed has drifted where what it calls or reads is not what it was in the base.
    Where it is right all the same, --continue --accept-drift says so, for this hunk and this change
    only; when either changes again, it has drifted again.

    --test runs the tests of the patches for which there is no verdict that still holds.

    \b
    Examples:
      patchkit rebase v0.29.0
      patchkit rebase v0.29.0 --from v0.27.1 --update
      patchkit rebase --target git:../vllm@main --output moved
      patchkit rebase v0.29.0 --history ../vllm --table > moved.md
      patchkit rebase --continue --reason "every layer can be padded now"
      patchkit rebase --continue --accept-drift --reason "wanted"
      patchkit rebase --status
      patchkit rebase --skip --yes
      patchkit rebase --abort
    """
    steps = [name for name, given in zip(STEPS, (go_on, skip, abort, status), strict=True) if given]
    _check_usage(version, target, steps, base=base, update=update, output=output, test=test)
    if (test and version is None) or (python is not None and not test):
        what = "--test is for a release" if test else "--python is for --test"
        raise UsageError(what, place="patchkit rebase")
    _check_details(steps, hunks=hunks, yes=yes, reason=reason, accept_drift=accept_drift)
    report = Report(as_json, table, history)
    _check_report(report, moves=not (abort or status))
    config = here()
    workspace = Workspace(config.state_folder)
    if status:
        return show_stopped(config, workspace, as_json)
    with workspace.locked():
        if abort:
            return abort_rebase(config, workspace, as_json)
        if go_on or skip:
            skipped = hunks if skip else None
            return _resume(config, workspace, skipped, reason, report, accept_drift=accept_drift)
        state = session.read_state(state_folder(config))
        if state is not None:
            raise session.refuse_second(state, shown_folder(config))
        request = Request(
            target=version or target or "",
            is_release=version is not None,
            base=base,
            output=output.absolute() if output else None,
            update=update,
        )
        if test:
            _test(config, workspace, normalise_version(request.target), python)
        return _run(config, workspace, request, report)


def _check_report(report: Report, *, moves: bool) -> None:
    if report.as_json and report.table:
        raise UsageError("--table and --json are two things", place="patchkit rebase")
    if not moves and (report.table or report.history):
        what = "--table" if report.table else "--history"
        raise UsageError(f"{what} is for a step that moves", place="patchkit rebase")


def _test(config: Config, workspace: Workspace, release: str, python: str | None) -> None:
    """Make and store the verdicts for a release that are not there or do not hold any more."""
    from patchkit.cli.test import DEFAULT_TIMEOUT_S, make_runner, prove_and_store
    from patchkit.proving.prove import candidates, is_proven

    chosen, _ = candidates(config, config.series, release, ())
    chosen = tuple(entry for entry in chosen if not is_proven(config, release, entry))
    if chosen:
        runner = make_runner(config, python, None, DEFAULT_TIMEOUT_S)
        prove_and_store(config, workspace, release, chosen, runner)


def _check_usage(
    version: str | None, target: str | None, steps: Sequence[str], **options: Any
) -> None:
    ways = [*steps, *(["version"] if version else []), *(["--target"] if target else [])]
    if len(ways) != 1:
        given = "nothing is given" if not ways else "more than one thing is asked for"
        raise UsageError(
            given,
            place="patchkit rebase",
            expected="a version, or --target, --continue, --skip, --abort or --status",
            hint="`patchkit rebase --help` has examples",
        )
    if steps:
        for name, value in options.items():
            if value:
                option = "--from" if name == "base" else f"--{name}"
                raise UsageError(
                    f"{option} is for the start of a rebase, which it remembers",
                    place="patchkit rebase",
                )


def _check_details(
    steps: Sequence[str],
    *,
    hunks: tuple[int, ...],
    yes: bool,
    reason: str | None,
    accept_drift: bool,
) -> None:
    if (hunks or yes) and "skip" not in steps:
        raise UsageError("--hunk and --yes are for --skip", place="patchkit rebase")
    if reason is not None and "go_on" not in steps:
        raise UsageError("--reason is for --continue", place="patchkit rebase")
    if accept_drift and "go_on" not in steps:
        raise UsageError("--accept-drift is for --continue", place="patchkit rebase")
    if "skip" in steps and not yes:
        raise UsageError(
            "--skip leaves a part of the series out of the result",
            place="patchkit rebase",
            hint="say --skip --yes if that is meant; --hunk N leaves out one hunk",
        )


def _resume(
    config: Config,
    workspace: Workspace,
    skipped: tuple[int, ...] | None,
    reason: str | None,
    report: Report,
    *,
    accept_drift: bool,
) -> ExitCode:
    """Go on with a stopped rebase: with the edits, or without the hunks that are skipped."""
    folder, place = state_folder(config), shown_folder(config)
    state = session.read_state(folder)
    if state is None:
        raise session.refuse_none(place)
    request = request_of(state)
    moves = _move(config, request)
    if sources_of(moves) != state.sources:
        raise PatchkitError(
            "the stored series was changed since the rebase stopped",
            place=", ".join(state.sources),
            hint="save your edits, `patchkit rebase --abort`, and begin again",
        )
    stopped = first_open(moves)
    if stopped is None:
        return _conclude(config, workspace, request, moves, report)
    git = folder.with_name(session.GIT)
    if not git.exists():
        workspace.commit([Replacement(git, lay_out_git(stopped, moves))])
    if skipped is not None:
        request = replace(request, skips=(*request.skips, skip_of(state, skipped)))
        return _run(config, workspace, request, report)
    edits = session.read_edits(state, folder)
    resolved = settle(state, stopped, edits, reason, place, accept_drifts=accept_drift)
    settled = tuple(session.Settled(state.series, r.patch, r.adaptation) for r in resolved)
    if settled:
        request = replace(request, settled=(*request.settled, *settled))
        moves = _move(config, request)
    if accept_drift:
        accepted = accepted_drifts(state, moves, reason)
        settled = (*settled, *accepted)
        request = replace(request, settled=(*request.settled, *accepted))
        moves = _move(config, request)
    refuse_what_does_not_hold(settled, moves, place)
    made = [(state.series, resolution) for resolution in resolved]
    return _conclude(config, workspace, request, moves, report, made)


def _run(config: Config, workspace: Workspace, request: Request, report: Report) -> ExitCode:
    return _conclude(config, workspace, request, _move(config, request), report)


def _move(config: Config, request: Request) -> tuple[SeriesMove, ...]:
    with render.progress() as progress:
        return move_all(config, request, tree_opener(config, progress), progress)


def _told(
    config: Config, request: Request, moves: tuple[SeriesMove, ...], report: Report
) -> tuple[tuple[SeriesMove, ...], tuple[str, ...]]:
    """Return the moves with the commits by which upstream changed what hunks stand on, and notes.

    A repository that is named has to be there, one that is configured need not.
    """
    path = report.history or config.history
    if path is None:
        return moves, ()
    try:
        from patchkit.repository.history import with_commits
        from patchkit.upstream.githistory import History

        return with_commits(moves, History(path), request.target)
    except PatchkitError as err:
        if report.history is not None:
            raise
        return moves, (f"what upstream changed is not told: {err}",)


def _conclude(
    config: Config,
    workspace: Workspace,
    request: Request,
    moves: tuple[SeriesMove, ...],
    report: Report,
    made: Sequence[tuple[str, Resolution]] = (),
) -> ExitCode:
    """Write the result or the state of where it stopped, and show what became of every hunk."""
    folder = state_folder(config)
    moves, notes = _told(config, request, moves, report)
    deliveries = plan_deliveries(config, request, moves)
    stopped = first_open(moves)
    state = None
    if stopped is not None and (request.release or request.output):
        state, content = lay_out_stop(stopped, moves, request, shown_folder(config))
        git = Replacement(folder.with_name(session.GIT), lay_out_git(stopped, moves))
        learnt = remembered(config.root, made, (), None)
        workspace.commit([Replacement(folder, content), git, *learnt])
    elif all(delivery.storing is not Storing.DIFFERS for delivery in deliveries):
        done = emptied(config)
        release, used = request.release, resolutions_stored(request, moves, deliveries)
        learnt = remembered(config.root, made, used, release)
        workspace.commit([*replacements(config, request, moves, deliveries), *learnt, *done])
    document = rebase_document(moves, deliveries, state, shown_folder(config))
    document["notes"] += notes
    if report.as_json:
        render.show_json(document)
    elif report.table:
        render_resolve.show_table(document["outcomes"])
        if state is not None:
            how = "stopped; `patchkit rebase --status` says where, and how to go on"
            render.say(how, to_stderr=True)
    else:
        render_move.show_rebase(document, moves)
        for note in notes:
            render.say(f"note: {note}")
    return ExitCode(document["exit_code"])
