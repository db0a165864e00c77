"""Real releases, read from the index that the tester's pip would use."""

import base64
import hashlib
import time

import pytest

from patchkit.upstream import Cache, open_tree, shipped_pins
from patchkit.upstream.index import Index
from patchkit.upstream.pinning import pin_release
from patchkit.upstream.pins import Pins

pytestmark = pytest.mark.network

MANY = "vllm/v1/core/kv_cache_utils.py"


@pytest.fixture(scope="module")
def cold(tmp_path_factory):
    """vLLM 0.28.0 read into an empty cache: the tree, the seconds, the cache."""
    cache = Cache(tmp_path_factory.mktemp("cache"))
    start = time.perf_counter()
    tree = open_tree("v0.28.0", cache=cache)
    return tree, time.perf_counter() - start, cache


def test_release_is_read_by_few_ranges(cold):
    tree, _, _ = cold
    assert tree.files.origin.way == "ranges"
    assert tree.files.origin.requests <= 12
    assert 10_000_000 < tree.files.origin.fetched_bytes < 20_000_000


def test_release_has_the_files_that_it_has(cold):
    tree, _, _ = cold
    assert tree.version == "0.28.0"
    assert sum(path.endswith(".py") for path in tree.files) == 2438
    assert len(tree.files) == 4810
    assert {path.split("/")[0] for path in tree.files} == {"vllm"}
    assert len(tree.files.left_out) == 19
    assert "vllm/_C_stable_libtorch.abi3.so" in tree.files.left_out
    assert dict(tree.modes) == {"vllm/utils/numa_wrapper.sh": 0o100755}


def test_known_file_is_as_record_has_it(cold):
    tree, _, _ = cold
    row = "CI8iAb7ob63mlOeBQbbpmlzQzdI8XHqzUm3RGfduSuw"  # of 0.28.0's RECORD
    digest = hashlib.sha256(tree.files[MANY]).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == row
    assert tree.files.digest(MANY) == digest.hex()
    assert len(tree.files[MANY]) == 93945


def test_warm_open_is_quick(cold):
    _, _, cache = cold
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        tree = open_tree("v0.28.0", cache=cache)
        assert len(list(tree.files)) == 4810
        assert len(tree.files[MANY]) > 10_000
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.15


def test_word_is_searched_in_the_whole_tree(cold):
    tree, _, _ = cold
    assert tree.files.search(b"def unify_kv_cache_spec_page_size(") == [MANY]
    assert "vllm/v1/kv_cache_interface.py" in tree.files.search(b"indexes_kv_by_block_stride")
    assert tree.files.search(b"no_such_word_anywhere") == []


def test_pins_are_what_the_index_offers():
    shipped = shipped_pins()
    index = Index()
    assert pin_release("v0.33.0", index, Pins()) == shipped.release("v0.33.0")
    assert pin_release("0.23", index, shipped) == shipped.release("v0.23.0")
