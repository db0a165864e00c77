"""`patchkit deps`: which patches of a series need which, drawn as a tree, with the reasons."""

from __future__ import annotations

from typing import Any

import click

from patchkit.cli import render, render_series
from patchkit.cli.options import (
    here,
    json_option,
    read_patch_files,
    series_folders,
    series_option,
    tree_opener,
)
from patchkit.errors import ExitCode, UsageError
from patchkit.series.graph import Graph, Link


@click.command(short_help="Draw which patches need which, and why.")
@click.argument("names", nargs=-1, metavar="[VERSION | --base TREE PATCH...]")
@series_option
@click.option("--base", metavar="TREE", help="What plain patch files were made on.")
@click.option("--hunks", is_flag=True, help="Print every reason, hunk by hunk.")
@click.option("--dot", is_flag=True, help="Print the graph for Graphviz.")
@json_option
def command(
    names: tuple[str, ...],
    folder: str | None,
    base: str | None,
    hunks: bool,
    dot: bool,
    as_json: bool,
) -> ExitCode:
    """Draw which patches need which, and why.

    A patch needs an earlier one where it changes its lines, or uses what that one defines and the
    release does not. Patches that only stand close to each other commute. What a header should
    declare (Depends-On) and does not is told. Without VERSION it is the highest release that is
    stored; with --base it is plain patch files, in the given order.

    \b
    Examples:
      patchkit deps v0.28.0
      patchkit deps --hunks
      patchkit deps --dot | dot -Tsvg > series.svg
      patchkit deps --base v0.28.0 one.patch two.patch
    """
    if base is not None and folder is not None:
        raise UsageError("--series and --base exclude each other", place="patchkit deps")
    if base is None:
        place, graph = _stored(names, folder)
    else:
        place, graph = _plain(names, base)
    document = _document(place, graph, stored=base is None)
    if as_json:
        render.show_json(document)
    elif dot:
        render_series.show_dot(graph)
    else:
        render_series.show_deps(place, graph, hunks=hunks, compare=base is None)
    return ExitCode.DONE


def _stored(names: tuple[str, ...], folder: str | None) -> tuple[str, Graph]:
    """Return a stored release, over all folders that hold it, and its graph."""

    from patchkit.repository.needs import plan_stored
    from patchkit.repository.store import held_releases, not_stored, read_stored, stored_releases
    from patchkit.upstream.pins import normalise_version

    if len(names) > 1:
        hint = "plain patch files are given with --base TREE"
        raise UsageError("one release at a time", place="patchkit deps", hint=hint)
    config = here()
    folders = series_folders(config, folder)
    held = {name: stored_releases(config.root, name) for name in folders}
    known = held_releases(config.root, folders)
    release = normalise_version(names[0]) if names else known[-1]
    if release not in known:
        raise not_stored(release, known, ", ".join(folders))
    chosen = [name for name in folders if release in held[name]]
    stored = [read_stored(config.root, name, release) for name in chosen]
    with render.progress() as progress:
        planned = plan_stored(config.root, stored, tree_opener(config, progress)(f"v{release}"))
        return ", ".join(series.place for series in stored), planned.graph()


def _plain(names: tuple[str, ...], base: str) -> tuple[str, Graph]:
    """Return the tree that patch files were made on, and their graph."""
    from patchkit.series.graph import make_graph
    from patchkit.stacking.dependencies import dependencies
    from patchkit.stacking.rebase import plan_all
    from patchkit.syntax.tree import at_ease

    if not names:
        raise UsageError("no patch given", place="patchkit deps", hint="name the patch files")
    inputs = read_patch_files(names)
    with render.progress() as progress:
        tree = tree_opener(here(), progress)(base)
        with at_ease():
            plans, _ = plan_all(inputs, tree)
            found = dependencies(plans, tree)
    return base, make_graph([item.name for item in inputs], found, {})


def _document(place: str, graph: Graph, *, stored: bool) -> dict[str, Any]:
    """Return the graph as docs/schema/deps-1.json describes it."""
    return {
        "schema": "patchkit.deps/1",
        "ok": True,
        "exit_code": int(ExitCode.DONE),
        "place": place,
        "stored": stored,
        "patches": [{"name": name, "parents": list(graph.parents(name))} for name in graph.patches],
        "links": [_link(link) for link in graph.links],
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "later": link.later,
        "earlier": link.earlier,
        "binds": link.binds,
        "declared": link.declared,
        "implied": link.implied,
        "reasons": [
            {
                "kind": reason.kind,
                "binds": reason.binds,
                "later_hunk": reason.later.number,
                "earlier_hunk": reason.earlier.number,
                "text": reason.text,
            }
            for reason in link.reasons
        ],
    }
