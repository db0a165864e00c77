"""Exit conditions tried in small trees: what holds, what does not, and what nobody can say."""

from __future__ import annotations

import pytest

from patchkit.diff.exit_when import parse_condition
from patchkit.diff.header import Field, Header
from patchkit.series.exits import Exit, Holding, exit_conditions, judge_exit
from patchkit.tree import SourceTree
from patchkit.upstream import open_tree, shipped_pins

POOL = """\
import torch
from typing import overload
from vllm.base import Base, other as renamed
from vllm.lost import gone


@decorated(
    size=1)
class Pool(Base):
    limit: int = 3

    def take(self):
        self.taken = 1
        return self.limit + \\
            1

    class Inner:
        def deep(self):
            pass


if torch.cuda:
    def twice(): ...
else:
    def twice(): ...


def helper():
    from vllm.base import Base as hidden
    inner = 1
    return inner


for looped in (1, 2):
    pass
single = 1
"""
LOOSE = """\
import torch

kept = _kept = None


def went(): ...


del went


def make():
    global kept, made
    kept = made = 1


class Slotted:
    __slots__ = ("width",)
"""
FILES = {
    "vllm/__init__.py": "from vllm.pool import Pool\n\n\ndef __getattr__(name):\n    "
    'return {"lazy": 1}[name]\n',
    "vllm/pool.py": POOL,
    "vllm/base.py": "class Base:\n    def given(self): ...\n\n\ndef other(): ...\n",
    "vllm/foreign.py": "import torch\n\n\nclass Layer(torch.nn.Module):\n    pass\n",
    "vllm/stars.py": "from torch import *\n",
    "vllm/ours.py": "from vllm.base import *\n",
    "vllm/broken.py": "def f(:\n",
    "vllm/loose.py": LOOSE,
    "vllm/loosely.py": "from vllm.loose import *\n",
    "vllm/deep/__init__.py": "",
    "vllm/deep/part.py": "x = 1\n",
}


class Files(dict[str, bytes]):
    """Files beside which there are others that are no text."""

    left_out = frozenset({"vllm/_C.abi3.so"})


def tree(version: str | None = "0.30.0", *, partial: bool = False, **more: str) -> SourceTree:
    files = Files({path: text.encode() for path, text in {**FILES, **more}.items()})
    return SourceTree(files, name="main", version=version, partial=partial)


def said(line: str, where: SourceTree | None = None) -> tuple[str, str]:
    (judged,) = judge_exit([parse_condition(line, "p:1")], where or tree()).judged
    return judged.holding.value, str(judged)


