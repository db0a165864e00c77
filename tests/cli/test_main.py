import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit import cli
from patchkit.errors import ExitCode, PatchkitError, UsageError

# What `--help` must not pay for. `ast` comes in with nothing of ours; `git` takes a quarter second.
HEAVY = ("rich", "git", "tomlkit", "urllib3", "rapidfuzz", "unidiff", "filelock", "packaging")


def test_help_imports_no_command_and_nothing_heavy() -> None:
    script = (
        "import sys\nfrom patchkit.cli import run\nassert run(['--help']) == 0\n"
        "print(sorted(m for m in sys.modules if m.startswith('patchkit')), file=sys.stderr)\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert done.stderr == "['patchkit', 'patchkit.cli', 'patchkit.errors']\n[]\n"
    words = " ".join(done.stdout.split())
    assert " rebase Move the stored series to another vLLM release. " in words


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([name, "--help"]) == ExitCode.DONE
    text = capsys.readouterr().out
    assert text.split("\n\n")[1].strip() == cli.COMMANDS[name]
    assert "\n  Examples:\n    patchkit " in text
    assert "--json" in text


def test_a_mistyped_command_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["rebass"]) == ExitCode.USAGE
    assert capsys.readouterr().err == (
        "error: patchkit: no such command 'rebass'\nhint: did you mean 'rebase'?\n"
    )


def test_a_mistyped_option_is_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["init", "--fron", "v0.28.0"]) == ExitCode.USAGE
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0].startswith("error: patchkit init: no such option '--fron'")
    assert err.splitlines()[1] == "hint: `patchkit init --help` has examples"


class Refusing:
    """A command line whose only command raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def main(self, *_: object, **__: object) -> int:
        raise self.error


REFUSAL = PatchkitError(
    "hunk has 5 old lines", place="a.patch:214", expected="6", hint="count them"
)


def test_a_refusal_is_two_lines_on_standard_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "patchkit", Refusing(REFUSAL))
    assert cli.run(["rebase"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: a.patch:214: hunk has 5 old lines, expected 6\nhint: count them\n"


def test_a_refusal_with_json_is_a_document_on_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "patchkit", Refusing(REFUSAL))
    assert cli.run(["rebase", "--json"]) == 1
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "schema": "patchkit.error/1",
        "place": "a.patch:214",
        "fact": "hunk has 5 old lines",
        "expected": "6",
        "hint": "count them",
        "exit_code": 1,
    }


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (UsageError("bad"), 2),
        (PatchkitError("bad"), 1),
        (KeyboardInterrupt(), 1),
        (KeyError("x"), 70),
    ],
)
def test_the_kind_of_error_decides_the_exit_status(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "patchkit", Refusing(error))
    assert cli.run([]) == status


def test_a_bug_is_told_with_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "patchkit", Refusing(KeyError("x")))
    assert cli.run([]) == 70
    err = capsys.readouterr().err
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith(
        "KeyError: 'x'\nerror: this is a bug in patchkit (KeyError: 'x')\n"
        "hint: please report it with the lines above\n"
    )


def test_a_closed_pipe_is_no_bug() -> None:
    done = subprocess.run(
        f"{sys.executable} -c 'from patchkit.cli import main; main()' rebase --help | true",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    assert done.stderr == ""


def test_what_stands_behind_two_dashes_is_no_option_of_ours(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    args = ["verify", str(tmp_path / "none"), "--imported", "--", "serve", "--json"]
    assert cli.run(args) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
