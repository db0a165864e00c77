"""The rules by their stable names, and what breaks one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether a patch may be kept like that."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Rule:
    """One rule: how bad it is, what breaks it, for a table, and whether `--fix` repairs that."""

    severity: Severity
    breaks: str
    fixed: bool = False


def _error(breaks: str, *, fixed: bool = False) -> Rule:
    return Rule(Severity.ERROR, breaks, fixed)


def _warning(breaks: str, *, fixed: bool = False) -> Rule:
    return Rule(Severity.WARNING, breaks, fixed)


RULES = {
    "unreadable": _error("the patch, its header or the series that it is in cannot be read"),
    "not-utf8": _error("the header is in another encoding than UTF-8"),
    "no-header": _error("there is no header at all"),
    "missing-field": _error("a field that every stored patch must have is not there"),
    "empty-field": _error("such a field says nothing"),
    "doubled-field": _error("a field is there twice that can have one value only"),
    "bad-value": _error("a value is not in the form that its field has"),
    "misspelt-field": _error("a field has nearly the name of a known one", fixed=True),
    "unknown-field": _warning("a field has a name that nothing reads; `X-` marks your own"),
    "field-case": _warning("a known field is written in other letters", fixed=True),
    "field-order": _warning("the fields are in another order than the usual one", fixed=True),
    "placeholder": _warning("a value holds TODO, FIXME, TBD or XXX"),
    "long-subject": _warning("the first line of Description has more than 72 columns"),
    "subject-period": _warning("the first line of Description ends with a period"),
    "reason-repeats": _warning("Reason says what Description says already"),
    "unclear-forwarded": _warning("Forwarded says neither no nor not-needed, and gives no number"),
    "untestable-exit": _warning("Exit-Condition names nothing to try, and there is no Exit-When"),
    "repeated-bug": _warning("two fields name the same bug"),
    "future-date": _error("Last-Update lies in the future"),
    "range-excludes-release": _error("Applies-To does not hold the release that it is stored for"),
    "range-too-wide": _warning("Applies-To holds releases where it is neither stored nor proven"),
    "unknown-dependency": _error("Depends-On names no patch of the series, or more than one"),
    "late-dependency": _error("Depends-On names a patch that comes later"),
    "missing-test": _error("Test names a file that is not there"),
    "long-line": _warning("a line that could be broken has more than 100 columns"),
    "tab": _warning("a line holds a tab"),
    "trailing-blank": _warning("a line ends with a blank", fixed=True),
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One rule that a patch breaks: at which line (1-based), what is so, what would be right."""

    rule: str
    place: str
    lineno: int
    text: str
    hint: str | None = None

    @property
    def severity(self) -> Severity:
        """How bad that is."""
        return RULES[self.rule].severity


@dataclass(frozen=True)
class Repair:
    """One thing that was put right, at a line of the file as it was."""

    rule: str
    lineno: int
    text: str
