"""A run record as values and as JSON, as docs/schema/run-record-1.json describes it.

A record carries the sha256 of its own content, so that one that was edited is refused when read.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError

SCHEMA = "patchkit.run-record/1"
SHA256 = re.compile(r"[0-9a-f]{64}")
ROW_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


@dataclass(frozen=True)
class Workload:
    """What was asked of the subject; None where that has no meaning for it.

    Lengths and `cached_tokens` are in tokens; `new_tokens` are those of one step of a kernel, or
    those that a request generates. `cache` is "cold" or "warm".
    """

    context: int | None = None
    new_tokens: int | None = None
    batch: int | None = None
    draft_length: int | None = None
    cached_tokens: int | None = None
    kv_format: str | None = None
    block_size: int | None = None
    cache: str | None = None


@dataclass(frozen=True)
class Row:
    """One figure: what was measured of which subject; `value` is the median of n samples.

    `spread` is half the interquartile range, None of a single sample.
    """

    row: str
    subject: str
    measured: str
    unit: str
    value: float
    n: int
    spread: float | None
    least: float
    most: float
    workload: Workload


@dataclass(frozen=True)
class VerifiedTree:
    """The patched tree that an engine ran: its release, and the sha256 of its files."""

    sha256: str
    release: str


@dataclass(frozen=True)
class Record:
    """One run: what holds for all of its rows, and the rows by their id.

    `header` is the document without rows and digest.
    """

    name: str
    header: Mapping[str, Any]
    rows: Mapping[str, Row]

    @property
    def kind(self) -> str:
        """What was run and on which GPU, as `verify-attention-h200`, whatever the day."""
        gpu = self.header["gpu"]
        return f"{self.header['name']}-{gpu_slug(gpu and gpu.get('name'))}"

    @property
    def tree(self) -> VerifiedTree | None:
        """The tree that the engine ran, where one did."""
        tree = self.header["tree"]
        return None if tree is None else VerifiedTree(tree["sha256"], tree["release"])


def gpu_slug(name: str | None) -> str:
    """Return a GPU's name as file names have it: NVIDIA H200 is h200, none is cpu."""
    words = re.findall(r"[a-z0-9]+", (name or "cpu").lower())
    return "-".join(w for w in words if w not in ("nvidia", "geforce", "tesla")) or "gpu"


