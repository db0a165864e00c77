from __future__ import annotations

import pytest

from patchkit.adopting.naming import free_names, split_subject, stem_of_file, stem_of_subject


@pytest.mark.parametrize(
    ("subject", "left", "numbers"),
    [
        ("plain words", "plain words", None),
        ("[PATCH] one", "one", None),
        ("[PATCH 2/3] [Core] one", "[Core] one", (2, 3)),
        ("[RFC PATCH vllm v2 10/12] one", "one", (10, 12)),
        ("[PATCHV2] one", "[PATCHV2] one", None),
        ("[Bugfix] fix [PATCH 1/2]", "[Bugfix] fix [PATCH 1/2]", None),
    ],
)
def test_a_subject_is_told_from_its_tag(
    subject: str, left: str, numbers: tuple[int, int] | None
) -> None:
    assert split_subject(subject) == (left, numbers)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("fix.patch", "fix"),
        ("a/b/fix.diff", "fix"),
        ("0001-Raise-it.patch", "Raise-it"),
        ("0001-.patch", "0001-"),
        ("12-fix.patch", "12-fix"),
        ("mine.mbox", "mine"),
    ],
)
def test_a_file_name_gives_a_stem(name: str, stem: str) -> None:
    assert stem_of_file(name) == stem


def test_a_subject_gives_a_stem_cut_between_words() -> None:
    assert stem_of_subject("[Core] Raise `f1`, at last!") == "core-raise-f1-at-last"
    assert stem_of_subject("word " * 30) == "-".join(["word"] * 12)
    assert stem_of_subject("x" * 90) == "x" * 60
    assert stem_of_subject("ä!") == ""


def test_names_are_valid_and_differ_in_any_case() -> None:
    assert free_names(["Fix it", "fix it", "../x y", "", "-p1", "Fix-it"]) == [
        "Fix-it.patch", "fix-it-2.patch", "x-y.patch", "patch.patch", "p1.patch", "Fix-it-3.patch",
    ]  # fmt: skip
