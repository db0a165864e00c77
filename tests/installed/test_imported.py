"""`verify --imported`: real interpreters, asked what they have loaded of an installed series."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit import cli
from patchkit.verifying.loaded import Imported, LoadedModule, LoadedState, Process, faults
from patchkit.verifying.probe import codes_of, values_of
from tests.cli.conftest import _check as check

Verify = Callable[..., dict[str, Any]]

# Nothing reads it but the programs below: who holds what, in each way in which code can be held.
PLAN = b"""\
import functools
from vllm.size import total, promoted

RENAMED = total
BY_NAME = {"total": total, 3: [1]}
LISTED = [len, total]
HALF = functools.partial(total, [])


class Plan:
    run = staticmethod(total)


def planned(specs, by=total):
    return by(specs)
"""
OLD = b"""\
def total(specs):
    return max(specs)


def promoted(specs):
    return specs
"""
NEW = OLD.replace(b"max(specs)", b"sum(specs)")

# A program that loads what lay there before the patch, and one that loads it anew.
LOAD_OLD = """
import collections, importlib, shutil
from pathlib import Path
path = Path(sys.path[1], "vllm/size.py")
new = path.read_bytes()
path.write_bytes(Path("old_size.py").read_bytes())
"""
RELOAD = """
path.write_bytes(new)
shutil.rmtree(path.with_name("__pycache__"), ignore_errors=True)
importlib.reload(sys.modules["vllm.size"])
"""


@pytest.fixture
def here(place: Any, kit: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An installed package whose `total` a patch changes, and from which `plan` imports it."""
    place.files = {**kit.FILES, "vllm/size.py": OLD, "vllm/plan.py": PLAN}
    place.release = dict(place.files)
    after = {**place.files, "vllm/size.py": NEW}
    place.series(one=kit.patch("one", place.files, after))
    place.install()
    monkeypatch.chdir(place.root)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr("patchkit.cli.verify.tree_opener", lambda *_: place.open_tree)
    monkeypatch.setattr("patchkit.cli.apply.tree_opener", lambda *_: place.open_tree)
    return place


@pytest.fixture
def verify(here: Any, capsys: pytest.CaptureFixture[str]) -> Verify:
    """`patchkit verify --imported` on the site, and what it reports."""

    def run(*arguments: str, status: int) -> dict[str, Any]:
        found = cli.run(["verify", str(here.packages), "--imported", "--json", *arguments])
        document: dict[str, Any] = json.loads(capsys.readouterr().out)
        check(document)
        assert (found, document["exit_code"]) == (status, status), (
            document["imported"] or document["hunks"]
        )
        return document

    return run


def states(document: dict[str, Any]) -> list[dict[str, str]]:
    """The state of each module, a mapping a process."""
    processes = document["imported"]["processes"]
    return [{m["module"]: m["state"] for m in p["modules"]} for p in processes]


def said(document: dict[str, Any]) -> list[str]:
    """The faults, without the numbers of processes."""
    faults = document["imported"]["faults"]
    return [fault.partition(": ")[2] if fault.startswith("process") else fault for fault in faults]


def program(here: Any, text: str) -> list[str]:
    """What runs a program on the site."""
    path = here.write(
        "program.py",
        f"import sys\nsys.path.insert(1, {str(here.packages)!r})\n".encode() + text.encode(),
    )
    return ["--", sys.executable, str(path)]


def test_what_was_applied_is_what_is_loaded(here: Any, verify: Verify) -> None:
    here.apply()
    document = verify(status=0)
    assert states(document) == [{"vllm.size": "patched"}]
    assert document["imported"]["faults"] == []
    assert document["imported"]["processes"][0]["modules"][0]["file"] == str(
        here.packages / "vllm/size.py"
    )


def test_without_the_series_what_is_loaded_is_pristine(verify: Verify) -> None:
    document = verify("--release", "0.99.0", status=3)
    assert states(document) == [{"vllm.size": "pristine"}]
    assert said(document) == ["vllm.size is pristine: total"]


