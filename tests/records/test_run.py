"""Runs: begun on a clean tree, written once, whole, with what the machine was."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from patchkit.errors import PatchkitError
from patchkit.records.manifest import format_manifest, make_manifest
from patchkit.records.record import content_sha256, read_record
from patchkit.records.run import Run, VerifiedTree, Workload
from tests.records.conftest import H200, H200_BUSY, H200_LIMITED, git

ROOT = Path(__file__).parents[2]
Say = Callable[..., None]
SCHEMA = json.loads((ROOT / "docs/schema/run-record-1.json").read_bytes())
LONG = Workload(
    context=131072, new_tokens=8, batch=1, draft_length=7, cached_tokens=131064,
    kv_format="int8_per_token_head", block_size=448, cache="cold",
)  # fmt: skip


def begin(project: Path, **options: Any) -> Run:
    """A run of the project's benchmark over its kernels."""
    given = {"sources": ("kernels", "bench.py"), "command": ["bench.py", "--shard", "0"]}
    return Run.begin("verify-attention", root=project, **(given | options))


def written(project: Path, **options: Any) -> tuple[Path, dict[str, Any]]:
    """A record with one row, and what is in it."""
    with begin(project, **options) as run:
        run.add("verify attention", [100.0, 102.0, 108.0], "µs", LONG, row="int8-131072-q8-b1")
        path = run.write(project / "docs" / "records")
    return path, json.loads(path.read_bytes())


@pytest.mark.usefixtures("gpu")
def test_a_record_says_what_was_measured_where_and_of_which_code(project: Path, gpu: Say) -> None:
    gpu(H200, H200_BUSY)
    path, document = written(project)
    Draft202012Validator(SCHEMA).validate(document)
    assert re.fullmatch(r"verify-attention-\d{4}-\d\d-\d\d-h200\.json", path.name)
    # the median, not the mean (103.33): a mutation to the mean fails here
    assert document["rows"] == [
        {
            "row": "int8-131072-q8-b1",
            "subject": "ours",
            "measured": "verify attention",
            "unit": "µs",
            "value": 102.0,
            "n": 3,
            "median": 102.0,
            # quartiles 101 and 105; the whole range instead of its half would be 4
            "spread": {
                "kind": "half the interquartile range", "value": 2.0, "min": 100.0, "max": 108.0,
            },
            "workload": {
                "context": 131072, "new_tokens": 8, "batch": 1, "draft_length": 7,
                "cached_tokens": 131064, "kv_format": "int8_per_token_head", "block_size": 448,
                "cache": "cold",
            },
        }
    ]  # fmt: skip
    assert document["gpu"] == {
        "name": "NVIDIA H200", "driver": "580.95.05", "power_limit_w": 700.0,
        "before": {
            "sm_clock_mhz": 345.0, "memory_clock_mhz": 3201.0, "power_state": "P0",
            "power_draw_w": 76.42, "temperature_c": 31.0,
        },
        "after": {
            "sm_clock_mhz": 1980.0, "memory_clock_mhz": 3201.0, "power_state": "P0",
            "power_draw_w": 612.1, "temperature_c": 58.0,
        },
    }  # fmt: skip
    assert document["commit"] == git(project, "rev-parse", "HEAD").strip()
    assert document["command"] == ["bench.py", "--shard", "0"]
    # sha256sum of the file's text, and of the one line that lists it
    assert document["sources"] == {
        "kernels": "a8b581c0b09bdbecc2ddf97f2327a03b3007b9b1e6b6671821423c55c21dd03e",
        "bench.py": "ace4d0e21bcbc8d6e313ec92fdfe8d81dfb1bd93a3587d940e59c4902d2d84b2",
    }
    assert document["machine"]["versions"]["python"] == sys.version.split()[0]


@pytest.mark.usefixtures("gpu")
def test_without_a_gpu_there_is_none_in_the_record(project: Path) -> None:
    path, document = written(project)
    Draft202012Validator(SCHEMA).validate(document)
    assert document["gpu"] is None
    assert path.name.endswith("-cpu.json")


def test_a_gpu_that_is_not_used_is_not_named(project: Path, gpu: Say) -> None:
    gpu(H200)
    path, document = written(project, uses_gpu=False)
    assert document["gpu"] is None
    assert path.name.endswith("-cpu.json")


@pytest.mark.usefixtures("gpu")
def test_one_sample_has_no_spread(project: Path) -> None:
    with begin(project) as run:
        assert run.add("time", [3], "s", Workload(), row="only").spread is None


