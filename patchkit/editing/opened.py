"""Work trees that are open: made from what is stored, found again, left alone while they hold work.

The state is written before the tree gets its name and the name goes before the state does, so that
a tree with a state is a whole one, whatever was killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from patchkit.editing import worktree
from patchkit.editing.stack import Layer, Stack
from patchkit.editing.state import EditState, format_state, read_state, state_path
from patchkit.editing.worktree import Changed, Commit
from patchkit.errors import PatchkitError, UsageError
from patchkit.repository.session import folder_digest
from patchkit.repository.store import Stored
from patchkit.repository.workspace import Replacement, Workspace
from patchkit.upstream.pins import normalise_version
from patchkit.upstream.progress import Progress, silent

Key = tuple[str, str]  # series folder, patch name


@dataclass(frozen=True)
class OpenedTree:
    """A work tree that is open, and what was changed in it and is not recorded."""

    state: EditState
    content: str  # git's id of what lies in the tree
    changes: tuple[Changed, ...]

    @property
    def path(self) -> Path:
        """Where the tree lies."""
        return Path(self.state.path)


def digests(stored: Mapping[str, Stored]) -> dict[str, str]:
    """Return what the folders of a release hold, as digests."""
    return digests_of({one.place: one.files for one in stored.values()})


def digests_of(folders: Mapping[str, Mapping[str, bytes]]) -> dict[str, str]:
    """Return digests of release folders, each given as names to bytes."""
    return {place: folder_digest(dict(sorted(files.items()))) for place, files in folders.items()}


def find_opened(state_folder: Path, release: str) -> OpenedTree | None:
    """Return the work tree of a release that is open, None where there is none.

    A record that was killed after it stored the patches is finished here, and a move to another
    patch unless the files are others since.
    """
    state = read_state(state_path(state_folder, release))
    if state is None or not (Path(state.path) / ".git").is_dir():
        return None
    path = Path(state.path)
    if state.replaced is not None and worktree.head(path) == state.replaced:
        worktree.stand_at(path, state.commit, state.series)
    content = worktree.snapshot(path)
    if content == state.held and is_half_moved(state):
        worktree.check_out(path, state.commit)
        content = worktree.snapshot(path)
    changes = worktree.changed(path, worktree.tree_of(path, state.commit), content)
    return OpenedTree(state, content, changes)


def is_half_moved(state: EditState) -> bool:
    """Return whether a work tree stands where it was to be brought away from."""
    return state.left is not None and state.left == worktree.head(Path(state.path))


def open_releases(state_folder: Path) -> list[str]:
    """Return the releases of which a state file tells that a work tree is open."""
    return sorted(path.stem.removeprefix("v") for path in (state_folder / "edit").glob("v*.json"))


def only_open(state_folder: Path, release: str | None) -> str:
    """Return the release whose work tree is open: the given one, or the only one."""
    names = open_releases(state_folder)
    asked = normalise_version(release) if release is not None else None
    if asked is not None:
        names = [name for name in names if name == asked]
    if len(names) == 1:
        return names[0]
    if names:
        hint = f"open are {', '.join(f'v{name}' for name in names)}"
        raise UsageError("more than one work tree is open", expected="--release", hint=hint)
    what = f"no work tree of v{asked}" if asked is not None else "no work tree"
    raise PatchkitError(f"{what} is open", hint="`patchkit edit` opens one")


def open_new(
    workspace: Workspace,
    stack: Stack,
    path: Path,
    key: Key | None,
    progress: Progress = silent,
) -> EditState:
    """Return the state of a new work tree that stands at a patch, or with None on top of all."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise PatchkitError(
            "is there already, and is no work tree of patchkit's",
            place=str(path),
            expected="a new or an empty folder",
        )
    commits, places = commits_of(stack)
    number = places[key] if key is not None else len(commits) - 1

    def publish(ids: tuple[str, ...]) -> None:
        state = state_of(stack, path, key, ids, number)
        place = state_path(workspace.state_folder, stack.release)
        workspace.commit([Replacement(place, format_state(state, place))])

    ids = worktree.create(path, commits, number, publish, progress)
    return state_of(stack, path, key, ids, number)


def state_of(
    stack: Stack, path: Path, key: Key | None, ids: tuple[str, ...], number: int
) -> EditState:
    """Return the state of a work tree that was made from a stack and stands at a commit."""
    folder, patch = key if key is not None else (None, None)
    before = ids[max(number - 1, 0)]
    sources = digests(stack.stored)
    return EditState(stack.release, str(path), sources, folder, patch, before, ids[number], ids[-1])


