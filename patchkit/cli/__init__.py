"""The command line: one file a command, imported when it runs; exit statuses are decided here."""

from __future__ import annotations

import errno
import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from itertools import takewhile

import click
from click.shell_completion import CompletionItem

from patchkit.errors import ExitCode, PatchkitError, UsageError

# By what they are for, in the order in which they are met; with the first line of each command's
# help, so that `patchkit --help` imports none of them.
SECTIONS = {
    "Adopt": {
        "init": "Set up a folder for a patch series.",
        "import": "Take foreign patches into a stored series.",
        "export": "Write a stored series as plain diffs, mails or a quilt folder.",
        "lint": "Say what is wrong with the headers of patches.",
        "pin": "Add a release to the pins from the package index.",
    },
    "Edit": {
        "edit": "Open a git work tree of a release to edit a patch in.",
        "record": "Store what was changed in the work tree as a patch.",
        "split": "Take hunks of a stored patch into a new one.",
        "fold": "Merge stored patches into one of them.",
        "rename": "Give a stored patch another name, everywhere.",
        "drop": "Take a stored patch out of a release, with the reason.",
        "overlay": "List the new files of a series, and which have changed.",
    },
    "Move": {
        "rebase": "Move the stored series to another vLLM release.",
        "resolutions": "List what was made of conflicts, and take it back.",
        "port": "Move plain patch files from one vLLM tree to another.",
        "where": "Say what each release makes of plain patch files.",
        "forecast": "Say what the next releases will do to what is stored.",
    },
    "Prove": {
        "check": "Prove that what is stored is sound.",
        "test": "Say by its tests whether each patch is needed on a release.",
        "exits": "Say which patches may go, by their own exit conditions.",
        "requires": "Say whether an environment has what the patches need.",
        "claims": "Say which figures no run record backs.",
    },
    "Ship": {
        "build-wheel": "Write a patched wheel of a release.",
        "unpatch": "Write the file that a patched wheel was made from.",
        "apply": "Put the stored series into an installed tree.",
        "revert": "Take an applied series out of an installed tree.",
        "verify": "Say whether a tree or wheel holds its series, hunk by hunk.",
        "export-series": "Write stored series to a folder that needs nothing else.",
    },
    "Know": {
        "status": "Show every patch on every release.",
        "why": "Tell the story of a patch or hunk, and what to do next.",
        "show": "Show a stored series, and why each hunk is where it is.",
        "deps": "Draw which patches need which, and why.",
        "range-diff": "Compare two stored series patch by patch.",
        "registry": "Write a page about every stored patch.",
    },
    "Plan": {
        "kv-plan": "Say what fits into a KV cache, and why.",
    },
    "Help": {
        "help": "Show the page of a command or of a topic.",
        "completion": "Print what makes a shell complete patchkit's commands.",
    },
}
COMMANDS = {name: text for section in SECTIONS.values() for name, text in section.items()}


def module_name(command: str) -> str:
    """Return the name of a command's module; no module can be called `import`."""
    name = command.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


class BugError(PatchkitError):
    """Our own mistake, told in the form of a user's."""

    exit_code = ExitCode.BUG


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the commands in the order in which they are met."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, importing its module; for a shell, with what it may be given."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"patchkit.cli.{module_name(cmd_name)}").command
        assert isinstance(command, click.Command)
        if not ctx.resilient_parsing:
            return command
        from patchkit.cli.complete import offer

        return offer(cmd_name, command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant; a mistyped one is answered with the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "`patchkit --help` lists the commands"
            raise UsageError(f"no such command {args[0]!r}", place="patchkit", hint=hint)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what a word may become, importing no command for it."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the commands from the table above, by what they are for."""
        width = max(map(len, COMMANDS))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in commands.items()])


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001
    if value and not ctx.resilient_parsing:
        from importlib import metadata

        print("patchkit", metadata.version("patchkit"))
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def patchkit() -> None:
    """Keep patches on vLLM alive.

    \b
    Try it on your own patch:
      patchkit port fix.patch --base v0.28.0 --target v0.29.0
    Keep a series in a repository:
      patchkit init --from v0.28.0
      patchkit rebase v0.29.0

    Exit status: 0 done, 1 refused, 2 usage, 3 conflicts or findings, 70 a bug.
    """


def main() -> None:
    """Run the command line and leave with its exit status."""
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Return the exit status of one command line; what went wrong has then been said."""
    as_json = "--json" in takewhile(lambda word: word != "--", args)
    try:
        status = patchkit.main(list(args), prog_name="patchkit", standalone_mode=False)
        return int(status or ExitCode.DONE)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as err:
        return _refuse(_usage_error(err), as_json)
    except UsageError as err:
        return _refuse(_with_hint(err), as_json)
    except PatchkitError as err:
        return _refuse(err, as_json)
    except (click.Abort, KeyboardInterrupt):
        return _refuse(PatchkitError("interrupted"), as_json)
    except BrokenPipeError:  # the reader of our output has gone; there is nobody left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.REFUSED
    except Exception as err:
        if isinstance(err, OSError) and err.errno == errno.ENOSPC:  # of a pipe to a file, too
            return _refuse(PatchkitError("no space left on device"), as_json=False)
        return _report_bug(err, as_json)


def _usage_error(err: click.UsageError) -> PatchkitError:
    where = err.ctx.command_path if err.ctx else "patchkit"
    message = err.format_message().rstrip(".")
    message = " ".join((message[:1].lower() + message[1:]).split())
    return _with_hint(UsageError(message, place=where))


def _with_hint(err: UsageError) -> UsageError:
    """Return a mistake on the command line with where to read on, if nothing better is said."""
    if err.hint is None and err.place is not None and err.place.split()[0] == "patchkit":
        err.hint = f"`{err.place} --help` has examples"
    return err


def _refuse(err: PatchkitError, as_json: bool) -> int:
    from patchkit.cli import render

    render.show_error(err, as_json=as_json)
    return err.exit_code


def _report_bug(err: Exception, as_json: bool) -> int:
    import traceback

    traceback.print_exception(err)

    fact = f"this is a bug in patchkit ({type(err).__name__}: {err})"
    return _refuse(BugError(fact, hint="please report it with the lines above"), as_json)
