"""A small git repository as file names and bytes, written with all else or not at all.

Made without git, so that a rebase needs none and no configuration of the user's has a say: loose
objects, one branch, and an index that holds what the last commit does.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence

_WHO = "patchkit <patchkit@localhost> 0 +0000"
_FILE, _FOLDER = b"100644", b"40000"
# what the user's own configuration must not change about what `git diff` shows
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = false
\tbare = false
\tautocrlf = false
\tsafecrlf = false
\tfsmonitor = false
\texcludesFile = /dev/null
\tattributesFile = /dev/null
\thooksPath = /dev/null
[commit]
\tgpgsign = false
"""


def git_folder(commits: Sequence[tuple[str, Mapping[str, bytes]]], branch: str) -> dict[str, bytes]:
    """Return a git folder with one commit for each message and tree, the first one first."""
    objects: dict[str, bytes] = {}
    parent, index = "", b""
    for message, files in commits:
        blobs = {path: _store(objects, "blob", data) for path, data in sorted(files.items())}
        lines = [f"tree {_tree(objects, blobs)}", *([f"parent {parent}"] if parent else [])]
        lines += [f"author {_WHO}", f"committer {_WHO}", "", f"{message}\n"]
        parent = _store(objects, "commit", "\n".join(lines).encode())
        index = _index(blobs)
    return {
        "HEAD": f"ref: refs/heads/{branch}\n".encode(),
        "config": _CONFIG.encode(),
        "index": index,
        f"refs/heads/{branch}": f"{parent}\n".encode(),
        **objects,
    }


def _store(objects: dict[str, bytes], kind: str, content: bytes) -> str:
    """Put an object among the others, and return its id."""
    whole = f"{kind} {len(content)}\0".encode() + content
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    objects[f"objects/{name[:2]}/{name[2:]}"] = zlib.compress(whole)
    return name


def _tree(objects: dict[str, bytes], blobs: Mapping[str, str]) -> str:
    """Put the tree of some paths among the objects, and return its id."""
    folders: dict[str, dict[str, str]] = {}
    rows: list[tuple[bytes, bytes, bytes, str]] = []
    for path, blob in blobs.items():
        head, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(head, {})[rest] = blob
        else:
            rows.append((path.encode(), _FILE, path.encode(), blob))
    for name, inside in folders.items():
        # git sorts a folder as if its name ended in a slash
        rows.append((f"{name}/".encode(), _FOLDER, name.encode(), _tree(objects, inside)))
    content = b"".join(
        mode + b" " + name + b"\0" + bytes.fromhex(found) for _, mode, name, found in sorted(rows)
    )
    return _store(objects, "tree", content)


def _index(blobs: Mapping[str, str]) -> bytes:
    """Return an index of version 2, without times: git looks at each file once to fill them in."""
    parts = [b"DIRC", (2).to_bytes(4), len(blobs).to_bytes(4)]
    for path, blob in sorted(blobs.items(), key=lambda entry: entry[0].encode()):
        name = path.encode()
        numbers = (0, 0, 0, 0, 0, 0, 0o100644, 0, 0, 0)
        head = b"".join(number.to_bytes(4) for number in numbers)
        head += bytes.fromhex(blob) + min(len(name), 0xFFF).to_bytes(2)
        entry = head + name
        parts.append(entry + b"\0" * (8 - len(entry) % 8))
    content = b"".join(parts)
    return content + hashlib.sha1(content, usedforsecurity=False).digest()
