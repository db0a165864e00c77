from __future__ import annotations

import pytest

from patchkit.errors import PatchkitError, UsageError
from patchkit.series.selection import select_patches

BODY = b"--- a/vllm/x.py\n+++ b/vllm/x.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"


def patch(needs: str = "") -> bytes:
    """Return a patch that depends on others."""
    depends = f"Depends-On: {needs}\n" if needs else ""
    return f"Description: x\n{depends}\n".encode() + BODY


PATCHES = {
    ("patches", "base.patch"): patch(),
    ("patches", "cache.patch"): patch("base"),
    ("patches", "extra.patch"): patch(),
    ("port", "kernel.patch"): patch("patches/cache"),
    ("port", "extra.patch"): patch("kernel.patch"),
}
KEYS = tuple(PATCHES)


def refusal(**choice: object) -> str:
    with pytest.raises(PatchkitError) as caught:
        select_patches(PATCHES, **choice)  # type: ignore[arg-type]
    return f"{caught.value} | {caught.value.hint}"


def test_nothing_asked_is_everything() -> None:
    selection = select_patches(PATCHES)
    assert (selection.chosen, selection.left_out, selection.word) == (KEYS, (), "")


def test_what_is_named_brings_what_it_needs_in_series_order() -> None:
    selection = select_patches(PATCHES, only=["kernel"])
    assert selection.chosen == (KEYS[0], KEYS[1], KEYS[3])
    assert selection.left_out == (KEYS[2], KEYS[4])
    assert selection.brought == {KEYS[1]: KEYS[3], KEYS[0]: KEYS[1]}
    assert selection.word == "only.base.cache.kernel"


@pytest.mark.parametrize("name", ["base", "base.patch", "patches/base", "patches/base.patch"])
def test_a_patch_has_four_names(name: str) -> None:
    assert select_patches(PATCHES, only=[name]).chosen == (KEYS[0],)


def test_leaving_out_keeps_the_rest() -> None:
    selection = select_patches(PATCHES, without=["patches/extra", "port/extra"])
    assert selection.chosen == (KEYS[0], KEYS[1], KEYS[3])
    assert selection.word == "without.extra.extra"


def test_what_is_needed_cannot_be_left_out() -> None:
    assert refusal(without=["cache"]) == (
        "port/kernel.patch: needs patches/cache.patch, which is to be left out | "
        "leave port/kernel.patch out as well"
    )
    left = select_patches(PATCHES, without=["cache", "kernel", "port/extra"])
    assert left.chosen == (KEYS[0], KEYS[2])


def test_a_selection_has_its_name_from_the_configuration() -> None:
    named = {"kv": ["cache"]}
    selection = select_patches(PATCHES, name="kv", named=named)
    assert (selection.chosen, selection.word) == (KEYS[:2], "kv")
    assert refusal(name="vk", named=named) == (
        "[tool.patchkit.selections]: there is no selection 'vk' | configured are: kv"
    )


def test_names_must_be_known_and_clear() -> None:
    assert refusal(only=["kv"]) == (
        "there is no patch 'kv' | the series has: base, cache, extra, kernel, extra"
    )
    assert refusal(only=["extra"]) == (
        "'extra' names patches/extra.patch and port/extra.patch, expected one patch | None"
    )
    assert refusal(without=[*{"/".join(key) for key in KEYS}]).startswith("no patch is left")


def test_one_way_of_choosing_at_a_time() -> None:
    with pytest.raises(UsageError, match="by one of --only, --without and --selection"):
        select_patches(PATCHES, only=["base"], without=["cache"])


def test_a_dependency_comes_before_and_is_there() -> None:
    swapped = {KEYS[1]: PATCHES[KEYS[1]], KEYS[0]: PATCHES[KEYS[0]]}
    with pytest.raises(PatchkitError) as caught:
        select_patches(swapped)
    assert str(caught.value) == (
        "patches/cache.patch: depends on patches/base.patch, which does not come before it"
    )
    with pytest.raises(PatchkitError) as caught:
        select_patches({KEYS[1]: PATCHES[KEYS[1]]})
    assert str(caught.value) == "patches/cache.patch: there is no patch 'base'"
