"""Names for patches: what may be one, and what is taken."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.errors import PatchkitError, UsageError
from patchkit.series.series import parse_series_file


def patch_name(text: str) -> str:
    """Return the file name of a new patch, with its suffix."""
    name = text if text.endswith((".patch", ".diff")) else f"{text}.patch"
    entries = parse_series_file(name.encode() + b"\n", repr(text))
    if len(entries) != 1 or entries[0].name != name or "/" in name:
        raise UsageError(f"{text!r} is no name for a patch", expected="letters, digits and -")
    return name


def refuse_taken(name: str, known: Sequence[str]) -> None:
    """Raise PatchkitError where a patch has a name already, on a disk that ignores case too."""
    for other in known:
        if name.casefold() == other.casefold():
            raise PatchkitError(f"there is a patch {other} already", expected="another name")
