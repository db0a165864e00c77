"""A folder to work in, in which two small releases can be opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.cli import import_, port
from patchkit.upstream.pins import Pins, Release
from tests.adopting.odd_files import RELEASES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    opened = {**RELEASES, **{f"v{version}": tree for version, tree in RELEASES.items()}}
    for module in (import_, port):
        monkeypatch.setattr(module, "tree_opener", lambda *_: opened.__getitem__)
    pins = Pins(tuple(Release(version, ()) for version in RELEASES))
    monkeypatch.setattr(import_, "read_pins", lambda _: pins)
    return tmp_path
