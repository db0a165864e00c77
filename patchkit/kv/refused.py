"""That a release cannot serve something, on the way from the step that finds it to the plan."""

from __future__ import annotations


class RefusedError(Exception):
    """Raised where a release would refuse to start, or would go wrong; `plan` makes a value of it.

    The three texts are those of `Refusal`.
    """

    def __init__(self, reason: str, *, expected: str | None = None, hint: str | None = None):
        self.reason = reason
        self.expected = expected
        self.hint = hint
        super().__init__(reason)
