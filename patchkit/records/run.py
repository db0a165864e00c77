"""A run that is being measured: begun on a clean tree, written once, as a record.

with Run.begin("verify-attention", root=ROOT, sources=("kvarn_port",), command=sys.argv) as run:
    run.add("verify attention, int8", samples, "µs", Workload(context=131072), row="int8-128k")
    run.write(ROOT / "docs" / "records")
"""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from types import TracebackType
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.records.checkout import Checkout, read_checkout
from patchkit.records.machine import Gpu, Machine, read_gpu, read_machine
from patchkit.records.manifest import Manifest, is_within, read_manifest
from patchkit.records.record import (
    ROW_ID,
    SCHEMA,
    SHA256,
    Row,
    VerifiedTree,
    Workload,
    format_record,
    gpu_slug,
    parse_row,
    parse_workload,
    row_to_json,
)

__all__ = ["Run", "VerifiedTree", "Workload"]

_STATE = "patchkit.run-state/1"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
# What two parts of one run have in common; clocks and times are each part's own.
_SHARED = ("schema", "name", "commit", "sources", "engine", "tree", "machine")


@dataclass
class Run:
    """A run: where and what is measured, as it was at the beginning, and the rows so far."""

    name: str
    root: Path
    command: tuple[str, ...]
    checkout: Checkout
    machine: Machine
    gpu: Gpu | None
    uses_gpu: bool
    tree: VerifiedTree | None
    manifest: Manifest | None
    began: datetime
    engine: bool
    rows: dict[str, Row] = field(default_factory=dict)

    @classmethod
    def begin(
        cls,
        name: str,
        *,
        root: Path,
        sources: Sequence[str],
        command: Sequence[str],
        tree: VerifiedTree | None = None,
        engine: bool | None = None,
        manifest: Path | Manifest | None = None,
        uses_gpu: bool = True,
    ) -> Run:
        """Return a run that begins now; refuse a tree that is not what was committed.

        `sources` are the files and folders of the project whose code is measured, and that of the
        benchmark. `tree` is what an engine runs; a run that is said to be an engine's needs it.
        Without `.git` under `root` a `manifest` says what was committed. With `uses_gpu` false no
        GPU is named, should there be one.
        """
        if not _NAME.fullmatch(name):
            raise PatchkitError(f"{name!r} is no name of a run", expected="words-with-hyphens")
        if not sources:
            raise PatchkitError("no sources", place=name, expected="the code that is measured")
        if tree is not None and not SHA256.fullmatch(tree.sha256):
            fact = f"the tree's sha256 is {tree.sha256!r}"
            raise PatchkitError(fact, place=name, expected="64 hexadecimal digits")
        is_engine = tree is not None if engine is None else engine
        if is_engine and tree is None:
            raise PatchkitError(
                "an engine is measured whose tree was not verified", place=name,
                expected="tree=VerifiedTree(…)", hint="`patchkit verify` says what a tree holds",
            )  # fmt: skip
        if isinstance(manifest, Path | str):
            manifest = read_manifest(Path(manifest))
        root = root.resolve()
        return cls(
            name, root, tuple(_portable(word, root) for word in command),
            read_checkout(root, sources, manifest), read_machine(),
            read_gpu() if uses_gpu else None, uses_gpu, tree, manifest, datetime.now(UTC),
            is_engine,
        )  # fmt: skip

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        err: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Write nothing: a run that was not written leaves nothing."""

    def add(
        self,
        measured: str,
        samples: Sequence[float],
        unit: str,
        workload: Workload,
        *,
        row: str,
        subject: str = "ours",
    ) -> Row:
        """Return the row that the samples give, which the run now has.

        What stands behind a comma in `measured` is the variant, which may differ in a ratio.
        """
        place = f"{self.name}#{row}"
        if not ROW_ID.fullmatch(row):
            raise PatchkitError(f"{row!r} is no id of a row", place=self.name, expected="no blanks")
        if row in self.rows:
            raise PatchkitError("the row is there already", place=place, expected="another id")
        values = [float(sample) for sample in samples]
        if not values or not all(map(math.isfinite, values)):
            raise PatchkitError("no samples, or not finite", place=place, expected="numbers")
        parse_workload(asdict(workload), place)
        spread = None
        if len(values) > 1:
            low, _, high = quantiles(values, n=4, method="inclusive")
            spread = (high - low) / 2
        added = Row(
            row, subject, measured, unit, median(values), len(values), spread,
            min(values), max(values), workload,
        )  # fmt: skip
        parse_row(row_to_json(added), place)
        self.rows[row] = added
        return added

    def to_state(self) -> dict[str, Any]:
        """Return all of this so far, for JSON, from which another process can go on."""
        rows = [row_to_json(row) for row in self.rows.values()]
        return {"state": _STATE, "header": self._header(self.gpu, self.began), "rows": rows}

    def resume(self, state: Mapping[str, Any]) -> list[str]:
        """Return the ids of the rows of an earlier part of this run, which it now has.

        Refuses a part of other code, another tree or another machine, and a row that is there.
        """
        if state.get("state") != _STATE:
            raise PatchkitError("is no state of a run", place=self.name)
        header, earlier = self._header(self.gpu, self.began), state["header"]
        other = [key for key in _SHARED if earlier.get(key) != header[key]]
        if _lasting(earlier.get("gpu")) != _lasting(header["gpu"]):
            other.append("gpu")
        if other:
            raise PatchkitError(
                f"the earlier part differs in {', '.join(other)}", place=self.name,
                hint="measure all of it again",
            )  # fmt: skip
        rows = [parse_row(entry, self.name) for entry in state["rows"]]
        if twice := [row.row for row in rows if row.row in self.rows]:
            raise PatchkitError(f"the row {twice[0]!r} is there already", place=self.name)
        self.rows |= {row.row: row for row in rows}
        self.began = min(self.began, datetime.fromisoformat(earlier["began"]))
        return [row.row for row in rows]

    def write(self, folder: Path) -> Path:
        """Return the file that the record was written to, a new one, whole or not at all.

        Refuses a run without rows, and one during which the tree, or the GPU's power limit or
        driver, became another.
        """
        if not self.rows:
            raise PatchkitError("nothing was measured", place=self.name)
        within = folder.resolve()
        if within.is_relative_to(self.root) and is_within(
            within.relative_to(self.root).as_posix(), self.checkout.sources
        ):
            raise PatchkitError(
                "records lie in a source, which the next one would change", place=str(folder),
                expected="a folder beside the code that is measured",
            )  # fmt: skip
        gpu = read_gpu() if self.uses_gpu else None
        header = self._header(gpu, datetime.now(UTC))
        if _lasting(header["gpu"]) != _lasting(self._header(self.gpu, self.began)["gpu"]):
            raise PatchkitError("the GPU, its driver or its power limit changed", place=self.name)
        now = read_checkout(self.root, tuple(self.checkout.sources), self.manifest)
        if now != self.checkout:
            raise PatchkitError("the tree changed while it was measured", place=self.name)
        stem = f"{self.name}-{self.began:%Y-%m-%d}-{gpu_slug(self.gpu.name if self.gpu else None)}"
        try:
            return _write_new(folder, stem, format_record(header, self.rows))
        except OSError as err:
            raise PatchkitError(f"cannot be written: {err}", place=str(folder)) from err

    def _header(self, after: Gpu | None, ended: datetime) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "name": self.name,
            "began": self.began.isoformat(timespec="seconds"),
            "ended": ended.isoformat(timespec="seconds"),
            "command": list(self.command),
            "commit": self.checkout.commit,
            "sources": dict(self.checkout.sources),
            "engine": self.engine,
            "tree": None if self.tree is None else asdict(self.tree),
            "gpu": _gpu_to_json(self.gpu, after),
            "machine": {
                "cpu": self.machine.cpu,
                "cores": self.machine.cores,
                "versions": dict(self.machine.versions),
            },
        }


def _gpu_to_json(before: Gpu | None, after: Gpu | None) -> dict[str, Any] | None:
    if before is None or after is None:
        return None
    return {
        "name": after.name,
        "driver": after.driver,
        "power_limit_w": after.power_limit_w,
        "before": asdict(before.state),
        "after": asdict(after.state),
    }


def _lasting(gpu: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what of a GPU must not change within a run."""
    if gpu is None:
        return None
    return {key: gpu[key] for key in ("name", "driver", "power_limit_w")}


def _portable(word: str, root: Path) -> str:
    """Return a word of a command without the place of this project on this machine."""
    if not Path(word).is_absolute():
        return word
    path = Path(word)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _write_new(folder: Path, stem: str, text: str) -> Path:
    """Write a text under a name that no file has, by linking it there when it is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=folder, prefix=f".{stem}.")
    staged = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        staged.chmod(0o644)
        number = 1
        while True:
            path = folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")
            with suppress(FileExistsError):
                os.link(staged, path)  # fails where the name is taken, which a rename does not
                return path
            number += 1
    finally:
        staged.unlink()
