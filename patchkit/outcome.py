"""What became of a hunk, as values: status, method, evidence, drift."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

SURFACE_FORMAT = 1


class Status(StrEnum):
    """What became of one hunk."""

    PLACED = "placed"
    ALREADY_UPSTREAM = "already_upstream"
    PARTLY_UPSTREAM = "partly_upstream"
    CONFLICTED = "conflicted"
    ORPHANED = "orphaned"
    BLOCKED = "blocked"


class Method(StrEnum):
    """How a hunk was placed, from exact to clever."""

    EXACT = "exact"
    OFFSET = "offset"
    MERGE3 = "merge3"
    MOVED = "moved"
    RENAMED = "renamed"
    TYPED = "typed"
    ADAPTATION = "adaptation"
    NEW_FILE = "new_file"
    DELETE_FILE = "delete_file"
    METADATA = "metadata"


@dataclass(frozen=True)
class Evidence:
    """One fact that speaks for (or against) a verdict; `kind` is stable, `text` is for people."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Rename:
    """A rename of upstream's that was taken back to place a hunk, and made again on the result.

    `scope` is the qualified name of the function whose variable it is (`kind` is "variable"), or of
    the renamed definition under its old name ("definition").
    """

    kind: str
    scope: str
    old: str
    new: str

    def __str__(self) -> str:
        where = f" in `{self.scope}`" if self.kind == "variable" else ""
        return f"`{self.old}`{where} -> `{self.new}`"


@dataclass(frozen=True)
class Rejected:
    """What was looked at for a hunk and not taken, and why.

    `kind` is "method" for a method of the cascade, "definition" for a definition of the target that
    might have been the authored one.
    """

    kind: str
    candidate: str
    why: str

    def __str__(self) -> str:
        return f"{self.candidate}: {self.why}"


@dataclass(frozen=True)
class Drift:
    """One part of the surface that new code relies on and that changed between base and target.

    `kind` is stable: "attribute", "keyword", "name" and "import" for what is gone or something
    else, "call" and "default" for how a call binds, "value", "type" and "choice" for what is read,
    "protocol" for what a class owes to its bases. `before` and `after` say what the base and the
    target have of it, without paths and lines: they are the surface that a person accepts, and
    empty where there is nothing.
    """

    kind: str
    name: str
    read_at: str  # "path:line" in the authored file
    text: str
    before: str = ""
    after: str = ""

    @property
    def surface(self) -> str:
        """The fingerprint of what changed, the same wherever it stands."""
        said = "\0".join((self.kind, self.name, self.before, self.after))
        return f"{SURFACE_FORMAT}:{hashlib.sha256(said.encode()).hexdigest()[:32]}"


@dataclass(frozen=True)
class Replayed:
    """A remembered resolution by which a hunk was placed.

    `release` is the one that it was made for. `how` is "exact" where the target's definitions are
    as they were before the resolution, "carried" where its own change was placed and proven on
    others. `key` tells it apart from other resolutions.
    """

    key: str
    release: str
    reason: str
    how: str


@dataclass(frozen=True)
class UpstreamCommit:
    """The first commit of upstream's that touched what a hunk stands on: short id, date, subject.

    `touched` is what it changed: "path name" of a definition, or a path.
    """

    id: str
    date: str
    subject: str
    touched: str

    def __str__(self) -> str:
        return f"{self.id} {self.date} {self.subject}"


@dataclass(frozen=True)
class Accepted:
    """A drift that a person has accepted, and why."""

    drift: Drift
    reason: str


@dataclass(frozen=True)
class Clash:
    """Upstream's different change of the very place that a hunk changes, for a person to look at.

    `kind` is "same statement", "same gap", "same name" or "same file"; `place` is "path:line name"
    in the target. The texts are what base, target and patch have there, empty where nothing; of a
    file `patch` alone is set: the diff from upstream's file to the patch's.
    """

    kind: str
    place: str
    base: str
    target: str
    patch: str

    def __str__(self) -> str:
        return _CLASHES[self.kind].format(self.place)

    def lines(self, most: int) -> Iterator[tuple[str, str]]:
        """Yield what base, target and patch say, labelled, so many lines of each at most."""
        sides = (("base", self.base), ("target", self.target), ("patch", self.patch))
        for label, text in sides if self.kind != "same file" else sides[2:]:
            lines = text.split("\n") if text else ["(nothing)"]
            yield from ((label, line) for line in lines[:most])
            if len(lines) > most:
                yield label, "…"


_CLASHES = {
    "same statement": "upstream changed the same statement, otherwise: {}",
    "same gap": "upstream put something else into the same gap: {}",
    "same name": "upstream brought in the same name or value with other content: {}",
    "same file": "upstream added a file of that name with other content: {}",
}


@dataclass(frozen=True)
class HunkOutcome:
    """The verdict on one hunk.

    `hunk` counts from 1 within the patch. `target_lines` is (first, last), 1-based and inclusive,
    in the target file after the whole run; None where nothing landed.
    """

    patch: str
    hunk: int
    status: Status
    path_before: str
    path_after: str | None = None
    definition_before: str | None = None
    definition_after: str | None = None
    method: Method | None = None
    evidence: tuple[Evidence, ...] = ()
    drifts: tuple[Drift, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    target_lines: tuple[int, int] | None = None
    reason: str | None = None
    candidates: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
    renames: tuple[Rename, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    clash: Clash | None = None
    replayed: Replayed | None = None
    upstream_commit: UpstreamCommit | None = None

    @property
    def drifted(self) -> bool:
        """Whether the ground that the new code relies on changed, and nobody has accepted it."""
        return bool(self.drifts)

    @property
    def landed(self) -> bool:
        """Whether the target now holds this hunk's change."""
        return self.status in (Status.PLACED, Status.ALREADY_UPSTREAM)
