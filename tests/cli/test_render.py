import io
import json
import sys

import pytest

from patchkit.cli import render, render_outcome
from patchkit.errors import PatchkitError
from patchkit.outcome import Drift, Evidence, HunkOutcome, Method, Status
from patchkit.report import summary

PATH = "vllm/v1/core/kv_cache_utils.py"
OUTCOMES = (
    HunkOutcome(
        "block-promotion-of-pages.patch",
        1,
        Status.PLACED,
        PATH,
        PATH,
        "unify",
        "unify",
        Method.MERGE3,
        evidence=(Evidence("same_change", "the same edits with the same payload"),),
        drifts=(Drift("attribute", "stride", f"{PATH}:8", "attribute stride is gone"),),
        target_lines=(12, 34),
    ),
    HunkOutcome(
        "kvarn.patch",
        2,
        Status.CONFLICTED,
        PATH,
        definition_before="unify",
        reason="changed on both sides",
        candidates=("unify_all",),
        not_checked=("vllm/x.py",),
    ),
    HunkOutcome("kvarn.patch", 3, Status.BLOCKED, PATH, blocked_by=("kvarn.patch#2",)),
    HunkOutcome("kvarn.patch", 4, Status.ALREADY_UPSTREAM, PATH, path_after=PATH),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_off_a_terminal_each_hunk_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    render_outcome.show_outcomes(OUTCOMES)
    assert capsys.readouterr().out == (
        f"block-promotion-of-pages.patch:1: placed, drifted (merge3) {PATH}:12 unify: "
        f"attribute stride is gone; read at {PATH}:8; the same edits with the same payload\n"
        f"kvarn.patch:2: conflicted (-) {PATH} unify: changed on both sides; "
        "candidate: unify_all; not checked: vllm/x.py\n"
        f"kvarn.patch:3: blocked (-) {PATH}: blocked by kvarn.patch#2\n"
        f"kvarn.patch:4: already upstream (-) {PATH}\n"
        "4 hunks: 1 placed, 1 conflicted, 1 blocked, 1 already upstream; 1 drifted\n"
    )


@pytest.mark.parametrize("columns", [80, 132])
def test_on_a_terminal_the_table_fits(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    render_outcome.show_outcomes(OUTCOMES)
    lines = terminal.getvalue().splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[0].split() == ["patch", "hunk", "outcome", "method", "evidence"]
    text = " ".join(" ".join(line[-36:].split()) for line in lines)
    for word in (
        "unify",
        "attribute stride is gone",
        "changed on both sides",
        "candidate: unify_all",
    ):
        assert word in text
    assert lines[-1] == "4 hunks: 1 placed, 1 conflicted, 1 blocked, 1 already upstream; 1 drifted"


def test_nobody_watching_costs_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(render, "PROGRESS_AFTER_S", 0.0)
    with render.progress() as progress:
        progress("wheel", 1, 2)
    assert stderr.getvalue() == ""


def test_a_bar_shows_only_once_a_second_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Terminal()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("TERM", "xterm")
    clock = iter([0.0, 0.9, 1.1, 1.2])
    monkeypatch.setattr(render.time, "monotonic", lambda: next(clock))
    bar = render._Bar()
    bar("wheel", 1, 2)
    assert stderr.getvalue() == ""
    monkeypatch.undo()
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(render, "PROGRESS_AFTER_S", 0.0)
    bar("wheel", 1, 2)
    bar.close()
    assert "wheel" in stderr.getvalue()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 hunks"),
        (1, "1 hunk: 1 placed; 1 drifted"),
        (2, "2 hunks: 1 placed, 1 conflicted; 1 drifted"),
    ],
)
def test_the_summary_counts(count: int, text: str) -> None:
    assert summary(OUTCOMES[:count]) == text


def test_what_a_terminal_would_obey_is_shown_and_not_obeyed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = PatchkitError("'\x1b[2J\x9b' is not known", place="c.json", hint="a\nb\x7f")
    render.show_error(error, as_json=False)
    assert capsys.readouterr().err == (
        "error: c.json: '\\x1b[2J\\x9b' is not known\nhint: a\nb\\x7f\n"
    )


def test_what_is_no_text_is_printed_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    render.say("m\udcff: größer → 1")
    assert capfd.readouterr().out == "m\\udcff: größer → 1\n"
    error = PatchkitError("\ud800 is not known", place="größer.json")
    render.show_error(error, as_json=True)
    assert json.loads(capfd.readouterr().out)["fact"] == "\ud800 is not known"
    render.show_json({"a": "größer"})
    assert capfd.readouterr().out == '{\n  "a": "größer"\n}\n'
