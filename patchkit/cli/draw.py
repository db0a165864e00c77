"""The graph of a series as lines of text: a tree for people, and Graphviz's language."""

from __future__ import annotations

from collections.abc import Iterator

from patchkit.cli.fitting import WIDTH, stem, wrapped
from patchkit.report import counted
from patchkit.series.graph import Graph, Link


def tree_lines(graph: Graph) -> Iterator[str]:
    """Yield the patches, each once, below the last of those that it needs."""
    children: dict[str, list[str]] = {}
    roots = []
    for patch in graph.patches:
        parents = graph.parents(patch)
        if parents:
            children.setdefault(parents[-1], []).append(patch)
        else:
            roots.append(patch)
    for root in roots:
        yield _cut(root, WIDTH)
        yield from _below(root, "", children, graph)


def _below(patch: str, indent: str, children: dict[str, list[str]], graph: Graph) -> Iterator[str]:
    members = children.get(patch, [])
    for child in members:
        last = child == members[-1]
        yield _cut(f"{indent}{'└─' if last else '├─'} {child}{_how(child, patch, graph)}", WIDTH)
        yield from _below(child, f"{indent}{'  ' if last else '│ '} ", children, graph)


def _how(child: str, parent: str, graph: Graph) -> str:
    """By what a patch needs the one above it, and which others it needs."""
    link = next(link for link in graph.needs if (link.later, link.earlier) == (child, parent))
    others = [other for other in graph.parents(child) if other != parent]
    also = f"; also needs {', '.join(map(stem, others))}" if others else ""
    return f" (by {' and '.join(link.kinds)}{also})"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


def link_lines(link: Link) -> Iterator[str]:
    """Yield what one patch has to do with another, a reason below each other."""
    verb = "needs" if link.binds else "stands beside" if link.reasons else "declares"
    yield _cut(f"{link.later} {verb} {link.earlier}", WIDTH)
    for reason in link.reasons:
        yield from wrapped(reason.text, "  ", "    ")


def summary(place: str, graph: Graph) -> str:
    """Return the head of a drawing."""
    beside = sum(1 for link in graph.links if link.reasons and not link.binds)
    text = f"{place}: {counted(len(graph.patches), 'patch', 'patches')}"
    text += f", {counted(len(graph.needs), 'dependency', 'dependencies')}"
    return text + (f"; {counted(beside, 'pair')} close but independent" if beside else "")


def warnings(graph: Graph) -> Iterator[str]:
    """Yield what headers should say and do not, and what they say and nothing shows."""
    for link in graph.undeclared:
        reason = next(reason for reason in link.reasons if reason.binds)
        yield (
            f"warning: {link.later} does not declare `Depends-On: {stem(link.earlier)}`: "
            f"{reason.text}"
        )
    for link in graph.unfound:
        yield f"note: {link.later} declares {stem(link.earlier)}, and nothing in it needs that"


def dot_lines(graph: Graph) -> Iterator[str]:
    """Yield the graph for Graphviz: an arrow from a patch to what it needs, dashed where close."""
    yield "digraph series {"
    yield "  rankdir=BT;"
    for patch in graph.patches:
        yield f"  {_quoted(patch)};"
    for link in graph.links:
        ends = f"  {_quoted(link.later)} -> {_quoted(link.earlier)}"
        if link.binds:
            yield f"{ends} [label={_quoted(', '.join(link.kinds))}];"
        elif link.reasons:
            yield f"{ends} [style=dashed, dir=none];"
        else:
            yield f"{ends} [style=dotted, label={_quoted('declared')}];"
    yield "}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
