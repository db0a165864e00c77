"""Opening a pinned release: ranges, their refusal, damage, and a cache that is warm."""

import hashlib
from collections import Counter

import pytest

from patchkit.errors import PatchkitError
from patchkit.upstream import open_tree
from patchkit.upstream.packed import Origin
from patchkit.upstream.pins import Pins, Release

SOURCES = {
    "vllm/__init__.py": b"",
    "vllm/_version.py": b"__version__ = version = '0.99.0'\n",
    "vllm/config/cache.py": b"block_size = 16\n",
    "vllm/third_party/x/kernel.cuh": b"__device__ int block_size;\r\n",
    "vllm/v1/core/utils.py": b"def unify(block_size):\n    return block_size\n",
    "vllm/run.sh": b"#!/bin/sh\n",
    "vllm/zz.py": b"last = 1\n",
}


def opened(fake_index, pins, cache, **options):
    return open_tree("v0.99.0", pins=pins, cache=cache, index=fake_index.index(), **options)


def test_tree_holds_the_text_files_of_the_package_and_names_the_rest(fake_index, pins, cache):
    tree = opened(fake_index, pins, cache)
    assert dict(tree.files) == SOURCES
    assert tree.files.left_out == {
        "vllm/_C.abi3.so",
        "vllm/_moe_C.abi3.so",
        "vllm/_flash_C.abi3.so",
        "vllm/vllm-rs",
    }
    assert (tree.name, tree.version, tree.partial) == ("vllm 0.99.0", "0.99.0", False)
    assert dict(tree.modes) == {"vllm/run.sh": 0o100755}


def test_only_the_wanted_spans_are_fetched(fake_index, pins, cache, wheel):
    tree = opened(fake_index, pins, cache)
    size = len(wheel)
    ranges = fake_index.ranges()
    assert ranges[0] == f"bytes={size - (1 << 20)}-{size - 1}"
    assert len(ranges) == 5  # the tail, and what lies before each of the four libraries
    assert tree.files.origin == Origin("ranges", 5, fake_index.served_bytes)
    assert fake_index.served_bytes < (1 << 20) + 2048


def test_connections_are_kept_and_shared(fake_index, pins, cache):
    opened(fake_index, pins, cache)
    peers = Counter(peer for *_, peer in fake_index.log)
    assert len(peers) <= 4
    assert sum(peers.values()) == 6


def test_progress_reaches_the_total_of_each_transfer(fake_index, pins, cache, kit):
    calls = []
    opened(fake_index, pins, cache, progress=lambda *call: calls.append(call))
    assert {label for label, _, _ in calls} == {kit.WHEEL_NAME}
    assert {total for _, done, total in calls if done <= 1 << 20} == {None}
    assert calls[-1][1] == calls[-1][2] == fake_index.served_bytes
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)


def test_warm_cache_asks_nobody(fake_index, pins, cache):
    opened(fake_index, pins, cache)
    fake_index.log.clear()
    tree = opened(fake_index, pins, cache)
    assert dict(tree.files) == SOURCES
    assert fake_index.log == []


def test_warm_cache_needs_no_index_at_all(fake_index, pins, cache, monkeypatch):
    opened(fake_index, pins, cache)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_PROXY", "nonsense://")
    assert dict(open_tree("0.99", pins=pins, cache=cache).files) == SOURCES


@pytest.mark.parametrize("ranges", ["ignored", "wrong", "416"])
def test_whole_wheel_is_read_where_ranges_are_refused(fake_index, pins, cache, kit, wheel, ranges):
    fake_index.faults.ranges = ranges
    labels = set()
    tree = opened(fake_index, pins, cache, progress=lambda label, *_: labels.add(label))
    assert dict(tree.files) == SOURCES
    assert tree.files.origin == Origin("whole file", 1, len(wheel))
    assert f"{kit.WHEEL_NAME}, whole: the index has no byte ranges" in labels
    digest = hashlib.sha256(wheel).hexdigest()
    assert (cache.root / "files" / digest / kit.WHEEL_NAME).read_bytes() == wheel


def test_whole_wheel_with_another_digest_is_refused_and_not_kept(fake_index, pins, cache, kit):
    fake_index.faults.ranges = "ignored"
    fake_index.faults.flip_at = 4_000_000
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    assert caught.value.fact.startswith("the file has sha256 ")
    assert caught.value.place == f"{fake_index.url}/files/{kit.WHEEL_NAME}"
    assert caught.value.expected == f"{pins.releases[0].artifacts[0].sha256} as pinned"
    assert [path for path in cache.root.rglob("*") if path.suffix in (".whl", ".part")] == []


def member_offset(wheel, content):
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        for member in archive.infolist():
            if archive.read(member) == content:
                return member.header_offset + 30 + len(member.filename)
    raise AssertionError


def test_damaged_member_is_refused(fake_index, pins, cache, wheel):
    at = member_offset(wheel, b"block_size = 16\n")
    fake_index.faults.flip_at = at + 8
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    assert caught.value.fact.startswith("the wheel is damaged: ")
    assert not list(cache.root.rglob("*.tree"))


