"""The registry of patches as a page of Markdown, for those who review a repository."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchkit.diff.header import Header
from patchkit.knowing.markdown import code, inline, paragraphs, slug, table
from patchkit.knowing.registry import Cost, Entry, KnownVerdict
from patchkit.knowing.survival import LEFT_OUT, Step
from patchkit.report import counted

_COSTS = 6  # of the last rebases
_HEAD = (
    "# Patches",
    "",
    "Written by `patchkit registry` from the stored series; edit the headers of the patches, not "
    "this page.",
)
_HOW = {
    "first": "the lowest that has it",
    "as it was": "carried as it was",
    "other context": "carried as it was, other lines around it",
    "moved": "the same lines at another place",
    "changed": "changed",
    LEFT_OUT: "left out",
}


def format_page(entries: Sequence[Entry]) -> bytes:
    """Return the page: a table of all patches, then a section for each."""
    several = len({entry.folder for entry in entries}) > 1
    headings = [_heading(entry, several) for entry in entries]
    links = _links(headings)
    lines = [*_HEAD, ""]
    if entries:
        rows = [_summary(*item) for item in zip(entries, headings, links, strict=True)]
        titles = ("patch", "what", "upstream", "owner", "releases", "last touched")
        lines += [*table(titles, rows), ""]
    else:
        lines += ["No patch is stored.", ""]
    for entry, heading in zip(entries, headings, strict=True):
        lines += [f"## {inline(heading)}", "", *_section(entry)]
    return ("\n".join(lines).rstrip("\n") + "\n").encode()


def _heading(entry: Entry, several: bool) -> str:
    stem = entry.name.removesuffix(".patch").removesuffix(".diff")
    return f"{entry.folder}/{stem}" if several else stem


def _links(headings: Sequence[str]) -> list[str]:
    """The fragments of the headings below the page's own; equal ones are counted."""
    seen: dict[str, int] = {slug(_HEAD[0].removeprefix("# ")): 1}
    links = []
    for heading in headings:
        fragment = slug(heading)
        number = seen.get(fragment, 0)
        seen[fragment] = number + 1
        links.append(f"{fragment}-{number}" if number else fragment)
    return links


def _summary(entry: Entry, heading: str, link: str) -> tuple[str, ...]:
    carried = span(entry.releases) + ("" if entry.carried else ", no longer carried")
    return (
        f"[{inline(heading)}](#{link})",
        inline(entry.contents.subject),
        inline(upstream_state(entry.header)),
        inline(owner(entry.header)),
        carried,
        inline(entry.touched),
    )


def span(releases: Sequence[str]) -> str:
    """Return some releases in short: `v0.25.0 to v0.29.0 (7)`."""
    if len(releases) < 3:
        return " and ".join(f"v{release}" for release in releases) or "none"
    return f"v{releases[0]} to v{releases[-1]} ({len(releases)})"


def upstream_state(header: Header) -> str:
    """Return in a few words what upstream knows of a patch: the first line of each field."""
    forwarded = (header.forwarded or "").strip().split("\n")[0]
    words = {"no": "not forwarded", "not-needed": "of no use to upstream", "": "unknown"}
    state = words.get(forwarded.lower(), forwarded)
    applied = header.get("Applied-Upstream")
    if applied and applied.strip():
        state = f"applied: {applied.strip().split(chr(10))[0]}"
    return state


def owner(header: Header) -> str:
    """Return who looks after a patch: Owner, else Author."""
    return " ".join((header.get("Owner") or header.author or "nobody named").split())


# One patch ---------------------------------------------------------------------------------------


