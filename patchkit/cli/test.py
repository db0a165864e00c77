"""`patchkit test`: whether each patch is needed on a release, by its own tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli import render, render_series
from patchkit.cli.options import (
    here,
    json_option,
    series_folders,
    series_option,
    shown_path,
    tree_opener,
)
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError, UsageError
from patchkit.repository.verdicts import read_verdicts, verdicts_path
from patchkit.repository.workspace import Replacement, Workspace
from patchkit.series.verdict import Verdict, format_verdicts, replaced
from patchkit.upstream.cache import Cache
from patchkit.upstream.pins import normalise_version

if TYPE_CHECKING:
    from patchkit.proving.prove import Candidate, Proven
    from patchkit.proving.run import Runner

DEFAULT_TIMEOUT_S = 600.0


@click.command(short_help="Say by its tests whether each patch is needed on a release.")
@click.argument("release")
@click.argument("patches", nargs=-1, metavar="[PATCH]...")
@series_option
@click.option("--python", metavar="PATH", help="Run the tests with this interpreter.")
@click.option("--torch-index", metavar="URL", help="Install torch from this index, CUDA or not.")
@click.option(
    "--timeout",
    "timeout_s",
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    help="Stop a run that takes longer.",
)
@json_option
def command(
    release: str,
    patches: tuple[str, ...],
    folder: str | None,
    python: str | None,
    torch_index: str | None,
    timeout_s: float,
    as_json: bool,
) -> ExitCode:
    """Say by its tests whether each patch is needed on a release.

    A patch names its tests in its header: `Test: tests/test_kv.py::test_pages`. They are run on the
    release without the patch and with it. Red, then green: the patch is needed. Green without it:
    superseded, and a rebase leaves it out. Red on both: not effective. All else is broken: red is
    only what the test's own assertion says. The verdicts are stored in verdicts.toml.

    Without --python an environment with torch's CPU build is made once, in the cache.

    \b
    Examples:
      patchkit test v0.29.0
      patchkit test v0.30.0 block-promotion --json
      patchkit test v0.29.0 --python ../venv/bin/python
      patchkit test v0.29.0 --torch-index https://download.pytorch.org/whl/cu130
    """
    from patchkit.proving.prove import candidates

    config = here()
    if python is not None and torch_index is not None:
        raise UsageError("--torch-index is for an environment that patchkit makes, and --python "
                         "names one", place="patchkit test")  # fmt: skip
    version = normalise_version(release)
    chosen, untested = candidates(config, series_folders(config, folder), version, patches)
    workspace = Workspace(config.state_folder)
    with workspace.locked():
        runner = make_runner(config, python, torch_index, timeout_s)
        proven = prove_and_store(config, workspace, version, chosen, runner)
    document = _document(version, proven, untested, config)
    if as_json:
        render.show_json(document)
    else:
        render_series.show_test(document)
    return ExitCode(document["exit_code"])


def make_runner(
    config: Config, python: str | None, torch_index: str | None, timeout_s: float
) -> Runner:
    """Return what runs tests: in the interpreter that is named, else in the environment."""
    from patchkit.proving.environment import make_environment, read_environment
    from patchkit.proving.run import Runner

    environment = read_environment()
    if python is not None:
        found = Path(python).expanduser().absolute()
        if not found.is_file():
            raise PatchkitError("there is no such file", place=python, expected="an interpreter")
    else:
        found = make_environment(
            environment, Cache().root, torch_index=torch_index, announce=_announce
        )
    return Runner(found, config.root, config.profile.package, environment.variables, timeout_s)


def prove_and_store(
    config: Config,
    workspace: Workspace,
    release: str,
    chosen: Sequence[Candidate],
    runner: Runner,
) -> tuple[Proven, ...]:
    """Return the verdicts on patches, stored; the caller holds the workspace's lock."""
    from patchkit.proving.prove import prove

    with render.progress() as progress:
        opener = tree_opener(config, progress)
        proven = tuple(prove(config, release, chosen, opener, runner, _announce))
    new: dict[str, list[Any]] = {}
    for entry in proven:
        new.setdefault(entry.folder, []).append(entry.verdict)
    workspace.commit(
        [
            Replacement(
                verdicts_path(config.root, folder),
                format_verdicts(replaced(read_verdicts(config.root, folder), verdicts)),
            )
            for folder, verdicts in new.items()
        ]
    )
    return proven


def _announce(text: str) -> None:
    render.say(text, to_stderr=True)


def _document(
    release: str, proven: Sequence[Proven], untested: Sequence[str], config: Config
) -> dict[str, Any]:
    """Return the report of a test, as docs/schema/test-1.json describes it."""
    fine = (Verdict.NEEDED, Verdict.SUPERSEDED)
    ok = all(entry.verdict.verdict in fine for entry in proven)
    return {
        "schema": "patchkit.test/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "release": release,
        "verdicts": [_verdict(entry) for entry in proven],
        "untested": list(untested),
        "stored": [
            shown_path(verdicts_path(config.root, folder))
            for folder in dict.fromkeys(entry.folder for entry in proven)
        ],
    }


def _verdict(entry: Proven) -> dict[str, Any]:
    verdict = entry.verdict
    broken = [
        run.output for run in (entry.pristine, entry.patched) if run and run.colour == "broken"
    ]
    return {
        "series": entry.folder,
        "patch": verdict.patch,
        "base": verdict.base,
        "verdict": verdict.verdict.value,
        "pristine": verdict.pristine.value,
        "patched": verdict.patched.value if verdict.patched else None,
        "reason": verdict.reason,
        "tests": list(verdict.tests),
        "patch_sha256": verdict.patch_sha256,
        "moved_sha256": verdict.moved_sha256,
        "test_sha256": verdict.test_sha256,
        "torch": verdict.torch,
        "output": broken[0] if broken else None,
    }
