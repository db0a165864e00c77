"""A stored series: the patches of one release in order, as a folder of names to bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.version import InvalidVersion, Version

from patchkit.errors import PatchkitError
from patchkit.series.overlay import Overlay, format_overlay, parse_overlay
from patchkit.series.toml_text import read_toml

SERIES = "series"
SAME_AS = "same-as.toml"
OVERLAY = "overlay.toml"
ANCHORS_SUFFIX = ".anchors.toml"
_STRIP = re.compile(r"-p(\d{1,3})$")


@dataclass(frozen=True)
class SeriesEntry:
    """One line of a series file.

    `before` and `after` hold whole comment and blank lines around it (`after` only on the last
    entry), `remark` the comment on the line itself. `lineno` is 1-based.
    """

    name: str
    strip: int = 1
    before: str = ""
    remark: str = ""
    after: str = ""
    lineno: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Series:
    """The series of one release. `patches` and `anchors` are by patch name.

    `same_as` is the version whose series applies here as it is; then there is nothing else.
    """

    version: str
    entries: tuple[SeriesEntry, ...] = ()
    patches: Mapping[str, bytes] = field(default_factory=dict)
    anchors: Mapping[str, bytes] = field(default_factory=dict)
    overlay: Overlay | None = None
    same_as: str | None = None


def parse_series_file(data: bytes, place: str) -> tuple[SeriesEntry, ...]:
    """Return the entries of a quilt series file; raises PatchkitError with place `name:line`."""
    try:
        lines = data.decode().replace("\r\n", "\n").split("\n")
    except UnicodeDecodeError as err:
        raise PatchkitError("series file is not UTF-8", place=place) from err
    if lines[-1] == "":
        lines.pop()
    entries: list[SeriesEntry] = []
    seen: dict[str, int] = {}
    before: list[str] = []
    for number, line in enumerate(lines, start=1):
        words, remark = _split_comment(line)
        if not words:
            before.append(line)
            continue
        parsed = _parse_entry(words, f"{place}:{number}")
        entry = replace(parsed, before=_joined(before), remark=remark, lineno=number)
        if (other := seen.get(entry.name.casefold())) is not None:
            raise PatchkitError(
                f"patch {entry.name} is listed twice, first in line {other}",
                place=f"{place}:{number}",
            )
        seen[entry.name.casefold()] = number
        entries.append(entry)
        before = []
    if before and entries:
        entries[-1] = replace(entries[-1], after=_joined(before))
    return tuple(entries)


def format_series_file(entries: Sequence[SeriesEntry]) -> bytes:
    """Return the series file, one patch a line, `-pN` only where it is not 1."""
    parts = []
    for entry in entries:
        strip = "" if entry.strip == 1 else f" -p{entry.strip}"
        remark = f" {entry.remark}" if entry.remark else ""
        parts.append(f"{entry.before}{entry.name}{strip}{remark}\n{entry.after}")
    return "".join(parts).encode()


def parse_same_as(data: bytes, place: str) -> str:
    """Return the version in a `same-as.toml`, without its v."""
    table = read_toml(data, place)
    value = table.get("same-as")
    if len(table) != 1 or not isinstance(value, str):
        keys = ", ".join(table) or "nothing"
        raise PatchkitError(f"holds {keys}", place=place, expected='same-as = "vX.Y.Z" alone')
    try:
        version = Version(value)
    except InvalidVersion as err:
        raise PatchkitError(f"same-as is {value!r}", place=place, expected="a version") from err
    return str(version)


def format_same_as(version: str) -> bytes:
    """Return the `same-as.toml` that names a version."""
    return f'same-as = "v{version}"\n'.encode()


def left_out_reason(patch: str, comments: str) -> str | None:
    """Return what a comment `# NAME: reason` of a series file says of a patch that is not in it."""
    stem = re.escape(patch.removesuffix(".patch").removesuffix(".diff"))
    match = re.search(rf"^#\s*{stem}(?:\.patch|\.diff)?\s*:\s*(.+)$", comments, re.MULTILINE)
    return match[1].strip() if match else None


def anchors_name(patch: str) -> str:
    """Return the name of the anchors file of a patch."""
    return patch.removesuffix(".patch") + ANCHORS_SUFFIX


def read_series(folder: Mapping[str, bytes], *, version: str, place: str | None = None) -> Series:
    """Return the series in a folder, given as names to bytes.

    Raises PatchkitError for a patch that is listed and missing, or there and not listed, for
    anchors without a patch, and for a `same-as.toml` that is not alone.
    """
    place = place if place is not None else f"v{version}"
    if SAME_AS in folder:
        return _read_same_as(folder, version, place)
    if SERIES not in folder:
        raise PatchkitError(
            "folder has no series file", place=place, expected=f"{SERIES} or {SAME_AS}"
        )
    entries = parse_series_file(folder[SERIES], f"{place}/{SERIES}")
    names = [entry.name for entry in entries]
    _check_files(folder, entries, place)
    anchors = {name: folder[anchors_name(name)] for name in names if anchors_name(name) in folder}
    overlay = None
    if OVERLAY in folder:
        overlay = parse_overlay(folder[OVERLAY], f"{place}/{OVERLAY}")
    return Series(version, entries, {name: folder[name] for name in names}, anchors, overlay)


def format_series(series: Series) -> dict[str, bytes]:
    """Return the folder of a series, names to bytes."""
    if series.same_as is not None:
        return {SAME_AS: format_same_as(series.same_as)}
    folder = {SERIES: format_series_file(series.entries), **series.patches}
    folder |= {anchors_name(name): data for name, data in series.anchors.items()}
    if series.overlay is not None:
        folder[OVERLAY] = format_overlay(series.overlay)
    return folder


def _split_comment(line: str) -> tuple[list[str], str]:
    """Return the words of a line, and the comment at its end."""
    match = re.search(r"(?:^|(?<=\s))#.*$", line)
    text, remark = (line[: match.start()], match[0].rstrip()) if match else (line, "")
    return text.split(), remark


def _joined(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _parse_entry(words: list[str], place: str) -> SeriesEntry:
    name, *options = words
    if name.startswith(("/", "-")) or "\\" in name or {".", "..", ""} & set(name.split("/")):
        raise PatchkitError(f"patch name is {name!r}", place=place, expected="a name in the folder")
    if name in (SERIES, SAME_AS, OVERLAY) or name.endswith(ANCHORS_SUFFIX):
        raise PatchkitError(f"{name} is not a patch", place=place)
    strip = 1
    for option in options:
        match = _STRIP.match(option)
        if not match:
            raise PatchkitError(
                f"option {option!r} of {name} is not supported", place=place, expected="-pN"
            )
        strip = int(match[1])
    return SeriesEntry(name, strip)


def _check_files(folder: Mapping[str, bytes], entries: Sequence[SeriesEntry], place: str) -> None:
    listed = {entry.name for entry in entries}
    for entry in entries:
        if entry.name not in folder:
            raise PatchkitError(
                f"patch {entry.name} is missing", place=f"{place}/{SERIES}:{entry.lineno}"
            )
    anchors = {anchors_name(name) for name in listed}
    for name in sorted(folder):
        if name.endswith((".patch", ".diff")) and name not in listed:
            raise PatchkitError(f"{name} is not listed in the series file", place=f"{place}/{name}")
        if name.endswith(ANCHORS_SUFFIX) and name not in anchors:
            raise PatchkitError("anchors belong to no patch", place=f"{place}/{name}")


def _read_same_as(folder: Mapping[str, bytes], version: str, place: str) -> Series:
    held = sorted(
        name
        for name in folder
        if name in (SERIES, OVERLAY) or name.endswith((".patch", ".diff", ANCHORS_SUFFIX))
    )
    if held:
        raise PatchkitError(
            f"{SAME_AS} is beside {', '.join(held)}", place=place, expected="it alone"
        )
    same_as = parse_same_as(folder[SAME_AS], f"{place}/{SAME_AS}")
    if same_as == version:
        raise PatchkitError(f"same-as names {same_as} itself", place=f"{place}/{SAME_AS}")
    return Series(version, same_as=same_as)
