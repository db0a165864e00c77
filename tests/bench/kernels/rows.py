"""Measured cells, kept as they come, so that a run that was cut short goes on where it was.

A file has one JSON object a line. Each carries the key of what it was measured with: rows of other
sources, of another GPU or of other versions are dropped when the file is opened.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from patchkit.records.checkout import source_sha256
from tests.bench.kernels.cases import Case


@dataclass(frozen=True)
class Row:
    """One column of one case: timed, skipped or failed."""

    case: Case
    column: str
    status: str  # "timed", "skipped" or "failed"
    reason: str = ""  # of what is not timed
    samples_us: tuple[float, ...] = ()  # one call
    cache_bytes: int = 0  # that had to be read
    copy_gbps: float = 0.0  # of a copy in the same run
    error: float | None = None  # relative RMS against float64

    @property
    def name(self) -> str:
        """The cell in a word."""
        return f"{self.column}: {self.case.name}"

    @property
    def us(self) -> float:
        """The median time of a call in microseconds."""
        return statistics.median(self.samples_us)

    @property
    def gbps(self) -> float:
        """GB a second of the bytes that had to be read."""
        return self.cache_bytes / self.us / 1e3

    @property
    def share(self) -> float:
        """What of the copy's bandwidth that is."""
        return self.gbps / self.copy_gbps


def spread(samples: Sequence[float]) -> float:
    """Half of what lies between the quartiles, over the median; 0 of fewer than 4."""
    if len(samples) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(samples, n=4)
    return (high - low) / 2 / middle


def digest(root: Path, sources: Iterable[str], facts: Mapping[str, str]) -> str:
    """The key of a run: every file of the sources, and what else it depends on."""
    measured = {source: source_sha256(root, source) for source in sources}
    return hashlib.sha256(json.dumps([measured, dict(facts)], sort_keys=True).encode()).hexdigest()


class Rows:
    """The rows of one key in a file."""

    def __init__(self, path: Path, key: str, *, resume: bool = True) -> None:
        """Read what is timed there under this key, and forget all else."""
        self.path, self.key = path, key
        self.kept: dict[tuple[Case, str], Row] = {}  # by the whole case: its name lacks block size
        lines = path.read_text(encoding="utf-8").splitlines() if resume and path.exists() else []
        for line in lines:
            found = _parsed(line)
            if found is not None and found[0] == key and found[1].status == "timed":
                self.kept[found[1].case, found[1].column] = found[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text("".join(_line(key, row) for row in self), encoding="utf-8")
        partial.replace(path)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.kept.values())

    def add(self, row: Row) -> None:
        """Keep a row, on the disk too."""
        self.kept[row.case, row.column] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line(self.key, row))

    def get(self, case: Case, column: str) -> Row | None:
        """The row of a cell, or None."""
        return self.kept.get((case, column))


def _line(key: str, row: Row) -> str:
    return json.dumps({"key": key, **asdict(row)}) + "\n"


def _parsed(line: str) -> tuple[str, Row] | None:
    """The key and row of a line, or None of one that was cut off as it was written."""
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    key = found.pop("key")
    case, samples = Case(**found.pop("case")), tuple(found.pop("samples_us"))
    return key, Row(case=case, samples_us=samples, **found)
