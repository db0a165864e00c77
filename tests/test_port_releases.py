"""Patches on vLLM 0.27.1 moved to later releases; each outcome was judged by reading the target."""

from __future__ import annotations

from difflib import unified_diff

import pytest

import patchkit
from patchkit import RebaseResult, SourceTree
from patchkit.upstream import open_tree

pytestmark = pytest.mark.network

REQUEST = "vllm/v1/request.py"
SPECS = "vllm/v1/kv_cache_interface.py"
UTILS = "vllm/v1/core/kv_cache_utils.py"
HASHER = "get_request_block_hasher.request_block_hasher"


@pytest.fixture(scope="module")
def base() -> SourceTree:
    return open_tree("v0.27.1")


def edited(content: str, pairs: list[tuple[str, str]]) -> str:
    for old, new in pairs:
        assert content.count(old) == 1, old
        content = content.replace(old, new)
    return content


def patch(tree: SourceTree, path: str, pairs: list[tuple[str, str]]) -> bytes:
    old = tree.files[path].decode()
    lines = unified_diff(
        old.splitlines(keepends=True),
        edited(old, pairs).splitlines(keepends=True),
        f"a/{path}",
        f"b/{path}",
    )
    return "".join(lines).encode()


def changed(result: RebaseResult) -> dict[str, str]:
    """The files that the run changed, as text."""
    touched = {p: c for patch in result.patches for p, c in patch.after.items()}
    return {p: c.decode() for p, c in touched.items() if c is not None}


def lines(result: RebaseResult) -> list[tuple[str, str | None, tuple[int, int] | None]]:
    return [(str(o.status), o.definition_after, o.target_lines) for o in result.outcomes]


STATUS = [
    (
        "    FINISHED_REPETITION = enum.auto()\n",
        "    FINISHED_REPETITION = enum.auto()\n    FINISHED_EVICTED = enum.auto()\n",
    ),
    (
        "    RequestStatus.FINISHED_REPETITION: FinishReason.REPETITION,\n",
        "    RequestStatus.FINISHED_REPETITION: FinishReason.REPETITION,\n"
        "    RequestStatus.FINISHED_EVICTED: FinishReason.ABORT,\n",
    ),
]


@pytest.mark.parametrize(
    ("release", "member", "entry"),
    [("v0.28.0", 368, 394), ("v0.29.0", 381, 407), ("v0.33.0", 387, 413)],
)
def test_enum_member_and_its_mapping_land_behind_their_last_neighbours(
    base: SourceTree, release: str, member: int, entry: int
) -> None:
    target = open_tree(release)
    result = patchkit.port([patch(base, REQUEST, STATUS)], base, target)
    assert lines(result) == [
        ("placed", "RequestStatus", (member, member)),
        ("placed", "<module>", (entry, entry)),
    ]
    distance = member - 365
    assert [str(e) for e in result.outcomes[0].evidence] == [
        f"all 6 old lines stand once in the file, +{distance} lines away",
        "enum member added in `RequestStatus`, between the same neighbours",
    ]
    assert changed(result) == {REQUEST: edited(target.files[REQUEST].decode(), STATUS)}
    assert not result.drifted


QUANT = [
    (
        "    TURBOQUANT = 6  # Hadamard-rotated Lloyd-Max quant, packed K+V per slot\n",
        "    TURBOQUANT = 6  # Hadamard-rotated Lloyd-Max quant, packed K+V per slot\n"
        "    KVARN = 7\n",
    ),
    (
        '    if isinstance(kv_cache_dtype, str) and kv_cache_dtype.startswith("turboquant_"):\n',
        '    if kv_cache_dtype == "kvarn":\n        return KVQuantMode.KVARN\n'
        '    if isinstance(kv_cache_dtype, str) and kv_cache_dtype.startswith("turboquant_"):\n',
    ),
]


