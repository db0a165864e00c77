"""The calls that are tried: every value of each factor is among them, wherever they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from kvarn_port.layout import HEAD_DIMS, PRESETS
from tests.kernels.cases import (
    FORMATS,
    LAYOUTS,
    Case,
    chosen_anyway,
    path_cases,
    read_by_tma,
    small_cases,
)
from tests.kernels.tile_cases import ROW_CLASSES, read_by_hopper
from tests.kernels.tile_cases import matrix as tile_matrix
from tests.kernels.tile_cases import small_cases as tile_cases

READ_BY_TMA = ["bf16", "fp16", "fp32", "fp8, bf16 query", "fp8, fp16 query"]


def values(cases: Iterable[Any], *names: str) -> list[list[object]]:
    """The values of some fields, in order."""
    listed = list(cases)
    return [sorted({getattr(case, name) for case in listed}) for name in names]


def of_path(path: str, cases: Sequence[Case]) -> list[Case]:
    return [case for case in cases if case.path == path]


def test_short_calls_have_every_format_in_every_layout_and_head_size() -> None:
    """Under the interpreter, too. Caught: a case left out."""
    cases = small_cases()
    found = {(case.format, case.layout) for case in cases}
    assert found == set(product(FORMATS, LAYOUTS))
    assert {(case.format, case.head_dim) for case in cases} == set(product(FORMATS, (64, 128, 256)))
    assert values(cases, "block_size", "window") == [[16, 48, 128, 432, 448], [0, 7, 1024]]


def test_each_path_is_given_what_it_reads_and_no_value_of_that_is_left_out() -> None:
    """Caught: every case given to both paths; fewer cases of one."""
    tma, pointer = (of_path(path, path_cases()) for path in ("tma", "pointer"))
    assert len(tma) + len(pointer) == len(path_cases())
    assert all(read_by_tma(case) for case in tma)
    names = ("format", "layout", "head_dim")
    assert values(tma, *names) == [READ_BY_TMA, ["HND", "NHD", "NHD padded"], [64, 128, 256]]
    assert values(pointer, *names) == [sorted(FORMATS), sorted(LAYOUTS), [64, 128, 256]]


def test_the_interpreter_is_forced_to_read_by_pointer_what_it_would_not() -> None:
    """Short calls take path "tma" there wherever it reads. Caught: those that take it anyway."""
    forced = [case for case in path_cases() if not chosen_anyway(case)]
    assert [case.path for case in forced] == ["pointer"] * len(forced)
    names = ("format", "layout", "head_dim")
    assert values(forced, *names) == [READ_BY_TMA, ["HND", "NHD", "NHD padded"], [64, 128, 256]]


def test_every_preset_is_attended_at_every_head_size_with_every_class_of_rows() -> None:
    """By path "pointer". Caught: a class or one of its choices left out."""
    cases = tile_matrix("pointer")
    choices = {choice: rows for rows, each in ROW_CLASSES.items() for choice in each}
    assert len(choices) == 16
    asked = [(case.query_lens[0], case.ratio) for case in cases]
    assert set(asked) == set(choices)
    classes = [choices[choice] for choice in asked]
    found = [(c.preset, c.head_dim, rows) for c, rows in zip(cases, classes, strict=True)]
    assert sorted(found) == sorted(product(PRESETS, HEAD_DIMS, ROW_CLASSES))


def test_no_short_call_is_left_out_where_hopper_reads_what_is_not_forced() -> None:
    """Caught: cases that path "pointer" never has."""
    fields = ("preset", "head_dim", "inputs", "place", "ratio", "causal", "output")
    forced = [case for case in tile_cases("pointer") if read_by_hopper(case)]
    others = [case for case in tile_cases() if not read_by_hopper(case)]
    assert values([*forced, *others], *fields) == values(tile_cases(), *fields)
