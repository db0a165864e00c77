"""The stored records: found by what a mark names, and held against the tree as it is now."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from patchkit.errors import PatchkitError
from patchkit.records.checkout import source_sha256
from patchkit.records.record import Record, Row, read_record
from patchkit.records.units import ENGINE_KINDS, parse_unit

FIELDS = ("value", "median", "min", "max", "spread", "n")


class RefusedError(PatchkitError):
    """A claim that is not backed, with the rule that it breaks."""

    def __init__(self, rule: str, fact: str, *, hint: str | None = None) -> None:
        super().__init__(fact, hint=hint)
        self.rule = rule


@dataclass(frozen=True)
class Named:
    """A row that a mark names, the record that it is in, and which of its values is meant."""

    record: Record
    row: Row
    field: str

    @property
    def value(self) -> Decimal:
        """The value, in the row's unit, as the record has it."""
        row = self.row
        values = {"min": row.least, "max": row.most, "spread": row.spread, "n": row.n}
        value = values.get(self.field, row.value)
        if value is None:
            raise RefusedError("missing-row", f"{row.row!r} has no {self.field}: n is {row.n}")
        return Decimal(str(value))


@dataclass
class Library:
    """The records of a folder; each is read, and each source hashed, when first asked for."""

    root: Path
    folder: Path
    _read: dict[str, Record | PatchkitError] = field(default_factory=dict)
    _sources: dict[str, str | None] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return the names of the records, in order."""
        return sorted(p.stem for p in self.folder.glob("*.json") if not p.name.startswith("."))

    def refused(self) -> Iterator[tuple[str, PatchkitError]]:
        """Yield the records that cannot be read, each with why."""
        for name in self.names():
            found = self._record(name)
            if isinstance(found, PatchkitError):
                yield name, found

    def _record(self, name: str) -> Record | PatchkitError:
        if name not in self._read:
            try:
                self._read[name] = read_record(self.folder / f"{name}.json")
            except PatchkitError as err:
                self._read[name] = err
        return self._read[name]

    def find(self, reference: str) -> Named:
        """Return what `RECORD#ROW` or `RECORD#ROW.FIELD` names; refuse what is not there."""
        name, mark, row = reference.partition("#")
        if not mark or not name or not row:
            raise RefusedError("bad-mark", f"{reference!r} names no row, as in RECORD#ROW")
        if name not in self.names():
            raise RefusedError("missing-record", f"no record {name}", hint=near(name, self.names()))
        record = self._record(name)
        if isinstance(record, PatchkitError):
            raise RefusedError("edited-record", f"record {name} {record.fact}", hint=record.hint)
        head, dot, last = row.rpartition(".")
        if row in record.rows:
            return Named(record, record.rows[row], "value")
        if dot and head in record.rows and last in FIELDS:
            return Named(record, record.rows[head], last)
        fact = f"record {name} has no row {row}"
        raise RefusedError("missing-row", fact, hint=near(row, list(record.rows)))

    def check(self, named: Named) -> None:
        """Refuse a row whose code is another by now, or an engine's whose tree was not verified."""
        record = named.record
        for source, sha256 in record.header["sources"].items():
            if self._now(source) != sha256:
                raise RefusedError(
                    "stale", f"record {record.name} is stale: {source} has changed since",
                    hint="measure again",
                )  # fmt: skip
        unit = parse_unit(named.row.unit)
        is_engine = record.header["engine"] or (unit is not None and unit.kind in ENGINE_KINDS)
        if is_engine and record.tree is None:
            raise RefusedError(
                "no-tree",
                f"record {record.name} measured an engine and has no verified tree",
                hint="measure the patched tree, with tree=VerifiedTree(…)",
            )

    def _now(self, source: str) -> str | None:
        if source not in self._sources:
            there = (self.root / source).exists()
            self._sources[source] = source_sha256(self.root, source) if there else None
        return self._sources[source]


def near(name: str, names: list[str]) -> str | None:
    """Return a hint at the name that is nearest, None where none is near."""
    found = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {found[0]}?" if found else None
