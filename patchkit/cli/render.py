"""What people and programs see: lines, tables, documents and progress, for every command."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from patchkit import report
from patchkit.errors import PatchkitError

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from patchkit.upstream.progress import Progress

PROGRESS_AFTER_S = 1.0


# Names in untrusted files may hold what a terminal takes for a command.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"
}


def show_json(value: dict[str, Any]) -> None:
    """Print a JSON document on standard output; half a surrogate pair in it stays escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    print(text if _is_text(text) else json.dumps(value, indent=2))


def show_error(error: PatchkitError, *, as_json: bool) -> None:
    """Print a refusal: JSON on standard output, or two lines on standard error."""
    if as_json:
        show_json(report.error_json(error))
        return
    say(f"error: {error}".translate(_CONTROLS), to_stderr=True)
    if error.hint:
        say(f"hint: {error.hint}".translate(_CONTROLS), to_stderr=True)


def say(text: str = "", *, to_stderr: bool = False) -> None:
    """Print one plain line; bytes of a name that are no text are escaped."""
    shown = text if _is_text(text) else text.encode(errors="backslashreplace").decode()
    print(shown, file=sys.stderr if to_stderr else sys.stdout)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def show_grid(titles: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str]) -> None:
    """Print a table of which the last column is cut where the terminal ends.

    The second column has a colour a row; those between it and the last are numbers.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    left = console.width
    for number, title in enumerate(titles[:-1]):
        table.add_column(title, justify="right" if number > 1 else "left", no_wrap=True)
        left -= 2 + max(len(title), *(len(row[number]) for row in rows))
    table.add_column(titles[-1])
    for (first, second, *others, last), colour in zip(rows, colours, strict=True):
        shown = Text(last)
        shown.truncate(max(left, len(titles[-1])), overflow="ellipsis")
        table.add_row(Text(first), Text(second, style=colour), *map(Text, others), shown)
    console.print(table)


@contextmanager
def progress(*, lines: bool = False) -> Iterator[Progress]:
    """Yield what a long step reports to: on a terminal a bar, once a second has gone.

    Elsewhere nothing, or with `lines` a line on standard error for each transfer that starts.
    """
    from patchkit.upstream.progress import silent

    if not sys.stderr.isatty():
        yield _Lines() if lines else silent
        return
    bar = _Bar()
    try:
        yield bar
    finally:
        bar.close()


class _Lines:
    """A line for each file that is fetched."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[str] = set()

    def __call__(self, label: str, done_bytes: int, total_bytes: int | None) -> None:  # noqa: ARG002
        with self._lock:
            if label in self._seen or not label.endswith((".whl", ".tar.gz")):
                return
            self._seen.add(label)
            say(f"fetching {label}", to_stderr=True)


class _Bar:
    """A progress bar that starts late, so that quick work shows none; any thread may call it."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._bar: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __call__(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        with self._lock:
            if time.monotonic() - self._started < PROGRESS_AFTER_S:
                return
            bar = self._bar or self._open()
            if label not in self._tasks:
                self._tasks[label] = bar.add_task(label, total=total_bytes)
            bar.update(self._tasks[label], completed=done_bytes, total=total_bytes)

    def _open(self) -> RichProgress:
        from rich.console import Console
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            console=Console(stderr=True), transient=True, redirect_stdout=False
        )
        self._bar.start()
        return self._bar

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
