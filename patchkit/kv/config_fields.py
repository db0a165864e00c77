"""The fields of a config.json, read one by one: what is wrong names the file and the field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from patchkit.errors import PatchkitError

# Beyond any model. A file of a few bytes is not to ask for a list that fills the memory.
_MOST, _MOST_LAYERS = 1 << 40, 100_000


@dataclass(frozen=True)
class Fields:
    """A mapping of a config.json, or one inside it, and what fills in for fields left out.

    `prefix` is where in the file it lies ("text_config."). `notes` grows by one line for each
    field that was left out and filled in.
    """

    values: Mapping[str, object]
    file: str
    prefix: str = ""
    defaults: Mapping[str, object] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def wrong(self, name: str, fact: str, expected: str, hint: str | None = None) -> PatchkitError:
        """Return the error about a field, to be raised."""
        place = f"{self.file}: {self.prefix}{name}"
        return PatchkitError(fact, place=place, expected=expected, hint=hint)

    def given(self, name: str) -> bool:
        """Return whether the file has the field, and not as null."""
        return self.values.get(name) is not None

    def note(self, text: str) -> None:
        """Keep what was assumed, once."""
        if text not in self.notes:
            self.notes.append(text)

    def fill(self, name: str, value: object, why: str = "") -> None:
        """Keep that a field was left out, and what stands in for it."""
        source = f"{why} = {value}" if why else str(value)
        self.note(f"{self.prefix}{name} is not given: {source}")

    def count(self, name: str) -> int:
        """Return a field that is a positive integer; the family's default where it is left out."""
        if not self.given(name) and name in self.defaults:
            value = self.defaults[name]
            assert isinstance(value, int)
            self.fill(name, value)
            return value
        return self._whole(name, 1)

    def number(self, name: str) -> int:
        """Return a field that is 0 or a positive integer; the default, or 0, if left out."""
        if name not in self.values:
            return self.count(name) if name in self.defaults else 0
        return self._whole(name, 0)

    def _whole(self, name: str, least: int) -> int:
        expected = "a positive integer" if least else "0 or a positive integer"
        if name not in self.values:
            raise self.wrong(name, "the field is missing", expected)
        value = self.values[name]
        # bool is an int in Python, and 4096.0 is no number of anything here
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(name, f"is {_shown(value)}", expected)
        most = _MOST_LAYERS if name.endswith("_layers") else _MOST
        if value > most:
            raise self.wrong(name, f"is {_shown(value)}", f"{most:,} at most")
        return value

    def flag(self, name: str) -> bool:
        """Return a field that is true or false; false where it is left out."""
        value = self.values.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(name, f"is {_shown(value)}", "true or false")
        return value

    def text(self, name: str) -> str | None:
        """Return a field that is a string, or None where it is left out."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, f"is {_shown(value)}", "a string")
        return value

    def texts(self, name: str, among: tuple[str, ...], length: int) -> tuple[str, ...] | None:
        """Return a list of `length` strings of a few, or None where it is left out."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, f"is {_shown(value)}", f"a list of {length} strings")
        for index, entry in enumerate(value):
            if entry not in among:
                raise self.wrong(
                    f"{name}[{index}]", f"is {_shown(entry)}", f"one of {', '.join(among)}"
                )
        if len(value) != length:
            fact = f"has {len(value)} entries"
            raise self.wrong(name, fact, f"{length}, as many as num_hidden_layers says")
        return tuple(value)

    def part(self, name: str) -> Fields | None:
        """Return the mapping in a field, or None where it is left out; it has no defaults."""
        value = self.values.get(name, self.defaults.get(name))
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.wrong(name, f"is {_shown(value)}", "a mapping")
        if name not in self.values:
            self.fill(name, ", ".join(f"{key} {part}" for key, part in value.items()))
        return Fields(value, self.file, f"{self.prefix}{name}.", notes=self.notes)


def _shown(value: object) -> str:
    """A value as JSON has it, cut short."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | Mapping):
        return "a list" if isinstance(value, list) else "a mapping"
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