def test_member_that_record_does_not_know_so_is_refused(fake_index, cache, kit):
    other = {**kit.MIXED, "vllm/config/cache.py": b"block_size = 17\n"}
    honest, forged = kit.make_wheel(kit.MIXED), kit.make_wheel(other)
    record = kit.record_of(honest)
    forged = replace_record(forged, record)
    fake_index.files[kit.WHEEL_NAME] = forged
    pins = Pins((Release("0.99.0", (kit.pin(kit.WHEEL_NAME, forged),)),))
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    found = hashlib.sha256(b"block_size = 17\n").hexdigest()
    wanted = hashlib.sha256(b"block_size = 16\n").hexdigest()
    assert caught.value.fact == f"vllm/config/cache.py has sha256 {found}"
    assert caught.value.expected == f"{wanted} as in RECORD"


def replace_record(wheel, record):
    import io
    import zipfile

    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(wheel)) as source, zipfile.ZipFile(buffer, "w") as target:
        for member in source.infolist():
            content = source.read(member)
            target.writestr(member, record if member.filename.endswith("/RECORD") else content)
    return buffer.getvalue()


def test_record_that_was_not_pinned_is_refused(fake_index, cache, kit):
    variants = (kit.make_wheel({**kit.PACKAGE, "vllm/zz.py": b"%d\n" % n}) for n in range(99))
    first = next(variants)
    other = next(variant for variant in variants if len(variant) == len(first))
    pins = Pins((Release("0.99.0", (kit.pin(kit.WHEEL_NAME, first),)),))
    fake_index.faults.hashes = False  # an index that gives none cannot be told by it
    fake_index.files[kit.WHEEL_NAME] = other
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    found = hashlib.sha256(kit.record_of(other)).hexdigest()
    assert caught.value.fact == f"RECORD has sha256 {found}"
    assert caught.value.expected == f"{pins.releases[0].artifacts[0].record_sha256} as pinned"


@pytest.mark.parametrize(
    ("extra", "lacks", "fact"),
    [
        ({}, "vllm/zz.py", "vllm/zz.py is not in RECORD"),
        ({"vllm/gone.py": b""}, "", "vllm/gone.py is in RECORD but not in the wheel"),
    ],
)
def test_record_and_members_must_be_the_same_files(fake_index, cache, kit, extra, lacks, fact):
    wheel = kit.make_wheel(
        kit.PACKAGE | {"vllm/zz.py": b"z\n"}, record_extra=extra, record_lacks=lacks
    )
    fake_index.files[kit.WHEEL_NAME] = wheel
    pins = Pins((Release("0.99.0", (kit.pin(kit.WHEEL_NAME, wheel),)),))
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    assert caught.value.fact == fact


def test_file_of_another_size_is_refused(fake_index, pins, cache, kit, wheel):
    fake_index.faults.hashes = fake_index.faults.sizes = False
    fake_index.files[kit.WHEEL_NAME] = wheel + b"\0"
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    assert caught.value.fact == f"the file has {len(wheel) + 1} bytes"
    assert caught.value.expected == f"{len(wheel)} as pinned"


def test_transfer_that_breaks_off_goes_on(fake_index, pins, cache, wheel):
    fake_index.faults.cut_after = 70_000
    fake_index.faults.cut_times = 1
    tree = opened(fake_index, pins, cache)
    assert dict(tree.files) == SOURCES
    first, second = fake_index.ranges()[:2]
    start = len(wheel) - (1 << 20)
    assert first == f"bytes={start}-{len(wheel) - 1}"
    assert second == f"bytes={start + 65_536}-{len(wheel) - 1}"


def test_transfer_that_always_breaks_off_is_an_error(fake_index, pins, cache, kit):
    fake_index.faults.cut_after = 0
    fake_index.faults.cut_times = 99
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    assert str(caught.value) == (
        f"{fake_index.url}/files/{kit.WHEEL_NAME}: no answer: IncompleteRead"
    )
    assert len(fake_index.ranges()) == 2  # one retry is configured


def test_whole_transfer_that_breaks_off_goes_on(fake_index, pins, cache, wheel):
    from patchkit.upstream.fetch import fetch_artifact

    fake_index.faults.cut_after = 100_000
    artifact = pins.releases[0].artifacts[0]
    path = fetch_artifact(artifact, fake_index.index(), cache)
    assert path.read_bytes() == wheel
    assert fake_index.ranges() == [None, "bytes=65536-"]


def test_whole_transfer_that_was_given_up_goes_on_in_the_next_run(fake_index, pins, cache, wheel):
    from patchkit.upstream.fetch import fetch_artifact

    artifact = pins.releases[0].artifacts[0]
    fake_index.faults.cut_after, fake_index.faults.cut_times = 100_000, 1
    with pytest.raises(PatchkitError, match="no answer: IncompleteRead"):
        fetch_artifact(artifact, fake_index.index(retries=-1), cache)
    fake_index.log.clear()
    assert fetch_artifact(artifact, fake_index.index(), cache).read_bytes() == wheel
    assert fake_index.ranges() == ["bytes=65536-"]
    assert list(cache.root.rglob("*.part")) == []


