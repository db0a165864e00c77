"""docs/how-placement-works.md is what its cases give on the releases, and tells every method."""

from __future__ import annotations

import re

import pytest

from patchkit.outcome import Method
from patchkit.upstream import open_tree
from tests.placement_page.page import CASES, PAGE, SECTIONS, format_cases, make_page, read_cases


@pytest.mark.network
def test_the_page_is_what_its_cases_give() -> None:
    assert PAGE.read_text() == make_page(read_cases(), open_tree)


def test_the_cases_are_stored_as_they_are_written() -> None:
    assert CASES.read_text() == format_cases(read_cases())


def test_every_section_has_its_example() -> None:
    assert [case.kind for case in read_cases()] == list(SECTIONS)


def test_every_method_for_code_is_told() -> None:
    told = set(re.findall(r"^placed(?:, drifted)? by (\w+)$", PAGE.read_text(), re.MULTILINE))
    files = {Method.NEW_FILE, Method.DELETE_FILE, Method.METADATA}
    assert told == set(Method) - files - {Method.EXACT}


def test_it_stays_one_page() -> None:
    lines = PAGE.read_text().splitlines()
    assert len(lines) < 480
    assert max(map(len, lines)) <= 110
