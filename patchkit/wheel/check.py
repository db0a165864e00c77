"""The strict check of a whole wheel: whatever pip, uv or `installer` would refuse, and more.

The layout of the archive is `archive`'s business: what that module reads, all of them read alike.
Here: names and metadata agree, RECORD and members agree, contents are what RECORD says.
"""

from __future__ import annotations

import configparser
import re
from collections.abc import Mapping
from typing import NoReturn

from packaging.tags import parse_tag
from packaging.utils import canonicalize_name

from patchkit.errors import PatchkitError
from patchkit.upstream.pins import MACHINES
from patchkit.wheel.archive import Archive
from patchkit.wheel.metadata import Fields, parse_fields
from patchkit.wheel.names import WheelName, parse_wheel_name
from patchkit.wheel.record import Row, digest_text, parse_rows

SIGNATURES = ("RECORD.jws", "RECORD.p7s")
_SCHEME = ("data", "headers", "platlib", "purelib", "scripts")
_SCRIPT = re.compile(r"[\w.-]+\s*:\s*[\w.-]+\s*(\[[^\]]*\])?")
_METADATA_VERSION = re.compile(r"[12]\.\d+")


def check_wheel(archive: Archive, filename: str, *, known: Mapping[str, Row] | None = None) -> None:
    """Raise PatchkitError, with the file's name, unless a wheel is sound in every part.

    `known` are rows of members whose packed bytes were copied out of a file whose sha256 is pinned,
    by their name here: their digest in RECORD must be the same as upstream's, and their content is
    not unpacked again. 700 MB of a CUDA wheel would take longer than all the rest.
    """
    name = parse_wheel_name(filename)
    _check_folders(archive, name)
    _check_metadata(archive, name)
    rows = {row.path: row for row in parse_rows(_read(archive, name, "RECORD"), _record(name))}
    _check_rows(archive, name, rows)
    _check_contents(archive, rows, known or {})


def _check_folders(archive: Archive, name: WheelName) -> None:
    tops = dict.fromkeys(member.name.split("/")[0] for member in archive.members)
    infos = [top for top in tops if top.endswith(".dist-info")]
    if infos != [name.dist_info]:
        found = ", ".join(infos) or "none"
        _refuse(archive, f"dist-info folder is {found}", name.dist_info)
    for top in tops:
        if top.endswith(".data") and top != name.data:
            _refuse(archive, f"data folder is {top}", name.data)
    for member in archive.members:
        if member.name.startswith(f"{name.data}/") and member.name.split("/")[1] not in _SCHEME:
            _refuse(archive, f"{member.name} has no place to go", " or ".join(_SCHEME))


def _check_metadata(archive: Archive, name: WheelName) -> None:
    fields = _fields(archive, name, "METADATA")
    if not _METADATA_VERSION.fullmatch(fields.one("Metadata-Version")):
        _refuse(archive, f"Metadata-Version is {fields.one('Metadata-Version')}", "1.x or 2.x")
    if canonicalize_name(fields.one("Name")) != canonicalize_name(name.distribution):
        _refuse(archive, f"METADATA has Name {fields.one('Name')}", name.distribution)
    if fields.one("Version") != name.version:
        _refuse(archive, f"METADATA has Version {fields.one('Version')}", name.version)
    _check_wheel_file(archive, name, _fields(archive, name, "WHEEL"))
    _check_entry_points(archive, name)


