"""Cases are the same for a seed, and what they claim is true."""

import json
import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.bench_rebase.cases import generate
from tests.bench_rebase.changes import apply_changes, module_changes
from tests.bench_rebase.kinds import KINDS

RELEASES = ("1.0", "1.1")
WITHOUT_RUFF = [kind for kind in KINDS if kind not in ("reformat", "combined")]


def module(number, release):
    """Return one module of a release: three functions, a class, and edits in each."""
    two = release == "1.1"
    lines = [
        "import math",
        *(["import os"] if two else []),
        "",
        f"LIMIT = {number + two}",
        "",
        "",
        f"def first_{number}(value, rows):",
        "    total = value + 1",
        "    for row in rows:",
        f"        total += row * {number + 2 * two}",
        "    result = math.floor(total)",
        *(["    result = abs(result)"] if two else []),
        "    print(result)",
        "    return result",
        "",
        "",
        "class Holder:",
        '    """Holds."""',
        "",
        "    def __init__(self, size):",
        "        self.size = size",
        "        self.left = size",
        "        self.right = size",
        "        self.top = size",
        "",
        "    def grow(self, by):",
        "        old = self.size",
        f"        self.size = old + by{' * 2' if two else ''}",
        "        self.left = self.size",
        "        self.right = self.size",
        "        self.top = self.size",
        "        return old",
        "",
        "    def path(self):",
        "        name = str(self.size)",
        "        name = name.strip()",
        "        name = name.lower()",
        f"        return {'os.path.join(name)' if two else 'name'}",
        "",
        "",
        f"def last_{number}(holder):",
        "    grown = holder.grow(1)",
        f"    return grown{' + 1' if two else ''}",
        "",
    ]
    return "\n".join(lines).encode()


OLD = {f"vllm/m{n}.py": module(n, "1.0") for n in range(6)}
NEW = {f"vllm/m{n}.py": module(n, "1.1") for n in range(6)}


def generated(kind, seed=1, count=4):
    return generate(kind, RELEASES, OLD, NEW, seed=seed, count=count)


@pytest.mark.parametrize("kind", WITHOUT_RUFF)
def test_each_kind_has_cases_whose_parts_fit(kind):
    found = generated(kind)
    assert len(found.cases) == 4
    for case in found.cases:
        assert case.base == OLD[case.path]
        assert case.authored != case.base
        assert set(case.target) == set(case.truth)
        assert case.target != case.truth
        assert bool(case.notes) == (kind != "none")
        if kind == "none":
            assert case.truth == {case.path: NEW[case.path]}
        # The patch is to the base what the truth is to the target, if nothing else was done.
        changes = module_changes(case.path, case.base, NEW[case.path])
        whole = [c for hunk in changes.hunks for c in hunk]
        assert apply_changes(changes.old.lines, changes.new.lines, whole) == NEW[case.path]


def digests(seed=1):
    return {kind: [c.digest for c in generated(kind, seed).cases] for kind in WITHOUT_RUFF}


def test_a_seed_gives_the_same_cases_whatever_the_hash_seed():
    command = (
        "import json; from tests.bench_rebase.test_cases import digests; "
        "print(json.dumps(digests()))"
    )
    found = []
    for hash_seed in ("0", "1", "4711"):
        environment = {
            **os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", command], env=environment, capture_output=True, check=True
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1] == found[2] == digests()


def test_a_seed_gives_the_same_cases_on_every_python():
    """The literal value is what Python 3.11 and 3.12 both give."""
    first = [case.digest[:16] for kind in WITHOUT_RUFF for case in generated(kind, count=1).cases]
    assert first == [
        "aa239066e27a28b0",
        "a59885cd392b0991",
        "2560fc9938f946cc",
        "d10177e6160ea79a",
        "f9b98fb343be5cc6",
        "ffb05b4889192912",
        "7cbe19dfc5a66438",
        "4ec7f1d503ed825b",
        "b4a10a05b504d40b",
    ]


def test_another_seed_gives_others():
    assert digests(1) != digests(2)


def test_fewer_cases_are_the_first_of_more():
    assert generated("wrap", count=5).cases[:3] == generated("wrap", count=3).cases


def test_a_unit_brings_the_import_that_its_edit_needs():
    cases = generated("none", count=30).cases
    hunks = Counter(case.hunks for case in cases)
    assert hunks[2] >= 1
    for case in cases:
        assert (b"+import os" in case.patch) == (
            b"+import os" in case.patch.split(b"@@ -1,")[1] if b"@@ -1," in case.patch else False
        )
        if b"os.path" in case.authored:
            assert b"import os\n" in case.authored


def test_a_parameter_beside_the_patchs_own_is_dropped_and_counted():
    old = {"vllm/a.py": b"def f(a):\n    return a\n" + b"\n" * 9 + b"x = 1\n"}
    new = {"vllm/a.py": b"def f(a, b=1):\n    return a\n" + b"\n" * 9 + b"x = 2\n"}
    found = generate("parameter", RELEASES, old, new, seed=1, count=5)
    assert found.cases == ()
    assert found.dropped == {"two orders": 1}
    assert found.passed_over == {"the edit is in no function": 1}


def test_a_hunk_that_leaves_a_name_undefined_is_dropped_and_counted():
    spread = b"\n" * 9
    old = {"vllm/a.py": b"import a\n" + spread + b"x = 1\n" + spread + b"y = a\n"}
    new = {"vllm/a.py": spread + b"x = 2\n" + spread + b"y = a\n"}
    found = generate("none", RELEASES, old, new, seed=1, count=5)
    assert [case.patch.count(b"-x = 1") for case in found.cases] == [1]
    assert found.dropped == {"patch leaves a name undefined": 1}


def test_a_unit_that_is_cut_short_leaves_a_name_undefined():
    """Each function reads what the next one defines: too long a chain for a unit."""
    spread = b"\n" * 9
    old = spread.join(b"def f%d():\n    pass\n" % n for n in range(14))
    new = spread.join(b"def g%d():\n    return g%d\n" % (n, n + 1) for n in range(14))
    found = generate(
        "none", RELEASES, {"vllm/a.py": old}, {"vllm/a.py": new + b"g14 = 1\n"}, seed=1, count=20
    )
    assert found.dropped == {"patch leaves a name undefined": 5}
    assert len(found.cases) == 9


def test_modules_with_one_hunk_or_without_python_are_no_source():
    old = {"vllm/a.py": b"x = 1\n", "vllm/b.py": b"x = \n", "vllm/c.txt": b"x = 1\n"}
    new = {"vllm/a.py": b"x = 2\n", "vllm/b.py": b"y = \n", "vllm/c.txt": b"x = 2\n"}
    found = generate("none", RELEASES, old, new, seed=1, count=5)
    assert (found.cases, found.dropped, found.passed_over) == ((), {}, {})
