"""The pages of the manual: of a command, made from what it says of itself, and of a topic."""

from __future__ import annotations

import textwrap
from importlib import resources

import click

WIDTH = 78
TOPICS = {
    "loop": "How a series is kept alive, from adopting a patch to dropping it.",
    "files": "What lies in a repository that keeps a series, and who writes it.",
    "headers": "What a patch says of itself.",
}
_SCHEMAS = {"export": "export-patches"}  # `export` is that of the file in an exported series
STATUS = """\
0 done; 1 refused, nothing was changed; 2 the command line was wrong; 3 conflicts or
findings, which the output lists; 70 a bug in patchkit."""


def command_page(name: str) -> str:
    """Return the page of a command: name, synopsis, description, options, examples, status."""
    from patchkit.cli import COMMANDS, patchkit

    found = patchkit.get_command(click.Context(patchkit, info_name="patchkit"), name)
    assert found is not None
    context = click.Context(found, info_name=f"patchkit {name}")
    said, examples = _parts(found.help or "")
    first, _, rest = said.partition("\n\n")
    schema = _SCHEMAS.get(name, name)
    sections = {
        "NAME": [f"patchkit {name} - {COMMANDS[name].rstrip('.')}"],
        "SYNOPSIS": [" ".join([f"patchkit {name}", *found.collect_usage_pieces(context)])],
        "DESCRIPTION": (rest or first).split("\n\n"),
        "OPTIONS": _options(found, context),
        "EXAMPLES": examples,
        "EXIT STATUS": [STATUS],
        "JSON": [f"--json prints one document, described in docs/schema/{schema}-1.json."],
    }
    return "\n".join(_section(title, parts) for title, parts in sections.items() if parts)


def topic_page(name: str) -> str:
    """Return the page of a topic."""
    text = resources.files("patchkit.cli").joinpath("topics", f"{name}.txt").read_text("utf-8")
    return f"{name.upper()}\n\n{text}"


def contents() -> str:
    """Return the list of topics."""
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