@pytest.mark.usefixtures("gpu")
def test_a_second_run_of_a_day_leaves_the_first_alone(project: Path) -> None:
    first, _ = written(project)
    before = first.read_bytes()
    second, _ = written(project)
    assert second.name == first.stem + "-2.json"
    assert first.read_bytes() == before
    assert sorted(p.name for p in first.parent.iterdir()) == sorted([first.name, second.name])


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("path", "said"), [
    ("bench.py", "M bench.py"),
    (".gitignore", "M .gitignore"),
    ("kernels/new.py", "?? kernels/new.py"),
])  # fmt: skip
def test_a_tree_that_is_not_what_was_committed_is_refused(
    project: Path, path: str, said: str
) -> None:
    (project / path).write_text("SPLITS = 9\n")
    with pytest.raises(PatchkitError) as caught:
        begin(project)
    assert str(caught.value) == (
        f"{project}: the tree is not what was committed: {said}, expected a clean tree, so that "
        "the record names the code that was measured"
    )


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(
    ("told", "letter"), [("--assume-unchanged", "h"), ("--skip-worktree", "S")]
)
def test_what_git_was_told_not_to_look_at_is_dirt(project: Path, told: str, letter: str) -> None:
    git(project, "update-index", told, "bench.py")
    (project / "bench.py").write_text("print('faster')\n")
    with pytest.raises(PatchkitError, match=f"is not what was committed: {letter} bench.py"):
        begin(project)


@pytest.mark.usefixtures("gpu")
def test_a_source_without_files_is_none(project: Path) -> None:
    (project / "built").mkdir()
    (project / "built" / "verify.so").write_text("")
    with pytest.raises(PatchkitError, match="built: holds no file of the project"):
        Run.begin("x", root=project, sources=("built",), command=[])


@pytest.mark.usefixtures("gpu")
def test_a_record_lies_in_no_source_and_where_it_can_be_written(project: Path) -> None:
    run = begin(project)
    run.add("time", [1.0], "s", Workload(), row="a")
    with pytest.raises(PatchkitError, match="records lie in a source"):
        run.write(project / "kernels" / "records")
    with pytest.raises(PatchkitError, match="cannot be written"):
        run.write(project / ".gitignore")
    assert not (project / "kernels" / "records").exists()


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("path", ["notes.txt", "kernels/built.so", "kernels/__pycache__/v.pyc"])
def test_what_is_no_source_or_ignored_is_no_dirt(project: Path, path: str) -> None:
    _, before = written(project)
    (project / path).parent.mkdir(exist_ok=True)
    (project / path).write_text("")
    _, after = written(project)
    assert after["sources"] == before["sources"]


@pytest.mark.usefixtures("gpu")
def test_a_tree_that_changes_while_it_is_measured_gives_no_record(project: Path) -> None:
    with begin(project) as run:
        run.add("time", [1.0], "s", Workload(), row="a")
        (project / "kernels/verify.py").write_text("SPLITS = 9\n")
        git(project, "commit", "-q", "-a", "-m", "clean again, but other code")
        with pytest.raises(PatchkitError, match="the tree changed while it was measured"):
            run.write(project / "records")
    assert not (project / "records").exists()


def test_a_power_limit_that_changes_gives_no_record(project: Path, gpu: Say) -> None:
    gpu(H200, H200_LIMITED)
    with pytest.raises(PatchkitError, match="the GPU, its driver or its power limit changed"):
        written(project)


@pytest.mark.usefixtures("gpu")
def test_what_is_no_measurement_is_refused(project: Path) -> None:
    run = begin(project)
    with pytest.raises(PatchkitError, match="nothing was measured"):
        run.write(project)
    for samples in ([], [1.0, float("nan")], [float("inf")]):
        with pytest.raises(PatchkitError, match="no samples, or not finite"):
            run.add("time", samples, "s", Workload(), row="a")
    run.add("time", [1.0], "s", Workload(), row="a")
    with pytest.raises(PatchkitError, match="verify-attention#a: the row is there already"):
        run.add("time", [1.0], "s", Workload(), row="a")
    with pytest.raises(PatchkitError, match=r"workload\.cache is 'tepid', expected cold or warm"):
        run.add("time", [1.0], "s", Workload(cache="tepid"), row="b")
    with pytest.raises(PatchkitError, match=r"workload\.context is 4\.5, expected int"):
        run.add("time", [1.0], "s", Workload(context=4.5), row="b")  # type: ignore[arg-type]
    with pytest.raises(PatchkitError, match="'q 8' is no id of a row"):
        run.add("time", [1.0], "s", Workload(), row="q 8")
    assert list(run.rows) == ["a"]