def content_sha256(document: Mapping[str, Any]) -> str:
    """Return the sha256 of a record's content: canonical JSON without the digest itself."""
    content = {key: value for key, value in document.items() if key != "digest"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def row_to_json(row: Row) -> dict[str, Any]:
    """Return a row as the record holds it."""
    return {
        "row": row.row,
        "subject": row.subject,
        "measured": row.measured,
        "unit": row.unit,
        "value": row.value,
        "n": row.n,
        "median": row.value,
        "spread": {
            "kind": "half the interquartile range",
            "value": row.spread,
            "min": row.least,
            "max": row.most,
        },
        "workload": asdict(row.workload),
    }


def format_record(header: Mapping[str, Any], rows: Mapping[str, Row]) -> str:
    """Return a record as JSON text, with its digest."""
    document = {**header, "rows": [row_to_json(row) for row in rows.values()]}
    document["digest"] = content_sha256(document)
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_record(path: Path) -> Record:
    """Return the record in a file; refuse one that is damaged or was edited."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise PatchkitError(f"cannot be read: {err}", place=str(path)) from err
    return parse_record(text, name=path.stem, place=str(path))


def parse_record(text: str, *, name: str, place: str) -> Record:
    """Return the record in a JSON text; refuse one that is damaged or was edited."""
    try:
        document = json.loads(text, object_pairs_hook=_once)
        digest = content_sha256(document) if isinstance(document, dict) else ""
    except (ValueError, RecursionError) as err:
        raise PatchkitError(f"not valid JSON: {err}", place=place) from err
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise PatchkitError("is no run record", place=place, expected=f'"schema": "{SCHEMA}"')
    if document.get("digest") != digest:
        raise PatchkitError(
            "was edited: its content is not what its digest says", place=place,
            expected="a record as the benchmark wrote it", hint="measure again",
        )  # fmt: skip
    _check_header(document, place)
    rows: dict[str, Row] = {}
    for at, entry in enumerate(document["rows"]):
        row = parse_row(entry, f"{place}: rows[{at}]")
        if row.row in rows:
            raise PatchkitError(f"row {row.row!r} is there twice", place=place)
        rows[row.row] = row
    header = {key: value for key, value in document.items() if key not in ("rows", "digest")}
    return Record(name, header, rows)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


_HEADER: Mapping[str, tuple[type, ...]] = {
    "name": (str,), "began": (str,), "ended": (str,), "command": (list,), "commit": (str,),
    "sources": (dict,), "engine": (bool,), "tree": (dict, type(None)),
    "gpu": (dict, type(None)), "machine": (dict,), "rows": (list,),
}  # fmt: skip
# What of these tables figures are held against.
_FIELDS: Sequence[tuple[str, str, tuple[type, ...]]] = (
    ("gpu", "name", (str,)), ("gpu", "driver", (str,)),
    ("gpu", "power_limit_w", (int, float, type(None))),
    ("machine", "cpu", (str,)), ("machine", "cores", (int,)), ("machine", "versions", (dict,)),
)  # fmt: skip
# A posix path that leads nowhere but into the project.
_WITHIN = re.compile(r"(?!/)(?!(?:.*/)?\.\.(?:/|$)).+")


def _check_header(document: Mapping[str, Any], place: str) -> None:
    for key, types in _HEADER.items():
        if key not in document:
            raise PatchkitError(f"{key} is missing", place=place)
        if not isinstance(document[key], types):
            raise _wrong(key, document[key], " or ".join(t.__name__ for t in types), place)
    _texts(document["command"], "command", re.compile(r".*", re.DOTALL), place)
    _texts(document["sources"], "sources", _WITHIN, place)
    _texts(document["sources"].values(), "sources", SHA256, place)
    if document["tree"] is not None:
        _texts([document["tree"].get("sha256")], "tree.sha256", SHA256, place)
        _texts([document["tree"].get("release")], "tree.release", re.compile(".+"), place)
    for name, key, types in _FIELDS:
        table = document[name]
        if table is not None and type(table.get(key)) not in types:
            listed = " or ".join(t.__name__ for t in types)
            raise _wrong(f"{name}.{key}", table.get(key), listed, place)
    versions = document["machine"]["versions"].values()
    _texts((v for v in versions if v is not None), "machine.versions", re.compile(".+"), place)


def _texts(values: Any, key: str, form: re.Pattern[str], place: str) -> None:
    for value in values:
        if not isinstance(value, str) or not form.fullmatch(value):
            raise _wrong(key, value, form.pattern, place)


def _wrong(key: str, value: object, expected: str, place: str) -> PatchkitError:
    return PatchkitError(f"{key} is {value!r}", place=place, expected=expected)


def parse_row(entry: Any, place: str) -> Row:
    """Return a row from what a record or a saved state holds."""
    if not isinstance(entry, dict):
        raise _wrong("the row", entry, "a table", place)
    for key in ("row", "subject", "measured", "unit"):
        _texts([entry.get(key)], key, ROW_ID if key == "row" else re.compile(r"\S.*"), place)
    spread = entry.get("spread")
    if not isinstance(spread, dict):
        raise _wrong("spread", spread, "a table", place)
    if type(entry.get("n")) is not int or entry["n"] < 1:
        raise _wrong("n", entry.get("n"), "how many samples there are", place)
    if entry.get("median") != entry.get("value"):
        raise _wrong("value", entry.get("value"), "the median", place)
    half = spread.get("value")
    return Row(
        entry["row"], entry["subject"], entry["measured"], entry["unit"],
        _number(entry.get("value"), "value", place), entry["n"],
        None if half is None else _number(half, "spread.value", place),
        _number(spread.get("min"), "spread.min", place),
        _number(spread.get("max"), "spread.max", place),
        parse_workload(entry.get("workload"), place),
    )  # fmt: skip


def _number(value: object, key: str, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise _wrong(key, value, "a finite number", place)
    return value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float holds
        return False


def parse_workload(table: Any, place: str) -> Workload:
    """Return a workload from a table; refuse unknown fields, and values of another type."""
    if not isinstance(table, dict):
        raise _wrong("workload", table, "a table", place)
    known = {field.name: field.type for field in fields(Workload)}
    for key, value in table.items():
        if key not in known:
            raise PatchkitError(
                f"workload has no field {key!r}", place=place, expected=", ".join(known)
            )
        wanted = int if "int" in str(known[key]) else str
        if value is not None and (not isinstance(value, wanted) or isinstance(value, bool)):
            raise _wrong(f"workload.{key}", value, wanted.__name__, place)
        if key == "cache" and value not in (None, "cold", "warm"):
            raise _wrong("workload.cache", value, "cold or warm", place)
        if isinstance(value, int) and value < 0:
            raise _wrong(f"workload.{key}", value, "no less than 0", place)
    return Workload(**table)