@pytest.mark.parametrize(
    ("line", "holding", "text"),
    [
        ("symbol vllm.pool:Pool", "held", "vllm/pool.py:9: `Pool` is defined"),
        ("symbol vllm:Pool", "held", "vllm/pool.py:9: `Pool` is defined"),
        ("symbol vllm:Pool.take", "held", "vllm/pool.py:12: `Pool.take` is defined"),
        ("symbol vllm.pool:Pool.limit", "held", "vllm/pool.py:10: `Pool.limit` is defined"),
        ("symbol vllm.pool:Pool.taken", "held", "vllm/pool.py:13: `Pool.taken` is defined"),
        ("symbol vllm.pool:Pool.given", "held", "vllm/base.py:2: `Base.given` is defined"),
        ("symbol vllm.pool:Pool.Inner.deep", "held", "vllm/pool.py:18: `Inner.deep` is defined"),
        ("symbol vllm.pool:renamed", "held", "vllm/base.py:5: `other` is defined"),
        ("symbol vllm.pool:twice", "held", "vllm/pool.py:23: `twice` is defined 2 times"),
        ("symbol vllm.pool:torch", "held", "vllm/pool.py:1: `torch` is imported"),
        ("symbol vllm.pool:single", "held", "vllm/pool.py:36: `single` is defined"),
        ("symbol vllm.ours:other", "held", "vllm/base.py:5: `other` is defined"),
        ("symbol vllm.deep:part", "held", "vllm/deep/part.py: `part` is a module"),
        ("symbol vllm.pool:Pool.give", "not held", "vllm/pool.py:9: `Pool` has no `give`"),
        ("symbol vllm.pool:inner", "not held", "vllm/pool.py has no `inner`"),
        ("symbol vllm.pool:hidden", "not held", "vllm/pool.py has no `hidden`"),
        ("symbol vllm.pools:Lot", "not held", "there is no module vllm.pools"),
        (
            "symbol vllm.pools:Pool",
            "not held",
            "vllm/pool.py:9: there is no module vllm.pools; one is defined there",
        ),
        ("symbol vllm:nothing", "not held", "vllm/__init__.py has no `nothing`"),
        (
            "symbol vllm:lazy",
            "cannot say",
            "vllm/__init__.py:4: vllm makes names when asked: `lazy` may be there",
        ),
        (
            "symbol vllm.stars:Tensor",
            "cannot say",
            "vllm/stars.py:1: vllm.stars imports all of another module: `Tensor` may be there",
        ),
        (
            "symbol vllm.pool:gone",
            "cannot say",
            "vllm/pool.py:4: `gone` is bound there, and what it is cannot be followed",
        ),
        (
            "symbol vllm.pool:looped",
            "cannot say",
            "vllm/pool.py:34: `looped` is bound there, and what it is cannot be followed",
        ),
        (
            "symbol vllm.pool:twice.inner",
            "cannot say",
            "vllm/pool.py:23: `twice` is defined 2 times, not followed",
        ),
        (
            "symbol vllm.pool:helper.inner",
            "cannot say",
            "vllm/pool.py:28: `helper` is no class",
        ),
        (
            "symbol vllm.foreign:Layer.forward",
            "cannot say",
            "vllm/foreign.py:4: `Layer` has no `forward`, and not all of its bases are known",
        ),
        ("symbol vllm.loose:kept", "held", "vllm/loose.py:3: `kept` is defined"),
        ("symbol vllm.loose:went", "cannot say", "vllm/loose.py:9: `went` is taken away again"),
        (
            "symbol vllm.loose:made",
            "cannot say",
            "vllm/loose.py:13: `made` is bound by a function that may run",
        ),
        (
            "no-symbol vllm.loose:made",
            "cannot say",
            "vllm/loose.py:13: `made` is bound by a function that may run",
        ),
        (
            "no-symbol vllm.loose:Slotted.width",
            "cannot say",
            "vllm/loose.py:18: `Slotted` has no `width`, but in its slots",
        ),
        (
            "symbol vllm.loosely:_kept",
            "cannot say",
            "vllm/loosely.py:1: vllm.loosely imports all of another module: `_kept` may be there",
        ),
        ("symbol vllm.broken:f", "cannot say", "vllm/broken.py: Python cannot read the file"),
        ("symbol vllm._C:op", "cannot say", "vllm._C is compiled"),
        ("symbol torch.nn:Module", "cannot say", "torch.nn is no module of the package"),
        ("no-symbol vllm.pool:Pool", "not held", "vllm/pool.py:9: `Pool` is defined"),
        ("no-symbol vllm.pool:Pool.give", "held", "vllm/pool.py:9: `Pool` has no `give`"),
        ("no-symbol vllm.pools:Lot", "held", "there is no module vllm.pools"),
        (
            "no-symbol vllm.pools:Pool",
            "cannot say",
            "vllm/pool.py:9: there is no module vllm.pools; one is defined there",
        ),
        ("no-symbol vllm.broken:f", "cannot say", "vllm/broken.py: Python cannot read the file"),
    ],
)
def test_a_symbol(line: str, holding: str, text: str) -> None:
    assert said(line) == (holding, text)


@pytest.mark.parametrize(
    ("line", "holding", "text"),
    [
        ("file vllm/pool.py", "held", "vllm/pool.py: the file is there"),
        ("no-file vllm/pool.py", "not held", "vllm/pool.py: the file is there"),
        ("file vllm/_C.abi3.so", "held", "vllm/_C.abi3.so: the file is there, and is no text"),
        ("file vllm/pools.py", "not held", "there is no vllm/pools.py"),
        ("file vllm/deep", "cannot say", "vllm/deep is a folder"),
        ("no-file vllm/deep", "cannot say", "vllm/deep is a folder"),
        ("no-file vllm/pools.py", "held", "there is no vllm/pools.py"),
        ("file csrc/a.cu", "cannot say", "csrc/a.cu is of no part that a wheel ships"),
        ("no-file csrc/a.cu", "cannot say", "csrc/a.cu is of no part that a wheel ships"),
        ('text vllm/pool.py "self.taken = 1"', "held", "vllm/pool.py:13: it says `self.taken = 1`"),
        (
            'text vllm/pool.py "self.taken = 1 return"',
            "held",
            "vllm/pool.py:13: it says `self.taken = 1 return`",
        ),
        (
            'text vllm/pool.py "self.taken = 2"',
            "not held",
            "vllm/pool.py: vllm/pool.py does not say `self.taken = 2`",
        ),
        ('text vllm/pools.py "a"', "not held", "there is no vllm/pools.py"),
        ('no-text vllm/pools.py "a"', "cannot say", "there is no vllm/pools.py"),
        (
            'text vllm/_C.abi3.so "a"',
            "cannot say",
            "vllm/_C.abi3.so: the file is there, and is no text",
        ),
        ('no-text vllm/pool.py "limit"', "not held", "vllm/pool.py:10: it says `limit`"),
        ('text vllm:Pool "size=1"', "held", "vllm/pool.py:8: it says `size=1`"),
        ('text vllm.pool:Pool.take "limit"', "held", "vllm/pool.py:14: it says `limit`"),
        (
            'text vllm.pool:Pool.take "size=1"',
            "not held",
            "vllm/pool.py:12: Pool.take does not say `size=1`",
        ),
        (
            'no-text vllm.pool:Pool.take "inner = 1"',
            "held",
            "vllm/pool.py:12: Pool.take does not say `inner = 1`",
        ),
        (
            'text vllm.pool:single "1"',
            "cannot say",
            "vllm/pool.py:36: `single` is no class or function",
        ),
        (
            'no-text vllm.pool:Pool.give "1"',
            "cannot say",
            "vllm/pool.py:9: `Pool` has no `give`",
        ),
        ('text vllm.pool:torch "1"', "cannot say", "vllm/pool.py:1: `torch` is imported"),
    ],
)
def test_a_file_or_a_text(line: str, holding: str, text: str) -> None:
    assert said(line) == (holding, text)


