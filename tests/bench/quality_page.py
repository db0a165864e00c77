"""Tables of a record of perplexity, marked: `python -m tests.bench.quality_page RECORD.json`

What docs/kvarn-quality.md shows of a record, with a mark beside each figure, so that after the next
one `patchkit claims --fill` writes its figures.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from patchkit.records.record import Record, Row, read_record

SINK = re.compile(r"(?P<form>.+)-sink(?P<tokens>\d+)")
COLUMNS = ("mean", "expected")
BAR = "---"


def tables(record: Record) -> str:
    """Return the table of formats by text, and that of the first tokens kept, where it has any."""
    texts = [row.removeprefix("ppl-without-quantisation-") for row in record.rows]
    texts = [text for text, row in zip(texts, record.rows, strict=True) if text != row]
    names = [row.removesuffix("-most") for row in record.rows if row.endswith("-most")]
    found = [by_text(record, texts, [name for name in names if not SINK.fullmatch(name)])]
    sinks = [match for name in names if (match := SINK.fullmatch(name))]
    if sinks:
        kept = list(dict.fromkeys(int(match["tokens"]) for match in sinks))
        found.append(by_sink(record, list(dict.fromkeys(m["form"] for m in sinks)), kept))
    return "\n\n".join(found)


def by_text(record: Record, texts: Sequence[str], names: Sequence[str]) -> str:
    """Return perplexity without quantisation, then by how much it grows: a line a format."""
    plain = [mark(record, f"ppl-without-quantisation-{text}") for text in texts]
    lines = [["format", *texts, *COLUMNS], [BAR] * (len(texts) + 3)]
    lines.append(["perplexity without quantisation", *plain, "", ""])
    for name in names:
        ends = (*(f"-{text}" for text in texts), "", "-expected")
        lines.append([form(record.rows[name]), *(mark(record, name + end) for end in ends)])
    return joined(lines)


def by_sink(record: Record, names: Sequence[str], kept: Sequence[int]) -> str:
    """Return the mean and the expected growth by how many first tokens are kept in 16 bit."""
    head = [f"{tokens} kept" for tokens in (0, *kept)]
    lines = [["format", *head], [BAR] * (len(head) + 1)]
    for name in names:
        rows = [name, *(f"{name}-sink{tokens}" for tokens in kept)]
        cells = [f"{mark(record, row)} ({mark(record, f'{row}-expected')})" for row in rows]
        lines.append([form(record.rows[name]), *cells])
    return joined(lines)


def form(row: Row) -> str:
    """Return the format of a row as a page names it."""
    return f"`{row.workload.kv_format}`"


def mark(record: Record, row: str) -> str:
    """Return the figure of a row between its marks."""
    found = record.rows[row]
    text = f"{found.value:.2f} %" if found.unit == "%" else f"{found.value:.2f}"
    return f"<!-- record: {record.kind}#{row} -->{text}<!-- /record -->"


def joined(lines: Sequence[Sequence[str]]) -> str:
    """Return lines of a table in Markdown."""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main(words: Sequence[str]) -> int:
    """Print the tables of a record."""
    if len(words) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    print(tables(read_record(Path(words[0]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