def _section(entry: Entry) -> Iterator[str]:
    header = entry.header
    subject, _, rest = (header.description or header.text).strip().partition("\n")
    yield f"**{inline(subject or 'No description')}**"
    yield ""
    if rest.strip():
        yield from (*paragraphs(rest), "")
    if header.reason:
        yield from ("### Why", "", *paragraphs(header.reason), "")
    yield from ("### Facts", "", *_facts(entry), "")
    yield from ("### Releases", "", *table(("release", "how it got there", ""), _steps(entry)), "")
    if entry.verdicts:
        titles = ("release", "verdict", "without it", "with it", "because")
        yield from ("### Tests", "", *table(titles, list(map(_verdict, entry.verdicts))), "")
    if entry.costs:
        yield from ("### Last rebases", "", *_costs(entry.costs), "")


def _facts(entry: Entry) -> Iterator[str]:
    """Yield the facts of a header as a list."""
    header = entry.header
    yield f"- Upstream: {inline(upstream_state(header))}"
    more = (header.forwarded or "").strip().split("\n")[1:]
    if any(map(str.strip, more)):
        yield f"  ({inline(' '.join(more))})"
    for item in header.fields:
        if item.name.lower() == "bug" or item.name.lower().startswith("bug-"):
            yield f"- {inline(item.name)}: {inline(item.value)}"
    yield f"- Owner: {inline(owner(header))}"
    for label, value in (
        ("Origin", header.origin),
        ("May go when", header.exit_condition),
        ("For", header.get("Applies-To")),
        ("Depends on", ", ".join(header.depends_on)),
    ):
        if value and value.strip():
            yield f"- {label}: {inline(value)}"
    for label, lines in (
        ("Gone when", header.exit_when),
        ("Needs of its environment", header.requires),
        ("Tests", header.tests),
    ):
        if lines:
            yield f"- {label}: {', '.join(map(code, lines))}"
    yield f"- Size: {_size(entry)}"


def _size(entry: Entry) -> str:
    hunks = entry.contents.hunks
    files = counted(len(entry.contents.files), "file")
    added, removed = sum(h.added for h in hunks), sum(h.removed for h in hunks)
    size = f"{counted(len(hunks), 'hunk')} in {files}"
    return f"{size}, {counted(added, 'line')} added, {removed} removed"


def _steps(entry: Entry) -> list[tuple[str, ...]]:
    return [(f"v{step.release}", _how(step), _reasons(step)) for step in entry.steps]


def _how(step: Step) -> str:
    same = f" (shared with v{step.same_as})" if step.same_as else ""
    return f"{_HOW[step.how]}{same}"


def _reasons(step: Step) -> str:
    return "; ".join(inline(reason.text) for reason in step.reasons)


def _verdict(known: KnownVerdict) -> tuple[str, ...]:
    verdict = known.verdict
    stale = "" if known.fresh else ", stale"
    with_it = verdict.patched.value if verdict.patched else "no run"
    return (
        f"v{verdict.release}",
        f"{verdict.verdict.value}{stale}",
        verdict.pristine.value,
        with_it,
        inline(verdict.reason),
    )


def _costs(costs: Sequence[Cost]) -> list[str]:
    titles = ("day", "rebase", "what became of it", "by hand", "stopped for")
    return table(titles, [_cost(cost) for cost in reversed(costs[-_COSTS:])])


def _cost(cost: Cost) -> tuple[str, ...]:
    rebase, patch = cost.rebase, cost.patch
    methods = ", ".join(f"{count} {method}" for method, count in patch.methods.items())
    parts = [patch.fate.value, methods, f"{patch.upstream} upstream" if patch.upstream else ""]
    reason = f": {inline(patch.reason)}" if patch.reason else ""
    return (
        rebase.date.isoformat(),
        f"v{rebase.base} to v{rebase.target}",
        ", ".join(part for part in parts if part) + reason,
        counted(patch.by_hand, "hunk") if patch.by_hand else "",
        duration(rebase.stopped_seconds) if rebase.stopped_seconds is not None else "",
    )


def duration(seconds: int) -> str:
    """Return a time as hours, minutes and seconds: `2:05:00`.

    What a person took is no figure of speed, which a page would have to give a source for.
    """
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{second:02}"
