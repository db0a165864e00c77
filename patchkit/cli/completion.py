"""`patchkit completion`: what a shell needs to complete commands, options, releases and patches."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from patchkit.cli import render
from patchkit.cli.options import json_option
from patchkit.errors import ExitCode

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_PATCHKIT_COMPLETE"


@click.command(short_help="Print what makes a shell complete patchkit's commands.")
@click.argument("shell", type=click.Choice(SHELLS))
@json_option
def command(shell: str, as_json: bool) -> ExitCode:
    """Print what makes a shell complete patchkit's commands.

    Commands and options are completed, and where a release, a patch or a series folder is meant,
    those that are stored in the repository.

    \b
    Examples:
      patchkit completion bash >> ~/.bashrc
      patchkit completion zsh >> ~/.zshrc
      patchkit completion fish > ~/.config/fish/completions/patchkit.fish
    """
    from patchkit.cli import patchkit

    found = get_completion_class(shell)
    assert found is not None
    script = found(patchkit, {}, "patchkit", VARIABLE).source()
    if as_json:
        render.show_json(
            {
                "schema": "patchkit.completion/1",
                "exit_code": int(ExitCode.DONE),
                "shell": shell,
                "script": script,
            }
        )
    else:
        render.say(script.rstrip("\n"))
    return ExitCode.DONE