@pytest.mark.usefixtures("gpu")
def test_an_engine_is_measured_with_a_verified_tree_or_not_at_all(project: Path) -> None:
    with pytest.raises(PatchkitError, match="an engine is measured whose tree was not verified"):
        begin(project, engine=True)
    with pytest.raises(PatchkitError, match="the tree's sha256 is 'abc'"):
        begin(project, tree=VerifiedTree("abc", "0.28.0"))
    path, document = written(project, tree=VerifiedTree("ab" * 32, "0.28.0"))
    assert document["engine"] is True
    assert document["tree"] == {"sha256": "ab" * 32, "release": "0.28.0"}
    assert read_record(path).tree == VerifiedTree("ab" * 32, "0.28.0")


@pytest.mark.usefixtures("gpu")
def test_names_sources_and_commands_are_those_of_the_project(project: Path) -> None:
    for sources, said in [((), "no sources"), (("../x",), "no path within the project"),
                          (("gone",), "gone: no such source")]:  # fmt: skip
        with pytest.raises(PatchkitError, match=said):
            begin(project, sources=sources)
    with pytest.raises(PatchkitError, match="'Verify attention' is no name of a run"):
        Run.begin("Verify attention", root=project, sources=("kernels",), command=[])
    command = [str(project / "bench.py"), "--out", "/srv/elsewhere/out.json", "--n", "3"]
    assert begin(project, command=command).command == (
        "bench.py", "--out", "out.json", "--n", "3",
    )  # fmt: skip


# Without git ------------------------------------------------------------------------------------


