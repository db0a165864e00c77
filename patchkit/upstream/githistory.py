"""What upstream's git history says between two releases: which commits touched which files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import PatchkitError
from patchkit.upstream.gitrepo import ask, find_commit, open_repo

_ID_LENGTH = 10
_SEPARATOR = "\x1f"
# what the user's configuration must not add to a log
_PLAIN = ["log.showSignature=false", "log.follow=false", "core.quotePath=false"]


@dataclass(frozen=True)
class Touch:
    """One commit's change of one file: the file's blobs before and after, None for no file."""

    id: str
    date: str
    subject: str
    path: str
    before: str | None
    after: str | None


class History:
    """The history in one repository of upstream's; what was read once is kept."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._repo = open_repo(path)
        self._commits: dict[str, str | None] = {}
        self._touches: dict[tuple[str, str, str], tuple[Touch, ...]] = {}

    def commit(self, ref: str) -> str | None:
        """Return the id of the commit that a tag or another ref names, None where there is none."""
        if ref not in self._commits:
            try:
                self._commits[ref] = find_commit(self._repo, self.path, ref)
            except PatchkitError:
                self._commits[ref] = None
        return self._commits[ref]

    def touches(self, old: str, new: str, path: str) -> tuple[Touch, ...]:
        """Return the commits in `new` and not in `old` that touched a file, the oldest first.

        A merge that changed nothing of its own is none of them.
        """
        key = (old, new, path)
        if key not in self._touches:
            log = ask(
                self._repo, self.path, "log",
                "--reverse", "--topo-order", "--full-history", "--no-merges", "--raw",
                "--no-renames", "--no-abbrev", "--no-color", "--encoding=UTF-8",
                f"--format={_SEPARATOR}%H{_SEPARATOR}%cs{_SEPARATOR}%s",
                f"{old}..{new}", "--", f":(top,literal){path}",
                config=_PLAIN,
            )  # fmt: skip
            self._touches[key] = tuple(_read(log, path))
        return self._touches[key]

    def blob(self, object_id: str | None) -> bytes | None:
        """Return the content of a blob, None for none."""
        if object_id is None:
            return None
        try:
            content: bytes = self._repo.git.get_object_data(object_id)[3]
        except (ValueError, OSError) as err:
            raise PatchkitError(f"object {object_id} cannot be read", place=str(self.path)) from err
        return content

    def file(self, commit: str, path: str) -> bytes | None:
        """Return a file as a commit has it, None where it has none of that name."""
        listed = ask(self._repo, self.path, "ls_tree", "-z", commit, "--", path)
        head = listed.partition(b"\t")[0].split()
        return self.blob(head[2].decode()) if len(head) == 3 and head[1] == b"blob" else None


def _read(log: bytes, path: str) -> Iterator[Touch]:
    """Yield what a log says of one file."""
    head: list[str] = []
    for line in log.decode("utf-8", "replace").split("\n"):
        if line.startswith(_SEPARATOR):
            head = line.split(_SEPARATOR, 3)[1:]
        elif line.startswith(":") and head:
            _, _, before, after, _ = line.partition("\t")[0].split()
            commit, date, subject = head
            yield Touch(commit[:_ID_LENGTH], date, subject, path, _blob(before), _blob(after))


def _blob(object_id: str) -> str | None:
    return object_id if object_id.strip("0") else None
