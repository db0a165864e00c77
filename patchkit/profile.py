"""What patchkit knows of the package that it patches, as a value; vLLM's is `vllm/profile.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from fnmatch import fnmatchcase

from patchkit.errors import PatchkitError


class Section(StrEnum):
    """What becomes of a file: shipped in the wheel as it is, built from source, or left out."""

    SHIPPED = "shipped"
    BUILT = "built"
    NOT_SHIPPED = "not_shipped"


@dataclass(frozen=True)
class Profile:
    """One upstream.

    Patterns: `csrc/` is a folder at the top, `*.cu` a file name anywhere, any other a whole path,
    as in fnmatch. What no pattern names is shipped where it is under the package, else not.
    """

    package: str
    distributions: tuple[str, ...]
    version_file: str
    built: tuple[str, ...]
    not_shipped: tuple[str, ...]

    def classify(self, path: str) -> Section:
        """Return the class of a path relative to the tree's top."""
        if any(matches(path, pattern) for pattern in self.built):
            return Section.BUILT
        if any(matches(path, pattern) for pattern in self.not_shipped):
            return Section.NOT_SHIPPED
        inside = path.startswith(f"{self.package}/")
        return Section.SHIPPED if inside else Section.NOT_SHIPPED

    def names(self, path: str) -> bool:
        """Return whether a pattern, and not only the place of a path, says what it is."""
        return any(matches(path, pattern) for pattern in (*self.built, *self.not_shipped))


def override_profile(profile: Profile, table: Mapping[str, object], place: str) -> Profile:
    """Return the profile with the fields that a table sets; PatchkitError for a wrong one."""
    known = {field.name: getattr(profile, field.name) for field in fields(profile)}
    changes: dict[str, str | tuple[str, ...]] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in known:
            raise PatchkitError(
                f"unknown key {key!r} in profile", place=place, expected=", ".join(known)
            )
        if isinstance(known[name], str):
            if not isinstance(value, str) or not value:
                raise PatchkitError(f"{key} is {value!r}", place=place, expected="a string")
            changes[name] = value
        else:
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise PatchkitError(
                    f"{key} is {value!r}", place=place, expected="a list of strings"
                )
            changes[name] = tuple(value)
    return replace(profile, **changes)  # type: ignore[arg-type]


def matches(path: str, pattern: str) -> bool:
    """Return whether a path is what a pattern of a profile names."""
    if pattern.endswith("/"):
        return path.startswith(pattern)
    if "/" not in pattern and "*" in pattern:
        return fnmatchcase(path.rpartition("/")[2], pattern)
    return fnmatchcase(path, pattern)
