"""Columns by name: which peer stands behind each."""

from __future__ import annotations

from tests.bench.kernels.peers import Peer
from tests.bench.kernels.peers.continuing import Continuing
from tests.bench.kernels.peers.flash import Flash
from tests.bench.kernels.peers.ours import Ours
from tests.bench.kernels.peers.sdpa import Sdpa
from tests.bench.kernels.peers.storing import Storing
from tests.bench.kernels.peers.tiled import Tiled
from tests.bench.kernels.peers.unified import Unified

PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        *(Ours(kv_format) for kv_format in ("bf16", "int8", "fp8")),
        *(Unified(kv_format) for kv_format in ("bf16", "int8", "int4")),
        *(Flash(kv_format) for kv_format in ("bf16", "fp8")),
        Sdpa(),
        Tiled(),
        *(Storing(rotates) for rotates in (True, False)),
        Continuing(),
    )
}
