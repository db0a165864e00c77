"""Which names an archive's members may have, and which may not stand beside each other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

_UNSEEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Whatever could be wrong: nearly no name has any of it, and the rules below need not be tried.
_MAYBE_ODD = re.compile(r"[^ -~]|\\|:|//|/\.|^[/.]|^$")
_DRIVE = re.compile(r"[A-Za-z]:")


def path_problem(name: str) -> str | None:
    """Return what is wrong with a member's name, None for a relative posix path.

    A folder's name ends with a slash.
    """
    if not _MAYBE_ODD.search(name):
        return None
    # uv refuses whatever does not print; line ends would tear RECORD, which is read line by line
    if not name.isascii() and any(unicodedata.category(c) in _UNSEEN for c in name):
        return "has a character that does not print"
    if name.isascii() and not name.isprintable():
        return "has a character that does not print"
    if "\\" in name:
        return "has a backslash"
    if name.startswith("/") or _DRIVE.match(name):
        return "is absolute"
    parts = name.removesuffix("/").split("/")
    if ".." in parts or "." in parts or "" in parts:
        return "has an empty part, . or .."
    return None


def find_clash(names: Iterable[str]) -> tuple[str, str] | None:
    """Return two names that would share a place on some disk, None where there are none.

    Disks that ignore case or the form of accents count, and a file where a folder must be.
    """
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for name in names:
        key = _folded(name.removesuffix("/"))
        if name.endswith("/"):
            if key in folders and folders[key] == name:
                return name, name
            folders[key] = name
        elif key in files:
            return files[key], name
        else:
            files[key] = name
        above = key.rpartition("/")[0]
        while above and above not in folders:
            folders[above] = name
            above = above.rpartition("/")[0]
    both = next((key for key in files if key in folders), None)
    return (files[both], folders[both]) if both is not None else None


def _folded(name: str) -> str:
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", name).casefold()
