"""Which patches of a release go into a result: all, some by name, or all but some.

A patch that needs others says so in its header, `Depends-On: other, folder/third`. What is chosen
by name brings what it needs; what is left out by name must not be needed by what stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchkit.diff.header import parse_header
from patchkit.diff.parse import parse_patch
from patchkit.errors import PatchkitError, UsageError

Key = tuple[str, str]  # series folder, patch name


@dataclass(frozen=True)
class Selection:
    """The chosen patches, (folder, name) in series order.

    `word` says for a version label how they were chosen: "" for all of them. `brought` maps a patch
    that nobody named to the one that needs it.
    """

    chosen: tuple[Key, ...]
    left_out: tuple[Key, ...] = ()
    word: str = ""
    brought: Mapping[Key, Key] | None = None


def select_patches(
    patches: Mapping[Key, bytes],
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    name: str | None = None,
    named: Mapping[str, Sequence[str]] | None = None,
) -> Selection:
    """Return the selection among all patches of a release, given in series order.

    At most one of `only`, `without` and `name` (a key of `named`, from the configuration) is used.
    Raises PatchkitError, naming the patches, for an unknown or ambiguous name, for a dependency
    that is unknown or comes later in the series, and for a left-out patch that another one needs.
    """
    if sum(map(bool, (only, without, name))) > 1:
        raise UsageError("choose patches by one of --only, --without and --selection")
    needs = declared_needs(patches)
    if without:
        return _without(patches, needs, without)
    if name is not None:
        if name not in (named or {}):
            known = ", ".join(sorted(named or {})) or "none"
            raise PatchkitError(
                f"there is no selection {name!r}", place="[tool.patchkit.selections]",
                hint=f"configured are: {known}",
            )  # fmt: skip
        return _only(patches, needs, (named or {})[name], name)
    if only:
        return _only(patches, needs, only, None)
    return Selection(tuple(patches))


def declared_needs(patches: Mapping[Key, bytes]) -> dict[Key, tuple[Key, ...]]:
    """Return what each patch names in its header as needed; raises as `select_patches` does."""
    return {key: _needs(key, data, patches) for key, data in patches.items()}


def _only(
    patches: Mapping[Key, bytes],
    needs: Mapping[Key, tuple[Key, ...]],
    only: Sequence[str],
    name: str | None,
) -> Selection:
    asked = [find_patch(text, patches) for text in only]
    wanted = dict.fromkeys(asked)
    brought: dict[Key, Key] = {}
    queue = list(wanted)
    while queue:
        key = queue.pop()
        for need in needs[key]:
            if need not in wanted:
                wanted[need] = None
                brought[need] = key
                queue.append(need)
    chosen = tuple(key for key in patches if key in wanted)
    left = tuple(key for key in patches if key not in wanted)
    word = name if name is not None else "only." + ".".join(_stem(key) for key in chosen)
    return Selection(chosen, left, word, brought)


def _without(
    patches: Mapping[Key, bytes], needs: Mapping[Key, tuple[Key, ...]], without: Sequence[str]
) -> Selection:
    left = dict.fromkeys(find_patch(text, patches) for text in without)
    for key in patches:
        missing = [need for need in needs[key] if need in left and key not in left]
        if missing:
            raise PatchkitError(
                f"needs {_shown(missing[0])}, which is to be left out",
                place=_shown(key),
                hint=f"leave {_shown(key)} out as well",
            )
    chosen = tuple(key for key in patches if key not in left)
    if not chosen:
        raise PatchkitError("no patch is left", hint="upstream's own wheel is what remains")
    word = "without." + ".".join(_stem(key) for key in patches if key in left)
    return Selection(chosen, tuple(key for key in patches if key in left), word)


def _needs(key: Key, data: bytes, patches: Mapping[Key, bytes]) -> tuple[Key, ...]:
    place = _shown(key)
    header = parse_header(parse_patch(data, place).preamble, place)
    found = []
    order = list(patches)
    for text in header.depends_on:
        need = find_patch(text, patches, folder=key[0], place=place)
        if order.index(need) >= order.index(key):
            raise PatchkitError(
                f"depends on {_shown(need)}, which does not come before it", place=place
            )
        found.append(need)
    return tuple(found)


def find_patch(
    text: str, patches: Mapping[Key, bytes], folder: str | None = None, place: str | None = None
) -> Key:
    """Return the patch of a name, with or without its folder and its suffix.

    One in `folder` is meant rather than others of the name. Raises PatchkitError, at `place`, where
    no patch or more than one is called that.
    """
    hits = [key for key in patches if same_patch(text, *key)]
    near = [key for key in hits if key[0] == folder]
    hits = near or hits
    if len(hits) == 1:
        return hits[0]
    if hits:
        raise PatchkitError(
            f"{text!r} names {' and '.join(map(_shown, hits))}", place=place, expected="one patch"
        )
    known = ", ".join(_stem(key) for key in patches)
    raise PatchkitError(
        f"there is no patch {text!r}", place=place, hint=f"the series has: {known or 'none'}"
    )


def same_patch(text: str, folder: str, name: str) -> bool:
    """Return whether a word means a patch: by its name, with or without folder and suffix."""
    stem = _stem((folder, name))
    return text in (name, stem, f"{folder}/{name}", f"{folder}/{stem}")


def _stem(key: Key) -> str:
    return key[1].removesuffix(".patch").removesuffix(".diff")


def _shown(key: Key) -> str:
    return f"{key[0]}/{key[1]}"
