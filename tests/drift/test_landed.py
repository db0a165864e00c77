"""What is judged on the target is the code as it landed there."""

from __future__ import annotations

from patchkit.stacking.rebase import PatchInput, rebase_series
from tests.drift.trees import HOST, Files, found, text, tree
from tests.moves import diff

DEFINED = {"vllm/a.py": "def f(a, b): ...\n"}
INSERTED = {"vllm/a.py": "def f(n, a, b): ...\n"}


def moved(before: str, after: str, base: Files, target: Files) -> list[str]:
    """Return what is said of a change of the host, each text with where it is read."""
    patch = PatchInput("probe", diff(text(before), text(after), HOST))
    trees = tree({HOST: before} | base, "0.28.0"), tree(target, "0.29.0")
    outcomes = rebase_series([patch], *trees).outcomes
    assert all(outcome.landed for outcome in outcomes), [o.reason for o in outcomes]
    return [f"{d.read_at}: {d.text}" for o in outcomes for d in o.drifts]


HOST_CALL = """
from vllm.a import f


def g(x, y):
    z = prepare(x)
    return f(x, y)
"""


def test_a_call_that_upstream_changed_as_well_is_judged_as_it_landed() -> None:
    after = HOST_CALL.replace("f(x, y)", "f(x, y + 1)")
    target = INSERTED | {HOST: HOST_CALL.replace("f(x, y)", "f(z, x, y)")}
    assert moved(HOST_CALL, after, DEFINED, target) == []
    alike = [t.replace("f(x, y", "f(y, y") for t in (HOST_CALL, after)]
    target[HOST] = alike[0].replace("f(y, y)", "f(z, y, y)")
    assert moved(alike[0], alike[1], DEFINED, target) == []


def test_an_argument_that_upstream_changed_as_well_is_not_judged() -> None:
    after = HOST_CALL.replace("f(x, y)", "f(x, y, c=1)")
    base = {"vllm/a.py": "def f(a, b, c=0): ...\n"}
    target = {"vllm/a.py": "def f(n, b, c=0): ...\n"}
    changed = target | {HOST: HOST_CALL.replace("f(x, y)", "f(z, y)")}
    assert moved(HOST_CALL, after, base, changed) == []
    assert moved(HOST_CALL, after, base, target | {HOST: HOST_CALL}) == [
        f"{HOST}:6: argument 1 of `f` binds to `a` in 0.28.0 (vllm/a.py:1) "
        "and to `n` in 0.29.0 (vllm/a.py:1)"
    ]


def test_of_a_call_that_upstream_changed_only_what_it_leaves_out_is_judged() -> None:
    after = HOST_CALL.replace("f(x, y)", "f(x, y + 1)")
    upstream = HOST_CALL.replace("f(x, y)", "f(z, y)")
    target = {"vllm/a.py": "def f(n, b, c): ...\n", HOST: upstream}
    text = "`c` of `f`, which the call does not pass, is required in 0.29.0 (vllm/a.py:1)"
    assert moved(HOST_CALL, after, DEFINED, target) == [
        f"{HOST}:6: {text} and not in 0.28.0 (vllm/a.py:1)"
    ]
    first = "\n\ndef g(x, y):\n", "\n\ndef g(x, y):\n    f(y, x)\n    w = 1\n"
    twice = [t.replace(*first) for t in (HOST_CALL, after, upstream)]
    twice[1] = twice[1].replace("f(y, x)", "f(y, x + 1)")
    target[HOST] = twice[2].replace("f(y, x)", "f(z, x)")
    assert moved(*twice[:2], DEFINED, target) == []


