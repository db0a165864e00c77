"""What a wheel is called: file name, dist-info folder, and the local version that makes it ours.

A patched wheel keeps the tags of upstream's file name, whatever its WHEEL file says, and upstream's
build tag where there is one: it says which of upstream's files was patched. It never gets one of
its own: the local version tells it from upstream's and from other patched wheels (PEP 440), and
installers sort by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from patchkit.errors import PatchkitError

_SEPARATORS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class WheelName:
    """The parts of a wheel's file name as written: `build` is "" where there is none."""

    distribution: str
    version: str
    build: str
    tags: str

    def __str__(self) -> str:
        parts = (self.distribution, self.version, self.build, self.tags)
        return "-".join(part for part in parts if part) + ".whl"

    @property
    def dist_info(self) -> str:
        """The name of the dist-info folder."""
        return f"{self.distribution}-{self.version}.dist-info"

    @property
    def data(self) -> str:
        """The name of the folder of files for other places than site-packages."""
        return f"{self.distribution}-{self.version}.data"

    def with_label(self, label: str) -> WheelName:
        """Return the name of the same wheel with a local version."""
        return replace(self, version=patched_version(self.version, label))


def parse_wheel_name(filename: str) -> WheelName:
    """Return the parts of a wheel's file name, which must be the one canonical way to write them.

    Raises PatchkitError for names that pip or uv refuse, and for a version that is not normalised:
    its dist-info folder would have another name than an installer makes of it.
    """
    try:
        name, version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename as err:
        raise PatchkitError(
            "is not the name of a wheel",
            place=filename,
            expected="NAME-VERSION[-BUILD]-PYTHON-ABI-PLATFORM.whl",
        ) from err
    parts = filename.removesuffix(".whl").split("-")
    build = parts[2] if len(parts) == 6 else ""
    found = WheelName(parts[0], parts[1], build, "-".join(parts[-3:]))
    if canonicalize_name(found.distribution) != name or found.version != str(version):
        raise PatchkitError(
            f"version is {found.version}", place=filename, expected=f"{version}, normalised"
        )
    return found


def parse_label(text: str) -> str:
    """Return a local version label in its one normalised form: "Syv_1", "+syv-1" are "syv.1".

    Raises PatchkitError for what PEP 440 does not allow, nothing at all included: upstream's
    version is never given to a patched wheel.
    """
    expected = "letters and digits, in parts separated by dots, such as syv.1"
    try:
        label = Version(f"0+{text.strip().removeprefix('+')}").local
    except InvalidVersion as err:
        raise PatchkitError(f"local version is {text!r}", expected=expected) from err
    assert label is not None
    return label


def label_of(text: str) -> str:
    """Return a label made of any text: what is neither letter nor digit separates its parts."""
    return _SEPARATORS.sub(".", text.lower()).strip(".")


def patched_version(version: str, label: str) -> str:
    """Return a version with a label after it, or after its own local version."""
    separator = "." if "+" in version else "+"
    return str(Version(f"{version}{separator}{parse_label(label)}"))
