"""A kept forecast is found until anything changes that it was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.config import Config
from patchkit.errors import PatchkitError
from patchkit.surveying import kept
from patchkit.surveying.forecast import Forecast, Outlook, PatchForecast, SeriesForecast
from patchkit.surveying.kept import Kept

PATCH = PatchForecast("a.patch", Outlook.CONFLICTS, 3, 2, 1, "#1 gone", 0.25, "the file is there")
SERIES = SeriesForecast("more", "0.28.0", (PATCH,), ("a note",), lands=False)
FOUND = Forecast("0.31.0", "0.31.0", (SERIES,), 1.5, "2026-11-30T05:00:00+00:00")
DIFF = b"--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1 +1 @@\n-a\n+b\n"


class Store:
    """A repository of two series folders, and the digests of the trees."""

    def __init__(self, root: Path) -> None:
        self.config = Config(root=root / "repository", series=("patches", "more"))
        self.cache = root / "cache"
        self.digests: dict[str, str] = dict.fromkeys(("0.28.0", "0.29.0", "0.31.0"), "one")
        for folder in ("patches/v0.28.0", "patches/v0.29.0", "more/v0.27.1"):
            self.write(f"{folder}/series", b"a.patch\n")
            self.write(f"{folder}/a.patch", DIFF)
        self.write("more/v0.28.0/same-as.toml", b'same-as = "v0.27.1"\n')

    def write(self, name: str, data: bytes) -> None:
        path = self.config.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    @property
    def kept(self) -> Kept:
        return Kept(self.cache, self.config, self.digests.get)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store whose forecast for 0.31.0 is kept."""
    store = Store(tmp_path)
    assert store.kept.read("0.31.0") is None
    store.kept.write(FOUND)
    return store


def test_what_was_kept_is_found_as_it_was(store: Store) -> None:
    found = store.kept.read("0.31.0")
    assert found == FOUND
    assert found.kept is True
    assert isinstance(found.series[0].patches[0].outlook, Outlook)
    assert store.kept.read("0.29.0") is None


OTHER = DIFF.replace(b"+b", b"+c")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("patches/v0.29.0/a.patch", OTHER),  # what is moved
        ("patches/v0.29.0/series", b"a.patch -p2\n"),
        ("patches/v0.29.0/a.anchors.toml", b"format = 1\n"),
        ("patches/v0.28.0/a.patch", OTHER),  # what the other series is made on
        ("more/v0.27.1/a.patch", OTHER),  # what the base is the same as
        ("patches/v0.30.0/series", b""),  # a nearer base
        ("more/v0.29.0/same-as.toml", b'same-as = "v0.27.1"\n'),
    ],
)
def test_another_series_asks_anew(store: Store, name: str, data: bytes) -> None:
    store.digests |= {"0.30.0": "one"}
    store.write(name, data)
    assert store.kept.read("0.31.0") is None


@pytest.mark.parametrize("name", ["README", "patches/v0.27.0/series", "patches/v0.32.0/series"])
def test_what_has_no_part_in_it_asks_nothing_anew(store: Store, name: str) -> None:
    store.write(name, b"")
    assert store.kept.read("0.31.0") == FOUND


@pytest.mark.parametrize("release", ["0.28.0", "0.29.0", "0.31.0"])
def test_another_tree_asks_anew(store: Store, release: str) -> None:
    store.digests[release] = "two"
    assert store.kept.read("0.31.0") is None
    del store.digests[release]
    store.kept.write(FOUND)  # what has no digest is not kept
    assert store.kept.read("0.31.0") is None


def test_another_program_asks_anew(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "program_digest", lambda: "another")
    assert store.kept.read("0.31.0") is None


def test_what_has_no_answer_is_not_kept(store: Store) -> None:
    store.kept.write(Forecast("0.29.0", None, error="no answer"))
    assert store.kept.read("0.29.0") is None


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"target": "0.31.0"}'])
def test_what_is_damaged_is_asked_anew(store: Store, data: bytes) -> None:
    (path,) = (store.cache / "forecasts-1").iterdir()
    path.write_bytes(data)
    assert store.kept.read("0.31.0") is None


def test_a_tree_that_cannot_be_named_is_not_kept(tmp_path: Path) -> None:
    def refuse(version: str) -> str:
        raise PatchkitError(f"release {version} is not pinned")

    store = Store(tmp_path)
    unpinned = Kept(store.cache, store.config, refuse)
    unpinned.write(FOUND)
    assert unpinned.read("0.31.0") is None
    assert not store.cache.exists()


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.cache.write_bytes(b"no folder")
    store.kept.write(FOUND)
    assert store.kept.read("0.31.0") is None
