"""What the commands that edit stored patches show: what becomes of each patch, and what to know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from patchkit.cli.render import say, show_json
from patchkit.report import counted

if TYPE_CHECKING:
    from patchkit.editing.delivery import Delivery


def delivery_json(plan: Delivery) -> dict[str, Any]:
    """Return what is written for one release, as docs/schema/revision-1.json describes it."""
    return {
        "folder": plan.folder,
        "release": plan.release,
        "patches": [{"name": name, "change": change} for name, change in plan.changes],
        "written": list(plan.written),
        "notes": list(plan.notes),
    }


def show_edit(document: dict[str, Any]) -> None:
    """Print where the work tree is, and how to go on."""
    path, state = document["path"], document["state"]
    if state == "closed":
        say(f"{path} is removed")
        return
    where = f"at {document['patch']}" if document["patch"] else "on top of all patches"
    word = {"opened": "opened", "there": "open", "moved": "brought there"}[state]
    say(f"{path}: v{document['release']}, {where}; {word}")
    for name in document["later"]:
        say(f"  later: {name}")
    if state == "there" or document["changed"]:
        changed = document["changed"]
        say(f"{counted(len(changed), 'file')} changed and not recorded" if changed else "unchanged")
        for name in changed:
            say(f"  {name}")
    if state != "there":
        into = "patchkit record" if document["patch"] else "patchkit record --new NAME"
        say(f"edit the files there, then: {into}")


def show_record(document: dict[str, Any]) -> None:
    """Print what was stored, and how sure the context of each hunk is."""
    if document["release"] is None:
        say(f"nothing has changed in {document['path']}: there is nothing to record")
        return
    _show_release(document["release"], dry_run=document["dry_run"])
    for hunk in document["hunks"]:
        say(f"  hunk {hunk['number']}, {hunk['path']}: {hunk['text']}")
    if document["empty_fields"]:
        say(f"{document['patch']}: to be filled in: {', '.join(document['empty_fields'])}")
    needed: dict[str, list[str]] = {}
    for need in document["undeclared"]:
        needed.setdefault(need["later"], []).append(need["earlier"].removesuffix(".patch"))
        say(f"warning: {need['later']} needs {need['earlier']}: {need['text']}")
    for later, names in needed.items():
        say(f"  declare in {later}: Depends-On: {', '.join(names)}")
    for need in document["declared"]:
        say(f"declared: {need['later']} needs {need['earlier']}: {need['text']}")
    _show_dry_run(document)


def show_revision(document: dict[str, Any], *, as_json: bool) -> None:
    """Print what an edit did to each release."""
    if as_json:
        show_json(document)
        return
    for one in document.get("dropped", ()):
        say(f"v{one['release']}: {one['patch']} is left out: {one['reason']}")
    for release in document["releases"]:
        _show_release(release, dry_run=document["dry_run"])
    _show_dry_run(document)


def show_rename(document: dict[str, Any], *, as_json: bool) -> None:
    """Print each file that goes by the new name."""
    if as_json:
        show_json(document)
        return
    for entry in document["written"]:
        say(f"{entry['path']}: {entry['what']}")
    for note in document["notes"]:
        say(f"note: {note}")
    _show_dry_run(document)


def _show_release(release: dict[str, Any], *, dry_run: bool) -> None:
    for patch in release["patches"]:
        say(f"{release['folder']}/v{release['release']}: {patch['name']}: {patch['change']}")
    for path in release["written"]:
        say(f"{'would write' if dry_run else 'wrote'} {path}")
    for note in release["notes"]:
        say(f"note: {note}")


def _show_dry_run(document: dict[str, Any]) -> None:
    if document["dry_run"]:
        say("nothing was written: --dry-run")