def stand_elsewhere(
    workspace: Workspace, opened: OpenedTree, stack: Stack, key: Key | None
) -> EditState:
    """Return the state of an open work tree, brought to another patch; what it held is gone."""
    path = opened.path
    commits, places = commits_of(stack)
    first = worktree.chain(path, opened.state.series)[0]
    ids = (first, *worktree.write_commits(path, first, commits[1:]))
    number = places[key] if key is not None else len(commits) - 1
    state = state_of(stack, path, key, ids, number)
    left = worktree.head(path)
    if left != state.commit:
        state = replace(state, left=left, held=opened.content)
    place = state_path(workspace.state_folder, stack.release)
    workspace.commit([Replacement(place, format_state(state, place))])
    worktree.check_out(path, state.commit)
    return state


def advance(
    opened: OpenedTree, stack: Stack, new: Stack, sources: Mapping[str, str], key: Key | None
) -> EditState:
    """Return the state of a work tree whose changes are recorded; its commits are made, no more.

    `new` is what is stored then, `key` the patch that it stands at. Commits below the first one
    that is otherwise stay; all are made anew where something was stored behind the tree's back.
    """
    path = opened.path
    old_commits, _ = commits_of(stack)
    commits, places = commits_of(new)
    same = 1  # the release itself
    most = min(len(commits), len(old_commits))
    if digests(stack.stored) != dict(opened.state.sources):
        most = 1
    while same < most and commits[same] == old_commits[same]:
        same += 1
    kept = worktree.chain(path, opened.state.series)[:same]
    ids = (*kept, *worktree.write_commits(path, kept[-1], commits[same:]))
    number = places[key] if key is not None else len(commits) - 1
    state = state_of(new, path, key, ids, number)
    return replace(state, sources=sources, replaced=worktree.head(path))


def default_path(state_folder: Path, release: str) -> Path:
    """Return where the work tree of a release lies unless the person says otherwise."""
    return state_path(state_folder, release).with_suffix("")


def close(workspace: Workspace, release: str) -> Path:
    """Remove the work tree of a release and what is known of it; return where it was.

    Where the state cannot be read, it is the one in the usual place.
    """
    place = state_path(workspace.state_folder, release)
    try:
        state = read_state(place)
    except PatchkitError:
        state = None
    path = Path(state.path) if state else default_path(workspace.state_folder, release)
    worktree.discard(path)
    workspace.commit([Replacement(place, None)])
    return path


def commits_of(stack: Stack) -> tuple[list[Commit], dict[Key, int]]:
    """Return the commits of a release with its patches, and the number of each patch's."""
    tree = stack.pristine
    name = tree.name or f"v{stack.release}"
    commits = [Commit(f"{name}\n\nThe release as it ships.\n", tree.files, tree.modes)]
    places: dict[Key, int] = {}
    several = len(stack.stored) > 1
    for folder, stored in stack.stored.items():
        overlay = stored.series.overlay
        if overlay is not None:
            ground = stack.grounds[folder]
            files = {entry.path: ground.files[entry.path] for entry in overlay.entries}
            modes = {path: ground.mode(path) for path in files}
            commits.append(Commit(f"overlay of {folder}\n", files, modes))
        for layer in stack.of(folder):
            places[folder, layer.name] = len(commits)
            commits.append(commit_of(layer, several=several))
    return commits, places


def commit_of(layer: Layer, *, several: bool) -> Commit:
    """Return the commit of one patch: its name, its description, and what it changes."""
    stem = layer.name.removesuffix(".patch").removesuffix(".diff")
    subject = f"{layer.folder}/{stem}" if several else stem
    text = (layer.header.description or layer.header.text).strip()
    files = {path: layer.after.files.get(path) for path in sorted(layer.paths)}
    modes = {path: layer.after.mode(path) for path in files}
    return Commit(f"{subject}\n\n{text}\n" if text else f"{subject}\n", files, modes)


def refuse_unrecorded(opened: OpenedTree, place: str) -> PatchkitError:
    """Return the refusal of what would lose the changes in a work tree."""
    names = sorted(change.path for change in opened.changes)
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return PatchkitError(
        f"holds changes that are not recorded: {shown}",
        place=place,
        hint="`patchkit record` stores them; --discard throws them away",
    )


def renamed_state(state_folder: Path, release: str, key: Key, name: str) -> tuple[Replacement, ...]:
    """Return what is to be written of an open work tree that stands at a patch with a new name."""
    place = state_path(state_folder, release)
    state = read_state(place)
    if state is None or (state.folder, state.patch) != key:
        return ()
    return (Replacement(place, format_state(replace(state, patch=name), place)),)


def refuse_while_open(state_folder: Path, release: str) -> None:
    """Raise PatchkitError where a work tree of a release holds changes that are not recorded."""
    opened = find_opened(state_folder, release)
    if opened is not None and opened.changes:
        raise refuse_unrecorded(opened, opened.state.path)
