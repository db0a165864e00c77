"""A patch taken out of a release: what came after it is carried over the gap."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from patchkit.editing.carried import carry
from patchkit.editing.draft import Draft, draft_of
from patchkit.editing.heading import with_needs
from patchkit.editing.needed import needs_of
from patchkit.editing.revision import Revision, revise
from patchkit.editing.stack import Layer, Stack
from patchkit.errors import PatchkitError
from patchkit.series.selection import same_patch
from patchkit.stacking.rebase import Progress


@dataclass(frozen=True, eq=False)
class Dropped:
    """A release without some patches: each with the reason that the series file gives."""

    revision: Revision
    reasons: tuple[tuple[str, str], ...]


def dependents(stack: Stack, layer: Layer) -> tuple[tuple[str, str], ...]:
    """Return what needs a patch, through others too: the names, and why, in series order."""
    if len(stack.layers) < 2:
        return ()
    several = len(stack.stored) > 1
    gone = {f"{layer.folder}/{layer.name}" if several else layer.name}
    found: list[tuple[str, str]] = []
    needs = needs_of(stack.layers, stack.base)
    for name in needs.graph.patches:  # what needs a patch comes after it
        for link in needs.graph.links:
            if link.later == name and link.earlier in gone and (link.binds or link.declared):
                why = next((r.text for r in link.reasons if r.binds), "its header declares it")
                found.append((name, f"needs {link.earlier}: {why}"))
                gone.add(name)
                break
    return tuple(found)


def drop(
    stack: Stack,
    layer: Layer,
    reason: str,
    *,
    with_dependents: bool = False,
    accept_drift: bool = False,
    progress: Progress | None = None,
) -> Dropped:
    """Return a release without a patch, and with `with_dependents` without what needs it.

    Raises PatchkitError where something needs it, or a later patch cannot be carried over the gap.
    """
    folder, layers = layer.folder, stack.of(layer.folder)
    needing = dependents(stack, layer)
    _refuse_dependents(layer, needing, several=len(stack.stored) > 1, meant=with_dependents)
    reasons = {layer.name: _one_line(reason, layer.place)}
    reasons |= {
        name.rpartition("/")[2]: f"needs {_stem(layer.name)}, which is left out too"
        for name, _ in needing
    }
    first = next(n for n, one in enumerate(layers) if one.name in reasons)
    change = f"the gap that {layer.name} leaves"
    below = [draft_of(one) for one in layers[:first]]
    ground = layers[first].before
    above, _ = carry(
        stack.stored[folder], layers[first:], ground, ground,
        change=change, gone=reasons, accept_drift=accept_drift, progress=progress,
    )  # fmt: skip
    drafts = [_without_needs(draft, folder, reasons) for draft in (*below, *above)]
    drafts, comments = _commented(layers, drafts, reasons)
    revision = revise(
        stack, folder, drafts,
        change=change, comments=comments, accept_drift=accept_drift, progress=progress,
    )  # fmt: skip
    return Dropped(revision, tuple(reasons.items()))


def _refuse_dependents(
    layer: Layer, needing: Sequence[tuple[str, str]], *, several: bool, meant: bool
) -> None:
    elsewhere = [n for n, _ in needing if several and n.rpartition("/")[0] != layer.folder]
    if elsewhere:
        raise PatchkitError(
            f"is needed by {', '.join(elsewhere)}",
            place=layer.place,
            hint=f"nothing was changed; drop {elsewhere[0]} first",
        )
    if needing and not meant:
        names = ", ".join(name for name, _ in needing)
        raise PatchkitError(
            f"is needed by {names}: {needing[0][0]} {needing[0][1]}",
            place=layer.place,
            hint="nothing was changed; --with-dependents drops them as well",
        )


def _one_line(reason: str, place: str) -> str:
    """Return a reason as a comment can hold it."""
    text = " ".join(reason.split())
    if not text:
        raise PatchkitError(
            "needs a reason, which the series file keeps",
            place=place,
            hint='give --reason "why it goes"',
        )
    return text


def _without_needs(draft: Draft, folder: str, gone: Collection[str]) -> Draft:
    """Return a patch that declares no need of what is gone: it was found to need none of it."""

    def kept(word: str) -> str | None:
        return None if any(same_patch(word, folder, name) for name in gone) else word

    preamble = draft.preamble
    changed = with_needs(preamble, kept, draft.name)
    return draft if changed == preamble else draft.with_preamble(changed)


def _commented(
    layers: Sequence[Layer], drafts: Sequence[Draft], reasons: Mapping[str, str]
) -> tuple[list[Draft], str]:
    """Return the drafts with a comment where each dropped patch was, and those at the end."""
    by_name = {draft.name: draft for draft in drafts}
    found: list[Draft] = []
    waiting = ""
    for layer in layers:
        if layer.name in reasons:
            why = f"# {_stem(layer.name)}: {reasons[layer.name]}\n"
            waiting += f"{layer.entry.before}{why}{layer.entry.after}"
            continue
        draft = by_name[layer.name]
        entry = replace(draft.entry, before=waiting + draft.entry.before)
        found.append(replace(draft, entry=entry))
        waiting = ""
    return found, waiting


def _stem(name: str) -> str:
    return name.removesuffix(".patch").removesuffix(".diff")
