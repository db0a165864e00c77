"""`patchkit help`: the page of a command or of a topic, as a manual has it."""

from __future__ import annotations

import textwrap
from importlib import resources

import click

from patchkit.cli import render
from patchkit.cli.options import json_option
from patchkit.errors import ExitCode, UsageError

WIDTH = 78
TOPICS = {
    "loop": "How a series is kept alive, from adopting a patch to dropping it.",
    "files": "What lies in a repository that keeps a series, and who writes it.",
    "headers": "What a patch says of itself.",
}
STATUS = """\
0 done; 1 refused, nothing was changed; 2 the command line was wrong; 3 conflicts or
findings, which the output lists; 70 a bug in patchkit."""


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
        text = _contents()
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
        render.show_json({"schema": "patchkit.help/1", "name": name, "text": text})
    else:
        render.say(text.rstrip("\n"))
    return ExitCode.DONE


def command_page(name: str) -> str:
    """Return the page of a command: name, synopsis, description, options, examples, status."""
    from patchkit.cli import COMMANDS, patchkit

    found = patchkit.get_command(click.Context(patchkit, info_name="patchkit"), name)
    assert found is not None
    context = click.Context(found, info_name=f"patchkit {name}")
    said, examples = _parts(found.help or "")
    first, _, rest = said.partition("\n\n")
    sections = {
        "NAME": [f"patchkit {name} - {COMMANDS[name].rstrip('.')}"],
        "SYNOPSIS": [" ".join([f"patchkit {name}", *found.collect_usage_pieces(context)])],
        "DESCRIPTION": (rest or first).split("\n\n"),
        "OPTIONS": _options(found, context),
        "EXAMPLES": examples,
        "EXIT STATUS": [STATUS],
        "JSON": [f"--json prints one document, described in docs/schema/{name}-1.json."],
    }
    return "\n".join(_section(title, parts) for title, parts in sections.items() if parts)


def topic_page(name: str) -> str:
    """Return the page of a topic."""
    text = resources.files("patchkit.cli").joinpath("topics", f"{name}.txt").read_text("utf-8")
    return f"{name.upper()}\n\n{text}"


def _contents() -> str:
    rows = "\n".join(f"  {name:<10}{text}" for name, text in TOPICS.items())
    return (
        f"Topics:\n{rows}\n\n`patchkit help COMMAND` is the page of a command; "
        "`patchkit --help` lists them."
    )


def _parts(text: str) -> tuple[str, list[str]]:
    """Return the prose of a help text, and its examples, one a line."""
    prose, _, examples = textwrap.dedent(text).strip().partition("\b\n")
    lines = [line.strip() for line in examples.split("\n")[1:] if line.strip()]
    return prose.strip(), ["\n".join(lines)] if lines else []


def _options(found: click.Command, context: click.Context) -> list[str]:
    rows = [
        record for param in found.get_params(context) if (record := param.get_help_record(context))
    ]
    return [f"{names}\n{textwrap.indent(_wrapped(text), '    ')}" for names, text in rows]


def _section(title: str, parts: list[str]) -> str:
    verbatim = title in ("EXAMPLES", "OPTIONS")
    body = "\n\n".join(part if verbatim else _wrapped(part) for part in parts)
    return f"{title}\n{textwrap.indent(body, '    ')}\n"


def _wrapped(text: str) -> str:
    words = " ".join(text.split())
    return textwrap.fill(words, WIDTH - 8, break_long_words=False, break_on_hyphens=False)
