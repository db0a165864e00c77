"""A series of three small patches on 0.28.0, moved to a release where the second does not fit."""

from __future__ import annotations

import pytest

from patchkit import SourceTree
from patchkit.stacking.dependencies import dependencies
from patchkit.stacking.rebase import PatchInput, plan_all, rebase_series
from patchkit.upstream import open_tree
from tests.moves import diff

pytestmark = pytest.mark.network

REQUEST = "vllm/v1/request.py"
UTILS = "vllm/v1/core/kv_cache_utils.py"
POOL = "vllm/v1/core/block_pool.py"

STATUS = (
    "    FINISHED_REPETITION = enum.auto()\n",
    "    FINISHED_REPETITION = enum.auto()\n    FINISHED_EVICTED = enum.auto()\n",
)
SEED = (
    "        NONE_HASH = BlockHash(hash_fn(hash_seed))\n",
    "        NONE_HASH = BlockHash(hash_fn(hash_seed.strip()))\n",
)
SALT = (
    "        NONE_HASH = BlockHash(hash_fn(hash_seed.strip()))\n",
    '        NONE_HASH = BlockHash(hash_fn(hash_seed.strip() or "0"))\n',
)
RANDOM = (
    "        NONE_HASH = BlockHash(os.urandom(32))\n",
    "        NONE_HASH = BlockHash(os.urandom(64))\n",
)
COUNT = (
    "            block.ref_cnt += 1\n            if self.metrics_collector:\n",
    "            block.ref_cnt += 1\n            self.touched = True\n"
    "            if self.metrics_collector:\n",
)
READ = (
    "        self.num_preemptions = 0\n",
    "        self.num_preemptions = 0\n        self.evicted = RequestStatus.FINISHED_EVICTED\n",
)


class Cut:
    """A series cut from a release, patch by patch."""

    def __init__(self, base: SourceTree) -> None:
        self.tree = base
        self.patches: list[PatchInput] = []

    def patch(self, name: str, *edits: tuple[str, tuple[str, str]]) -> None:
        data, before = b"", self.tree
        for path in dict.fromkeys(path for path, _ in edits):
            old = new = before.files[path].decode()
            for there, (text, other) in edits:
                if there == path:
                    assert new.count(text) == 1, text
                    new = new.replace(text, other)
            data += diff(old, new, path)
            self.tree = self.tree.with_changes({path: new.encode()})
        self.patches.append(PatchInput(name, data))


@pytest.fixture(scope="module")
def base() -> SourceTree:
    return open_tree("v0.28.0")


@pytest.fixture(scope="module")
def cut(base: SourceTree) -> Cut:
    series = Cut(base)
    series.patch("status", (REQUEST, STATUS))
    series.patch("seed", (UTILS, SEED))
    series.patch("salt", (UTILS, SALT), (POOL, COUNT), (REQUEST, READ))
    return series


def test_what_the_series_needs_of_itself(cut: Cut, base: SourceTree) -> None:
    plans, _ = plan_all(cut.patches, base)
    assert [d.text for d in dependencies(plans, base)] == [
        f"salt#1 changes lines that seed#1 adds ({UTILS}:115)",
        "`RequestStatus.FINISHED_EVICTED` is defined by status#1 "
        f"({REQUEST}:368) and read in salt#3 ({REQUEST}:203)",
    ]


def test_the_conflict_of_one_blocks_only_what_needs_it(cut: Cut, base: SourceTree) -> None:
    result = rebase_series(cut.patches, base, open_tree("v0.29.0"))
    assert [(f"{o.patch}#{o.hunk}", str(o.status), o.blocked_by) for o in result.outcomes] == [
        ("status#1", "placed", ()),
        ("seed#1", "conflicted", ()),
        ("salt#1", "blocked", ("seed#1",)),
        ("salt#2", "placed", ()),
        ("salt#3", "placed", ()),
    ]
    assert result.outcomes[2].reason == (
        f"salt#1 changes lines that seed#1 adds ({UTILS}:115); seed#1 did not land"
    )
    assert UTILS not in {path for patch in result.patches for path in patch.after}


def test_all_else_lands_as_in_a_series_without_it(cut: Cut, base: SourceTree) -> None:
    target = open_tree("v0.29.0")
    whole = rebase_series(cut.patches, base, target)
    other = Cut(base)
    other.patch("status", (REQUEST, STATUS))
    other.patch("salt", (POOL, COUNT), (REQUEST, READ))
    alone = rebase_series(other.patches, base, target)
    assert alone.ok
    for path in (REQUEST, UTILS, POOL):
        assert whole.tree.files[path] == alone.tree.files[path]


def test_without_the_first_what_reads_its_member_waits(cut: Cut, base: SourceTree) -> None:
    status, seed, salt = cut.patches
    without = [PatchInput(status.name, status.data, left_out=None), seed, salt]
    result = rebase_series(without, base, base)
    assert [(f"{o.patch}#{o.hunk}", str(o.status), o.blocked_by) for o in result.outcomes] == [
        ("status#1", "conflicted", ()),
        ("seed#1", "placed", ()),
        ("salt#1", "placed", ()),
        ("salt#2", "placed", ()),
        ("salt#3", "blocked", ("status#1",)),
    ]


def test_beside_a_change_that_did_not_land_there_is_no_conflict(base: SourceTree) -> None:
    """Two lines apart in one branch: on the very release, without the first."""
    series = Cut(base)
    series.patch("seed", (UTILS, SEED))
    series.patch("random", (UTILS, RANDOM))
    seed, random = series.patches
    result = rebase_series([PatchInput("seed", seed.data, left_out=None), random], base, base)
    assert [str(o.status) for o in result.outcomes] == ["conflicted", "placed"]
    assert result.tree.files[UTILS].decode() == base.files[UTILS].decode().replace(*RANDOM)
