"""Pages of the manual, and what a shell is offered while a command line is typed."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from patchkit import cli
from patchkit.cli.manual import TOPICS

ROOT = Path(__file__).parents[2]
NO_NAMES = (click.Choice, click.types.IntParamType, click.types.FloatParamType)
Out = pytest.CaptureFixture[str]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_each_command_has_a_page_that_fits_80_columns(name: str, capsys: Out) -> None:
    assert cli.run(["help", name]) == 0
    page = capsys.readouterr().out
    titles = re.findall(r"^([A-Z]+(?: [A-Z]+)*)$", page, re.MULTILINE)
    assert titles == [
        "NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "JSON",
    ]  # fmt: skip
    assert max(map(len, page.split("\n"))) <= 80
    said = f"NAME patchkit {name} - {cli.COMMANDS[name].rstrip('.')} SYNOPSIS"
    assert said in " ".join(page.split())
    examples = page.partition("EXAMPLES\n")[2].partition("\n\n")[0]
    assert f"patchkit {name}" in examples
    (schema,) = re.findall(r"docs/schema/([a-z0-9-]+)\.json", page)
    document = json.loads((ROOT / "docs" / "schema" / f"{schema}.json").read_bytes())
    module = importlib.import_module(f"patchkit.cli.{cli.module_name(name)}")
    printed = document["properties"]["schema"]["const"]
    others = (ROOT / "patchkit" / "cli" / name for name in ("moved.py", "kv_document.py"))
    sources = [Path(module.__file__ or ""), *others]
    assert any(f'"{printed}"' in path.read_text() for path in sources)


def test_a_page_reads_as_a_manual_does(capsys: Out) -> None:
    assert cli.run(["help", "revert"]) == 0
    page = capsys.readouterr().out
    assert page.startswith(
        "NAME\n    patchkit revert - Take an applied series out of an installed tree\n\n"
        "SYNOPSIS\n    patchkit revert [OPTIONS] installed|DIR\n\n"
        "DESCRIPTION\n"
    )
    assert "    --python PATH\n        The interpreter whose `installed` is meant; our own" in page
    assert page.endswith("described in docs/schema/revert-1.json.\n")


def test_topics_name_only_commands_that_there_are() -> None:
    for topic in TOPICS:
        text = (ROOT / "patchkit" / "cli" / "topics" / f"{topic}.txt").read_text()
        named = set(re.findall(r"(?:^ +|`)patchkit ([a-z-]+)", text, re.MULTILINE))
        assert named <= set(cli.COMMANDS), topic
        assert max(map(len, text.split("\n"))) <= 80
    assert len(list((ROOT / "patchkit" / "cli" / "topics").iterdir())) == len(TOPICS)


def test_the_loop_has_a_place_for_every_command(capsys: Out) -> None:
    assert cli.run(["help", "loop"]) == 0
    lines = capsys.readouterr().out.split("\n")
    named = {word for line in lines if "patchkit " in line for word in re.findall(r"[a-z-]+", line)}
    assert [name for name in cli.COMMANDS if name not in named] == ["help", "completion"]


def test_every_schema_says_what_it_describes() -> None:
    for path in (ROOT / "docs" / "schema").iterdir():
        document = json.loads(path.read_bytes())
        assert document["title"], path.name
        assert document["description"].endswith("."), path.name


def test_the_topic_of_headers_names_every_field_that_is_known(capsys: Out) -> None:
    from patchkit.diff.header import _OURS
    from patchkit.linting.fields import _SPELT

    assert cli.run(["help", "headers"]) == 0
    text = capsys.readouterr().out.lower()
    known = _OURS | set(_SPELT)
    assert [name for name in sorted(known) if name not in text] == []


def test_without_a_name_the_topics_are_listed(
    capsys: Out, check: Callable[[dict[str, Any]], None]
) -> None:
    assert cli.run(["help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Topics:\n  loop      How a series is kept alive, ")
    assert cli.run(["help", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["text"] + "\n" == text


def test_a_mistyped_page_is_answered_with_the_nearest(capsys: Out) -> None:
    assert cli.run(["help", "rebse"]) == 2
    assert capsys.readouterr().err == (
        "error: patchkit help: there is no page 'rebse'\nhint: did you mean 'rebase'?\n"
    )


@pytest.mark.parametrize(("shell", "text"), [
    ("bash", "complete -o nosort -F _patchkit_completion patchkit\n"),
    ("zsh", "#compdef patchkit"),
    ("fish", "complete --no-files --command patchkit"),
])  # fmt: skip
def test_a_shell_gets_its_script(
    shell: str, text: str, capsys: Out, check: Callable[[dict[str, Any]], None]
) -> None:
    assert cli.run(["completion", shell]) == 0
    assert text in capsys.readouterr().out
    assert cli.run(["completion", shell, "--json"]) == 0
    check(json.loads(capsys.readouterr().out))


def offered(folder: Path, *words: str) -> list[str]:
    """What bash would show for the last word."""
    done = subprocess.run(
        [sys.executable, "-m", "patchkit"],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_PATCHKIT_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(("patchkit", *words)),
            "COMP_CWORD": str(len(words)),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with two releases of a series."""
    (tmp_path / "pyproject.toml").write_text('[tool.patchkit]\nseries = ["patches", "port"]\n')
    for release in ("v0.27.1", "v0.28.0"):
        (tmp_path / "patches" / release).mkdir(parents=True)
        (tmp_path / "patches" / release / "fix.patch").write_text("")
    return tmp_path


