"""Real patches on every pinned release; each verdict was judged by reading the release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.upstream import open_tree
from tests.moves import diff

pytestmark = pytest.mark.network

ROOT = Path(__file__).parents[1]
Out = pytest.CaptureFixture[str]


TO_29 = [*(f"0.{n}" for n in (21, "22.1", 23, 24, 25, "25.1", 26, 27, "27.1", 28, 29))]


def where(capsys: Out, *args: str) -> dict[str, Any]:
    run(["where", *args, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def verdicts(document: dict[str, Any]) -> dict[str, list[str]]:
    """The releases of each verdict, in the order in which the verdicts come."""
    found: dict[str, list[str]] = {}
    for row in document["releases"]:
        found.setdefault(row["verdict"], []).append(row["release"].removesuffix(".0"))
    return found


def between(older: str, newer: str, path: str) -> bytes:
    """What upstream changed in a file from one release to another, without blob ids."""
    old, new = open_tree(older).files[path], open_tree(newer).files[path]
    return diff(old.decode(), new.decode(), path)


@pytest.fixture
def patch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "fix.patch"


def test_block_promotion(capsys: Out) -> None:
    # 0.23 does not import AttentionSpec, which the promotion asks for; 0.25 has no backend for a
    # kind of layers; 0.29 has no layer with indexes_kv_by_block_stride any more; 0.33 makes groups
    # in another module
    document = where(capsys, str(ROOT / "patches/v0.28.0/block-promotion.patch"))
    assert (document["base"]["name"], document["base"]["proof"]) == ("0.28.0", "ids")
    assert verdicts(document) == {
        "conflicts": ["0.21", "0.22.1", "0.23", "0.33"],
        "clean": ["0.26", "0.27", "0.27.1", "0.28"],
        "drifted": ["0.24", "0.25", "0.25.1", "0.29", "0.30", "0.31", "0.32"],
    }
    # the lines of both hunks in the series stored for 0.27.1
    lands = next(row for row in document["releases"] if row["release"] == "0.27.1")
    stored = (ROOT / "patches/v0.27.1/block-promotion.patch").read_text()
    assert [o["target_lines"][0] for o in lands["outcomes"]] == [1056, 1960]
    assert "\n@@ -1053,6 +1053,125 @@" in stored
    assert "\n@@ -1838,7 +1957,11 @@" in stored


UNWRAP = "vllm/compilation/cuda_graph.py"


def test_upstreams_own_change_is_clean_before_it_and_upstream_after(
    patch: Path, capsys: Out
) -> None:
    # 0.30.0: unwrap() goes through nested wrappers; the file is the same from 0.21.0 to 0.29.0
    patch.write_bytes(between("v0.29.0", "v0.30.0", UNWRAP))
    document = where(capsys, "fix.patch")
    assert (document["base"]["name"], document["base"]["proof"]) == ("0.29.0", "lines")
    assert document["base"]["alike"][0] == "0.21.0"
    assert verdicts(document) == {"clean": TO_29, "upstream": ["0.30", "0.31", "0.32", "0.33"]}


def test_a_commit_between_two_releases_has_the_older_as_its_base(patch: Path, capsys: Out) -> None:
    data = between("v0.29.0", "v0.30.0", UNWRAP)
    patch.write_bytes(data.replace(b"@@ -221,7 +221,9 @@", b"@@ -231,7 +231,9 @@"))
    document = where(capsys, "fix.patch", "--releases", ">=0.28,<0.32")
    assert document["base"]["name"] == "0.29.0"
    assert document["base"]["text"] == (
        "every hunk applies, 10 lines off in all, and 0.30.0 holds the result of all"
    )
    assert verdicts(document) == {"clean": ["0.28", "0.29"], "upstream": ["0.30", "0.31"]}


def test_a_place_that_is_not_there_yet_and_then_gone(patch: Path, capsys: Out) -> None:
    # the module came with 0.23.0, its list of fields with 0.29.0; 0.33.0 has no such list
    patch.write_bytes(between("v0.29.0", "v0.30.0", "vllm/entrypoints/serve/utils/api_utils.py"))
    document = where(capsys, "fix.patch")
    assert (document["base"]["name"], document["base"]["as_well"]) == ("0.29.0", [])
    assert verdicts(document) == {
        "orphaned": ["0.21", "0.22.1"],
        "conflicts": ["0.23", "0.24", "0.25", "0.25.1", "0.26", "0.27", "0.27.1", "0.28", "0.33"],
        "clean": ["0.29"],
        "upstream": ["0.30", "0.31", "0.32"],
    }


def test_an_argument_that_moved_by_some_lines(patch: Path, capsys: Out) -> None:
    # type="find" stands in lines 652 to 670 until 0.29.0, type="find_in_page" in 668 to 672 then
    path = "vllm/entrypoints/openai/responses/streaming_events.py"
    patch.write_bytes(between("v0.29.0", "v0.30.0", path))
    document = where(capsys, "fix.patch")
    base = document["base"]
    assert (base["name"], base["alike"][0], base["as_well"][-1]) == ("0.29.0", "0.25.0", "0.24.0")
    assert verdicts(document) == {"clean": TO_29, "upstream": ["0.30", "0.31", "0.32", "0.33"]}


def test_a_class_that_came_with_a_release(patch: Path, capsys: Out) -> None:
    # CohereChatV2Request came with 0.27.0
    patch.write_bytes(between("v0.29.0", "v0.30.0", "vllm/entrypoints/cohere/protocol.py"))
    document = where(capsys, "fix.patch", "--releases", ">=0.25,<0.32")
    assert verdicts(document) == {
        "orphaned": ["0.25", "0.25.1", "0.26"],
        "clean": ["0.27", "0.27.1", "0.28", "0.29"],
        "upstream": ["0.30", "0.31"],
    }


def test_a_patch_on_a_commit_between_two_releases_fits_neither(patch: Path, capsys: Out) -> None:
    # 0.23.0 checks the number of tokens (ge=0), and lists POWERPC
    scheduler = "vllm/config/scheduler.py"
    old = open_tree("v0.22.1").files[scheduler].decode()
    assert old.count("    max_num_scheduled_tokens: int | None = None\n") == 1
    limit = old.replace("max_num_scheduled_tokens: int | None = None", "a: int | None = None")
    shm = "vllm/distributed/device_communicators/cpu_communicator.py"
    new = open_tree("v0.23.0").files[shm].decode()
    assert new.count("CpuArchEnum.POWERPC") == 1
    power = new.replace("CpuArchEnum.POWERPC", "CpuArchEnum.S390X")
    patch.write_bytes(diff(old, limit, scheduler) + diff(new, power, shm))
    document = where(capsys, "fix.patch")
    assert document["exit_code"] == 3
    assert document["nearest"] == {
        "releases": ["0.22.1", "0.23.0"],
        "text": "each hunk fits 0.22.1 or 0.23.0: it was made on a commit between the two",
    }
    assert set(verdicts(document)) == {"never_fitted"}
    assert [row["fit"]["applying"] for row in document["releases"][:4]] == [1, 1, 1, 1]


def test_several_processes_say_what_one_says(patch: Path, capsys: Out) -> None:
    paths = [
        UNWRAP,
        "vllm/entrypoints/serve/utils/api_utils.py",
        "vllm/entrypoints/openai/responses/streaming_events.py",
        "vllm/distributed/kv_transfer/kv_connector/v1/metrics.py",
    ]
    patch.write_bytes(b"".join(between("v0.29.0", "v0.30.0", path) for path in paths))
    one, two = (where(capsys, "fix.patch", "--jobs", jobs) for jobs in "12")
    assert one == two
    assert one["base"]["name"] == "0.29.0"
    assert [row["release"] for row in two["releases"]][::7] == ["0.21.0", "0.27.0", "0.33.0"]


HOOK = "vllm/v1/metrics/utils.py"


def test_of_releases_with_the_same_file_the_base_has_what_the_patch_calls(
    patch: Path, capsys: Out
) -> None:
    # the file is the same in all releases; 0.29.0 takes get_kv_cache_shape from AttentionBackend
    old = open_tree("v0.27.1").files[HOOK].decode()
    new = f"from vllm.v1.attention.backend import AttentionBackend\n{old}\n\n"
    new += "def _shape():\n    return AttentionBackend.get_kv_cache_shape(1, 16, 8, 128)\n"
    patch.write_bytes(diff(old, new, HOOK))
    document = where(capsys, "fix.patch", "--releases", ">=0.27")
    assert document["base"]["name"] == "0.28.0"
    assert document["base"]["text"].endswith("; 0.29.0 no longer has `get_kv_cache_shape`")
    assert verdicts(document) == {
        "clean": ["0.27", "0.27.1", "0.28"],
        "drifted": ["0.29", "0.30", "0.31", "0.32", "0.33"],
    }