def test_a_process_that_was_running_before_has_the_old_code(here: Any, verify: Verify) -> None:
    # the disk is patched all the same, and every hunk present
    here.apply()
    here.write("old_size.py", OLD)
    text = (
        LOAD_OLD
        + """
import vllm.size
path.write_bytes(new)
"""
    )
    document = verify(*program(here, text), status=3)
    assert document["state"] == "patched"
    assert said(document) == ["vllm.size is pristine: total"]


def test_from_imports_of_before_a_reload_are_named(here: Any, verify: Verify) -> None:
    here.apply()
    here.write("old_size.py", OLD)
    text = (
        LOAD_OLD
        + """
import vllm.plan
from vllm.size import total as mine
from vllm.size import promoted as unchanged
"""
        + RELOAD
    )
    document = verify(*program(here, text), status=3)
    assert states(document) == [{"vllm.size": "patched"}]
    held = "holds the code without the patch: vllm.size.total"
    assert sorted(said(document)) == sorted(
        [
            f"__main__.mine {held}",
            f"vllm.plan.total {held}",
            f"vllm.plan.RENAMED {held}",
            f"vllm.plan.BY_NAME['total'] {held}",
            f"vllm.plan.LISTED[1] {held}",
            f"vllm.plan.HALF {held}",
            f"vllm.plan.Plan.run {held}",
            f"vllm.plan.planned (default 0) {held}",
        ]
    )


def test_what_no_name_leads_to_is_found_and_nothing_lazy_is_loaded(
    here: Any, verify: Verify
) -> None:
    here.apply()
    here.write("old_size.py", OLD)
    text = (
        LOAD_OLD
        + """
import vllm.size

class Lazy(collections.OrderedDict):
    def items(self):
        raise SystemExit(9)

class Proxy:
    def __getattribute__(self, name):
        raise SystemExit(9)

lazy, proxy = Lazy(), Proxy()

def closed(total):
    return lambda: total

kept = closed(vllm.size.total)
"""
        + RELOAD
    )
    document = verify(*program(here, text), status=3)
    assert document["imported"]["command_status"] == 0
    assert said(document) == ["an object holds the code without the patch: vllm.size.total"]


def test_a_name_that_was_bound_anew_holds_other_code(here: Any, verify: Verify) -> None:
    here.apply()
    text = """
import vllm.size
def total(specs):
    return 7
total.__module__ = "vllm.size"
vllm.size.total = total
"""
    document = verify(*program(here, text), status=3)
    assert states(document) == [{"vllm.size": "changed"}]
    assert said(document)[0] == "vllm.size is changed: total"


def test_another_copy_on_the_path_is_named(here: Any, verify: Verify) -> None:
    here.apply()
    copy = here.write("copy/vllm/size.py", NEW)
    here.write("copy/vllm/__init__.py", b"")
    text = f"""
sys.path.insert(1, {str(here.root / "copy")!r})
import vllm.size
"""
    document = verify(*program(here, text), status=3)
    assert said(document) == [f"vllm.size was loaded from {copy}"]


def test_children_are_asked_too(here: Any, verify: Verify) -> None:
    here.apply()
    text = """
import multiprocessing
def work():
    import vllm.size
if __name__ == "__main__":
    for way in ("fork", "spawn"):
        child = multiprocessing.get_context(way).Process(target=work)
        child.start()
        child.join()
        assert child.exitcode == 0
"""
    document = verify(*program(here, text), status=0)
    assert states(document) == [{"vllm.size": "patched"}] * 2
    assert document["imported"]["command_status"] == 0


def test_a_server_is_asked_and_stopped(here: Any, verify: Verify) -> None:
    here.apply()
    text = """
import time, vllm.size
while True:
    time.sleep(0.05)
"""
    document = verify("--after", "1.5", *program(here, text), status=0)
    assert states(document) == [{"vllm.size": "patched"}]
    pid = document["imported"]["processes"][0]["pid"]
    assert not Path(f"/proc/{pid}").exists()
    assert document["imported"]["command_status"] is None


