"""What upstream's own new classes say: cut as new files, and asked where upstream left them as is.

Upstream did not touch them in the next release, so that next to nothing may be told of them.
"""

from __future__ import annotations

import pytest

from patchkit.surface.protocol import NewCode, Protocols, Trees
from patchkit.surface.protocol_classes import Classes
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree

pytestmark = pytest.mark.network


def added_and_left(before: SourceTree, base: SourceTree, target: SourceTree) -> list[str]:
    """The files with derived classes that `base` added and `target` has unchanged."""
    classes = Classes(base)
    return [
        path
        for path in base.files
        if path.endswith(".py")
        and path not in before.files
        and target.files.get(path) == base.files[path]
        and (module := classes.module(path)) is not None
        and any(lineage_is_known(classes, path, name) for name in module.classes)
    ]


def lineage_is_known(classes: Classes, path: str, name: str) -> bool:
    lineage = classes.lineage(path, name)
    return lineage is not None and len(lineage.classes) > 1


# What is told is so in the sources: the class between got `supports_sink` and lost a method, and
# the base's `export`, in another file since, takes and is passed two more.
TOLD: dict[tuple[str, str, str], list[str]] = {
    ("0.22.1", "0.23.0", "0.24.0"): [
        "`DeepseekV4XPUSparseBackend` leaves `supports_sink` to `AttentionBackend`: `False` in ",
        "`DeepseekV4XPUAttention.use_flashmla_fp8_layout` overrides "
        "`DeepseekV4Attention.use_flashmla_fp8_layout` of 0.23.0",
    ],
    ("0.26.0", "0.27.0", "0.27.1"): [],
    ("0.27.1", "0.28.0", "0.29.0"): [],
    ("0.29.0", "0.30.0", "0.31.0"): [],
    ("0.31.0", "0.32.0", "0.33.0"): [
        "`KimiK3ROCmKDAPrefillCheckpointExporter.export(checkpoint, *, raw_qkv, conv_state, "
        "cu_seqlens)` overrides `MambaPrefillCheckpointExporter.export`, `(checkpoint, *, ",
    ],
}


@pytest.mark.parametrize("releases", TOLD, ids=lambda releases: str(releases[1]))
def test_a_new_class_that_upstream_left_alone_is_left_alone(releases: tuple[str, str, str]) -> None:
    before, base, target = (open_tree(f"v{release}") for release in releases)
    told: list[str] = []
    for path in added_and_left(before, base, target):
        text = base.files[path]
        without = (tree.with_changes({path: None}) for tree in (base, target))
        trees = Trees(next(without), base, next(without), target)
        code = NewCode(text, b"", ((1, text.count(b"\n") + 1),), path, path)
        report = Protocols(trees).drift(code)
        assert report.not_checked == ()
        told += [drift.text for drift in report.drifts]
    expected = TOLD[releases]
    assert len(told) == len(expected)
    assert all(text.startswith(start) for text, start in zip(told, expected, strict=True))
