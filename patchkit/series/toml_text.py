"""TOML of files that are written by patchkit and edited by nobody: read with its format, quoted."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from patchkit.errors import PatchkitError


def read_toml(data: bytes, place: str, file_format: int | None = None) -> dict[str, Any]:
    """Return the tables of a file; raises PatchkitError for no TOML and for another format."""
    try:
        document = tomllib.loads(data.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as err:
        raise PatchkitError(f"is not TOML: {err}", place=place) from err
    if file_format is not None and document.get("format") != file_format:
        raise PatchkitError(
            f"is of format {document.get('format')!r}",
            place=place,
            expected=f"format {file_format}",
        )
    return document


def quoted(text: str) -> str:
    """Return a text as a basic string of TOML."""
    # they know the escapes of JSON, and take no bare delete character
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