@pytest.mark.parametrize(
    ("release", "enum_line", "function_line"),
    [("v0.28.0", 36, 80), ("v0.29.0", 39, 83), ("v0.33.0", 40, 121)],
)
def test_enum_value_that_upstream_gave_to_another_member_does_not_land(
    base: SourceTree, release: str, enum_line: int, function_line: int
) -> None:
    # 0.28.0 split TURBOQUANT = 6 into four members; 7 is TURBOQUANT_4BIT_NC there
    target = open_tree(release)
    assert b"    TURBOQUANT_4BIT_NC = 7\n" in target.files[SPECS]
    result = patchkit.port([patch(base, SPECS, QUANT)], base, target)
    assert [o.landed for o in result.outcomes] == [False, False]
    assert result.outcomes[0].status == "conflicted"
    assert result.outcomes[0].candidates == (f"{SPECS}:{enum_line} KVQuantMode",)
    assert result.outcomes[1].status in ("conflicted", "blocked")
    if result.outcomes[1].status == "conflicted":
        assert result.outcomes[1].candidates == (f"{SPECS}:{function_line} get_kv_quant_mode",)
    assert changed(result) == {}


SALT = [
    (
        "    curr_block_token_ids: Sequence[int],\n"
        "    extra_keys: tuple[Any, ...] | None = None,\n) -> BlockHash:\n",
        "    curr_block_token_ids: Sequence[int],\n"
        "    extra_keys: tuple[Any, ...] | None = None,\n"
        '    s: bytes = b"",\n) -> BlockHash:\n',
    ),
    (
        "        hash_function((parent_block_hash, curr_block_token_ids_tuple, extra_keys))\n",
        "        hash_function((parent_block_hash, curr_block_token_ids_tuple, extra_keys, s))\n",
    ),
    (
        "                caching_hash_fn, prev_block_hash_value, block_tokens, extra_keys\n",
        "                caching_hash_fn,\n                prev_block_hash_value,\n"
        '                block_tokens,\n                extra_keys,\n                s=b"t",\n',
    ),
]


@pytest.mark.parametrize(
    ("release", "parameter", "use", "call"),
    [
        ("v0.28.0", 582, 604, (721, 724)),
        ("v0.29.0", 626, 648, (842, 845)),
        ("v0.33.0", 712, 737, (1029, 1032)),
    ],
)
def test_parameter_lands_with_its_use_and_its_caller(
    base: SourceTree, release: str, parameter: int, use: int, call: tuple[int, int]
) -> None:
    target = open_tree(release)
    result = patchkit.port([patch(base, UTILS, SALT)], base, target)
    assert lines(result) == [
        ("placed", "hash_block_tokens", (parameter, parameter)),
        ("placed", "hash_block_tokens", (use, use)),
        ("placed", HASHER, call),
    ]
    assert changed(result) == {UTILS: edited(target.files[UTILS].decode(), SALT)}


LOGS = [
    (
        "            # last mm input.\n            curr_mm_idx = -1\n",
        "            # last mm input.\n            curr_mm_idx = -1\n"
        '            logger.debug("hashing generated tokens")\n',
    ),
    (
        "            new_block_hashes.append(block_hash)\n"
        "            start_token_idx += hash_block_size\n",
        "            new_block_hashes.append(block_hash)\n"
        '            logger.debug("hashed a block")\n'
        "            start_token_idx += hash_block_size\n",
    ),
]


@pytest.mark.parametrize(
    ("release", "first", "second"), [("v0.28.0", 700, 724), ("v0.29.0", 821, 845)]
)
def test_statements_in_a_function_body_land_in_that_function(
    base: SourceTree, release: str, first: int, second: int
) -> None:
    target = open_tree(release)
    result = patchkit.port([patch(base, UTILS, LOGS)], base, target)
    assert lines(result) == [
        ("placed", HASHER, (first, first)),
        ("placed", HASHER, (second, second)),
    ]
    assert changed(result) == {UTILS: edited(target.files[UTILS].decode(), LOGS)}


def test_statement_whose_neighbour_was_rewritten_is_a_conflict_and_the_other_lands(
    base: SourceTree,
) -> None:
    # 0.33.0 looks the index up (get_mm_features_in_window) where 0.27.1 set it to -1
    target = open_tree("v0.33.0")
    assert b"            curr_mm_idx = -1\n" not in target.files[UTILS]
    result = patchkit.port([patch(base, UTILS, LOGS)], base, target)
    assert lines(result) == [("conflicted", None, None), ("placed", HASHER, (1031, 1031))]
    assert result.outcomes[0].candidates == (f"{UTILS}:973 {HASHER}",)
    assert changed(result) == {UTILS: edited(target.files[UTILS].decode(), LOGS[1:])}
