"""What interpreters loaded of a series: the modules that it changes, and who else holds their code.

Values, and how they are read off what the probe reported; `imported` runs the interpreters.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from patchkit.verifying import probe
from patchkit.verifying.expected import Expected


class LoadedState(StrEnum):
    """What one interpreter has of one module."""

    PATCHED = "patched"
    PRISTINE = "pristine"
    MIXED = "mixed"
    CHANGED = "changed"
    ELSEWHERE = "elsewhere"
    UNTOLD = "untold"
    NOT_LOADED = "not loaded"


@dataclass(frozen=True)
class LoadedModule:
    """One module of one process: the file it came from, and what of the series is in it.

    `names` are the definitions that have not what the series gives them.
    """

    module: str
    path: str
    file: str | None
    state: LoadedState
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Holder:
    """A name elsewhere that still holds code without the patches: `vllm.core.plan` holds
    `vllm.sizes.unify`.
    """

    holder: str
    module: str
    name: str
    state: str


@dataclass(frozen=True)
class Process:
    """One interpreter that loaded the package."""

    pid: int
    command: tuple[str, ...]
    modules: tuple[LoadedModule, ...]
    holders: tuple[Holder, ...]
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class Imported:
    """What the interpreters reported; `problems` is what kept one from it.

    `command_status` is the exit status of a command that ran to its end.
    """

    processes: tuple[Process, ...]
    problems: tuple[str, ...] = ()
    command_status: int | None = None

    @property
    def ok(self) -> bool:
        """Whether something of the series was loaded, and nothing but what the series makes."""
        loaded = [
            module
            for process in self.processes
            for module in process.modules
            if module.state is not LoadedState.NOT_LOADED
        ]
        clean = all(not (process.holders or process.errors) for process in self.processes)
        patched = all(module.state is LoadedState.PATCHED for module in loaded)
        return bool(loaded) and patched and clean and not self.problems


@dataclass(frozen=True)
class Wanted:
    """One module of the series: where it lies and what it is without and with the patches.

    A text is None where there is no such file. A whole new file has neither; its `sha256` says what
    it is.
    """

    module: str
    path: str
    pristine: str | None
    patched: str | None
    sha256: str | None = None


def wanted_modules(expected: Expected) -> tuple[Wanted, ...]:
    """Return the modules that a series changes or brings, in order of path."""
    found = []
    for path, file in expected.files.items():
        if path.endswith(".py") and file.before != file.content:
            texts = (None if data is None else data.decode("utf-8", "surrogateescape")
                     for data in (file.before, file.content))  # fmt: skip
            found.append(Wanted(module_name(path), path, *texts))
    for path, (_, sha256) in expected.overlay.items():
        if path.endswith(".py"):
            found.append(Wanted(module_name(path), path, None, None, sha256))
    return tuple(sorted(found, key=lambda wanted: wanted.path))


def module_name(path: str) -> str:
    """Return the name under which a file of the package is imported."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def read_process(document: Mapping[str, Any], root: Path, wanted: Sequence[Wanted]) -> Process:
    """Return what one interpreter reported, against the series; `root` is where it should lie."""
    by_module = {w.module: w for w in wanted}
    began = document["began"]
    modules = (_module(row, root, by_module[row["module"]], began) for row in document["modules"])
    errors = (f"{error['module']}: {error['text']}" for error in document["errors"])
    held = (Holder(h["holder"], h["module"], h["name"], h["state"]) for h in document["holders"])
    return Process(
        document["pid"], tuple(document["command"]), tuple(modules), tuple(held), tuple(errors)
    )


def _module(row: Mapping[str, Any], root: Path, wanted: Wanted, began: float) -> LoadedModule:
    file, path = row["file"], wanted.path
    if not row["loaded"]:
        return LoadedModule(wanted.module, path, None, LoadedState.NOT_LOADED)
    expected = root / path
    if file is None or not _is_same(Path(file), expected):
        return LoadedModule(wanted.module, path, file, LoadedState.ELSEWHERE)
    odd = tuple(sorted(n for n, s in row["names"].items() if s in (probe.PRISTINE, probe.OTHER)))
    return LoadedModule(
        wanted.module, path, file, _state(row["names"], expected, wanted, began), odd
    )


def _state(names: Mapping[str, str], file: Path, wanted: Wanted, began: float) -> LoadedState:
    states = set(names.values()) - {probe.UNKNOWN}
    if wanted.patched is None and wanted.sha256 is None:
        return LoadedState.PRISTINE  # the series takes the file away
    if not states:  # nothing in it can be told apart: then its file says what it is
        written = max(file.stat().st_mtime, file.stat().st_ctime)
        same = _says_the_same(wanted)
        return LoadedState.UNTOLD if written >= began and not same else _state_of_file(file, wanted)
    if states == {probe.PATCHED}:
        return LoadedState.PATCHED
    if states == {probe.PRISTINE}:
        return LoadedState.PRISTINE
    return LoadedState.CHANGED if probe.OTHER in states else LoadedState.MIXED


def _says_the_same(wanted: Wanted) -> bool:
    """Whether the series changes nothing but comments and layout of a module."""
    if wanted.pristine is None or wanted.patched is None:
        return False
    return ast.dump(ast.parse(wanted.pristine)) == ast.dump(ast.parse(wanted.patched))


def _state_of_file(file: Path, wanted: Wanted) -> LoadedState:
    data = file.read_bytes()
    if wanted.sha256 is not None:
        same = hashlib.sha256(data).hexdigest() == wanted.sha256
        return LoadedState.PATCHED if same else LoadedState.CHANGED
    texts = {LoadedState.PATCHED: wanted.patched, LoadedState.PRISTINE: wanted.pristine}
    for state, text in texts.items():
        if text is not None and text.encode("utf-8", "surrogateescape") == data:
            return state
    return LoadedState.CHANGED


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def faults(imported: Imported) -> Iterator[str]:
    """Yield what is wrong, a sentence each."""
    for process in imported.processes:
        name = f"process {process.pid}"
        for error in process.errors:
            yield f"{name}: cannot import {error}"
        for module in process.modules:
            if module.state not in (LoadedState.PATCHED, LoadedState.NOT_LOADED):
                yield f"{name}: {_said(module)}"
        for holder in process.holders:
            what = "the code without the patch" if holder.state == probe.PRISTINE else "other code"
            yield f"{name}: {holder.holder} holds {what}: {holder.module}.{holder.name}"
    yield from imported.problems
    if imported.processes and not any(
        module.state is not LoadedState.NOT_LOADED
        for process in imported.processes
        for module in process.modules
    ):
        yield "no module that the series changes was loaded"


def _said(module: LoadedModule) -> str:
    if module.state is LoadedState.ELSEWHERE:
        return f"{module.module} was loaded from {module.file or 'no file'}"
    if module.state is LoadedState.UNTOLD:
        return f"{module.module} cannot be told: its file was written after the process began"
    names = f": {', '.join(module.names)}" if module.names else ""
    return f"{module.module} is {module.state.value}{names}"
