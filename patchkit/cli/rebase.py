"""`patchkit rebase`: the stored series, moved to another release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from patchkit.cli import render
from patchkit.cli.options import here, json_option, shown_path, tree_opener
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.report import drift_json, outcome_json, tree_json
from patchkit.repository import session
from patchkit.repository.deliver import Delivery, Storing, plan_deliveries, replacements
from patchkit.repository.move import Request, SeriesMove, move_all
from patchkit.repository.stop import (
    accepted_drifts,
    first_open,
    lay_out_stop,
    refuse_what_does_not_hold,
    request_of,
    settle,
    skip_of,
    sources_of,
)
from patchkit.repository.workspace import Replacement, Workspace
from patchkit.upstream.pins import normalise_version

STEPS = ("go_on", "skip", "abort")


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
@click.option(
    "--hunk", "hunks", type=int, multiple=True, metavar="N", help="--skip only this hunk."
)
@click.option("--yes", is_flag=True, help="Confirm --skip.")
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
    hunks: tuple[int, ...],
    yes: bool,
    reason: str | None,
    as_json: bool,
) -> ExitCode:
    """Move the stored series to another vLLM release.

    The base is the nearest lower release that is stored. The result is stored where every hunk
    landed and nothing drifted; a release that is stored already is compared, and replaced only with
    --update. A hunk that did not land stops the rebase: edit the files it lays out in
    .patchkit/rebase/files and --continue, --skip the patch, or --abort.

    A patch that `patchkit test` found superseded on the release is left out, with the reason;
    A hunk that landed has drifted where what it calls or reads is not what it was in the base.
    Where it is right all the same, --continue --accept-drift says so, for this hunk and this change
    only; when either changes again, it has drifted again.

    --test runs the tests of the patches for which there is no verdict that still holds.

    \b
    Examples:
      patchkit rebase v0.29.0
      patchkit rebase v0.29.0 --from v0.27.1 --update
      patchkit rebase --target git:../vllm@main --output moved
      patchkit rebase --continue --reason "every layer can be padded now"
      patchkit rebase --continue --accept-drift --reason "wanted"
      patchkit rebase --skip --yes
      patchkit rebase --abort
    """
    steps = [name for name, given in zip(STEPS, (go_on, skip, abort), strict=True) if given]
    _check_usage(version, target, steps, base=base, update=update, output=output, test=test)
    if (test and version is None) or (python is not None and not test):
        what = "--test is for a release" if test else "--python is for --test"
        raise UsageError(what, place="patchkit rebase")
    _check_details(steps, hunks=hunks, yes=yes, reason=reason, accept_drift=accept_drift)
    config = here()
    workspace = Workspace(config.state_folder)
    with workspace.locked():
        if abort:
            return _abort(config, workspace, as_json)
        if go_on or skip:
            skipped = hunks if skip else None
            return _resume(config, workspace, skipped, reason, as_json, accept_drift=accept_drift)
        state = session.read_state(_folder(config))
        if state is not None:
            raise session.refuse_second(state, _shown_folder(config))
        request = Request(
            target=version or target or "",
            is_release=version is not None,
            base=base,
            output=output.absolute() if output else None,
            update=update,
        )
        if test:
            _test(config, workspace, normalise_version(request.target), python)
        return _run(config, workspace, request, as_json)


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
            expected="a version, or --target, --continue, --skip or --abort",
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


def _folder(config: Config) -> Path:
    return config.state_folder / "rebase"


def _shown_folder(config: Config) -> str:
    return shown_path(_folder(config))


def _abort(config: Config, workspace: Workspace, as_json: bool) -> ExitCode:
    folder = _folder(config)
    if not folder.exists():
        raise session.refuse_none(_shown_folder(config))
    workspace.commit([Replacement(folder, None)])
    if as_json:
        render.show_json({"schema": "patchkit.rebase-abort/1", "aborted": _shown_folder(config)})
    else:
        render.say("the stopped rebase is forgotten; nothing else was changed")
    return ExitCode.DONE


def _resume(
    config: Config,
    workspace: Workspace,
    skipped: tuple[int, ...] | None,
    reason: str | None,
    as_json: bool,
    *,
    accept_drift: bool,
) -> ExitCode:
    """Go on with a stopped rebase: with the edits, or without the hunks that are skipped."""
    folder, place = _folder(config), _shown_folder(config)
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
        return _conclude(config, workspace, request, moves, as_json)
    if skipped is not None:
        request = replace(request, skips=(*request.skips, skip_of(state, skipped)))
        return _run(config, workspace, request, as_json)
    edits = session.read_edits(state, folder)
    settled = settle(state, stopped, edits, reason, place, accept_drifts=accept_drift)
    if settled:
        request = replace(request, settled=(*request.settled, *settled))
        moves = _move(config, request)
    if accept_drift:
        accepted = accepted_drifts(state, moves, reason)
        settled = (*settled, *accepted)
        request = replace(request, settled=(*request.settled, *accepted))
        moves = _move(config, request)
    refuse_what_does_not_hold(settled, moves, place)
    return _conclude(config, workspace, request, moves, as_json)


def _run(config: Config, workspace: Workspace, request: Request, as_json: bool) -> ExitCode:
    return _conclude(config, workspace, request, _move(config, request), as_json)


def _move(config: Config, request: Request) -> tuple[SeriesMove, ...]:
    with render.progress() as progress:
        return move_all(config, request, tree_opener(config, progress), progress)


def _conclude(
    config: Config,
    workspace: Workspace,
    request: Request,
    moves: tuple[SeriesMove, ...],
    as_json: bool,
) -> ExitCode:
    """Write the result or the state of where it stopped, and show what became of every hunk."""
    folder = _folder(config)
    deliveries = plan_deliveries(config, request, moves)
    stopped = first_open(moves)
    state = None
    if stopped is not None and (request.release or request.output):
        state, content = lay_out_stop(stopped, moves, request)
        workspace.commit([Replacement(folder, content)])
    elif all(delivery.storing is not Storing.DIFFERS for delivery in deliveries):
        done = [Replacement(folder, None)] if folder.exists() else []
        workspace.commit([*replacements(config, request, moves, deliveries), *done])
    document = _document(config, moves, deliveries, state)
    if as_json:
        render.show_json(document)
    else:
        render.show_rebase(document, moves)
    return ExitCode(document["exit_code"])


def _document(
    config: Config,
    moves: Sequence[SeriesMove],
    deliveries: Sequence[Delivery],
    state: session.State | None,
) -> dict[str, Any]:
    """Return the report of a rebase, as docs/schema/rebase-1.json describes it."""
    differs = any(delivery.storing is Storing.DIFFERS for delivery in deliveries)
    ok = not differs and all(move.is_settled for move in moves)
    return {
        "schema": "patchkit.rebase/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "target": tree_json(moves[0].result.target),
        "series": [_series(m, d) for m, d in zip(moves, deliveries, strict=True)],
        "outcomes": [
            {"series": move.stored.folder, **outcome_json(outcome)}
            for move in moves
            for outcome in move.result.outcomes
        ],
        "left_out": [entry for move in moves for entry in _left_out(move)],
        "state": _state(config, moves, state) if state else None,
        "notes": [note for move in moves for note in (*move.result.notes, *move.notes)],
    }


def _series(move: SeriesMove, delivery: Delivery) -> dict[str, Any]:
    return {
        "folder": move.stored.folder,
        "base": move.stored.release,
        "patches": [patch.name for patch in move.result.patches],
        "unshipped": [
            {"patch": u.patch, "path": u.path, "section": u.section.value, "hunks": u.hunks}
            for u in move.result.unshipped
        ],
        "overlay_clashes": list(move.clashes),
        "overlay_drifts": [drift_json(drift) for drift in move.drifts],
        "stored": {
            "path": shown_path(delivery.path) if delivery.path else None,
            "state": delivery.storing.value,
            "differences": list(delivery.differences),
        },
    }


def _left_out(move: SeriesMove) -> list[dict[str, Any]]:
    """Return what the result lacks of the series: skipped, superseded, or upstream already."""
    found: list[dict[str, Any]] = [
        {
            "series": skip.series,
            "patch": skip.patch,
            "hunks": None if skip.hunks is None else list(skip.hunks),
            "why": "skipped",
            "reason": None,
        }
        for skip in move.skips
    ]
    skipped = {skip.patch for skip in move.skips if skip.hunks is None}
    for verdict in move.superseded:
        if verdict.patch not in skipped:
            entry = {"series": move.stored.folder, "patch": verdict.patch, "hunks": None}
            found.append({**entry, "why": "superseded", "reason": verdict.reason})
    skipped |= {verdict.patch for verdict in move.superseded}
    for patch in move.result.patches:
        if not patch.data and patch.name not in skipped and not move.open:
            entry = {"series": move.stored.folder, "patch": patch.name, "hunks": None}
            found.append({**entry, "why": "already upstream", "reason": None})
    return found


def _state(config: Config, moves: Sequence[SeriesMove], state: session.State) -> dict[str, Any]:
    place = _shown_folder(config)
    files = [
        {
            "edit": f"{place}/{session.FILES}{file.path}" if file.path else None,
            "path": file.path or file.path_before,
            "hunks": list(file.hunks),
        }
        for file in state.files
    ]
    note = f"{place}/{state.patch}.conflict.md"
    return {
        "folder": place,
        "series": state.series,
        "patch": state.patch,
        "note": note,
        "files": files,
        "drifted": sorted(
            outcome.hunk
            for move in moves
            if move.stored.folder == state.series
            for outcome in move.open
            if outcome.drifted and outcome.patch == state.patch and outcome.hunk in state.hunks
        ),
    }
