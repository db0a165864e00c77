"""One table of a TOML file read word by word: what is wrong is said with file, table and word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import InvalidVersion, Version

from patchkit.errors import PatchkitError


@dataclass(frozen=True)
class Table:
    """Its words, and where it stands: "formats.toml: formats.fp8.key"."""

    words: dict[str, Any]
    place: str

    def only(self, *known: str) -> None:
        """Raise PatchkitError where the table has a word that is none of these."""
        for word in self.words:
            if word not in known:
                raise PatchkitError(
                    f"unknown word {word!r}",
                    place=self.place,
                    expected="one of " + ", ".join(known),
                )

    def below(self, word: str) -> Table:
        """Return the table of that word, which must be there."""
        value = self.words.get(word)
        if not isinstance(value, dict):
            raise self.wrong(word, "a table")
        return Table(value, f"{self.place}.{word}")

    def integer(self, word: str, default: int | None = None, *, least: int = 0) -> int:
        """Return a whole number; without a default the word must be there."""
        value = self.words.get(word, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.wrong(word, f"a whole number from {least} on")
        return value

    def integers(self, word: str) -> tuple[int, ...]:
        """Return a list of whole numbers from 1 on; empty where the word is not there."""
        values = self.words.get(word, [])
        if not isinstance(values, list) or not all(
            isinstance(value, int) and not isinstance(value, bool) and value > 0 for value in values
        ):
            raise self.wrong(word, "a list of whole numbers from 1 on")
        return tuple(values)

    def text(self, word: str) -> str | None:
        """Return a text; None where the word is not there."""
        value = self.words.get(word)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.wrong(word, "a text")
        return value

    def texts(self, word: str) -> tuple[str, ...]:
        """Return a list of texts with one at least, which must be there."""
        values = self.words.get(word)
        if not isinstance(values, list) or not values:
            raise self.wrong(word, "a list of texts, with one at least")
        if not all(isinstance(value, str) and value for value in values):
            raise self.wrong(word, "a list of texts, with one at least")
        return tuple(values)

    def truth(self, word: str) -> bool:
        """Return true or false; false where the word is not there."""
        value = self.words.get(word, False)
        if not isinstance(value, bool):
            raise self.wrong(word, "true or false")
        return value

    def choice(self, word: str, choices: Sequence[str]) -> str:
        """Return one of some texts; the first where the word is not there."""
        value = self.words.get(word, choices[0])
        if value not in choices:
            raise self.wrong(word, "one of " + ", ".join(f'"{choice}"' for choice in choices))
        return str(value)

    def release(self, word: str) -> str | None:
        """Return a release, such as "0.28.0"; None where the word is not there."""
        value = self.text(word)
        try:
            return value if value is None else str(Version(value))
        except InvalidVersion:
            raise self.wrong(word, 'a release, such as "0.28.0"') from None

    def wrong(self, word: str, expected: str) -> PatchkitError:
        """Return the error for a word that is not what is expected."""
        value = self.words.get(word)
        fact = f"{word} is {_shown(value)}" if word in self.words else f"{word} is missing"
        return PatchkitError(fact, place=self.place, expected=expected)


def _shown(value: object) -> str:
    """Return a value as TOML would have it, or what it is."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    return repr(value)