@pytest.fixture
def copied(project: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The project copied without `.git`, and a manifest that was made before."""
    listed = tmp_path / "manifest.json"
    listed.write_text(format_manifest(make_manifest(project)))
    shutil.copytree(project, tmp_path / "copy", ignore=shutil.ignore_patterns(".git"))
    return tmp_path / "copy", listed


@pytest.mark.usefixtures("gpu")
def test_a_copy_is_held_against_the_manifest_and_gives_the_same_digests(
    project: Path, copied: tuple[Path, Path]
) -> None:
    copy, listed = copied
    (copy / "kernels/__pycache__").mkdir()
    (copy / "kernels/__pycache__/verify.pyc").write_text("")
    _, there = written(copy, manifest=listed)
    _, here = written(project)
    assert there["commit"] == here["commit"]
    assert there["sources"] == here["sources"]


@pytest.mark.usefixtures("gpu")
def test_a_copy_whose_git_is_of_another_commit_is_held_against_the_manifest(
    project: Path, tmp_path: Path
) -> None:
    commit = written(project)[1]["commit"]
    listed = tmp_path / "manifest.json"
    listed.write_text(format_manifest(make_manifest(project)))
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "rm", "-q", "--cached", "bench.py"], check=True)
    subprocess.run([*git, "commit", "-qm", "another"], check=True)
    with pytest.raises(PatchkitError, match="not what was committed"):
        begin(project)
    assert written(project, manifest=listed)[1]["commit"] == commit


@pytest.mark.usefixtures("gpu")
def test_a_copy_that_differs_from_the_manifest_is_refused(copied: tuple[Path, Path]) -> None:
    copy, listed = copied
    with pytest.raises(PatchkitError, match="no git checkout and no manifest"):
        begin(copy)
    (copy / "bench.py").write_text("")
    with pytest.raises(PatchkitError, match=r"not what was committed: M bench\.py,"):
        begin(copy, manifest=listed)
    (copy / "bench.py").unlink()
    (copy / "kernels/more.py").write_text("")
    with pytest.raises(PatchkitError, match=r"committed: D bench\.py, \?\? kernels/more\.py,"):
        begin(copy, manifest=listed, sources=("kernels",))


@pytest.mark.usefixtures("gpu")
def test_a_folder_inside_another_repository_is_no_checkout(project: Path) -> None:
    (project / "inner").mkdir()
    (project / "inner/a.py").write_text("")
    with pytest.raises(PatchkitError, match="no git checkout and no manifest"):
        Run.begin("x", root=project / "inner", sources=("a.py",), command=[])


def test_the_manifest_is_printed_for_a_clean_checkout_only(project: Path) -> None:
    def printed() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "patchkit.records.manifest"],
            cwd=project, env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    done = printed()
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert list(document["files"]) == [".gitignore", "bench.py", "kernels/verify.py"]
    (project / "bench.py").write_text("")
    done = printed()
    assert (done.returncode, done.stdout) == (1, "")
    assert "error: " in done.stderr
    assert "the tree is not what was committed: M bench.py" in done.stderr


def test_what_writes_a_record_imports_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import patchkit.records.run\n"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before}"
        " - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n{code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "['patchkit']\n"


# Parts ------------------------------------------------------------------------------------------


def test_a_run_goes_on_from_the_rows_of_an_earlier_part(project: Path, gpu: Say) -> None:
    gpu(H200)
    first = begin(project)
    first.add("time", [1.0, 2.0, 6.0], "µs", LONG, row="a")
    state = json.loads(json.dumps(first.to_state()))
    second = begin(project, command=["bench.py", "--shard", "1"])
    assert second.resume(state) == ["a"]
    second.add("time", [4.0], "µs", LONG, row="b")
    record = read_record(second.write(project / "records"))
    assert list(record.rows) == ["a", "b"]
    assert record.rows["a"] == first.rows["a"]
    with pytest.raises(PatchkitError, match="the row 'a' is there already"):
        second.resume(state)


def test_a_part_of_other_code_or_another_machine_is_refused(project: Path, gpu: Say) -> None:
    gpu(H200)
    first = begin(project)
    first.add("time", [1.0], "µs", LONG, row="a")
    gpu(H200_LIMITED)
    (project / "bench.py").write_text("print('timed otherwise')\n")
    git(project, "commit", "-q", "-a", "-m", "second")
    second = begin(project)
    with pytest.raises(PatchkitError, match="differs in commit, sources, gpu"):
        second.resume(first.to_state())
    assert second.rows == {}


# Reading ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("gpu")
def test_a_record_that_was_edited_is_refused(project: Path) -> None:
    path, _ = written(project)
    assert read_record(path).rows["int8-131072-q8-b1"].value == 102.0
    path.write_text(path.read_text().replace("102.0", "92.0"))
    with pytest.raises(PatchkitError) as caught:
        read_record(path)
    assert str(caught.value) == (
        f"{path}: was edited: its content is not what its digest says, "
        "expected a record as the benchmark wrote it"
    )


def sealed(path: Path, document: dict[str, Any]) -> Path:
    """The document in the file, with the digest that it would have."""
    path.write_text(json.dumps(document | {"digest": content_sha256(document)}))
    return path


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("where", "value", "said"), [
    (("rows", 0, "value"), 90.0, "rows[0]: value is 90.0, expected the median"),
    (("rows", 0, "n"), 0, "rows[0]: n is 0, expected how many samples there are"),
    (("rows", 0, "workload", "power"), 1, "rows[0]: workload has no field 'power', expected"),
    (("rows", 0, "workload", "context"), "128k", "rows[0]: workload.context is '128k'"),
    (("rows", 0, "workload", "batch"), -1, "rows[0]: workload.batch is -1, expected no less than"),
    (("rows", 0, "spread", "min"), None, "rows[0]: spread.min is None, expected a finite number"),
    (("tree",), {"sha256": "abc", "release": "0.28.0"}, "tree.sha256 is 'abc'"),
    (("sources", "kernels"), "", "sources is ''"),
    (("gpu",), "H200", "gpu is 'H200', expected dict or NoneType"),
    (("schema",), "patchkit.run-record/2", "is no run record"),
    (("rows", 0, "spread", "value"), 10**400, "rows[0]: spread.value is 1000"),
    (("rows", 0, "spread", "max"), float("nan"), "rows[0]: spread.max is nan"),
    (("rows", 0, "n"), True, "rows[0]: n is True"),
    (("command",), [1], "command is 1"),
    (("sources",), {"../other": "ab" * 32}, "sources is '../other'"),
    (("sources",), {"/etc/passwd": "ab" * 32}, "sources is '/etc/passwd'"),
    (("gpu",), {"name": "NVIDIA H200"}, "gpu.driver is None, expected str"),
    (("machine", "cpu"), None, "machine.cpu is None, expected str"),
    (("machine", "cores"), True, "machine.cores is True, expected int"),
    (("machine", "versions", "torch"), 2, "machine.versions is 2"),
])  # fmt: skip
def test_a_damaged_record_is_refused_with_its_place(
    project: Path, where: tuple[str | int, ...], value: object, said: str
) -> None:
    path, document = written(project)
    table: Any = document
    for key in where[:-1]:
        table = table[key]
    table[where[-1]] = value
    with pytest.raises(PatchkitError) as caught:
        read_record(sealed(path, document))
    assert str(caught.value).startswith(f"{path}: {said}")


@pytest.mark.usefixtures("gpu")
def test_a_record_with_a_field_missing_or_a_row_twice_is_refused(project: Path) -> None:
    path, document = written(project)
    twice = document | {"rows": document["rows"] * 2}
    with pytest.raises(PatchkitError, match="row 'int8-131072-q8-b1' is there twice"):
        read_record(sealed(path, twice))
    del document["engine"]
    with pytest.raises(PatchkitError, match="engine is missing"):
        read_record(sealed(path, document))
    for text in ("{", "[" * 100_000, '{"schema": "patchkit.run-record/1", "name": "\\ud800"}'):
        path.write_text(text)
        with pytest.raises(PatchkitError, match="not valid JSON"):
            read_record(path)
