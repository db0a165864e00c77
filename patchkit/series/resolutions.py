"""The remembered resolutions of a series folder, as `resolutions.toml` keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import tomlkit

from patchkit.errors import PatchkitError
from patchkit.placing.resolution import Resolution
from patchkit.series.override import (
    ADAPTATION_FIELDS,
    adaptation_table,
    checked,
    multiline,
    parse_adaptation,
)
from patchkit.series.toml_text import read_toml

RESOLUTIONS = "resolutions.toml"
FORMAT = 1
_HEAD = (
    "# Written by `patchkit rebase --continue`: what was made of conflicts, to be used again.\n"
    "# `patchkit resolutions` lists them and takes them back.\n"
)
_MORE: Mapping[str, type] = {
    "patch": str, "resolved_definitions": dict, "definitions": str, "used_on": list,
}  # fmt: skip


def parse_resolutions(data: bytes, place: str) -> tuple[Resolution, ...]:
    """Return the resolutions of a file, in its order; raises PatchkitError for other content."""
    document = read_toml(data, place, FORMAT)
    unknown = sorted(set(document) - {"format", "resolution"})
    if unknown:
        raise PatchkitError(f"unknown field `{unknown[0]}`", place=place)
    rows = document.get("resolution", [])
    if not isinstance(rows, list):
        raise PatchkitError("resolution is no list", place=place, expected="[[resolution]] tables")
    found = tuple(_parse_row(row, f"{place}: resolution {n}") for n, row in enumerate(rows, 1))
    if len({resolution.key for resolution in found}) < len(found):
        raise PatchkitError("has one resolution twice", place=place)
    return found


def format_resolutions(resolutions: Iterable[Resolution]) -> bytes:
    """Return the file, in the order given."""
    parts = [f"{_HEAD}format = {FORMAT}\n"]
    for resolution in resolutions:
        table = adaptation_table(resolution.adaptation)
        names = tomlkit.inline_table()
        names.update(dict(resolution.resolved_definitions))
        table.add("resolved_definitions", names)
        table.add("definitions", multiline(resolution.definitions))
        table.add("used_on", list(resolution.used_on))
        array = tomlkit.aot()
        array.append(tomlkit.table().add("patch", resolution.patch))
        array[0].update(table)
        document = tomlkit.document()
        document.add("resolution", array)
        parts.append("\n" + tomlkit.dumps(document))
    return "".join(parts).encode("utf-8")


def with_resolutions(
    known: Iterable[Resolution], new: Iterable[Resolution]
) -> tuple[Resolution, ...]:
    """Return resolutions with others in place of those for the same hunks, release and file."""
    new = tuple(new)
    keys = {resolution.key for resolution in new}
    return (*(resolution for resolution in known if resolution.key not in keys), *new)


def used(
    resolutions: Iterable[Resolution], keys: Iterable[str], release: str
) -> tuple[Resolution, ...]:
    """Return resolutions, those of the given keys marked as used on a release."""
    keys = set(keys)
    return tuple(
        replace(r, used_on=(*r.used_on, release))
        if r.key in keys and release not in r.used_on
        else r
        for r in resolutions
    )


def _parse_row(row: Any, place: str) -> Resolution:
    fields = checked(row, {**ADAPTATION_FIELDS, **_MORE}, place)
    adaptation = parse_adaptation({name: fields[name] for name in ADAPTATION_FIELDS}, place)
    for name in ("target_definitions", "resolved_definitions"):
        if not all(isinstance(value, str) for value in fields[name].values()):
            raise PatchkitError(f"`{name}` holds something that is not a text", place=place)
    if not all(isinstance(release, str) for release in fields["used_on"]):
        raise PatchkitError("`used_on` holds something that is not a text", place=place)
    found = Resolution(
        fields["patch"],
        adaptation,
        fields["resolved_definitions"],
        fields["definitions"],
        tuple(fields["used_on"]),
    )
    for name, read in (("definitions", lambda: found.texts), ("diff", lambda: found.sections)):
        try:
            read()
        except (PatchkitError, IndexError) as err:
            raise PatchkitError(f"`{name}` is no unified diff: {err}", place=place) from err
    return found