def test_commands_and_options_are_offered(repository: Path) -> None:
    assert offered(repository, "re") == [name for name in cli.COMMANDS if name.startswith("re")]
    assert "--continue" in offered(repository, "rebase", "--c")


def test_releases_patches_and_folders_are_offered_where_they_are_meant(repository: Path) -> None:
    assert offered(repository, "show", "v0.27") == ["v0.27.1"]
    assert offered(repository, "show", "v0.28.0", "f") == ["fix.patch"]
    assert offered(repository, "drop", "") == ["fix.patch"]
    assert offered(repository, "drop", "fix.patch", "--release", "") == ["v0.27.1", "v0.28.0"]
    assert offered(repository, "rebase", "v0.3")[0] == "v0.30.0"
    assert offered(repository, "status", "--series", "p") == ["patches", "port"]
    assert offered(repository, "help", "lo") == ["loop"]
    assert offered(repository, "where", "fix") == ["fix"]  # the shell looks for files
    modelled = offered(repository, "kv-plan", "m", "--release", "v0.2")
    assert modelled[0] == "v0.25.0"  # the releases before have no plan
    assert offered(repository, "kv-plan", "m", "--format", "kvarn_k4v4") == [
        "kvarn_k4v4_g128", "kvarn_k4v4_g64",
    ]  # fmt: skip


def test_everything_that_takes_a_name_has_something_to_offer() -> None:
    from patchkit.cli.complete import Offered, offer

    # texts that only a person can give, numbers, and paths of things that are not there yet
    free = {
        "as_json", "reason", "description", "local_version", "timeout", "jobs", "hunks", "words",
        "origin", "forwarded", "exit_condition", "into", "new", "output", "path", "files",
        "torch_index", "python", "platform", "distribution", "show", "forget", "history",
        "releases", "modules", "after_s", "selection", "tests", "version", "applies_to",
        "memory", "as_served",
        "card", "utilisation", "overhead", "backend", "max_model_len", "lengths",
        "batched_tokens", "prefix_match_unit", "block_size",
        "speculative_config",
    }  # fmt: skip
    for name in cli.COMMANDS:
        command = cli.patchkit.get_command(click.Context(cli.patchkit), name)
        assert command is not None
        for param in offer(name, command).params:
            if getattr(param, "is_flag", False) or isinstance(param.type, NO_NAMES):
                continue
            if param.name not in free:
                assert isinstance(param.type, Offered), (name, param.name, param.metavar)


def test_a_broken_repository_offers_nothing_and_says_nothing(repository: Path) -> None:
    (repository / "pyproject.toml").write_text("[tool.patchkit\n")
    assert offered(repository, "show", "v") == []


def test_bash_itself_takes_the_script(tmp_path: Path, capsys: Out) -> None:
    assert cli.run(["completion", "bash"]) == 0
    script = tmp_path / "complete.sh"
    script.write_text(capsys.readouterr().out)
    done = subprocess.run(
        ["bash", "-c", f"source {script} && complete -p patchkit"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "complete -o nosort -F _patchkit_completion patchkit\n"
