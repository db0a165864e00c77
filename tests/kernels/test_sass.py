"""What is said of compiled kernels where there are none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kernels import sass


def test_an_empty_cache_shows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sass", str(tmp_path)])
    assert sass.main() == 5
    assert capsys.readouterr().out == f"nothing was looked at: no kernel in {tmp_path}\n"