def test_a_call_beside_which_upstream_changed_something() -> None:
    after = HOST_CALL.replace("    z =", "    f(y, x)\n    z =")
    target = INSERTED | {HOST: HOST_CALL.replace("f(x, y)", "f(z, x, y)")}
    assert moved(HOST_CALL, after, DEFINED, target) == [
        f"{HOST}:5: argument 1 of `f` binds to `a` in 0.28.0 (vllm/a.py:1) "
        "and to `n` in 0.29.0 (vllm/a.py:1); "
        "argument 2 of `f` binds to `b` in 0.28.0 (vllm/a.py:1) "
        "and to `a` in 0.29.0 (vllm/a.py:1)"
    ]


STEPS = "".join(f"    step{n}(x, {n})\n" for n in range(9))
LAUNCH = f"def launch(x, exact=True):\n{STEPS}    return x\n"


def test_a_callee_that_upstream_renamed() -> None:
    after = LAUNCH.replace("    step4(x, 4)\n", "    step4(x, 4)\n    launch(mine(x))\n")
    renamed = LAUNCH.replace("launch", "launch_all")
    assert moved(LAUNCH, after, {}, {HOST: renamed}) == []
    other = renamed.replace("exact=True", "exact=False")
    assert moved(LAUNCH, after, {}, {HOST: other}) == [
        f"{HOST}:7: `exact` of `launch_all`, which the call does not pass, is `True` in 0.28.0 "
        f"({HOST}:1) and `False` in 0.29.0 ({HOST}:1)"
    ]


def test_an_argument_that_is_added_on_a_line_of_its_own() -> None:
    before = "from vllm.a import f\n\nX = f(\n    1,\n    b=2,\n    c=3,\n    d=4,\n)\n"
    after = before.replace("    c=3,\n", "    c=3,\n    e=5,\n")
    base = {"vllm/a.py": "def f(a, b, c, d, e=0): ...\n"}
    target = {HOST: before, "vllm/a.py": "def f(n, b, c, d, e=0): ...\n"}
    assert moved(before, after, base, target) == [
        f"{HOST}:3: argument 1 of `f` binds to `a` in 0.28.0 (vllm/a.py:1) "
        "and to `n` in 0.29.0 (vllm/a.py:1)"
    ]


def test_code_that_the_patch_leaves_alone_is_not_judged() -> None:
    after = HOST_CALL.replace("prepare(x)", "prepare(x, y)")
    assert moved(HOST_CALL, after, DEFINED, INSERTED | {HOST: HOST_CALL}) == []


def test_a_new_file() -> None:
    new = "from vllm.a import f\n\nX = f(1, 2)\n"
    patch = PatchInput(
        "probe", diff("", new, "vllm/new.py").replace(b"a/vllm/new.py", b"/dev/null")
    )
    trees = tree(DEFINED, "0.28.0"), tree(INSERTED, "0.29.0")
    (outcome,) = rebase_series([patch], *trees).outcomes
    (drift,) = outcome.drifts
    assert (drift.kind, drift.name, drift.read_at) == ("call", "f", "vllm/new.py:3")


def test_a_signature_that_the_patch_itself_changes() -> None:
    before = "def f(a):\n    return a\n\n\ndef g():\n    return 0\n"
    after = before.replace("def f(a):", "def f(a, b=0):").replace("return 0", "return f(1)")
    assert moved(before, after, {}, {HOST: before}) == []
    landed = before.replace("def f(a):", "def f(n, a=0):")
    assert moved(before, before.replace("return 0", "return f(1)"), {}, {HOST: landed}) == [
        f"{HOST}:6: argument 1 of `f` binds to `a` in 0.28.0 ({HOST}:1) "
        f"and to `n` in 0.29.0 ({HOST}:1)"
    ]


def test_the_same_difference_is_said_once() -> None:
    code = "from vllm.a import f\nX = f(1, 2)\nY = f(3, 4)\n"
    assert [d.read_at for d in found(DEFINED, INSERTED, code)] == [f"{HOST}:7"]


def test_what_lies_outside_a_partial_tree_is_not_judged() -> None:
    code = "from vllm.a import f\nX = f(1, 2)\n"
    assert found(DEFINED, {}, code, partial=True) == []