def _check_wheel_file(archive: Archive, name: WheelName, fields: Fields) -> None:
    version = fields.one("Wheel-Version")
    if not re.fullmatch(r"1\.\d+", version):
        _refuse(archive, f"Wheel-Version is {version}", "1.x, which installers know")
    if fields.one("Root-Is-Purelib").lower() not in ("true", "false"):
        _refuse(archive, f"Root-Is-Purelib is {fields.one('Root-Is-Purelib')}", "true or false")
    if fields.all("Build") not in ((), (name.build,)):
        _refuse(archive, f"WHEEL has Build {fields.one('Build')}", name.build or "none")
    if not fields.all("Tag"):
        _refuse(archive, "WHEEL has no Tag", "one or more")
    # Upstream's file names carry wider tags than WHEEL (cp38-abi3-manylinux_2_28_x86_64 on a
    # cp312-cp312-linux_x86_64), which no installer minds; another machine nobody can mean.
    machines = _machines(name.tags)
    for text in fields.all("Tag"):
        if len(text.split("-")) != 3:
            _refuse(archive, f"WHEEL has Tag {text}", "PYTHON-ABI-PLATFORM")
        if machines and _machines(text) and not machines & _machines(text):
            _refuse(archive, f"WHEEL has Tag {text}", f"one for {' or '.join(sorted(machines))}")


def _check_entry_points(archive: Archive, name: WheelName) -> None:
    if f"{name.dist_info}/entry_points.txt" not in archive.by_name:
        return
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(_read(archive, name, "entry_points.txt").decode("utf-8"))
    except (configparser.Error, UnicodeDecodeError) as err:
        _refuse(archive, f"entry_points.txt cannot be read: {type(err).__name__}")
    for section in {"console_scripts", "gui_scripts"} & set(parser.sections()):
        for script, value in parser.items(section):
            if not _SCRIPT.fullmatch(value.strip()) or "/" in script:
                _refuse(archive, f"entry_points.txt has {script} = {value}", "MODULE:FUNCTION")


def _machines(tags: str) -> set[str]:
    platforms = {tag.platform for tag in parse_tag(tags)}
    return {m for m in MACHINES for platform in platforms if platform.endswith(m)}


def _check_rows(archive: Archive, name: WheelName, rows: Mapping[str, Row]) -> None:
    """Every file has its row, every row its file; RECORD alone has no digest."""
    for member in archive.members:
        if member.is_folder:
            continue
        row = rows.get(member.name)
        if member.name in [f"{name.dist_info}/{signature}" for signature in SIGNATURES]:
            _refuse(archive, f"{member.name} signs a RECORD", "a wheel that is not signed")
        if row is None:
            _refuse(archive, f"{member.name} is not in RECORD")
        elif member.name == _record(name):
            if row.digest or row.size_bytes is not None:
                _refuse(archive, "RECORD gives itself a digest or a size")
        elif not row.digest or row.size_bytes is None:
            _refuse(archive, f"RECORD has no digest or no size of {member.name}")
        elif row.size_bytes != member.size_bytes:
            _refuse(
                archive,
                f"{member.name} has {member.size_bytes} bytes",
                f"{row.size_bytes} as in RECORD",
            )
    for path in rows:
        if path not in archive.by_name:
            _refuse(archive, f"{path} is in RECORD but not in the wheel")


def _check_contents(archive: Archive, rows: Mapping[str, Row], known: Mapping[str, Row]) -> None:
    for member in archive.members:
        row = rows.get(member.name)
        if member.name in known:
            if row is None or row.digest != known[member.name].digest:
                _refuse(archive, f"the digest of {member.name} in RECORD is not upstream's")
        else:
            content = archive.read(member)
            if row is not None and row.digest not in ("", digest_text(content)):
                _refuse(archive, f"{member.name} is {digest_text(content)}", row.digest)


def _read(archive: Archive, name: WheelName, file: str) -> bytes:
    member = archive.by_name.get(f"{name.dist_info}/{file}")
    if member is None:
        _refuse(archive, f"{name.dist_info}/{file} is missing")
    return archive.read(member)


def _fields(archive: Archive, name: WheelName, file: str) -> Fields:
    return parse_fields(_read(archive, name, file), f"{archive.place}: {file}")


def _record(name: WheelName) -> str:
    return f"{name.dist_info}/RECORD"


def _refuse(archive: Archive, fact: str, expected: str | None = None) -> NoReturn:
    raise PatchkitError(fact, place=archive.place, expected=expected)
