"""The commits that `git log -p` writes one below the other, each as a patch."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from patchkit.diff import FilePatch, Patch

_HEAD = re.compile(rb"^commit [0-9a-f]{40}\b", re.MULTILINE)


def split_log(patch: Patch) -> tuple[Patch, ...]:
    """Return one patch a commit, the last one first, as git writes the newest first.

    A patch that is no such log, or one commit of it, is returned as it is.
    """
    if not _HEAD.match(patch.preamble.lstrip(b"\n")):
        return (patch,)
    heads = [patch.preamble]
    groups: list[list[FilePatch]] = [[]]
    for file in patch.files:
        if found := list(_HEAD.finditer(file.lead)):
            cut = found[-1].start()  # what comes before is a commit without files
            heads.append(file.lead[cut:])
            groups.append([])
            file = replace(file, lead=file.lead[:cut])
        groups[-1].append(file)
    if len(groups) == 1:
        return (patch,)
    parts = [_part(patch, number, head, groups) for number, head in enumerate(heads)]
    return tuple(reversed(parts))


def _part(patch: Patch, number: int, head: bytes, groups: Sequence[Sequence[FilePatch]]) -> Patch:
    last = number + 1 == len(groups)
    start = groups[number][0].lineno if number else 0
    end = math.inf if last else groups[number + 1][0].lineno
    notes = (note for note in patch.notes if start <= note.lineno < end)
    return replace(
        patch,
        name=f"{patch.name}#{number + 1}",
        preamble=head,
        files=tuple(groups[number]),
        trailer=patch.trailer if last else b"",
        # that a file has several sections is so for the whole log, and here what a log is
        notes=tuple(note for note in notes if " has more than one section; " not in note.text),
    )
