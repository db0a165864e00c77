"""What people see of a stored series: its patches, whether they are sound, and what needs what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit import report
from patchkit.cli.render import say
from patchkit.cli.render_outcome import why_lines

if TYPE_CHECKING:
    from patchkit.series.graph import Graph


def show_series(document: dict[str, Any], *, whole: bool) -> None:
    """Print stored series patch by patch; `whole` with the full header, as for a patch named."""
    for series in document["series"]:
        for line in _series_head(series):
            say(line)
        for path in series["overlay_clashes"]:
            say(f"{path}: in the overlay, and in the target already")
        for patch in series["patches"]:
            say(f"{patch['name']}: {patch['subject']}")
            for line in _header(patch, whole):
                say(f"  {line}")
            for file in patch["files"]:
                path, new = file["path_before"], file["path_after"]
                change = "" if file["change"] == "modify" else f" ({file['change']})"
                say(f"  {path}{f' -> {new}' if new != path else ''}{change}")
                for hunk in file["hunks"]:
                    _show_hunk(hunk)


def _series_head(series: dict[str, Any]) -> list[str]:
    place = f"{series['folder']}/{series['target']}"
    hunks = sum(len(file["hunks"]) for patch in series["patches"] for file in patch["files"])
    count = f"{report.counted(len(series['patches']), 'patch', 'patches')}, "
    count += report.counted(hunks, "hunk")
    same = f", the same as v{series['same_as']}" if series["same_as"] else ""
    if series["base"] is None:
        return [f"{place}: {count}{same}"]
    if series["stopped"]:
        base, target = f"v{series['base']}", series["target"]
        return [f"{series['folder']}, stopped on its way from {base}{same} to {target}: {count}"]
    head = f"{place}, moved from v{series['base']}{same}: {count}"
    differences = series["differences"]
    if differences is None:
        return [f"{head}; the move would stop"]
    if not differences:
        return [f"{head}, stored as the move makes it"]
    return [f"{head}; what is stored is not what the move makes:", *(f"  {d}" for d in differences)]


def _header(patch: dict[str, Any], whole: bool) -> list[str]:
    """The facts of a header, a line each; `whole` with its texts as they are."""
    names = {"applies_to": "for", "forwarded": "forwarded", "exit_condition": "until"}
    if not whole:
        facts = {name: patch[key] or "" for key, name in names.items()}
        facts["forwarded"] = facts["forwarded"].split("\n")[0]
        return [f"{name} {' '.join(value.split())}" for name, value in facts.items() if value]
    lines = (patch["description"] or "").split("\n")[1:]
    for key in ("reason", "origin", *names):
        if patch[key]:
            lines += f"{names.get(key, key)}: {patch[key]}".split("\n")
    return lines


def _show_hunk(hunk: dict[str, Any]) -> None:
    size = f" line {hunk['line']}, +{hunk['added']} -{hunk['removed']}" if hunk["line"] else ""
    names = ", ".join(hunk["definitions"])
    kinds = ", ".join(dict.fromkeys(hunk["edits"]))
    what = f" in {names}" if names else ""
    say(f"    #{hunk['hunk']}{size}{what}{f': {kinds}' if kinds else ''}")
    if hunk["outcome"]:
        for line in why_lines(hunk["outcome"]):
            say(f"       {line}")


def show_check(document: dict[str, Any]) -> None:
    """Print what is wrong, then each stored release in a line."""
    for series in document["series"]:
        place = f"{series['folder']}/v{series['release']}"
        for finding in series["findings"]:
            say(f"{finding['place']}: {finding['kind']}: {finding['text']}")
        for name in series["refreshed"]:
            say(f"wrote {place}/{name}")
        same = f", the same as v{series['same_as']}" if series["same_as"] else ""
        count = f"{report.counted(series['patches'], 'patch', 'patches')}, "
        count += report.counted(series["hunks"], "hunk") + same
        found = len(series["findings"])
        say(f"{place}: {count}: {report.counted(found, 'finding') if found else 'sound'}")


def show_test(document: dict[str, Any]) -> None:
    """Print each verdict with what it rests on; of a broken run what pytest printed last."""
    for entry in document["verdicts"]:
        for line in (entry["output"] or "").split("\n") if entry["output"] else ():
            say(f"  {line}", to_stderr=True)
        colours = f"{entry['pristine']} without it, {entry['patched'] or 'no run'} with it"
        name = f"{entry['series']}/{entry['patch']}"
        torch = f", torch {entry['torch']}" if entry["torch"] else ""
        say(f"{name} of v{entry['base']} on v{document['release']}: {entry['verdict']}")
        say(f"  {colours}{torch}: {entry['reason']}")
    for place in document["untested"]:
        say(f"{place}: names no test")
    for path in document["stored"]:
        say(f"stored in {path}")


def show_deps(place: str, graph: Graph, *, hunks: bool, compare: bool) -> None:
    """Print a series as a tree of what needs what, and how that compares with its headers."""
    from patchkit.cli import draw

    say(draw.summary(place, graph))
    for line in draw.tree_lines(graph):
        say(line)
    for link in graph.links if hunks else ():
        for line in draw.link_lines(link):
            say(line)
    for line in draw.warnings(graph) if compare else ():
        say(line)


def show_dot(graph: Graph) -> None:
    """Print a series for Graphviz."""
    from patchkit.cli import draw

    for line in draw.dot_lines(graph):
        say(line)
