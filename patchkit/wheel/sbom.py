"""A patched wheel's SBOM: a component with a pedigree, its ancestor and the patches on it.

Source: CycloneDX 1.6; PEP 770 puts it under `sboms/` in the dist-info folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from packaging.utils import canonicalize_name

from patchkit.diff.header import parse_header
from patchkit.diff.parse import parse_patch
from patchkit.repository.store import Stored
from patchkit.series.selection import Selection
from patchkit.upstream.pins import Artifact
from patchkit.wheel.names import WheelName
from patchkit.wheel.patching import is_taken
from patchkit.wheel.provenance import digest

SBOM = "sboms/patchkit.cdx.json"


def sbom(
    upstream: Artifact,
    name: WheelName,
    upstream_version: str,
    stored: Sequence[Stored],
    selection: Selection,
    tool: str,
) -> dict[str, Any]:
    """Return the CycloneDX document of a patched wheel; no time and no serial number is in it."""
    distribution = canonicalize_name(name.distribution)
    ancestor = _component(distribution, upstream_version)
    ancestor["purl"] += f"?file_name={upstream.filename.replace('+', '%2B')}"
    ancestor["hashes"] = [{"alg": "SHA-256", "content": upstream.sha256}]
    component = _component(distribution, name.version)
    component["bom-ref"] = component["purl"]
    component["pedigree"] = {
        "ancestors": [ancestor],
        "patches": [
            _patch(entry.series.patches[patch], f"{entry.place}/{patch}")
            for entry in stored
            for folder, patch in selection.chosen
            if folder == entry.folder
        ],
        "notes": "Made by patchkit: members of the ancestor that no patch touches are copied.",
    }
    overlays = [
        {"type": "file", "name": entry.path,
         "hashes": [{"alg": "SHA-256", "content": entry.sha256}]}
        for series in stored
        if series.series.overlay and is_taken(series, selection)
        for entry in series.series.overlay.entries
    ]  # fmt: skip
    if overlays:
        component["components"] = overlays
    tools = {"components": [{"type": "application", "name": "patchkit", "version": tool}]}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"tools": tools, "component": component},
    }


def _component(name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version.replace('+', '%2B')}"
    return {"type": "library", "name": name, "version": version, "purl": purl}


def _patch(data: bytes, place: str) -> dict[str, Any]:
    """Return one patch; its kind is "backport" where it was taken from upstream."""
    header = parse_header(parse_patch(data, place).preamble, place)
    origin = (header.origin or "").split(",")[0].strip().lower()
    text = data.decode("utf-8", "backslashreplace")
    return {
        "type": "backport" if origin in ("upstream", "backport") else "unofficial",
        "diff": {
            "text": {"contentType": "text/x-diff", "content": text},
            "url": f"urn:sha256:{digest(data)}",
        },
    }
