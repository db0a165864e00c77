"""The new files of stored releases: `patchkit overlay` lists them, and writes their digests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.repository.store import read_stored
from patchkit.repository.verdicts import read_tests, source_digest
from patchkit.repository.workspace import Workspace
from patchkit.series.proof_digest import digest_tests
from patchkit.series.verdict import Colour, StoredVerdict, Verdict, format_verdicts

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]

# sha256 of b"a\n", b"b\n" and b"c\n", as sha256sum gives them.
SHA_A = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"
SHA_B = "0263829989b6fd954f72baaf2fc64bc2e2f01d692d4de72986ea808f6e99813f"
SHA_C = "a3a5e715f0cc574a73c3f9bebb6bc24f32ffd5b67b387244c2c909da779a1478"

# Nothing as `format_overlay` would write it: order of files and keys, comments, quotes, an accepted
# drift between the files and an end without a line break.
OVERLAY = f"""\
# why these: sha256 = "{SHA_A}"
format = 1

[[file]]  # the second by path
path = 'vllm/b.py'
  sha256  =  '{SHA_B}'   # of b
source = "src/b.py"
[[accepted]]
path = "vllm/a.py"
reason = "sha256 = '{SHA_A}'"
surface = "1:abc"

  [[ file ]]
# not sha256 = "{SHA_B}"
sha256 = "{SHA_A}"
source = "src/a.py"
path = "vllm/a.py\""""
PATCH = b"""\
Subject: more

--- a/vllm/x.py
+++ b/vllm/x.py
@@ -1 +1 @@
-x = 1
+x = 2
"""
AT = "patches/v0.28.0/overlay.toml"


