"""`patchkit why`: the story of one patch, or of one hunk of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from patchkit.cli import render, render_know
from patchkit.cli.options import here, json_option, series_folders, series_option, tree_opener
from patchkit.config import Config
from patchkit.errors import ExitCode, PatchkitError
from patchkit.knowing.anchored import HunkAnchor
from patchkit.knowing.next_step import next_steps
from patchkit.knowing.registry import KnownVerdict
from patchkit.knowing.shown import parse_wanted
from patchkit.knowing.story import Asked, Passage, Story, Teller, Trial, is_release
from patchkit.report import outcome_json
from patchkit.repository.store import nearest_base, read_stored, stored_releases
from patchkit.series.contents import HunkContents
from patchkit.series.graph import Link
from patchkit.upstream.pins import normalise_version


@click.command(short_help="Tell the story of a patch or hunk, and what to do next.")
@click.argument("patch", metavar="PATCH[#HUNK]")
@click.argument("release", metavar="[RELEASE]", required=False)
@click.option("--target", metavar="TREE", help="What a move onto this release or tree would make.")
@series_option
@json_option
def command(
    patch: str, release: str | None, target: str | None, folder: str | None, as_json: bool
) -> ExitCode:
    """Tell the story of a patch or hunk, and what to do next.

    What it changes and why, what its hunks hold on to, what it needs and what needs it, how it got
    to each stored release, and what its tests say. With RELEASE the way to that one, with all
    evidence; where the patch is not stored for it, or with --target, what a move there would make
    of it, with what was rejected. Moves are made again, and nothing is written. The exit status is
    3 where a move leaves something open, or what is stored is not what a move makes.

    \b
    Examples:
      patchkit why block-promotion
      patchkit why block-promotion#2 v0.29.0
      patchkit why block-promotion v0.33.0
      patchkit why block-promotion --target ../vllm
    """
    config = here()
    folders = series_folders(config, folder)
    wanted = parse_wanted(patch)
    known = _holding(config, folders, wanted.patch or "")
    only = normalise_version(release) if release is not None else None
    series, name, releases = _chosen(known, wanted.patch or "", only)
    target = _normalised(target)
    if only is not None and only not in releases:
        if target is not None:
            raise _not_in(series, name, only, releases)
        only, target = None, f"v{only}"
    told = only or _nearest(releases, target)
    shown = told if only or target else None
    with render.progress() as progress:
        teller = Teller(config, tree_opener(config, progress), progress)
        story = teller.tell(Asked(series, name, told, wanted.hunk), only=shown, target=target)
    document = _document(story)
    if as_json:
        render.show_json(document)
    else:
        render_know.show_why(document)
    return ExitCode(document["exit_code"])


Held = dict[tuple[str, str], list[str]]


def _holding(config: Config, folders: Sequence[str], word: str) -> Held:
    """Return the patches that a word may mean, by folder and name, with the releases they are in.

    Raises PatchkitError where there is none.
    """
    held: Held = {}
    every: dict[str, None] = {}
    for folder in folders:
        for release in stored_releases(config.root, folder):
            for name in read_stored(config.root, folder, release).series.patches:
                stem = name.removesuffix(".patch").removesuffix(".diff")
                every.setdefault(stem)
                if word in (name, stem, f"{folder}/{name}", f"{folder}/{stem}"):
                    held.setdefault((folder, name), []).append(release)
    if not held:
        raise PatchkitError(
            f"there is no patch {word!r}", place=", ".join(folders),
            hint=f"stored are: {', '.join(every) or 'none'}",
        )  # fmt: skip
    return held


def _chosen(known: Held, word: str, release: str | None) -> tuple[str, str, list[str]]:
    """Return the one patch that is meant: where several are called so, the one in the release."""
    there = {key: held for key, held in known.items() if release in held} or known
    if len(there) > 1:
        names = " and ".join(f"{folder}/{name}" for folder, name in there)
        raise PatchkitError(f"{word!r} names {names}", expected="one patch")
    (folder, name), releases = next(iter(there.items()))
    return folder, name, releases


def _nearest(releases: Sequence[str], target: str | None) -> str:
    """Return the stored release to move from: below a target, the lowest for one below all."""
    version = target.removeprefix("v") if target and is_release(target) else None
    return nearest_base(releases, version) or releases[0]


def _not_in(folder: str, name: str, release: str, releases: Sequence[str]) -> PatchkitError:
    return PatchkitError(
        f"{name} is not stored for v{release}",
        place=folder,
        expected="one of " + ", ".join(f"v{one}" for one in releases),
    )


def _normalised(target: str | None) -> str | None:
    """Return a release as `v0.33.0`, any other tree as it is spelt."""
    if target is None:
        return None
    try:
        return f"v{normalise_version(target)}"
    except PatchkitError:
        return target


# The document ------------------------------------------------------------------------------------


def _document(story: Story) -> dict[str, Any]:
    """Return the story as docs/schema/why-1.json describes it."""
    header, asked = story.contents.header, story.asked
    outcomes = [o for passage in story.passages for o in passage.outcomes]
    if story.trial is not None and not story.trial.superseded:
        outcomes += story.trial.outcomes
    differ = any(passage.differences for passage in story.passages)
    ok = not differ and all(o.landed and not o.drifted for o in outcomes)
    return {
        "schema": "patchkit.why/1",
        "ok": ok,
        "exit_code": int(ExitCode.DONE if ok else ExitCode.FINDINGS),
        "folder": asked.folder,
        "patch": asked.patch,
        "hunk": asked.hunk,
        "release": asked.release,
        "subject": story.contents.subject,
        "header": [{"field": item.name, "value": item.value} for item in header.fields],
        "text": header.text,
        "files": [
            {"path_before": file.path_before, "path_after": file.path_after, "change": file.change,
             "hunks": [_hunk(hunk, story.anchors) for hunk in file.hunks]}
            for file in story.contents.files
        ],
        "needs": [_link(link, link.earlier, later=True) for link in story.needs],
        "needed_by": [_link(link, link.later, later=False) for link in story.needed_by],
        "releases": [_passage(passage) for passage in story.passages],
        "verdicts": [_verdict(known) for known in story.verdicts],
        "trial": _trial(story.trial) if story.trial is not None else None,
        "next": list(next_steps(story)),
    }  # fmt: skip


def _hunk(hunk: HunkContents, anchors: Sequence[HunkAnchor]) -> dict[str, Any]:
    anchor = next((one for one in anchors if one.number == hunk.number), None)
    return {
        "hunk": hunk.number,
        "line": hunk.line,
        "added": hunk.added,
        "removed": hunk.removed,
        "definitions": dict(anchor.definitions) if anchor is not None else {},
        "edits": [
            {"kind": edit.kind, "in": edit.place, "after": edit.after, "before": edit.before,
             "removes": list(edit.removes)}
            for edit in (anchor.edits if anchor is not None else ())
        ],
        "relies_on": list(anchor.relies_on) if anchor is not None else [],
    }  # fmt: skip


def _link(link: Link, other: str, *, later: bool) -> dict[str, Any]:
    return {
        "patch": other,
        "binds": link.binds,
        "declared": link.declared or link.implied,
        "reasons": [
            {
                "kind": reason.kind,
                "binds": reason.binds,
                "hunk": (reason.later if later else reason.earlier).number,
                "other_hunk": (reason.earlier if later else reason.later).number,
                "text": reason.text,
            }
            for reason in link.reasons
        ],
    }


def _passage(passage: Passage) -> dict[str, Any]:
    return {
        "release": passage.step.release,
        "how": passage.step.how,
        "same_as": passage.step.same_as,
        "reasons": [reason.text for reason in passage.reasons],
        "hunks": [
            {"hunk": hunk.number, "path": file.path_after, "line": hunk.line,
             "definitions": list(hunk.definitions)}
            for file in passage.files for hunk in file.hunks
        ],
        "base": passage.base,
        "outcomes": [outcome_json(outcome) for outcome in passage.outcomes],
        "differences": list(passage.differences),
        "unknown": passage.unknown,
    }  # fmt: skip


def _verdict(known: KnownVerdict) -> dict[str, Any]:
    verdict = known.verdict
    return {
        "release": verdict.release,
        "verdict": verdict.verdict.value,
        "pristine": verdict.pristine.value,
        "patched": verdict.patched.value if verdict.patched else None,
        "reason": verdict.reason,
        "fresh": known.fresh,
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "target": trial.target,
        "base": trial.base,
        "lands": trial.lands,
        "in_range": trial.in_range,
        "verdict": _verdict(trial.verdict) if trial.verdict is not None else None,
        "outcomes": [outcome_json(outcome) for outcome in trial.outcomes],
    }