@pytest.mark.parametrize(
    ("version", "holding", "text"),
    [
        ("0.30.0", "held", "the release is 0.30.0"),
        ("0.31.0rc1", "held", "the release is 0.31.0rc1"),
        ("0.30.1.dev3+g123", "held", "the release is 0.30.1.dev3+g123"),
        ("0.30.0rc1", "not held", "the release is 0.30.0rc1"),
        ("0.29.9", "not held", "the release is 0.29.9"),
        (None, "cannot say", "main has no release number"),
        ("dev", "cannot say", "main has no release number"),
    ],
)
def test_a_release(version: str | None, holding: str, text: str) -> None:
    assert said("release >=0.30", tree(version)) == (holding, text)


@pytest.mark.parametrize(
    "line",
    ["file vllm/x.py", "no-file vllm/x.py", "symbol vllm.x:Y", 'no-text vllm/x.py "a"'],
)
def test_what_a_partial_tree_lacks_is_not_absent(line: str) -> None:
    assert said(line, tree(partial=True))[0] == "cannot say"


def test_all_conditions_must_hold() -> None:
    def judged(*lines: str) -> tuple[Holding, str]:
        found = judge_exit([parse_condition(line, "p:1") for line in lines], tree())
        return found.holding, found.text

    yes, no, unknown = "file vllm/pool.py", "file vllm/no.py", "file csrc/a.cu"
    assert judged(yes, "release >=0.30") == (
        Holding.HELD,
        "vllm/pool.py: the file is there; the release is 0.30.0",
    )
    assert judged(yes, no, unknown) == (Holding.NOT_HELD, "there is no vllm/no.py")
    assert judged(unknown, yes) == (
        Holding.UNKNOWN,
        "csrc/a.cu is of no part that a wheel ships",
    )


def test_a_patch_that_names_no_condition_never_goes() -> None:
    assert not Exit()
    assert Exit().holding is Holding.NOT_HELD
    assert exit_conditions(Header(), "p") == ()
    field = Field("Exit-When", "file vllm/a.py\nfile vllm/b.py", 4)
    assert len(exit_conditions(Header((field,)), "p")) == 2


@pytest.mark.network
def test_what_the_stored_patch_waits_for_came_with_0_30() -> None:
    line = (
        "text vllm.model_executor.layers.attention.attention:Attention.get_kv_cache_spec "
        '"page_budget = shared_page or sw_per_token * block_size"'
    )
    found = {v: said(line, open_tree(f"v{v}")) for v in shipped_pins().versions}
    assert [v for v, (holding, _) in found.items() if holding == "held"] == [
        "0.30.0",
        "0.31.0",
        "0.32.0",
        "0.33.0",
    ]
    assert {holding for holding, _ in found.values()} == {"held", "not held"}
    assert found["0.30.0"][1].startswith("vllm/model_executor/layers/attention/attention.py:648: ")


@pytest.mark.network
@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("symbol vllm:LLM", "vllm/entrypoints/llm.py:62: `LLM` is defined"),
        (
            "symbol vllm.v1.core.kv_cache_utils:KVCacheSpec",
            "vllm/v1/kv_cache_interface.py:202: `KVCacheSpec` is defined",
        ),
        (
            "symbol vllm.config:VllmConfig.cache_config",
            "vllm/config/vllm.py:358: `VllmConfig.cache_config` is defined",
        ),
    ],
)
def test_a_symbol_of_a_release_is_found_where_it_is_defined(line: str, text: str) -> None:
    assert said(line, open_tree("v0.33.0")) == ("held", text)
