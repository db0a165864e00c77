"""A placer is kept while what it read is as it was, and made anew when any of it changed."""

from __future__ import annotations

import pytest

from patchkit.placing.placers import SeenFiles
from patchkit.tree import SourceTree

FILES = {"a.py": b"first", "b.py": b"second", "c.txt": b"first"}


@pytest.fixture
def seen() -> SeenFiles:
    return SeenFiles(FILES)


def test_files_are_given_as_they_are(seen: SeenFiles) -> None:
    assert (seen["a.py"], seen.get("d.py"), "b.py" in seen, "d.py" in seen) == (
        b"first", None, True, False,
    )  # fmt: skip
    with pytest.raises(KeyError):
        seen["d.py"]
    assert (dict(seen), len(seen)) == (FILES, 3)
    assert seen.search(b"first") == ["a.py", "c.txt"]
    assert SourceTree(seen).python_holding(b"first") == ["a.py"]


@pytest.mark.parametrize(
    ("changed", "alike"),
    [
        ({}, True),
        ({"b.py": b"third"}, True),  # not asked for
        ({"a.py": b"other"}, False),
        ({"d.py": b"new"}, False),  # was asked for, and was not there
        ({"e.py": b"a word"}, False),  # would be found
        ({"e.txt": b"a word"}, True),
    ],
)
def test_other_files_that_answer_alike_are_told(changed: dict[str, bytes], alike: bool) -> None:
    seen = SeenFiles(FILES)
    assert seen["a.py"]
    assert "d.py" not in seen
    assert seen.search(b"word", python=True) == []
    assert seen.answer_alike(SourceTree(FILES).with_changes(changed).files) is alike
    assert seen.answer_alike({**FILES, **changed}) is alike


def test_files_that_were_listed_are_never_taken_for_others(seen: SeenFiles) -> None:
    assert seen.answer_alike(FILES)
    assert next(iter(seen)) == "a.py"
    assert not seen.answer_alike(FILES)