@pytest.mark.parametrize("extra", [-1000, 0, 10])
def test_what_an_earlier_run_left_is_not_trusted(fake_index, pins, cache, wheel, extra):
    from patchkit.upstream.fetch import fetch_artifact

    artifact = pins.releases[0].artifacts[0]
    path = cache.file_path(artifact.sha256, artifact.filename)
    path.parent.mkdir(parents=True)
    left = path.with_name(f".{path.name}.part")
    left.write_bytes(b"x" * (len(wheel) + extra))
    assert fetch_artifact(artifact, fake_index.index(), cache).read_bytes() == wheel
    assert not left.exists()


def test_another_file_than_the_pinned_one_leaves_nothing(fake_index, pins, cache):
    from patchkit.upstream.fetch import fetch_artifact

    fake_index.faults.flip_at = 5000
    fake_index.faults.hashes = False
    with pytest.raises(PatchkitError, match="the file has sha256"):
        fetch_artifact(pins.releases[0].artifacts[0], fake_index.index(), cache)
    assert [path.suffix for path in cache.root.rglob("*.*")] == [".lock"]


def test_damaged_whole_file_in_the_cache_is_fetched_again(fake_index, pins, cache, wheel):
    from patchkit.upstream.fetch import fetch_artifact

    artifact = pins.releases[0].artifacts[0]
    path = fetch_artifact(artifact, fake_index.index(), cache)
    path.write_bytes(wheel[:-1])
    assert fetch_artifact(artifact, fake_index.index(), cache).read_bytes() == wheel
    fake_index.log.clear()
    assert fetch_artifact(artifact, fake_index.index(), cache).read_bytes() == wheel
    assert fake_index.log == []


def test_tree_comes_from_a_whole_wheel_that_is_cached_already(fake_index, pins, cache):
    from patchkit.upstream.fetch import fetch_artifact

    fetch_artifact(pins.releases[0].artifacts[0], fake_index.index(), cache)
    fake_index.log.clear()
    assert dict(opened(fake_index, pins, cache).files) == SOURCES
    assert fake_index.log == []


@pytest.mark.parametrize("status", [403, 404, 503])
def test_file_that_is_refused_is_an_error(fake_index, pins, cache, kit, status):
    fake_index.faults.statuses[f"/files/{kit.WHEEL_NAME}"] = status
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    place = f"{fake_index.url}/files/{kit.WHEEL_NAME}"
    assert str(caught.value) == f"{place}: the index answers {status}"


def test_no_network_and_a_cold_cache_is_an_error_with_advice(fake_index, pins, cache):
    index = fake_index.index(index_url="http://127.0.0.1:9/simple/", retries=0)
    with pytest.raises(PatchkitError) as caught:
        open_tree("v0.99.0", pins=pins, cache=cache, index=index)
    assert str(caught.value) == (
        "http://127.0.0.1:9/simple/vllm/: no answer: ConnectionRefusedError: Connection refused"
    )
    assert caught.value.hint == (
        "check the network and pip's configuration (index, proxy, certificates); "
        "releases that are in the cache need neither"
    )


def test_no_index_and_a_cold_cache_is_an_error_with_advice(fake_index, pins, cache, kit):
    index = fake_index.index(no_index=True)
    with pytest.raises(PatchkitError) as caught:
        open_tree("v0.99.0", pins=pins, cache=cache, index=index)
    assert str(caught.value) == (
        f"{kit.WHEEL_NAME}: no configured index or find-links folder offers the file"
    )
    assert caught.value.hint == (
        "pip's configuration says no-index: put the file into a find-links folder"
    )
    assert fake_index.log == []


def test_member_written_twice_is_refused(fake_index, cache, kit):
    import io
    import zipfile

    buffer = io.BytesIO(kit.make_wheel())
    with zipfile.ZipFile(buffer, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("vllm/run.sh", b"#!/bin/sh\n")
    wheel = buffer.getvalue()
    fake_index.files[kit.WHEEL_NAME] = wheel
    pins = Pins((Release("0.99.0", (kit.pin(kit.WHEEL_NAME, wheel),)),))
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    assert caught.value.fact == "member vllm/run.sh is there twice"


@pytest.mark.parametrize("path", ["../evil.py", "/evil.py", "vllm/../../evil.py", "vllm\\evil.py"])
def test_member_outside_the_archive_is_refused(fake_index, cache, kit, path):
    wheel = kit.make_wheel({**kit.PACKAGE, path: b"evil\n"})
    fake_index.files[kit.WHEEL_NAME] = wheel
    pins = Pins((Release("0.99.0", (kit.pin(kit.WHEEL_NAME, wheel),)),))
    with pytest.raises(PatchkitError) as caught:
        opened(fake_index, pins, cache)
    assert caught.value.fact == f"member {path!r} lies outside the archive"
