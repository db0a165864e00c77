"""The history of a small repository: who touched which file, with what before and after."""

from pathlib import Path

import pytest

from patchkit.errors import PatchkitError
from patchkit.upstream.githistory import History
from tests.upstream.histories import Upstream


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


def told(history: History, path: str, old: str = "v1", new: str = "v2") -> list[str]:
    ids = history.commit(old), history.commit(new)
    assert ids[0] is not None
    assert ids[1] is not None
    return [touch.subject for touch in history.touches(ids[0], ids[1], path)]


def test_the_commits_between_two_tags_that_touched_a_file_are_told_oldest_first(
    upstream: Upstream,
) -> None:
    upstream.commit("start", {"a.py": "1\n", "b.py": "1\n"}, tag="v1")
    first = upstream.commit("first (#1)", {"a.py": "2\n"})
    upstream.commit("other (#2)", {"b.py": "2\n"})
    upstream.commit("gone (#3)", {"a.py": None})
    upstream.commit("back (#4)", {"a.py": "3\n"}, tag="v2")
    upstream.commit("later (#5)", {"a.py": "4\n"})
    history = History(upstream.path)
    assert told(history, "a.py") == ["first (#1)", "gone (#3)", "back (#4)"]
    assert told(history, "b.py") == ["other (#2)"]
    assert told(history, "c.py") == []
    touches = history.touches("v1", "v2", "a.py")
    assert (touches[0].id, touches[0].date) == (first[:10], "2026-01-03")
    contents = [(history.blob(t.before), history.blob(t.after)) for t in touches]
    assert contents == [(b"1\n", b"2\n"), (b"2\n", None), (None, b"3\n")]
    commit = history.commit("v1")
    assert commit is not None
    assert history.file(commit, "a.py") == b"1\n"
    assert history.file(commit, "c.py") is None


def test_a_ref_that_is_not_there_is_none_and_no_repository_is_refused(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.commit("start", {"a.py": "1\n"}, tag="v1")
    assert History(upstream.path).commit("v9") is None
    with pytest.raises(PatchkitError) as caught:
        History(tmp_path / "nothing")
    assert caught.value.fact == "is not a git repository"


def test_a_name_with_signs_of_git_is_taken_as_it_is(upstream: Upstream) -> None:
    upstream.commit("start", {"x/[a]*.py": "1\n", "x/a.py": "1\n"}, tag="v1")
    upstream.commit("one", {"x/a.py": "2\n"})
    upstream.commit("two\ttabs", {"x/[a]*.py": "2\n"}, tag="v2")
    assert told(History(upstream.path), "x/[a]*.py") == ["two\ttabs"]


def test_a_merge_is_not_named_but_what_it_brought(upstream: Upstream) -> None:
    upstream.commit("start", {"a.py": "1\n", "b.py": "1\n"}, tag="v1")
    upstream.git("switch", "-qc", "side")
    upstream.commit("on the side", {"a.py": "2\n"})
    upstream.git("switch", "-q", "main")
    upstream.commit("on main", {"b.py": "2\n"})
    upstream.git("merge", "-q", "--no-ff", "-m", "merged", "side")
    upstream.git("tag", "v2")
    assert told(History(upstream.path), "a.py") == ["on the side"]


def test_what_cannot_be_read_is_said_with_its_place(upstream: Upstream) -> None:
    upstream.commit("start", {"a.py": "1\n"}, tag="v1")
    upstream.commit("next", {"a.py": "2\n"}, tag="v2")
    history = History(upstream.path)
    touch = history.touches("v1", "v2", "a.py")[0]
    assert touch.after is not None
    (upstream.path / ".git/objects" / touch.after[:2] / touch.after[2:]).unlink()
    with pytest.raises(PatchkitError) as caught:
        history.blob(touch.after)
    assert str(caught.value) == f"{upstream.path}: object {touch.after} cannot be read"
    with pytest.raises(PatchkitError) as caught:
        history.touches("v1", "nothing", "a.py")
    assert str(caught.value).startswith(f"{upstream.path}: git log: fatal: bad revision")
