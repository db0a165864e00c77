"""The one exception that a user's mistake raises, and the exit codes."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit status of every command."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    FINDINGS = 3
    BUG = 70


class PatchkitError(Exception):
    """A user's mistake: where it is, what was found, what was expected, and what to do.

    `str()` gives `place: fact` and, where known, `, expected EXPECTED`; the hint stays apart so
    that a terminal can set it on a line of its own.
    """

    exit_code = ExitCode.REFUSED

    def __init__(
        self,
        fact: str,
        *,
        place: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.place = place
        self.fact = fact
        self.expected = expected
        self.hint = hint
        super().__init__(fact, place, expected, hint)

    def __str__(self) -> str:
        text = f"{self.place}: {self.fact}" if self.place else self.fact
        return f"{text}, expected {self.expected}" if self.expected else text


class UsageError(PatchkitError):
    """A command line or configuration that cannot be understood."""

    exit_code = ExitCode.USAGE
