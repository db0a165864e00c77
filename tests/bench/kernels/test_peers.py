"""Peers are called as vLLM's backends call them: with the same keywords, which the functions take.

Read from the sources on both sides, since neither torch nor vLLM need be here.
Broken to see these fail: a keyword left out, one misspelt, one that only another function takes.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from patchkit.upstream import open_tree

pytestmark = pytest.mark.network

PEERS = Path(__file__).parent / "peers"
UNIFIED = "vllm/v1/attention/ops/triton_unified_attention.py"
TRITON = "vllm/v1/attention/backends/triton_attn.py"
FLASH = "vllm/vllm_flash_attn/flash_attn_interface.py"
BACKEND = "vllm/v1/attention/backends/flash_attn.py"
RELEASES = ("v0.28.0", "v0.29.0", "v0.33.0")
Function = ast.FunctionDef


def functions(source: str) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            found.setdefault(node.name, []).append(node)
    return found


def parameters(source: str, name: str) -> tuple[set[str], set[str]]:
    """All parameters of a module's function, and those that have no default."""
    (function,) = functions(source)[name]
    names = [argument.arg for argument in function.args.args]
    return set(names), set(names[: len(names) - len(function.args.defaults)])


def called_with(source: str, inside: str, name: str) -> list[set[str]]:
    """The keywords of each call of a function inside another."""
    calls = []
    for function in functions(source).get(inside, []):
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == name:
                calls.append({keyword.arg or "**" for keyword in node.keywords})
    return calls


def keys(path: Path, *holders: str) -> set[str]:
    """The keys of the dictionaries that functions return, or that a name is bound to."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        bound = isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in holders
        if bound or (isinstance(node, Function) and node.name in holders):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Dict):
                    found |= {key.value for key in inner.keys if isinstance(key, ast.Constant)}
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_unified_attention_is_called_as_the_triton_backend_calls_it(release: str) -> None:
    files = open_tree(release).files
    ours = keys(PEERS / "unified.py", "CONSTANT", "_cache", "keywords") | {"block_table"}
    assert [ours] == called_with(files[TRITON].decode(), "forward", "unified_attention")
    every, required = parameters(files[UNIFIED].decode(), "unified_attention")
    assert required <= ours <= every


@pytest.mark.parametrize("release", RELEASES)
def test_flash_attention_takes_what_it_is_called_with(release: str) -> None:
    files = open_tree(release).files
    ours = keys(PEERS / "flash.py", "keywords") | {"block_table", "scheduler_metadata"}
    every, required = parameters(files[FLASH].decode(), "flash_attn_varlen_func")
    assert required <= ours <= every
    if release != "v0.33.0":  # there the call is made by a class that picks the kernel
        calls = called_with(files[BACKEND].decode(), "forward", "flash_attn_varlen_func")
        assert calls == [ours]


@pytest.mark.parametrize("release", RELEASES)
def test_flash_attentions_metadata_is_made_as_its_backend_makes_it(release: str) -> None:
    files = open_tree(release).files
    ours = keys(PEERS / "flash.py", "schedule_keywords")
    made = called_with(files[BACKEND].decode(), "_get_scheduler_metadata", "get_scheduler_metadata")
    assert made == [ours]
    every, required = parameters(files[FLASH].decode(), "get_scheduler_metadata")
    assert required <= ours <= every


def test_constants_are_those_of_the_releases() -> None:
    old, new = open_tree("v0.28.0").files, open_tree("v0.33.0").files
    for files in (old, new):
        backend = files[TRITON].decode()
        assert "\nMIN_LAUNCH_GRID_SIZE_2D = 128 " in backend
        assert "\nNUM_PAR_SOFTMAX_SEGMENTS = 16 " in backend
        attention = files["vllm/config/attention.py"].decode()
        assert "flash_attn_max_num_splits_for_cuda_graph: int = 32\n" in attention
    assert "MAX_3D_QUERY_LEN" not in old[UNIFIED].decode()
    assert "\nMAX_3D_QUERY_LEN = 8\n" in new[UNIFIED].decode()
    mine = (PEERS / "unified.py").read_text(encoding="utf-8")
    assert "\nLAUNCH_GRID = 128 " in mine
    assert "\nSEGMENTS = 16 " in mine
    assert "\nMOST_SPLIT_QUERIES = 8 " in mine
    int4 = old["vllm/v1/attention/ops/int4_per_token_head.py"].decode()
    assert "gen.manual_seed(0x9E3779B9 + round_idx * 0x517CC1B7)\n" in int4
    assert "manual_seed(0x9E3779B9)" in (PEERS.parent / "caches.py").read_text(encoding="utf-8")
    assert "\nSPLITS = 32 " in (PEERS / "flash.py").read_text(encoding="utf-8")