def write(root: Path, name: str, content: bytes | str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def release(root: Path, version: str, overlay: str | None) -> None:
    write(root, f"patches/v{version}/series", "more.patch\n")
    write(root, f"patches/v{version}/more.patch", PATCH)
    if overlay is not None:
        write(root, f"patches/v{version}/overlay.toml", overlay)


@pytest.fixture
def repository(folder: Path) -> Path:
    """Return a repository of four releases: two with two new files, one that is the same, none."""
    write(folder, "pyproject.toml", "[tool.patchkit]\n")
    write(folder, "src/a.py", "a\n")
    write(folder, "src/b.py", "b\n")
    release(folder, "0.28.0", OVERLAY)
    release(folder, "0.29.0", OVERLAY)
    release(folder, "0.27.0", None)
    write(folder, "patches/v0.29.1/same-as.toml", 'same-as = "v0.29.0"\n')
    return folder


def document(capsys: Out, check: Check, *args: str, status: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["overlay", *args, "--json"]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    check(found)
    assert found["exit_code"] == status
    return found


def text(capsys: Out, *args: str, status: int = 0) -> list[str]:
    capsys.readouterr()
    assert run(["overlay", *args]) == status
    return capsys.readouterr().out.splitlines()


def stored(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in (root / "patches").rglob("*.toml")}


@pytest.mark.usefixtures("repository")
def test_every_new_file_is_listed_with_source_place_and_digest(capsys: Out, check: Check) -> None:
    found = document(capsys, check)
    assert found["ok"] is True
    assert [(o["series"], o["release"], o["same_as"], o["overlay"]) for o in found["overlays"]] == [
        ("patches", "0.28.0", None, "patches/v0.28.0/overlay.toml"),
        ("patches", "0.29.0", None, "patches/v0.29.0/overlay.toml"),
        ("patches", "0.29.1", "0.29.0", "patches/v0.29.0/overlay.toml"),
    ]
    assert found["overlays"][2]["files"] == [
        {"source": "src/b.py", "path": "vllm/b.py", "sha256": SHA_B, "found": SHA_B,
         "state": "holds"},
        {"source": "src/a.py", "path": "vllm/a.py", "sha256": SHA_A, "found": SHA_A,
         "state": "holds"},
    ]  # fmt: skip
    assert (found["refresh"], found["written"], found["stale_verdicts"]) == (False, [], [])
    assert text(capsys) == [
        "v0.28.0, v0.29.0, v0.29.1 (same as v0.29.0): 2 new files",
        "  holds     src/b.py -> vllm/b.py",
        "  holds     src/a.py -> vllm/a.py",
    ]


def test_a_changed_and_a_missing_source_are_findings(
    repository: Path, capsys: Out, check: Check
) -> None:
    write(repository, "src/a.py", "c\n")
    found = document(capsys, check, status=3)
    assert found["ok"] is False
    assert [(f["state"], f["sha256"], f["found"]) for f in found["overlays"][0]["files"]] == [
        ("holds", SHA_B, SHA_B),
        ("changed", SHA_A, SHA_C),
    ]
    (repository / "src/b.py").unlink()
    before = stored(repository)
    found = document(capsys, check, "v0.28.0", status=3)
    assert [(f["state"], f["found"]) for f in found["overlays"][0]["files"]] == [
        ("missing", None),
        ("changed", SHA_C),
    ]
    assert text(capsys, "v0.28.0", status=3) == [
        "v0.28.0: 2 new files",
        "  missing   src/b.py -> vllm/b.py",
        "  changed   src/a.py -> vllm/a.py",
        "a source is missing: put it back, or take its table out of the overlay.toml",
        "`patchkit overlay --refresh` writes the digests of changed sources",
    ]
    write(repository, "src/a.py", "a\n")
    assert document(capsys, check, status=3)["ok"] is False  # one that is missing is enough
    assert stored(repository) == before


def test_releases_and_series_can_be_named(repository: Path, capsys: Out, check: Check) -> None:
    write(repository, "pyproject.toml", '[tool.patchkit]\nseries = ["patches", "more"]\n')
    write(repository, "more/v0.29.0/series", "more.patch\n")
    write(repository, "more/v0.29.0/more.patch", PATCH)
    write(repository, "more/v0.29.0/overlay.toml", OVERLAY.replace("'vllm/b.py'", "'vllm/d.py'"))
    found = document(capsys, check, "0.29.0", "v0.27.0")
    assert [(o["series"], o["release"]) for o in found["overlays"]] == [
        ("patches", "0.29.0"),
        ("more", "0.29.0"),
    ]
    found = document(capsys, check, "--series", "more")
    assert [(o["series"], o["release"]) for o in found["overlays"]] == [("more", "0.29.0")]
    assert text(capsys, "v0.29.0")[::3] == [
        "patches v0.29.0: 2 new files",
        "more v0.29.0: 2 new files",
    ]
    assert text(capsys, "v0.27.0") == ["no new files are stored for v0.27.0"]
    assert document(capsys, check, "v0.27.0")["overlays"] == []
    capsys.readouterr()
    assert run(["overlay", "v0.33.0"]) == 1
    assert "no series is stored for v0.33.0" in capsys.readouterr().err


def test_refresh_writes_the_digests_of_changed_sources_and_no_other_byte(
    repository: Path, capsys: Out, check: Check
) -> None:
    crlf = OVERLAY.replace("\n", "\r\n")
    write(repository, "patches/v0.29.0/overlay.toml", crlf)
    write(repository, "src/a.py", "c\n")
    before = stored(repository)
    found = document(capsys, check, "--refresh")
    places = ["patches/v0.28.0/overlay.toml", "patches/v0.29.0/overlay.toml"]
    assert (found["ok"], found["refresh"], found["written"]) == (True, True, places)
    assert [f["state"] for f in found["overlays"][2]["files"]] == ["holds", "refreshed"]
    new = OVERLAY.replace(f'\nsha256 = "{SHA_A}"', f'\nsha256 = "{SHA_C}"')
    assert new.count(SHA_A) == 2  # in the comment and in the reason
    assert stored(repository) == before | {
        places[0]: new.encode(),
        places[1]: new.replace("\n", "\r\n").encode(),
    }
    assert document(capsys, check)["ok"] is True


def test_refresh_of_the_other_file_finds_its_own_digest(repository: Path, capsys: Out) -> None:
    write(repository, "src/b.py", "a\n")  # of the same text as a.py now: told by table, not digest
    assert text(capsys, "--refresh")[-2:] == [
        "  holds     src/a.py -> vllm/a.py",
        "written: patches/v0.28.0/overlay.toml, patches/v0.29.0/overlay.toml",
    ]
    new = OVERLAY.replace(f"'{SHA_B}'   #", f"'{SHA_A}'   #")
    assert new.count(SHA_B) == 1  # in the comment
    assert (repository / AT).read_text() == new


def test_refresh_of_named_releases_leaves_the_others(
    repository: Path, capsys: Out, check: Check
) -> None:
    write(repository, "src/a.py", "c\n")
    before = stored(repository)
    assert document(capsys, check, "v0.28.0", "--refresh")["written"] == [AT]
    after = stored(repository)
    assert {name for name in after if after[name] != before[name]} == {AT}
    found = document(capsys, check, "v0.29.1", "--refresh")  # the overlay is that of v0.29.0
    assert found["written"] == ["patches/v0.29.0/overlay.toml"]
    assert document(capsys, check)["ok"] is True


def test_refresh_without_anything_to_do_says_so(repository: Path, capsys: Out) -> None:
    before = stored(repository)
    assert text(capsys, "--refresh")[-1] == "nothing to refresh: every digest holds"
    assert text(capsys, "v0.27.0", "--refresh") == ["no new files are stored for v0.27.0"]
    assert stored(repository) == before


def test_a_missing_source_is_refused_and_nothing_is_written(repository: Path, capsys: Out) -> None:
    write(repository, "src/b.py", "c\n")
    third = f'[[file]]\nsource = "src/z.py"\npath = "vllm/z.py"\nsha256 = "{SHA_A}"\n'
    write(repository, "patches/v0.29.0/overlay.toml", f"{OVERLAY}\n{third}")
    before = stored(repository)
    capsys.readouterr()
    assert run(["overlay", "--refresh"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/v0.29.0/overlay.toml: source src/z.py is missing\n"
        "hint: put it back, or take the table of vllm/z.py out; nothing was changed\n"
    )
    assert stored(repository) == before


@pytest.mark.parametrize(
    "overlay",
    [
        f"""\
format = 1
file = [{{source = "src/a.py", path = "vllm/a.py", sha256 = "{SHA_A}"}}]
""",
        f"""\
format = 1
[[file]]
source = '''
sha256 = "{SHA_A}"'''
path = "vllm/a.py"
sha256 = "{SHA_A}"
""",
        f"""\
format = 1
[[file]]
source = "src/a.py"
path = "vllm/a.py"
"sha\\u0032\\u0035\\u0036" = "{SHA_A}"
""",
    ],
)
def test_a_digest_that_is_no_line_of_its_own_is_left_to_a_person(
    repository: Path, capsys: Out, overlay: str
) -> None:
    write(repository, AT, overlay)
    write(repository, f'sha256 = "{SHA_A}"', "b\n")
    write(repository, "src/a.py", "c\n")
    before = stored(repository)
    capsys.readouterr()
    assert run(["overlay", "--refresh"]) == 1
    assert capsys.readouterr().err == (
        f"error: {AT}: its digests cannot be written without writing it anew, expected a [[file]] "
        "table for each file, with sha256 on a line of its own\n"
    )
    assert stored(repository) == before


def test_the_lock_is_taken_only_to_write(repository: Path, capsys: Out) -> None:
    write(repository, "src/a.py", "c\n")
    with Workspace(repository / ".patchkit").locked():
        assert text(capsys, status=3)[0].startswith("v0.28.0")
        assert run(["overlay", "--refresh"]) == 1
        assert "another patchkit is at work" in capsys.readouterr().err


def test_a_release_that_a_stopped_rebase_began_with_stays_as_it_is(
    repository: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    from types import SimpleNamespace

    state = SimpleNamespace(target="v0.30.0", sources={"patches/v0.29.0": "digest"})
    monkeypatch.setattr("patchkit.editing.around.read_state", lambda _: state)
    write(repository, "src/a.py", "c\n")
    before = stored(repository)
    capsys.readouterr()
    assert run(["overlay", "--refresh"]) == 1
    assert capsys.readouterr().err == (
        "error: patches/v0.29.0: a rebase onto v0.30.0 has stopped that began with it\n"
        "hint: finish it with `patchkit rebase --continue`, or drop it with `--abort`\n"
    )
    assert stored(repository) == before
    assert run(["overlay", "--refresh", "v0.28.0"]) == 0
    write(repository, "src/a.py", "a\n")
    assert run(["overlay", "--refresh"]) == 0  # nothing is written in the rebase's own release


# Verdicts ----------------------------------------------------------------------------------------


def test_a_verdict_is_stale_once_a_new_file_of_its_series_has_another_digest(
    repository: Path, capsys: Out, check: Check
) -> None:
    for version in ("0.28.0", "0.29.0"):
        path = f"patches/v{version}/more.patch"
        write(repository, path, PATCH.replace(b"\n\n", b"\nTest: tests/t.py\n\n"))
    write(repository, "tests/t.py", "def test(): pass\n")
    tests = ("tests/t.py",)
    of_tests = digest_tests(tests, read_tests(repository, tests, "p"))
    verdicts = []
    for version, base in (("0.28.0", "0.28.0"), ("0.29.0", "0.29.0"), ("0.31.0", "0.29.0")):
        digest = source_digest(read_stored(repository, "patches", base), "more.patch")
        verdicts.append(
            StoredVerdict(
                version, "more.patch", Verdict.NEEDED, Colour.RED, Colour.GREEN, "why", base,
                tests, digest, digest, of_tests, None,
            )
        )  # fmt: skip
    verdicts.append(replace(verdicts[0], release="0.24.0", base="0.24.0"))  # no longer stored
    write(repository, "patches/verdicts.toml", format_verdicts(verdicts))
    write(repository, "src/a.py", "c\n")
    assert document(capsys, check, status=3)["stale_verdicts"] == []
    assert document(capsys, check, "--refresh", "0.28.0")["stale_verdicts"] == [
        {"series": "patches", "patch": "more.patch", "release": "0.28.0"}
    ]
    assert text(capsys, "--refresh")[-3:] == [
        "written: patches/v0.29.0/overlay.toml",
        "verdicts on more.patch that hold no more: v0.29.0, v0.31.0",
        "`patchkit test RELEASE` makes verdicts anew",
    ]
    write(repository, "src/a.py", "a\n")
    assert document(capsys, check, "--refresh")["stale_verdicts"] == []  # stale before
    write(repository, "src/a.py", "c\n")
    assert len(document(capsys, check, "--refresh")["stale_verdicts"]) == 3