@pytest.mark.parametrize(
    ("options", "text", "fault"),
    [
        ([], "pass", "no interpreter that loaded the package reported; "
         "one that is started with -I, -E or -S cannot"),
        (["-I"], "import vllm.size", "no interpreter that loaded the package reported; "
         "one that is started with -I, -E or -S cannot"),
        ([], "import vllm", "no module that the series changes was loaded"),
    ],
)  # fmt: skip
def test_silence_is_no_pass(
    here: Any, verify: Verify, options: list[str], text: str, fault: str
) -> None:
    here.apply()
    dashes, python, path = program(here, text)
    document = verify(dashes, python, *options, path, status=3)
    assert said(document) == [fault]


def test_what_cannot_be_imported_is_said(here: Any, verify: Verify) -> None:
    here.apply()
    (here.packages / "vllm/__init__.py").write_bytes(b"1 / 0\n")
    document = verify(status=3)
    assert said(document)[0] == "cannot import vllm.size: ZeroDivisionError: division by zero"


def test_other_modules_can_be_imported(here: Any, verify: Verify) -> None:
    here.apply()
    document = verify("--import", "vllm.plan", status=0)
    assert states(document) == [{"vllm.size": "patched"}]


def test_the_environments_own_sitecustomize_still_runs(
    here: Any, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.apply()
    here.write("own/sitecustomize.py", b"import os\nos.environ['OWN'] = 'ran'\n")
    monkeypatch.setenv("PYTHONPATH", str(here.root / "own"))
    text = "import os, vllm.size\nassert os.environ['OWN'] == 'ran'\n"
    assert verify(*program(here, text), status=0)["imported"]["command_status"] == 0


def test_constants_fields_and_members_are_looked_at(here: Any, kit: Any, verify: Verify) -> None:
    old = b"""\
import enum
from dataclasses import dataclass, field

KILO = 1000
GONE = 1


class Kind(enum.IntEnum):
    ONE = 1


@dataclass
class Spec:
    size: int = 1
    rest: list = field(default_factory=list)
"""
    new = old.replace(b"1000", b"1024").replace(b"GONE = 1\n", b"MORE = 2\n")
    new = new.replace(b"    ONE = 1\n", b"    ONE = 2\n    TWO = 3\n")
    new = new.replace(b"    size: int = 1\n", b"    size: int = 2\n    wide: bool = False\n")
    here.files = here.release = {**here.files, "vllm/units.py": old}
    here.series(two=kit.patch("two", here.files, {**here.files, "vllm/units.py": new}))
    here.install()
    names = ["GONE", "KILO", "Kind.ONE", "Kind.TWO", "MORE", "Spec.size", "Spec.wide"]
    found = verify("--release", "0.99.0", status=3)["imported"]["processes"][0]["modules"][0]
    assert (found["state"], found["names"]) == ("pristine", names)
    here.apply()
    found = verify(status=0)["imported"]["processes"][0]["modules"][0]
    assert (found["state"], found["names"]) == ("patched", [])


def test_a_comment_alone_is_told_by_the_file(here: Any, kit: Any, verify: Verify) -> None:
    new = {**here.files, "vllm/size.py": b"# why\n" + OLD}
    here.series(two=kit.patch("two", here.files, new))
    assert states(verify("--release", "0.99.0", status=3)) == [{"vllm.size": "pristine"}]
    here.apply()
    assert states(verify(status=0)) == [{"vllm.size": "patched"}]


def test_new_and_removed_modules(here: Any, kit: Any, verify: Verify) -> None:
    (here.packages / "vllm/plan.py").unlink()
    here.files = here.release = dict(kit.ONE)
    here.series(two=kit.patch("two", kit.ONE, kit.TWO))
    here.install()
    document = verify("--release", "0.99.0", "--import", "vllm.old", status=3)
    assert states(document)[0]["vllm.old"] == "pristine"
    here.apply()
    expected = {"vllm.new.mod": "patched", "vllm.old": "not loaded", "vllm.units": "patched"}
    assert states(verify(status=0)) == [expected]


def test_a_whole_new_file_is_told_by_its_digest(here: Any, verify: Verify) -> None:
    here.overlay("vllm/extra.py", b"more = 1\n")
    here.apply()
    assert states(verify(status=0))[0]["vllm.extra"] == "patched"
    (here.packages / "vllm/extra.py").write_bytes(b"more = 2\n")
    assert states(verify(status=3))[0]["vllm.extra"] == "changed"


def test_people_are_told_the_same(here: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["verify", str(here.packages), "--release", "0.99.0", "--imported"]
    assert cli.run(arguments) == 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].endswith(": vllm.size is pristine: total")
    assert lines[-1].endswith("): modules of the series: 1 pristine")


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["installed", "--import", "vllm"], "--import is for --imported"),
        (["installed", "--after", "3"], "--after is for --imported"),
        (["installed", "--", "vllm"], "a command is for --imported"),
        (["installed", "--imported", "--after", "3"], "--after is for a command"),
        (["installed", "--imported", "--import", "vllm", "--", "vllm"],
         "--import is for an interpreter without a command"),
        (["x.whl", "--imported"], "--imported asks an interpreter, which imports no wheel"),
    ],
)  # fmt: skip
def test_usage(arguments: list[str], fact: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["verify", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"error: patchkit verify: {fact}\n")


def test_a_command_that_is_none_is_refused(here: Any, capsys: pytest.CaptureFixture[str]) -> None:
    here.apply()
    assert cli.run(["verify", str(here.packages), "--imported", "--", "./nothing"]) == 1
    assert capsys.readouterr().err == (
        "error: ./nothing: cannot be run: no such file or directory\n"
    )


def test_code_is_told_apart_by_what_it_does() -> None:
    def same(one: str, other: str) -> bool:
        return codes_of(one, "a.py") == codes_of(other, "b.py")

    plain = "def f(a):\n    return a + 1\n"
    assert same(plain, "# moved\n\n\n" + plain)
    assert not same(plain, plain.replace("1", "2"))
    assert not same(plain, plain.replace("+ 1", "+ 1.0"))
    assert not same(plain, plain.replace("1", "True"))
    nested = "def f(a):\n    def g():\n        return 1\n    return g\n"
    assert not same(nested, nested.replace("1", "2"))
    assert not same("def f(a): return a in {'x', 'y'}", "def f(a): return a in {'x', 'z'}")
    assert not same("def f(a, b): pass", "def f(a, *, b): pass")
    assert list(codes_of("class A:\n    class B:\n        def c(self): pass\n", "a")) == ["A.B.c"]


def test_values_are_those_bound_at_the_top() -> None:
    source = (
        "A = B = 1\nC: int = 2\nD: int\nclass E:\n    F = 'x'\n    def g(self):\n        H = 1\n"
    )
    found = values_of(source)
    assert {name: value for name, value in found.items() if name != "D"} == {
        "A": 1, "B": 1, "C": 2, "E.F": "x",
    }  # fmt: skip
    assert "D" in found
    assert os.environ.get("PATCHKIT_PROBE") is None


# What is hard to tell ----------------------------------------------------------------------------


def shape(here: Any, kit: Any, old: bytes, new: bytes) -> None:
    """Have the series change one text to another, in `vllm/shape.py`."""
    here.files = here.release = {**here.files, "vllm/shape.py": old}
    here.series(two=kit.patch("two", here.files, {**here.files, "vllm/shape.py": new}))
    here.install()


WRAPPED = b"""\
import contextlib
import functools


def around(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


@contextlib.contextmanager
def opened(x):
    yield x


class Shape:
    @around
    def area(self):
        return 16


def by_hand(x):
    return x


by_hand = around(by_hand)
"""
NEW_WRAPPED = (
    WRAPPED.replace(b"yield x", b"yield x + 1")
    .replace(b"16", b"32")
    .replace(b"def by_hand(x):\n    return x", b"def by_hand(x):\n    return x + 1")
)
ADDED = (
    WRAPPED
    + b"""

if len(LIMITS) > 99:
    def never():
        return 1


def taken():
    return 1


del taken
SQUARES = tuple(n * n for n in LIMITS)
BY_NAME = {"one": lambda: 1}
"""
)
ADDED = b"LIMITS = (1, 2)\n" + ADDED


@pytest.mark.parametrize("new", [NEW_WRAPPED, ADDED])
def test_what_stands_around_or_behind_code_is_no_other_code(
    here: Any, kit: Any, verify: Verify, new: bytes
) -> None:
    shape(here, kit, WRAPPED, new)
    assert states(verify("--release", "0.99.0", status=3)) == [{"vllm.shape": "pristine"}]
    here.apply()
    assert states(verify(status=0)) == [{"vllm.shape": "patched"}]


STALE = """
from pathlib import Path
path = Path(sys.path[1], "vllm/shape.py")
new = path.read_bytes()
path.write_bytes(Path("old.py").read_bytes())
import vllm.shape
path.write_bytes(new)
"""


@pytest.mark.parametrize(
    ("old", "new", "state"),
    [
        (b"def f(x=1):\n    return x\n", b"def f(x=2):\n    return x\n", "pristine"),
        (b"class A:\n    def f(self, *, x=1): ...\n", b"class A:\n    def f(self, *, x=2): ...\n",
         "pristine"),
        (b"x = len('a')\n", b"x = len('b')\n", "untold"),
        (b"x = len('a')\n", b"# why\nx = len('a')\n", "patched"),
    ],
)  # fmt: skip
def test_a_file_written_since_says_nothing_of_what_was_loaded(
    here: Any, kit: Any, verify: Verify, old: bytes, new: bytes, state: str
) -> None:
    shape(here, kit, old, new)
    here.apply()
    assert states(verify(status=0)) == [{"vllm.shape": "patched"}]
    here.write("old.py", old)
    document = verify(*program(here, STALE), status=0 if state == "patched" else 3)
    assert states(document) == [{"vllm.shape": state}]
    if state == "untold":
        assert said(document) == [
            "vllm.shape cannot be told: its file was written after the process began"
        ]


def test_what_a_plugin_put_in_its_place_is_other_code(here: Any, verify: Verify) -> None:
    here.apply()
    here.write("plugin.py", b"def total(specs):\n    return 7\n")
    text = """
sys.path.insert(1, ".")
import plugin, vllm.size
vllm.size.total = plugin.total
"""
    document = verify(*program(here, text.replace("insert(1", "insert(2")), status=3)
    assert said(document) == ["vllm.size is changed: total"]


def test_a_module_that_is_run_as_the_program_is_looked_at(
    here: Any, verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(here.packages))
    command = ["--", sys.executable, "-m", "vllm.size"]
    document = verify("--release", "0.99.0", *command, status=3)
    assert said(document) == ["vllm.size is pristine: total"]
    here.apply()
    assert states(verify(*command, status=0)) == [{"vllm.size": "patched"}]


def test_a_process_that_could_not_report_is_no_pass() -> None:
    module = LoadedModule("vllm.size", "vllm/size.py", "/site/vllm/size.py", LoadedState.PATCHED)
    process = Process(1, ("python",), (module,), ())
    assert Imported((process,)).ok
    silent = Imported((process,), ("process 2: KeyError: 'x'",))
    assert not silent.ok
    assert list(faults(silent)) == ["process 2: KeyError: 'x'"]
