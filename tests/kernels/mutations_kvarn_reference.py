"""Mistakes in the layout and the references of KVarN, as data; `mutate.py` tries them."""

from __future__ import annotations

from tests.kernels.mutations import Mutation

LAYOUT = "kvarn_port/layout.py"

MUTATIONS = (
    Mutation(
        "layout-offsets-of-a-tile-late",
        LAYOUT,
        "0, *ends, slot_bytes)",
        "2, *ends, slot_bytes)",
        tests=("tests/kernels/test_layout.py",),
    ),
)
