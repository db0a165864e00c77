"""What a patched wheel says of itself: what it was made from, with what, and how to get back.

JSON in the dist-info folder, in the shape of docs/schema/provenance-1.json; the same inputs give
the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.outcome import HunkOutcome
from patchkit.repository.store import Stored
from patchkit.series.selection import Selection
from patchkit.upstream.pins import Artifact
from patchkit.wheel.patching import ChangedFile, Patched, is_taken
from patchkit.wheel.rewrite import Step

SCHEMA = "patchkit.provenance/1"
FOLDER = "patchkit"
PROVENANCE = f"{FOLDER}/provenance.json"
# An archive of the members of upstream's wheel that were replaced or dropped, packed as they were.
KEPT = f"{FOLDER}/upstream.zip"


@dataclass(frozen=True)
class Way:
    """What takes a patched wheel back to upstream's file: its name, sha256 and size, and the steps.

    `dist_info` is the name of its dist-info folder.
    """

    filename: str
    sha256: str
    size_bytes: int
    dist_info: str
    steps: tuple[Step, ...]


def provenance(
    upstream: Artifact,
    version: str,
    stored: Sequence[Stored],
    selection: Selection,
    patched: Patched,
    way: Way,
    tool: str,
) -> dict[str, Any]:
    """Return the document; `tool` is the version of patchkit, `version` that of the result."""
    return {
        "schema": SCHEMA,
        "patchkit": tool,
        "version": version,
        "upstream": {
            "distribution": upstream.distribution,
            "filename": upstream.filename,
            "sha256": upstream.sha256,
            "size_bytes": upstream.size_bytes,
        },
        "selection": selection_json(selection),
        "series": [series_json(entry, selection, patched) for entry in stored],
        "files": [_file(path, file) for path, file in patched.files.items()],
        "left_out": left_out_json(patched),
        "rebuild": {"dist_info": way.dist_info, "steps": [list(step) for step in way.steps]},
    }


def selection_json(selection: Selection) -> dict[str, Any]:
    """Return the selection: which patches are in, which are not, and which came along with what."""
    brought = selection.brought or {}
    return {
        "word": selection.word,
        "patches": ["/".join(key) for key in selection.chosen],
        "left_out": ["/".join(key) for key in selection.left_out],
        "brought": {"/".join(key): "/".join(by) for key, by in brought.items()},
    }


def left_out_json(patched: Patched) -> list[dict[str, Any]]:
    """Return the sections for files that are never installed."""
    return [
        {"patch": patch, "path": unshipped.path, "section": unshipped.section.value}
        for patch, unshipped in patched.unshipped
    ]


def format_document(document: Mapping[str, Any]) -> bytes:
    """Return a JSON document as its canonical bytes."""
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def parse_way(content: bytes, place: str) -> Way:
    """Return what a provenance says of the way back; raises PatchkitError where it says none."""
    try:
        document = json.loads(content)
        upstream, rebuild = document["upstream"], document["rebuild"]
        steps = tuple(
            (str(kind), int(first), int(count)) for kind, first, count in rebuild["steps"]
        )
        way = Way(
            str(upstream["filename"]), str(upstream["sha256"]), int(upstream["size_bytes"]),
            str(rebuild["dist_info"]), steps,
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as err:
        raise PatchkitError("provenance cannot be read", place=place, expected=SCHEMA) from err
    if document.get("schema") != SCHEMA or {step[0] for step in steps} - {
        "same",
        "renamed",
        "kept",
    }:
        raise PatchkitError(
            f"provenance has schema {document.get('schema')!r}", place=place, expected=SCHEMA
        )
    return way


def digest(content: bytes) -> str:
    """Return the sha256 of a content in lower-case hex."""
    return hashlib.sha256(content).hexdigest()


def series_json(stored: Stored, selection: Selection, patched: Patched) -> dict[str, Any]:
    """Return one series folder: its chosen patches with every outcome, and its overlay."""
    chosen = [name for folder, name in selection.chosen if folder == stored.folder]
    overlay = stored.series.overlay if is_taken(stored, selection) else None
    return {
        "folder": stored.folder,
        "release": stored.release,
        "same_as": stored.same_as,
        "patches": [
            {
                "name": name,
                "sha256": digest(stored.series.patches[name]),
                "outcomes": [
                    _outcome(outcome)
                    for folder, outcome in patched.outcomes
                    if (folder, outcome.patch) == (stored.folder, name)
                ],
            }
            for name in chosen
        ],
        "overlay": [
            {"source": entry.source, "path": entry.path, "sha256": entry.sha256}
            for entry in (overlay.entries if overlay else ())
        ],
    }


def _outcome(outcome: HunkOutcome) -> dict[str, Any]:
    lines = outcome.target_lines
    return {
        "hunk": outcome.hunk,
        "status": outcome.status.value,
        "method": outcome.method.value if outcome.method else None,
        "path": outcome.path_after or outcome.path_before,
        "lines": list(lines) if lines else None,
    }


def _file(path: str, file: ChangedFile) -> dict[str, Any]:
    return {
        "path": path,
        "before": None if file.before is None else digest(file.before),
        "after": None if file.after is None else digest(file.after),
    }
