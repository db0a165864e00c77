"""What must be the same in an engine from a patched wheel, and what must not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

Run = Mapping[str, Any]


def problems(model: str, upstream: Run, patched: Run, paths: Mapping[str, Path]) -> list[str]:
    """What is wrong with two runs of a model: one line each, none where all is well."""
    found = []
    for kind, run in (("upstream", upstream), ("patched", patched)):
        if not Path(run["module"]).is_relative_to(paths[kind]):
            found.append(f"{kind}: kv_cache_utils was loaded from {run['module']}")
        if run["promotes"] != (kind == "patched"):
            found.append(f"{kind}: the loaded module is not the {kind} one")
        found += _loaded(kind, run["imported"])
    if patched["version"].partition("+")[0] != upstream["version"]:
        found.append(f"versions {upstream['version']} and {patched['version']}")
    if not patched["version"].partition("+")[2].startswith("patchkit"):
        found.append(f"patched: version {patched['version']} does not say so")
    if patched["tokens"] != upstream["tokens"]:
        found.append(f"tokens differ: {upstream['tokens']} and {patched['tokens']}")
    if len({token for row in upstream["tokens"] for token in row}) < 6:
        found.append(f"tokens prove nothing: {upstream['tokens']}")
    if (patched["blocks"] != upstream["blocks"]) != (model == "window"):
        found.append(f"blocks {upstream['blocks']} and {patched['blocks']}")
    return found


def _loaded(kind: str, imported: Mapping[str, Any]) -> list[str]:
    """What is wrong with what the processes of an engine are said to have loaded."""
    expected = {"upstream": "pristine", "patched": "patched"}[kind]
    states = [m["state"] for process in imported["processes"] for m in process["modules"]]
    loaded = [state for state in states if state != "not loaded"]
    found = []
    if not loaded or set(loaded) != {expected}:
        found.append(f"{kind}: modules of the series are {states}")
    if imported["ok"] != (kind == "patched") or imported["command_status"] != 0:
        found.append(f"{kind}: {imported['faults']}, exit status {imported['command_status']}")
    return found
