"""New classes and methods against the protocol of the classes that they derive from.

Each kind of change is made on purpose, and next to it stands the twin that must say nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import patchkit
from patchkit.diff import diff_files, format_files
from patchkit.outcome import Drift
from patchkit.stacking.rebase import PatchInput, RebaseResult, rebase_series
from patchkit.surface.protocol import NewCode, Protocols, Trees
from patchkit.tree import SourceTree

Texts = Mapping[str, str]
API, NEW, RUN = "vllm/api.py", "vllm/new.py", "vllm/run.py"
IMPORT = "from vllm.api import Base\n\n\n"


def tree(version: str, files: Texts) -> SourceTree:
    content = {path: text.encode() for path, text in files.items()}
    return SourceTree(content, name=f"v{version}", version=version)


def patch(before: Texts, after: Texts) -> bytes:
    old = {path: before[path].encode() for path in after if path in before}
    return format_files(diff_files(old, {path: text.encode() for path, text in after.items()}))


def moved(base: Texts, target: Texts, *patches: Texts) -> RebaseResult:
    """A series of patches, each given by the files that it leaves, from 1.0 to 2.0."""
    inputs, before = [], dict(base)
    for number, after in enumerate(patches, start=1):
        inputs.append(PatchInput(f"p{number}", patch(before, after)))
        before.update(after)
    return rebase_series(inputs, tree("1.0", base), tree("2.0", target))


def drifts(base: Texts, target: Texts, *patches: Texts) -> list[Drift]:
    result = moved(base, target, *patches)
    assert [o.reason for o in result.outcomes if not o.landed] == []
    return [d for o in result.outcomes for d in o.drifts if d.kind == "protocol"]


def said(
    before: str, after: str, new: str, run: str = "", run_after: str | None = None
) -> list[str]:
    """What is told of a new file on a base class that changes, with who calls it in both."""
    base = {API: before, RUN: run}
    target = {API: after, RUN: run if run_after is None else run_after}
    return [d.text for d in drifts(base, target, {NEW: IMPORT + new})]


OLD = "class Base:\n    def shape(self, blocks):\n        return blocks\n"
CALL = "def run(it):\n    return it.shape(3)\n"
MINE = "class Mine(Base):\n    def shape(self, blocks):\n        return 2 * blocks\n"


def test_nothing_is_told_where_the_protocol_is_the_same() -> None:
    assert said(OLD, "import abc\n\n\n" + OLD, MINE, CALL) == []


# Gone ------------------------------------------------------------------------------------------


def test_a_method_that_the_base_class_no_longer_has_is_gone() -> None:
    after = "class Base:\n    def size(self):\n        return 1\n"
    (drift,) = drifts({API: OLD}, {API: after}, {NEW: IMPORT + MINE})
    assert drift == Drift(
        "protocol",
        "Mine.shape",
        "vllm/new.py:5",
        "`Mine.shape` overrides `Base.shape` of 1.0 (vllm/api.py:2), which `Base` of 2.0 "
        "(vllm/api.py:1) no longer has",
        "Base.shape method (blocks)",
        "",
    )


def test_a_method_that_moved_to_a_class_further_up_is_not_gone() -> None:
    after = OLD.replace("class Base:", "class Root:") + "\n\nclass Base(Root):\n    pass\n"
    assert said(OLD, after, MINE, CALL) == []


def test_a_method_of_a_class_that_is_no_base_any_more_is_gone() -> None:
    before = "class Base(Mixin):\n    pass\n"
    mixin = "class Mixin:\n    def shape(self, blocks):\n        return 1\n\n\n"
    after = mixin + "class Base:\n    pass\n"
    assert said(mixin + before, after, MINE) == [
        "`Mine.shape` overrides `Mixin.shape` of 1.0 (vllm/api.py:2), which no class above `Mine` "
        "has in 2.0"
    ]


def test_a_base_from_elsewhere_may_have_what_is_gone() -> None:
    after = "import torch\n\n\nclass Base(torch.Module):\n    pass\n"
    assert said(OLD, after, MINE) == []


def test_a_base_that_is_only_marked_as_one_has_nothing() -> None:
    after = "from abc import ABC\n\n\nclass Base(ABC):\n    pass\n"
    assert len(said(OLD, after, MINE)) == 1


def test_a_constructor_that_is_left_to_python_is_not_gone() -> None:
    before, after = OLD.replace("shape", "__init__"), "class Base:\n    pass\n"
    assert said(before, after, MINE.replace("shape", "__init__")) == []


def test_a_class_attribute_that_is_gone_is_told_and_a_dunder_is_not() -> None:
    before = "class Base:\n    fast = False\n\n    def __len__(self):\n        return 1\n"
    new = "class Mine(Base):\n    fast = True\n\n    def __len__(self):\n        return 2\n"
    assert said(before, "class Base:\n    pass\n", new) == [
        "`Mine.fast` overrides `Base.fast` of 1.0 (vllm/api.py:2), which `Base` of 2.0 "
        "(vllm/api.py:1) no longer has"
    ]


# Signatures ------------------------------------------------------------------------------------

SIGNATURES = [
    # base, target, override, what the override is told to do
    ("self, a", "self, a, b", "self, a", "takes no `b`"),
    ("self, a", "self, a, b=None", "self, a", "takes no `b`"),
    ("self, a", "self, a, *, b=None", "self, a", "takes no `b`"),
    ("self, a", "self, a, **more", "self, a", "takes no `**kwargs`"),
    ("self, a", "self, a, *more", "self, a", "takes no `*args`"),
    ("self, a", "self, a, b=None", "self, a, *more", "takes `b` by position alone"),
    ("self, a", "self, a, b=None", "self, a, **more", "takes `b` by keyword alone"),
    ("self, a, b", "self, a", "self, a, b", "requires `b`"),
    ("self, a", "self, a=None", "self, a", "requires `a`"),
    ("self, a, *, b", "self, a, *, b=1", "self, a, *, b", "requires `b`"),
    ("self, a, *, b", "self, a", "self, a, *, b", "requires `b`"),
    ("self, a", "self, b", "self, a", "takes `a` where `b` is"),
    (
        "self, a, b",
        "self, b, a",
        "self, a, b",
        "takes `a` where `b` is and takes `b` where `a` is",
    ),
    ("self, a, b", "self, a, c, b", "self, a, b", "takes `b` where `c` is"),
    ("self, a, /", "self, a", "self, a, /", "takes `a` by position alone"),
    ("self, a, *, b=1", "self, a, b=1", "self, a, *, b=1", "takes `b` by keyword alone"),
]


@pytest.mark.parametrize(("before", "after", "own", "what"), SIGNATURES)
def test_a_signature_that_the_override_no_longer_serves_is_told(
    before: str, after: str, own: str, what: str
) -> None:
    [text] = said(method(before), method(after), method(own, "Mine(Base)"))
    assert text.endswith(f": it {what}; no call does that yet")


def method(parameters: str, name: str = "Base", decorator: str = "") -> str:
    head = f"class {name}:\n" + (f"    @{decorator}\n" if decorator else "")
    return f"{head}    def shape({parameters}):\n        return 1\n"


@pytest.mark.parametrize(
    ("before", "after", "own"),
    [
        ("self, a", "self, a, b=None", "self, a, b=None"),
        ("self, a", "self, a, b", "self, *args, **kwargs"),
        ("self, a", "self, a, *, b=1", "self, a, **kwargs"),
        ("self, a, b=1", "self, a", "self, a, b=1"),  # what is not passed any more has its default
        ("self, a, b", "self, a, b=None", "self, a, b=None"),
        ("self, a", "self, b", "self, _a"),  # never the protocol's name
    ],
)
def test_an_override_that_serves_the_new_signature_is_silent(
    before: str, after: str, own: str
) -> None:
    assert said(method(before), method(after), method(own, "Mine(Base)"), CALL) == []


def test_the_places_and_both_signatures_are_told_with_the_call_that_fails() -> None:
    after = CALL.replace("it.shape(3)", "it.shape(3, spec=it)")
    (drift,) = drifts(
        {API: method("self, blocks"), RUN: CALL},
        {API: "import abc\n\n\n" + method("self, blocks, spec=None"), RUN: after},
        {NEW: IMPORT + MINE},
    )
    assert drift.text == (
        "`Mine.shape(blocks)` overrides `Base.shape`, `(blocks)` in 1.0 (vllm/api.py:2), "
        "`(blocks, spec=None)` in 2.0 (vllm/api.py:5): it takes no `spec`; called so at "
        "vllm/run.py:2"
    )
    assert drift.before == "Base.shape method (blocks)"
    assert drift.after == "Base.shape method (blocks, spec=None), called (_, spec=)"


@pytest.mark.parametrize(
    "call",
    [
        "super().shape(3, spec=1)",
        "it.shape(3, 4, 5)",  # more than the protocol takes
        "it.shape(spec=1)",  # less
        "it.shape(3, blocks=4, spec=1)",  # one of them twice
        "it.shape(3, other=1, spec=1)",
        "Base.shape(3, spec=1)",  # may be the object, passed by hand
        "it.shape(*it, spec=1)",  # may be what fits
        "it.shape(spec=1, **it)",
        "it.shapes(3, spec=1)",
        "'it.shape(3, spec=1)'",
    ],
)
def test_a_call_that_may_be_of_another_method_of_that_name_is_none_that_fails(call: str) -> None:
    text = f"def run(it):\n    return {call}\n"
    after = method("self, blocks, spec=None")
    (found,) = said(method("self, blocks"), after, MINE, CALL, CALL + text.replace("run", "two"))
    assert found.endswith(": it takes no `spec`; no call does that yet")


@pytest.mark.parametrize(
    "call", ["it.shape(3, spec=[1, (2)])", "it.shape(3, 4)", "it.shape(\n3, 4)"]
)
def test_a_call_by_keyword_or_by_position_fails(call: str) -> None:
    after = f"def run(it):\n    return {call}\n"
    (found,) = said(method("self, blocks"), method("self, blocks, spec=None"), MINE, CALL, after)
    assert found.endswith(": it takes no `spec`; called so at vllm/run.py:2")


def test_a_parameter_by_another_name_serves_who_passes_it_by_position() -> None:
    (found,) = said(method("self, blocks"), method("self, pages"), MINE, CALL)
    assert found.endswith(": it takes `blocks` where `pages` is; no call does that yet")


def test_a_call_that_hands_on_what_a_method_of_that_name_was_called_with_fails_as_well() -> None:
    hand = "class All:\n    def shape(self, blocks):\n        self.one.shape(blocks, spec=1)\n"
    (found,) = said(method("self, blocks"), method("self, blocks, spec"), MINE, CALL, CALL + hand)
    assert found.endswith(": it takes no `spec`; called so at vllm/run.py:5")


def test_a_call_that_binds_arguments_to_others_of_the_override_fails() -> None:
    run = "def run(it):\n    return it.shape(1, 2)\n"
    own = method("self, a, b", "Mine(Base)")
    (found,) = said(method("self, a, b"), method("self, b, a"), own, run)
    assert found.endswith("; called so at vllm/run.py:2")


def test_the_object_and_the_class_are_no_parameters() -> None:
    before = method("blocks", decorator="staticmethod")
    after = method("blocks, spec=None", decorator="staticmethod")
    own = method("blocks", "Mine(Base)", "staticmethod")
    (found,) = said(before, after, own)
    assert found.startswith("`Mine.shape(blocks)` overrides `Base.shape`, `(blocks)` in 1.0")
    assert said(before, before, own) == []


def test_a_default_that_changed_while_the_override_has_the_old_one_is_told() -> None:
    before, after = method("self, a, fast=True"), method("self, a, fast=False")
    assert said(before, after, method("self, a, fast=True", "Mine(Base)"), CALL) == [
        "`Mine.shape(a, fast=True)` overrides `Base.shape`, `(a, fast=True)` in 1.0 "
        "(vllm/api.py:2), `(a, fast=False)` in 2.0 (vllm/api.py:2): `fast=True` was the default, "
        "`fast=False` is, and the override has the old one"
    ]
    assert said(before, after, method("self, a, fast=None", "Mine(Base)"), CALL) == []


def test_a_method_that_is_there_twice_in_different_ways_is_not_judged() -> None:
    twice = (
        "class Base:\n    if FAST:\n        def shape(self, a):\n            return 1\n"
        "    else:\n        def shape(self, a, b):\n            return 1\n"
    )
    assert said(method("self, a"), twice, method("self, a", "Mine(Base)"), CALL) == []


def test_overloads_are_of_the_method_that_follows_and_else_stand_for_one() -> None:
    overload = "    @overload\n    def shape(self, a): ...\n"
    only = "class Base:\n" + 2 * overload
    assert said(method("self, a"), only, method("self, a", "Mine(Base)"), CALL) == []
    both = method("self, a, b").replace(":\n", f":\n{2 * overload}", 1)
    (found,) = said(method("self, a"), both, method("self, a", "Mine(Base)"), CALL)
    assert found.endswith(": it takes no `b`; no call does that yet")


def test_a_decorator_that_may_change_what_is_passed_is_not_judged() -> None:
    after = method("self, a, b", decorator="wrap")
    assert said(method("self, a"), after, method("self, a", "Mine(Base)"), CALL) == []


CONSTRUCTORS = [
    ("self, a", "self, a, b", "self, a", ["takes no `b`"]),
    ("self, a", "self, a, b=None", "self, a", []),  # whoever makes the class passes it or not
    ("self, a, b", "self, a, b, c", "self", []),  # a constructor of its own
    ("self, a", "self, c, a", "self, a", ["takes `a` where `c` is"]),
]


@pytest.mark.parametrize(("before", "after", "own", "what"), CONSTRUCTORS)
def test_a_constructor_is_held_to_what_must_be_passed(
    before: str, after: str, own: str, what: list[str]
) -> None:
    texts = [
        method(p, n).replace("shape", "__init__") for p, n in ((before, "Base"), (after, "Base"))
    ]
    found = said(*texts, method(own, "Mine(Base)").replace("shape", "__init__"))
    assert [text.rpartition(": it ")[2] for text in found] == what


def test_a_name_of_the_patch_that_the_base_class_takes_for_a_method_of_its_own_is_told() -> None:
    after = OLD + "\n    def plan(self, blocks, limit):\n        return self.shape(blocks)\n"
    new = MINE + "\n    def plan(self):\n        return 1\n"
    assert said(OLD, after, new, CALL) == [
        "`Base.plan(blocks, limit)` is new in 2.0 (vllm/api.py:5), and `Mine.plan()` overrides it: "
        "it takes no `blocks` and takes no `limit`"
    ]
    fits = MINE + "\n    def plan(self, blocks, limit):\n        return 1\n"
    assert said(OLD, after, fits, CALL) == []


# Callers ---------------------------------------------------------------------------------------


def test_a_call_by_the_old_signature_that_only_the_target_makes_is_told() -> None:
    api = method("self, blocks, spec=None")
    after = CALL.replace("(3)", "(3, spec=1)")
    assert said(api, api, MINE, CALL, after) == [
        "`Mine.shape(blocks)` overrides `Base.shape` (vllm/api.py:2) and does not take the call at "
        "vllm/run.py:2"
    ]
    assert said(api, api, MINE, after, after + "\n") == []


def test_a_call_that_may_be_of_any_class_is_not_told() -> None:
    after = CALL.replace("(3)", "(3, spec=1)")
    open_api = method("self, *args, **kwargs")
    assert said(open_api, open_api, MINE, CALL, after) == []
    api = method("self, blocks, spec=None")
    many = {f"vllm/m{n}.py": method("self, blocks, spec", f"M{n}") for n in range(30)}
    base, target = {API: api, RUN: CALL, **many}, {API: api, RUN: after, **many}
    assert drifts(base, target, {NEW: IMPORT + MINE}) == []
    del base["vllm/m0.py"], target["vllm/m0.py"], base["vllm/m1.py"], target["vllm/m1.py"]
    assert len(drifts(base, target, {NEW: IMPORT + MINE})) == 1


def test_an_override_that_nothing_reads_any_more_is_told() -> None:
    assert said(OLD, OLD, MINE, CALL, "") == [
        "`Mine.shape` overrides `Base.shape` (vllm/api.py:2), which 1.0 reads at vllm/run.py:2 and "
        "nothing in 2.0 does"
    ]


@pytest.mark.parametrize(
    "reader",
    [
        "def run(it):\n    f = it.shape\n    return f(3)\n",
        'def run(it):\n    return getattr(it, "shape")(3)\n',
        "def run(it):\n    return (\n        it\n        .shape(3)\n    )\n",
        "def shape(it):\n    return it.shape(3)\n",  # called as a function
    ],
)
def test_whatever_still_reads_the_name_keeps_it_alive(reader: str) -> None:
    assert said(OLD, OLD, MINE, CALL, reader) == []


def test_what_the_base_only_hands_on_is_silent() -> None:
    hand = "class All:\n    def shape(self, blocks):\n        self.one.shape(blocks)\n"
    assert said(OLD, OLD, MINE, hand, "") == []


def test_a_reader_outside_of_a_partial_target_may_be_there() -> None:
    base = {path: text.encode() for path, text in {API: OLD, RUN: CALL}.items()}
    data = patch({}, {NEW: IMPORT + MINE})
    (outcome,) = patchkit.port([data], base, {API: OLD.encode()}).outcomes
    assert [d.kind for d in outcome.drifts] == []


@pytest.mark.parametrize("near", ["", "# of a Base\n"])  # files that name the class come first
@pytest.mark.parametrize(
    "reader",
    [
        "class Other(Base):\n    def shape(self, blocks):\n        return super().shape(blocks)\n",
        "class Other:\n    def shape(self, blocks):\n        return self.inner.shape(blocks)\n",
        "class Other(Base):\n    def size(self):\n        return super().shape(1)\n",
        "# it.shape(3) was here\n",
        "def run(it):\n    return it.shapes\n",
    ],
)
def test_a_call_on_to_the_same_name_a_comment_and_a_longer_name_keep_nothing_alive(
    near: str, reader: str
) -> None:
    assert len(said(OLD, OLD, MINE, CALL, near + reader)) == 1


def test_what_the_patch_calls_itself_is_alive() -> None:
    new = MINE + "\n\ndef ask(it):\n    return it.shape(3)\n"
    assert said(OLD, OLD, new, CALL, "") == []


def test_what_the_base_does_not_call_either_is_silent() -> None:
    assert said(OLD, OLD, MINE, "", "") == []


# Kinds -----------------------------------------------------------------------------------------

KINDS = [
    ("staticmethod", "()", "classmethod", "(cls)", "a staticmethod", "a classmethod"),
    ("", "(self)", "classmethod", "(cls)", "a method", "a classmethod"),
    ("", "(self)", "property", "(self)", "a method", "a property"),
    ("property", "(self)", "", "(self)", "a property", "a method"),
]


@pytest.mark.parametrize(("old", "taken", "new", "takes", "was", "now"), KINDS)
def test_a_kind_that_the_override_has_still_is_told(
    old: str, taken: str, new: str, takes: str, was: str, now: str
) -> None:
    before, after = method(taken[1:-1], decorator=old), method(takes[1:-1], decorator=new)
    own = method(taken[1:-1], "Mine(Base)", old)
    line, later = (3 if old else 2), (3 if new else 2)
    assert said(before, after, own) == [
        f"`Mine.shape` overrides `Base.shape`, {was} in 1.0 (vllm/api.py:{line}) and {now} in 2.0 "
        f"(vllm/api.py:{later})"
    ]
    assert said(before, after, method(takes[1:-1], "Mine(Base)", new)) == []


def test_a_setter_is_no_method_of_its_own() -> None:
    setter = "\n    @shape.setter\n    def shape(self, value):\n        self.value = value\n"
    before, after = method("self", decorator="property"), method("self")
    own = method("self", "Mine(Base)", "property") + setter
    (found,) = said(before + setter, after, own)
    assert found.startswith("`Mine.shape` overrides `Base.shape`, a property in 1.0")


def test_a_method_that_became_async_is_told() -> None:
    after = OLD.replace("def shape", "async def shape")
    assert said(OLD, after, MINE, CALL) == [
        "`Mine.shape` overrides `Base.shape`, a method in 1.0 (vllm/api.py:2) and an async method "
        "in 2.0 (vllm/api.py:2)"
    ]


def test_an_attribute_and_a_property_are_read_alike() -> None:
    before = "class Base:\n    fast = False\n"
    after = "class Base:\n    @property\n    def fast(self):\n        return bool(self)\n"
    run = "def run(it):\n    return it.fast\n"
    assert said(before, after, "class Mine(Base):\n    fast = True\n", run) == []


def test_an_attribute_without_a_value_may_hold_a_method() -> None:
    assert said(OLD, "class Base:\n    shape: Callable\n", MINE, CALL) == []


# What is left to the base ----------------------------------------------------------------------

SWITCH = "class Base:\n    sharded: bool = True\n"
READ = "def run(it):\n    return it.sharded\n"


def test_a_default_that_flipped_is_told_where_the_class_leaves_it_to_its_base() -> None:
    after = SWITCH.replace("True", "False")
    assert said(SWITCH, after, "class Mine(Base):\n    pass\n", READ) == [
        "`Mine` leaves `sharded` to `Base`: `True` in 1.0 (vllm/api.py:2), `False` in 2.0 "
        "(vllm/api.py:2)"
    ]
    assert said(SWITCH, after, "class Mine(Base):\n    sharded = True\n", READ) == []
    assert said(SWITCH, after, "class Mine(Base):\n    pass\n") == []  # nothing reads it
    assert said(SWITCH, SWITCH + "\n", "class Mine(Base):\n    pass\n", READ) == []


def test_a_method_that_returns_a_constant_is_a_default_as_well() -> None:
    before = method("self").replace("return 1", "return False")
    after = before.replace("False", "True")
    assert said(before, after, "class Mine(Base):\n    pass\n", CALL) == [
        "`Mine` leaves `shape` to `Base`: `False` in 1.0 (vllm/api.py:2), `True` in 2.0 "
        "(vllm/api.py:2)"
    ]


def test_of_other_constants_only_those_of_the_class_right_above_are_told() -> None:
    before = "class Root:\n    size = 1\n\n\nclass Base(Root):\n    depth = 1\n"
    after = before.replace("= 1", "= 2")
    run = "def run(it):\n    return it.size + it.depth\n"
    assert said(before, after, "class Mine(Base):\n    pass\n", run) == [
        "`Mine` leaves `depth` to `Base`: `1` in 1.0 (vllm/api.py:6), `2` in 2.0 (vllm/api.py:6)"
    ]


def peers(turned: int, count: int, body: str = "    sharded = True\n") -> str:
    classes = [
        f"class Peer{n}(Base):\n" + (body if n < turned else "    pass\n") for n in range(count)
    ]
    return "\n\n".join(["from vllm.api import Base\n", *classes])


@pytest.mark.parametrize(
    ("turned", "count", "told"), [(5, 20, True), (4, 8, False), (5, 21, False)]
)
def test_a_new_switch_that_a_quarter_of_its_peers_turn_is_told(
    turned: int, count: int, told: bool
) -> None:
    before = "class Base:\n    pass\n"
    base = {API: before, "vllm/peers.py": peers(0, count)}
    switch = "class Base:\n    sharded = False\n"
    target = {API: switch, "vllm/peers.py": peers(turned, count)}
    found = drifts(base, target, {NEW: IMPORT + "class Mine(Base):\n    pass\n"})
    assert [d.text for d in found] == (
        [
            "`sharded` is new in `Base` of 2.0 (vllm/api.py:2), `False` for `Mine`; 5 of 20 others "
            "that 1.0 has too say `True`"
        ]
        if told
        else []
    )


def test_peers_are_those_that_derive_from_the_class_in_both_releases() -> None:
    odd = "\n\n" + "\n\n".join(f"class Odd{n}(Other):\n    pass\n" for n in range(9))
    base = {API: "class Base:\n    pass\n", "vllm/peers.py": peers(0, 20) + odd}
    switch = {API: "class Base:\n    sharded = False\n", "vllm/peers.py": peers(5, 20) + odd}
    new = {NEW: IMPORT + "class Mine(Base):\n    pass\n"}
    assert [d.name for d in drifts(base, switch, new)] == ["Mine.sharded"]
    assert drifts({**base, "vllm/peers.py": ""}, switch, new) == []
    private = {path: text.replace("sharded", "_sharded") for path, text in switch.items()}
    assert drifts(base, private, new) == []


ABSTRACT = (
    "from abc import abstractmethod\n\n\n"
    "class Base:\n    @abstractmethod\n    def size(self): ...\n"
)


def test_an_abstract_method_that_the_class_does_not_have_is_told() -> None:
    before = "class Base:\n    pass\n"
    assert said(before, ABSTRACT, "class Mine(Base):\n    pass\n") == [
        "`Mine` has no `size`, which `Base` asks for in 2.0 (vllm/api.py:6), by abstractmethod"
    ]
    has = "class Mine(Base):\n    def size(self):\n        return 1\n"
    assert said(before, ABSTRACT, has) == []
    assert said(ABSTRACT, ABSTRACT + "\n", "class Mine(Base):\n    pass\n") == []


def test_a_class_that_is_a_base_itself_need_not_have_it() -> None:
    before = "class Base:\n    pass\n"
    leaf = "class Leaf(Mine):\n    def size(self):\n        return 1\n"
    two = "class Mine(Base):\n    pass\n\n\n" + leaf
    assert said(before, ABSTRACT, two) == []
    own = (
        "from abc import abstractmethod\n\n\nclass Mine(Base):\n    @abstractmethod\n"
        "    def more(self): ...\n"
    )
    assert said(before, ABSTRACT, own) == []


@pytest.mark.parametrize(("giving", "count", "told"), [(2, 4, True), (1, 2, False), (2, 5, False)])
def test_what_only_raises_is_asked_for_where_half_of_its_peers_have_it(
    giving: int, count: int, told: bool
) -> None:
    body = "    def size(self):\n        return 1\n"
    asks = "class Base:\n    def size(self):\n        raise NotImplementedError\n"
    base = {API: "class Base:\n    pass\n", "vllm/peers.py": peers(0, count)}
    target = {API: asks, "vllm/peers.py": peers(giving, count, body)}
    found = drifts(base, target, {NEW: IMPORT + "class Mine(Base):\n    pass\n"})
    assert [d.text for d in found] == (
        [
            "`Mine` has no `size`, which `Base` asks for in 2.0 (vllm/api.py:2), by "
            "NotImplementedError"
        ]
        if told
        else []
    )


# Dataclasses -----------------------------------------------------------------------------------

DATA = "from dataclasses import dataclass\n\n\n@dataclass\nclass Base:\n    a: int\n"
HEAD = "from dataclasses import dataclass\n\n"


def data(own: str, base_after: str) -> list[str]:
    new = HEAD + IMPORT + f"@dataclass\nclass Mine(Base):\n{own}"
    return [d.text for d in drifts({API: DATA}, {API: base_after}, {NEW: new})]


def test_a_field_of_the_base_that_must_be_given_is_told() -> None:
    assert data("    b: int = 0\n", DATA + "    more: int\n") == [
        "`Mine` takes the fields of `Base`, which in 2.0 must be given `more` (vllm/api.py:7) and "
        "has none in 1.0"
    ]
    assert data("    b: int = 0\n", DATA + "    more: int = 0\n") == []
    assert data("    more: int = 0\n", DATA + "    more: int\n") == []
    made = "    b: int = 0\n\n    def __init__(self):\n        self.b = 1\n"
    assert data(made, DATA + "    more: int\n") == []


def test_a_default_of_the_base_that_no_field_without_one_may_follow_is_told() -> None:
    assert data("    b: int\n", DATA + "    more: int = 0\n") == [
        "`Mine.b` has no default and follows `Base.more`, which has one in 2.0 (vllm/api.py:7)"
    ]
    alone = DATA.replace("@dataclass", "@dataclass(kw_only=True)") + "    more: int = 0\n"
    assert data("    b: int\n", alone) == []
    assert data("    b: int\n", DATA + "    more: ClassVar[int] = 0\n") == []
    assert data("    b: int = field(kw_only=True)\n", DATA + "    more: int = 0\n") == []
    assert data("    _: KW_ONLY\n    b: int\n", DATA + "    more: int = 0\n") == []
    broken = DATA.replace("a: int", "a: int = 0")
    new = HEAD + IMPORT + "@dataclass\nclass Mine(Base):\n    b: int\n"
    assert drifts({API: broken}, {API: broken + "    more: int = 0\n"}, {NEW: new}) == []


# Which classes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "head"),
    [
        ({"vllm/door.py": "from vllm.api import Base\n"}, "from vllm.door import Base\n"),
        ({"vllm/door.py": "from .api import *\n"}, "from vllm.door import Base\n"),
        ({"vllm/door.py": "from . import api\nBase = api.Base\n"}, "from .door import Base\n"),
        ({}, "from vllm.api import Base as Other\n\nBase = Other\n"),
        ({}, "import vllm.api\n\nBase = vllm.api.Base\n"),
        ({}, "try:\n    from vllm.api import Base\nexcept ImportError:\n    Base = object\n"),
    ],
)
def test_a_base_is_followed_through_imports_aliases_and_stars(files: Texts, head: str) -> None:
    after = OLD.replace("shape", "size")
    new = head + "\n\n" + MINE
    found = drifts({API: OLD, **files}, {API: after, **files}, {NEW: new})
    assert [d.name for d in found] == ["Mine.shape"]


@pytest.mark.parametrize("base", ["Base[int]", "api.Base", "Generic[T], Base", "Outer, Base"])
def test_a_base_is_found_by_its_dotted_name_and_through_subscripts(base: str) -> None:
    head = "from vllm import api\nfrom vllm.api import Base\nfrom torch import Outer\n\n\n"
    head = "from typing import Generic, TypeVar\n" + head + 'T = TypeVar("T")\n\n\n'
    new = head + MINE.replace("(Base)", f"({base})")
    found = drifts({API: OLD}, {API: OLD.replace("shape", "size")}, {NEW: new})
    assert [d.name for d in found] == ["Mine.shape"]


def test_the_first_class_in_pythons_own_order_is_asked() -> None:
    diamond = (
        "class Root:\n    def shape(self):\n        return 1\n\n\nclass Left(Root):\n    pass\n\n\n"
        "class Right(Root):\n    def shape(self):\n        return 2\n\n\n"
        "class Base(Left, Right):\n    pass\n"
    )
    after = diamond.replace("shape(self):\n        return 2", "shape(self, a):\n        return 2")
    own = method("self", "Mine(Base)")
    (found,) = said(diamond, after, own)
    assert found.startswith("`Mine.shape()` overrides `Right.shape`, `()` in 1.0 (vllm/api.py:11)")


def test_an_enum_and_a_class_of_another_package_are_left_alone() -> None:
    before = "from enum import IntEnum\n\n\nclass Base(IntEnum):\n    def shape(self): ...\n"
    assert said(before, before.replace("shape", "size"), MINE) == []
    new = (
        "import torch\n\n\nclass Mine(torch.nn.Module):\n    def forward(self):\n        return 1\n"
    )
    assert drifts({API: OLD}, {API: "x = 1\n"}, {NEW: new}) == []


def test_a_base_that_the_target_does_not_show_is_said_once() -> None:
    result = moved({API: OLD}, {API: "Base = make()\n"}, {NEW: IMPORT + MINE})
    (outcome,) = result.outcomes
    assert [(d.kind, d.name) for d in outcome.drifts] == [("import", "Base")]
    assert outcome.not_checked == ("the protocol of `Mine`: `Base`, its base, is not found in 2.0",)


def test_classes_of_the_patch_are_followed_and_are_no_protocol_themselves() -> None:
    own = IMPORT + "class Mine(Base):\n    def more(self, a):\n        return a\n"
    leaf = (
        "from vllm.own import Mine\n\n\n"
        "class Leaf(Mine):\n    def more(self):\n        return 1\n\n"
        "    def shape(self, blocks):\n        return 1\n"
    )
    found = drifts({API: OLD}, {API: OLD.replace("shape", "size")}, {"vllm/own.py": own, NEW: leaf})
    assert [d.name for d in found] == ["Leaf.shape"]


def test_below_a_class_of_the_patch_it_is_upstreams_protocol_that_counts() -> None:
    own = IMPORT + MINE + "\n\n" + MINE.replace("Mine(Base)", "Leaf(Mine)")
    found = drifts({API: OLD}, {API: OLD.replace("shape", "size")}, {NEW: own})
    assert [d.name for d in found] == ["Mine.shape", "Leaf.shape"]


def test_imports_in_a_circle_end() -> None:
    files = {"vllm/a.py": "from vllm.b import Base\n", "vllm/b.py": "from vllm.a import Base\n"}
    new = "from vllm.a import Base\n\n\n" + MINE
    assert drifts(files, files, {NEW: new}) == []


def test_a_class_of_an_earlier_patch_of_the_series_is_a_base_like_any_other() -> None:
    own = {"vllm/own.py": IMPORT + "class Mine(Base):\n    pass\n"}
    leaf = {NEW: "from vllm.own import Mine\n\n\n" + MINE.replace("Mine(Base)", "Leaf(Mine)")}
    found = drifts({API: OLD}, {API: OLD.replace("shape", "size")}, own, leaf)
    assert [d.name for d in found] == ["Leaf.shape"]


def test_a_method_added_to_a_class_of_upstream_is_judged_on_its_own_hunk() -> None:
    path = "vllm/sub.py"
    filler = "".join(f"x{n} = {n}\n" for n in range(20))
    sub = IMPORT + "class Sub(Base):\n    def size(self):\n        return 1\n\n\n" + filler
    added = sub.replace(
        "return 1\n", "return 1\n\n    def shape(self, blocks):\n        return 2\n"
    )
    added = added.replace("x19 = 19\n", "x19 = 19\nx20 = 20\n")
    after = "class Base:\n    def other(self):\n        return 1\n"
    result = moved({API: OLD, path: sub}, {API: after, path: sub}, {path: added})
    assert [[d.text for d in o.drifts] for o in result.outcomes] == [
        [
            "`Sub.shape` overrides `Base.shape` of 1.0 (vllm/api.py:2), which `Base` of 2.0 "
            "(vllm/api.py:1) no longer has"
        ],
        [],
    ]


def test_what_is_told_stands_in_the_order_of_the_lines_and_on_the_hunk_that_adds_it() -> None:
    before = "class Base:\n    sharded = True\n\n    def shape(self, blocks):\n        return 1\n"
    after = "class Base:\n    sharded = False\n"
    path, filler = "vllm/sub.py", "".join(f"x{n} = {n}\n" for n in range(20))
    first, last = MINE.replace("Mine", "One"), MINE.replace("Mine", "Two")
    sub = {path: IMPORT + filler}
    added = {path: IMPORT + first + "\n\n" + filler + "\n\n" + last}
    base, target = {API: before, RUN: READ, **sub}, {API: after, RUN: READ, **sub}
    result = moved(base, target, added)
    assert [[d.name for d in o.drifts] for o in result.outcomes] == [
        ["One.sharded", "One.shape"],
        ["Two.sharded", "Two.shape"],
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("class Sub(Base):", "class Sub(Base, Extra):"),
        ("def shape(self, blocks):", "def shape(self, blocks) -> int:"),
    ],
)
def test_what_upstream_has_itself_is_upstreams_to_keep(old: str, new: str) -> None:
    before = SWITCH + "\n    def shape(self, blocks):\n        return 1\n"
    after = SWITCH.replace("True", "False") + "\n\nclass Extra:\n    pass\n"
    before += "\n\nclass Extra:\n    pass\n"
    head = "from vllm.api import Base, Extra\n\n\n"
    sub = {"vllm/sub.py": head + MINE.replace("Mine", "Sub")}
    changed = {path: text.replace(old, new) for path, text in sub.items()}
    assert drifts({API: before, RUN: READ, **sub}, {API: after, RUN: READ, **sub}, changed) == []


def test_a_class_of_upstream_keeps_its_own_defaults() -> None:
    path, sub = "vllm/sub.py", IMPORT + "class Sub(Base):\n    a = 1\n"
    base = {API: SWITCH, path: sub, RUN: READ}
    target = {**base, API: SWITCH.replace("True", "False")}
    added = sub + "\n    def more(self):\n        return 1\n"
    assert drifts(base, target, {path: added}) == []


def test_the_override_is_judged_as_it_landed() -> None:
    base, path = {API: method("self, a")}, NEW
    target = {API: method("self, a, b")}
    text, landed = (IMPORT + method(p, "Mine(Base)") for p in ("self, a", "self, a, b"))
    trees = Trees(
        tree("1.0", base),
        tree("1.0", {**base, path: text}),
        tree("2.0", target),
        tree("2.0", {**target, path: landed}),
    )
    code = NewCode(text.encode(), b"", ((1, 9),), path, path)
    assert Protocols(trees).drift(code).drifts == ()


@pytest.mark.parametrize(
    "text", ["class Mine(Base:\n", "x = 1\n", "class Mine(Mine):\n    a = 1\n"]
)
def test_what_is_no_class_or_no_python_says_nothing(text: str) -> None:
    trees = Trees(*(tree(v, {NEW: text}) for v in ("1.0", "1.0", "2.0", "2.0")))
    report = Protocols(trees).drift(NewCode(text.encode(), b"", ((1, 9),), NEW, NEW))
    assert (report.drifts, report.not_checked) == ((), ())


def test_a_base_that_is_an_attribute_of_itself_is_not_found() -> None:
    own = (
        "from vllm.api import Base\n\n\nclass Mine(Base):\n    def m(self, a):\n        return a\n"
    )
    result = moved({API: "Base = Base.Base\n"}, {API: "Base = Base.Base\nx = 1\n"}, {NEW: own})
    (outcome,) = result.outcomes
    assert (str(outcome.status), outcome.drifts) == ("placed", ())
