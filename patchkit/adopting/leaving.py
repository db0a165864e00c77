"""A stored series as other tools take it: plain diffs, mails, or a quilt folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchkit.adopting.mailing import format_mail
from patchkit.adopting.naming import free_names
from patchkit.diff import Patch, diff_files, format_patch, parse_patch
from patchkit.diff.header import Field, Header, format_header
from patchkit.series.series import SERIES, SeriesEntry, format_series_file


class Format(StrEnum):
    """What is written."""

    DIFF = "diff"
    MAIL = "mail"
    QUILT = "quilt"


@dataclass(frozen=True)
class Leaving:
    """One patch that is written, under its stored name."""

    name: str
    patch: Patch


def leaving(name: str, data: bytes) -> Leaving:
    """Return a stored patch as it is written."""
    return Leaving(name, parse_patch(data, name))


def new_files(folder: str, changes: Mapping[str, bytes]) -> Leaving:
    """Return a patch that adds the whole new files of a series, which no patch of its own adds."""
    header = Header(
        (Field("Description", f"Whole new files of {folder}"), Field("Origin", "overlay.toml"))
    )
    name = "new-files.patch"
    return Leaving(name, Patch(name, format_header(header), diff_files({}, changes)))


def format_folder(patches: Sequence[Leaving], form: Format) -> dict[str, bytes]:
    """Return the files of an export; numbers in the names, or a series file, keep the order."""
    names = free_names(one.name.removesuffix(".patch").removesuffix(".diff") for one in patches)
    if form is Format.QUILT:
        content = {
            f"patches/{n}": format_patch(p.patch) for n, p in zip(names, patches, strict=True)
        }
        series = format_series_file([SeriesEntry(name) for name in names])
        return {f"patches/{SERIES}": series, **content}
    write = _mail if form is Format.MAIL else _diff
    return {
        f"{number:04}-{name}": write(one, number, len(patches))
        for number, (name, one) in enumerate(zip(names, patches, strict=True), start=1)
    }


def _diff(one: Leaving, number: int, count: int) -> bytes:  # noqa: ARG001
    return format_patch(one.patch)


def _mail(one: Leaving, number: int, count: int) -> bytes:
    return format_mail(one.patch, number, count, one.name.removesuffix(".patch"))
