"""What was changed in a work tree, as a refreshed patch or a new one, the later ones carried over.

The patch is always the difference between the tree below it and the work tree, so that it does not
matter whether the person committed, amended or did neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchkit.diff.header import empty_fields, parse_header
from patchkit.diff.roots import Section, classify
from patchkit.editing import worktree
from patchkit.editing.carried import carry
from patchkit.editing.context import Context, contexts_of
from patchkit.editing.draft import Draft, draft_of, make_data
from patchkit.editing.folding import fold_one
from patchkit.editing.naming import refuse_taken
from patchkit.editing.needed import declaring, needs_of
from patchkit.editing.opened import OpenedTree, digests, is_half_moved
from patchkit.editing.revision import Revision, revise, with_layers
from patchkit.editing.stack import Layer, Stack
from patchkit.editing.worktree import Changed
from patchkit.errors import PatchkitError
from patchkit.series.series import SeriesEntry
from patchkit.stacking.rebase import Progress
from patchkit.syntax.unfinished import unfinished
from patchkit.tree import SourceTree

_CHANGES = "the changes"  # what they go by as a patch of their own, on their way down
_MODES = {"100644": 0o100644, "100755": 0o100755}
_ODD_MODES = {"120000": "a link", "160000": "a git repository of its own"}


@dataclass(frozen=True)
class NewPatch:
    """A patch that the changes are to become: its name and its header."""

    name: str
    preamble: bytes


@dataclass(frozen=True, eq=False)
class Recorded:
    """What a record writes: the release anew, which patch took the changes, and what to know of it.

    `contexts` say of each of its hunks how sure its place is; `undeclared` are its needs, or needs
    of it, that no header says: the later patch, the earlier one, and why. `declared` are those that
    were written into headers.
    """

    revision: Revision
    folder: str
    patch: str
    contexts: tuple[Context, ...]
    empty: tuple[str, ...]
    undeclared: tuple[tuple[str, str, str], ...]
    declared: tuple[tuple[str, str, str], ...] = ()


def refuse_moved_ground(opened: OpenedTree, stack: Stack) -> None:
    """Raise PatchkitError where stored patches, or the place of the work tree, are not as known."""
    path, state = opened.path, opened.state
    # the person may have moved the branch itself
    back = f"git -C {state.path} checkout -B {worktree.BRANCH} {state.commit[:12]}"
    if digests(stack.stored) != dict(state.sources) and not _stands_on(opened, stack):
        git = f"git -C {state.path}"
        save = f"{git} add -A && {git} diff --cached {state.commit[:12]}"
        raise PatchkitError(
            "the stored patches below the changes are not those that the work tree was made from",
            place=state.path,
            hint=f"save your changes (`{save} > mine.diff`), then `patchkit edit --discard`",
        )
    if is_half_moved(state):
        raise PatchkitError(
            "stands where it was before it was brought to another patch",
            place=state.path,
            hint=f"`{back}` where you went back yourself; "
            "where a run was killed, save what you changed since, then `patchkit edit --discard`",
        )
    busy = worktree.is_busy(path)
    if busy is not None:
        hint = f"finish it with `git {busy} --continue`, or `git {busy} --abort`"
        raise PatchkitError(f"git {busy} has stopped half way", place=state.path, hint=hint)
    open_files = worktree.unmerged(path)
    if open_files:
        raise PatchkitError(
            "holds both sides of a merge",
            place=f"{state.path}/{open_files[0]}",
            expected="the file as it is to be",
            hint=f"edit it, then `git -C {state.path} add {open_files[0]}`",
        )
    is_below = state.before != state.commit and worktree.head(path) == state.before
    if is_below or not worktree.is_on_top(path, state.before):
        raise PatchkitError(
            "stands below the patch that is edited, so that its changes would undo others",
            place=state.path,
            hint=f"`{back}` goes back to it",
        )


def _stands_on(opened: OpenedTree, stack: Stack) -> bool:
    """Return whether what a work tree was left at is what is stored up to there now.

    So it is where only headers were changed, or later patches.
    """
    state = opened.state
    if state.patch is None:
        return worktree.holds(opened.path, state.commit, stack.top(list(stack.stored)[-1]))
    at = [one for one in stack.layers if (one.folder, one.name) == (state.folder, state.patch)]
    return any(worktree.holds(opened.path, state.commit, one.after) for one in at)


def edited_tree(opened: OpenedTree, ground: SourceTree) -> SourceTree:
    """Return the content of the work tree; `ground` is what it was left at.

    Raises PatchkitError for what no patch can hold: binary files, links, files of a new kind.
    """
    changes: dict[str, bytes | None] = {}
    modes: dict[str, int] = dict(ground.modes)
    for change in opened.changes:
        content = _content(opened, change, ground)
        changes[change.path] = content
        modes.pop(change.path, None)
        if content is not None and change.new_mode == "100755":
            modes[change.path] = _MODES[change.new_mode]
    return replace(ground.with_changes(changes), modes=modes)


def _content(opened: OpenedTree, change: Changed, ground: SourceTree) -> bytes | None:
    place = f"{opened.state.path}/{change.path}"
    if change.new_mode == "000000":
        return None
    if change.new_mode not in _MODES:
        what = _ODD_MODES.get(change.new_mode, f"of mode {change.new_mode}")
        raise PatchkitError(f"is {what}", place=place, expected="a plain file")
    if change.path not in ground.files and classify(change.path) is not Section.SHIPPED:
        raise PatchkitError(
            "is a new file that no wheel would hold",
            place=place,
            expected="a file of the package",
            hint="keep it in your repository (tests: `Test:` in the header), or let git ignore it",
        )
    content = worktree.read_blob(opened.path, change.new_blob)
    if b"\0" in content:
        raise PatchkitError(
            "is binary", place=place, expected="text", hint="put whole binary files in an overlay"
        )
    problem = unfinished(change.path, ground.files.get(change.path), content)
    if problem is not None:
        raise PatchkitError(problem, place=place, hint="edit it again; nothing was recorded")
    return content


def record(
    stack: Stack,
    opened: OpenedTree,
    folder: str,
    into: str | NewPatch,
    *,
    accept_drift: bool = False,
    declare: bool = False,
    progress: Progress | None = None,
) -> Recorded:
    """Return the release with the changes of a work tree in a patch.

    `into` is the patch that takes the changes, or a new one that comes right after the one that the
    tree stands at. With `declare` its needs, and needs of it, go into the headers. Raises
    PatchkitError where a later patch cannot be carried over the changes, and where they do not
    commute with the patches between them and theirs.
    """
    layers, stored = stack.of(folder), stack.stored[folder]
    at = _position(opened, layers, folder)
    left_at = layers[at - 1].after if at else stack.grounds[folder]
    tree = edited_tree(opened, left_at)
    touched = frozenset(change.path for change in opened.changes)
    _refuse_overlaid(opened, stack, touched)
    name = into.name if isinstance(into, NewPatch) else into
    change = f"the changes of {name}"
    below = [draft_of(layer) for layer in layers[:at]]
    if isinstance(into, NewPatch):
        refuse_taken(name, [layer.name for layer in layers])
        below.append(_new_draft(into, left_at, tree, touched))
    elif at and into == layers[at - 1].name:
        below[-1] = _refreshed(layers[at - 1], tree, touched)
    else:
        below = _brought_down(stack, folder, into, at, _new_draft(
            NewPatch(_CHANGES, b""), left_at, tree, touched
        ))  # fmt: skip
    above, _ = carry(
        stored, layers[at:], left_at, tree,
        change=change, accept_drift=accept_drift, progress=progress,
    )  # fmt: skip
    drafts, declared = [*below, *above], dict[tuple[str, str], str]()
    while True:
        revision = revise(
            stack, folder, drafts, change=change, accept_drift=accept_drift, progress=progress
        )
        recorded = _recorded(stack, revision, folder, name)
        own = [n for n in recorded.undeclared if _is_of(n[0], folder) and n[:2] not in declared]
        if not declare or not own:
            rows = tuple((*names, text) for names, text in declared.items())
            return replace(recorded, declared=rows)
        declared |= {(later, earlier): text for later, earlier, text in own}
        drafts = declaring(drafts, folder, own)


def _is_of(called: str, folder: str) -> bool:
    """Return whether a patch, by the name that it goes by where several folders are, is of one."""
    return "/" not in called or called.rpartition("/")[0] == folder


def _refuse_overlaid(opened: OpenedTree, stack: Stack, touched: frozenset[str]) -> None:
    """Raise PatchkitError where a file was changed that has its source in the repository."""
    for stored in stack.stored.values():
        overlay = stored.series.overlay
        for entry in overlay.entries if overlay is not None else ():
            if entry.path in touched:
                raise PatchkitError(
                    f"comes from the overlay of {stored.place}",
                    place=f"{opened.state.path}/{entry.path}",
                    expected="a file of the release or of a patch",
                    hint=f"edit {entry.source} instead; `patchkit overlay --refresh` writes its "
                    "sha256",
                )


def _brought_down(stack: Stack, folder: str, into: str, at: int, changes: Draft) -> list[Draft]:
    """Return the patches of the work tree with its changes in one that lies further below."""
    layers = stack.of(folder)[:at]
    if into not in [layer.name for layer in layers]:
        raise PatchkitError(
            "comes after the patch that the work tree stands at",
            place=f"{stack.stored[folder].place}/{into}",
            hint=f"`patchkit edit {into.removesuffix('.patch')}` opens it there",
        )
    with_changes, _ = with_layers(stack, folder, [*map(draft_of, layers), changes])
    stem = into.removesuffix(".patch")
    try:
        folded = fold_one(with_changes, folder, _CHANGES, into, header=False)
    except PatchkitError as err:
        raise PatchkitError(
            f"{_CHANGES} {err.fact}",
            place=stack.stored[folder].place,
            hint=f"nothing was changed; record them in a patch that lies further up, or make them "
            f"at `patchkit edit {stem}`",
        ) from err
    own = {layer.name: layer for layer in layers}
    return [replace(draft, origins=(own[draft.name],)) for draft in folded.drafts]


def _position(opened: OpenedTree, layers: Sequence[Layer], folder: str) -> int:
    """Return how many patches of the folder are in the work tree."""
    if opened.state.patch is None or opened.state.folder != folder:
        return len(layers)
    return [layer.name for layer in layers].index(opened.state.patch) + 1


def _refreshed(layer: Layer, tree: SourceTree, touched: frozenset[str]) -> Draft:
    rest = tuple(section.file for section in layer.plan.unshipped)
    paths = layer.paths | touched
    data = make_data(layer.plan.patch.preamble, layer.before, tree, paths, rest)
    if data == layer.plan.patch.preamble:
        name = layer.name.removesuffix(".patch")
        raise PatchkitError(
            "would have nothing left",
            place=layer.place,
            hint=f"`patchkit edit --close --discard`, then `patchkit drop {name}`",
        )
    return Draft(layer.entry, data, (layer,))


def _new_draft(
    new: NewPatch, before: SourceTree, tree: SourceTree, touched: frozenset[str]
) -> Draft:
    return Draft(SeriesEntry(new.name), make_data(new.preamble, before, tree, touched))


def _recorded(stack: Stack, revision: Revision, folder: str, name: str) -> Recorded:
    layer = next(one for one in revision.built[folder].layers if one.name == name)
    every = [one for f in stack.stored for one in revision.built[f].layers]
    called = f"{folder}/{name}" if len(stack.stored) > 1 else name
    needs = needs_of(every, stack.base).undeclared() if len(every) > 1 else []
    return Recorded(
        revision,
        folder,
        name,
        contexts_of(layer.plan),
        empty_fields(parse_header(layer.plan.patch.preamble, layer.place)),
        tuple(need for need in needs if called in need[:2]),
    )
