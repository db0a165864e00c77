"""`patchkit help`: the page of a command or of a topic, as a manual has it."""

from __future__ import annotations

import click

from patchkit.cli import render
from patchkit.cli.manual import TOPICS, command_page, contents, topic_page
from patchkit.cli.options import json_option
from patchkit.errors import ExitCode, UsageError


@click.command(short_help="Show the page of a command or of a topic.")
@click.argument("name", required=False, metavar="[COMMAND|TOPIC]")
@json_option
def command(name: str | None, as_json: bool) -> ExitCode:
    """Show the page of a command or of a topic.

    A page says what the command does, with every option, examples and what its exit status means.
    Without a name the topics are listed.

    \b
    Examples:
      patchkit help
      patchkit help rebase
      patchkit help loop
    """
    from patchkit.cli import COMMANDS

    if name is None:
        text = contents()
    elif name in COMMANDS:
        text = command_page(name)
    elif name in TOPICS:
        text = topic_page(name)
    else:
        import difflib

        near = difflib.get_close_matches(name, [*COMMANDS, *TOPICS], n=1)
        raise UsageError(
            f"there is no page {name!r}",
            place="patchkit help",
            hint=f"did you mean {near[0]!r}?" if near else "`patchkit help` lists the topics",
        )
    if as_json:
        document = {"schema": "patchkit.help/1", "exit_code": int(ExitCode.DONE)}
        render.show_json({**document, "name": name, "text": text})
    else:
        render.say(text.rstrip("\n"))
    return ExitCode.DONE
