from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import git
import pytest

from patchkit.cli import check, edit, import_, record, run
from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree
from patchkit.upstream.pins import Pins, Release
from tests.moves import diff

Check = Callable[[dict[str, Any]], None]
Out = pytest.CaptureFixture[str]

PATH = "vllm/size.py"
BODY = "\n\n".join(f"def f{n}():\n    return {n}\n" for n in range(9))
NIGHTLY = BODY.replace("return 2\n", "return 22\n")
TEXTS = {
    "0.27.0": {
        PATH: "import os\n" + BODY.replace("return 8", "return 88"),
        "vllm/old.py": "x = 1\n",
    },
    "0.28.0": {PATH: BODY},
    "0.29.0": {PATH: BODY.replace("f2", "g2").replace("return 2\n", "return 23\n")},
    "0.30.0": None,
}


def swap(*numbers: int, text: str = BODY) -> str:
    """Return the file with some functions returning ten times what they did."""
    for number in numbers:
        text = text.replace(f"return {number}\n", f"return {number}0\n")
    return text


def change(*numbers: int, old: str = BODY) -> bytes:
    return diff(old, swap(*numbers, text=old), PATH)


ONE, TWO, THREE = change(1), change(5, old=swap(1)), diff(
    swap(1, 5), swap(1, 5).replace("return 50", "return 55"), PATH
)  # fmt: skip
FIELDS = [
    "--applies-to",
    ">=0.28,<1",
    "--reason",
    "r",
    "--forwarded",
    "no",
    "--exit-condition",
    "never",
    "--origin",
    "us",
]


def mail(subject: str, patch: bytes, message: str = "Why it is.\n") -> bytes:
    head = f"From: Jö <j@example.org>\nDate: Mon, 30 Nov 2026 10:00:00 +0000\nSubject: {subject}\n"
    start = "From 0123456789abcdef Mon Sep 17 00:00:00 2001\n"
    stat = "---\n vllm/size.py | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n"
    return f"{start}{head}\n{message}{stat}".encode() + patch + b"-- \n2.39.5\n\n"


def tree(files: dict[str, str], name: str) -> SourceTree:
    return SourceTree({p: t.encode() for p, t in files.items()}, name=name, version=name)


@pytest.fixture(autouse=True)
def _releases(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:  # noqa: ARG001
    opened = {v: tree(files, v) for v, files in TEXTS.items() if files is not None}
    opened |= {f"v{version}": found for version, found in opened.items()}
    opened["../vllm"] = tree({PATH: NIGHTLY}, "../vllm")

    def opener(*_: object) -> Callable[[str], SourceTree]:
        def open_tree(spec: str) -> SourceTree:
            if spec not in opened:
                raise PatchkitError("no answer: timed out", place="the index")
            return opened[spec]

        return open_tree

    pins = Pins(tuple(Release(version, ()) for version in TEXTS))
    for module in (import_, check):
        monkeypatch.setattr(module, "tree_opener", opener)
    monkeypatch.setattr(import_, "read_pins", lambda _: pins)


def write(**files: bytes) -> list[str]:
    """Write patch files and return their names."""
    for name, data in files.items():
        Path(f"{name}.patch").write_bytes(data)
    return [f"{name}.patch" for name in files]


def files(folder: Path) -> dict[str, bytes]:
    found = {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}
    return {n: p.read_bytes() for n, p in found.items() if not n.startswith(".")}


def series(release: str = "0.28.0") -> list[str]:
    return Path(f"patches/v{release}/series").read_text().split()


def take(out: Out, *args: str, status: int = 0) -> str:
    assert run(["import", *args]) == status
    return out.readouterr().out


def report(out: Out, check: Check, *args: str, status: int = 0) -> dict[str, Any]:
    assert run(["import", *args, "--json"]) == status
    document: dict[str, Any] = json.loads(out.readouterr().out)
    check(document)
    assert document["exit_code"] == status
    return document


def test_a_fresh_folder_is_set_up_and_gets_the_series(folder: Path, capsys: Out) -> None:
    assert take(capsys, *write(fix=ONE)) == (
        "base 0.28.0: every hunk applies at its own line\n"
        "release          applies there neither   ids   off  what is in the way first\n"
        "0.27.0   fits          1     0       0     -     1\n"
        "0.28.0   base          1     0       0     -     0\n"
        "0.29.0   -             0     0       1     -     0  fix.patch#1 vllm/size.py:...\n"
        "0.30.0   -             0     0       0     -     0  no answer: timed out (the...\n"
        "fix.patch: 1 hunk in 1 file, from fix.patch\n"
        "  to fill in: Description, Reason, Forwarded, Exit-Condition\n"
        "created [tool.patchkit] in pyproject.toml\n"
        "1 patch written to patches/v0.28.0\n"
        "next: fill in the headers, then patchkit check --frozen\n"
    )
    found = files(folder)
    assert sorted(found) == [
        "fix.patch",
        "patches/v0.28.0/fix.anchors.toml",
        "patches/v0.28.0/fix.patch",
        "patches/v0.28.0/series",
        "pyproject.toml",
    ]
    assert found["pyproject.toml"] == b'[tool.patchkit]\nseries = ["patches"]\n'
    assert found["patches/v0.28.0/series"] == b"fix.patch\n"
    assert found["patches/v0.28.0/fix.patch"].startswith(
        b"Description:\nReason:\nOrigin: fix.patch\nForwarded:\nExit-Condition:\n"
        b"Applies-To: ==0.28.0\n\n"
        b"diff --git a/vllm/size.py b/vllm/size.py\n"
        b"index f7b3c6bdc0d6a9e2eed86eb8ec5a3d3b2a9a7e3b.."[:6]
    )


def test_a_check_finds_only_what_a_person_has_to_say(capsys: Out) -> None:
    take(capsys, *write(one=ONE, two=TWO, three=THREE))
    assert run(["check", "--frozen", "--json"]) == 3
    findings = [f for s in json.loads(capsys.readouterr().out)["series"] for f in s["findings"]]
    assert {f["kind"] for f in findings} == {"header"}
    assert {f["text"] for f in findings} == {
        f"{name} is empty" for name in ("Description", "Reason", "Forwarded", "Exit-Condition")
    }


def test_what_is_given_fills_the_headers_of_all(folder: Path, capsys: Out) -> None:
    box = mail("[PATCH 1/2] One", ONE) + mail("[PATCH 2/2] Two", TWO, "")
    (folder / "all.mbox").write_bytes(box)
    out = take(capsys, "all.mbox", *FIELDS)
    assert "to fill in" not in out
    assert out.endswith("2 patches written to patches/v0.28.0\nnext: patchkit check --frozen\n")
    assert run(["check", "--frozen"]) == 0
    assert series() == ["one.patch", "two.patch"]
    text = (folder / "patches/v0.28.0/one.patch").read_text(encoding="utf-8")
    assert text.split("\n\n")[0] == (
        "Description: One\n Why it is.\nReason: r\nOrigin: us\nForwarded: no\n"
        "Exit-Condition: never\nApplies-To: >=0.28,<1\nAuthor: Jö <j@example.org>\n"
        "Date: Mon, 30 Nov 2026 10:00:00 +0000"
    )


def test_a_later_import_goes_to_the_end_and_declares_what_it_needs(
    folder: Path, capsys: Out, check: Check
) -> None:
    take(capsys, *write(one=ONE, two=TWO))
    (folder / "patches/v0.28.0/series").write_bytes(
        b"# ours\none.patch # first\ntwo.patch\n# end\n"
    )
    (folder / "patches/v0.28.0/NOTES.md").write_bytes(b"ours, too\n")
    before = files(folder)
    document = report(capsys, check, *write(three=THREE))
    assert document["base"]["name"] == "0.28.0"
    assert document["set_up"] == []
    assert [(p["name"], p["depends_on"]) for p in document["patches"]] == [("three.patch", ["two"])]
    text = (folder / "patches/v0.28.0/series").read_text()
    assert text == "# ours\none.patch # first\ntwo.patch\n# end\nthree.patch\n"
    assert b"\nDepends-On: two\n" in (folder / "patches/v0.28.0/three.patch").read_bytes()
    kept = {name: data for name, data in files(folder).items() if name in before}
    assert kept == {**before, "patches/v0.28.0/series": text.encode()}


def test_of_two_patches_that_edit_one_place_the_later_depends_on_the_earlier(
    folder: Path, capsys: Out, check: Check
) -> None:
    middle = BODY.replace("    return 2\n", "    print(1)\n    return 2\n")
    last = middle.replace("    print(1)\n", "    print(1)\n    print(2)\n")
    names = write(one=diff(BODY, middle, PATH), two=diff(middle, last, PATH))
    document = report(capsys, check, *names)
    assert [patch["depends_on"] for patch in document["patches"]] == [[], ["one"]]
    assert b"\nDepends-On: one\n" in (folder / "patches/v0.28.0/two.patch").read_bytes()


def test_a_folder_that_is_no_series_is_left_alone(folder: Path, capsys: Out) -> None:
    (folder / "patches/v0.28.0").mkdir(parents=True)
    (folder / "patches/v0.28.0/README").write_bytes(b"hello\n")
    before = files(folder)
    assert run(["import", *write(one=ONE), "--base", "0.28.0"]) == 1
    assert files(folder) == {**before, "one.patch": ONE}
    assert "patches/v0.28.0: " in capsys.readouterr().err


def test_the_comment_of_an_empty_series_stays(folder: Path, capsys: Out) -> None:
    run(["init", "--from", "v0.28.0"])
    take(capsys, *write(one=ONE))
    assert (folder / "patches/v0.28.0/series").read_text() == (
        "# One patch file a line, applied in this order.\none.patch\n"
    )


def test_a_name_that_is_taken_is_refused(folder: Path, capsys: Out) -> None:
    take(capsys, *write(one=ONE))
    (folder / "ONE.patch").write_bytes(change(7))
    before = files(folder)
    assert run(["import", "ONE.patch"]) == 1
    assert files(folder) == before
    assert capsys.readouterr().err == (
        "error: patches/v0.28.0/series: a patch ONE.patch is stored already\n"
        "hint: give the file another name; what is stored is never replaced by an import\n"
    )


def test_a_dry_run_shows_it_and_writes_nothing(folder: Path, capsys: Out) -> None:
    names = write(fix=ONE)
    out = take(capsys, *names, "--dry-run")
    assert out.endswith(
        "would create [tool.patchkit] in pyproject.toml\n"
        "1 patch would be written to patches/v0.28.0\n"
    )
    assert [path.name for path in folder.iterdir()] == ["fix.patch"]


def test_a_patch_between_two_releases_is_not_stored(capsys: Out, check: Check) -> None:
    names = write(fix=change(8) + diff("x = 1\n", "x = 2\n", "vllm/old.py"))
    document = report(capsys, check, *names, status=3)
    assert (document["base"], document["path"], document["patches"]) == (None, None, [])
    assert document["nearest"] == {
        "releases": ["0.27.0", "0.28.0"],
        "text": "each hunk fits 0.27.0 or 0.28.0: it was made on a commit between the two",
    }
    assert [row["applying"] for row in document["releases"]] == [1, 1, 1, 0]
    out = take(capsys, *names, status=3)
    assert out.startswith("fits no release: each hunk fits 0.27.0 or 0.28.0: it was made on ")
    assert out.endswith(
        "on 0.28.0 do not apply:\n"
        "  fix.patch:11: hunk 2: vllm/old.py: file to modify is not there\n"
        "nothing was written\n"
        "hint: --base TREE --release REL moves them, from a folder or git:REPO@REF\n"
    )


def test_a_base_that_does_not_take_them_names_every_hunk(folder: Path, capsys: Out) -> None:
    names = write(
        fix=change(1, 8), odd=diff(NIGHTLY, NIGHTLY.replace("return 22", "return 222"), PATH)
    )
    before = files(folder)
    assert run(["import", *names, "--base", "v0.27.0"]) == 1
    assert files(folder) == before
    err = capsys.readouterr().err
    assert err.startswith("error: 2 of 3 hunks do not fit 0.27.0:\n  fix.patch:12: hunk 2: ")
    assert "\n  odd.patch:3: hunk 1: " in err


def test_a_base_that_is_no_release_needs_one_to_be_stored_for(capsys: Out) -> None:
    assert run(["import", *write(fix=change(1, old=NIGHTLY)), "--base", "../vllm"]) == 2
    assert capsys.readouterr().err == (
        "error: --base: '../vllm' is no release, so there is no place to store patches for it\n"
        "hint: --release REL moves them from there to a release, and stores them for it\n"
    )


def test_from_a_nightly_they_are_moved_to_a_release(
    folder: Path, capsys: Out, check: Check
) -> None:
    names = write(fix=diff(NIGHTLY, swap(3, text=NIGHTLY), PATH, context=5))
    document = report(capsys, check, *names, "--base", "../vllm", "--release", "0.28")
    assert document["path"] == "patches/v0.28.0"
    assert [outcome["status"] for outcome in document["moved"]] == ["placed"]
    text = (folder / "patches/v0.28.0/fix.patch").read_bytes()
    assert b"\n-    return 3\n+    return 30\n" in text
    assert b"Applies-To: ==0.28.0\n" in text


def test_what_has_no_place_in_the_release_is_told_and_not_stored(folder: Path, capsys: Out) -> None:
    names = write(fix=diff(NIGHTLY, NIGHTLY.replace("return 22", "return 220"), PATH))
    before = files(folder)
    out = take(capsys, *names, "--base", "../vllm", "--release", "0.28.0", status=3)
    assert "\n  fix.patch: hunk 1: conflicted" in out
    assert out.endswith("nothing was written: not every patch has a place of its own\n")
    assert files(folder) == before


def test_mails_are_taken_in_the_order_of_their_subjects(capsys: Out, check: Check) -> None:
    names = write(
        a=mail("[PATCH v2 3/3] Three", THREE),
        b=mail("[PATCH v2 1/3] One", ONE),
        c=mail("[PATCH v2 2/3] Two", TWO),
    )
    document = report(capsys, check, *names)
    assert document["order"] == "in the order of their subjects: b.patch, c.patch, a.patch"
    assert series() == ["b.patch", "c.patch", "a.patch"]


def test_the_order_that_applies_is_found_and_said(capsys: Out) -> None:
    out = take(capsys, *write(a=THREE, b=TWO, c=ONE))
    assert "\n  in the order in which they apply: b.patch, a.patch, c.patch\n" in out
    assert series() == ["b.patch", "a.patch", "c.patch"]


def test_patches_that_were_each_made_on_the_release_are_moved_onto_one_another(capsys: Out) -> None:
    one, two = ONE, diff(BODY, BODY.replace("def f2", "# why\ndef f2"), PATH)
    out = take(capsys, *write(one=one, two=two))
    way = "each patch was made on it by itself; they were moved onto one another, and proven"
    assert f"\n  {way}\n" in out
    assert series() == ["one.patch", "two.patch"]
    assert run(["check", "--frozen", "--json"]) == 3
    findings = [f for s in json.loads(capsys.readouterr().out)["series"] for f in s["findings"]]
    assert {f["kind"] for f in findings} == {"header"}


def test_a_patch_made_without_the_stored_series_is_moved_onto_it(capsys: Out) -> None:
    one, two = ONE, diff(BODY, BODY.replace("def f2", "# why\ndef f2"), PATH)
    take(capsys, *write(one=one))
    out = take(capsys, *write(two=two))
    way = "made without the series that is stored for it; moved onto that, and proven"
    assert f"\n  {way}\n" in out
    assert series() == ["one.patch", "two.patch"]


def test_a_patch_that_is_stored_already_is_not_stored_again(folder: Path, capsys: Out) -> None:
    take(capsys, *write(one=ONE))
    before = files(folder)
    out = take(capsys, *write(again=ONE), status=3)
    assert (
        "\n  again.patch: hunk 1 is there already, in the release or in what is stored for it\n"
        "nothing was written: not every patch has a place of its own\n"
    ) in out
    assert files(folder) == {**before, "again.patch": ONE}


def test_of_releases_that_fit_alike_the_one_with_a_series_is_taken(
    capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TEXTS, "0.27.0", {PATH: BODY})
    twin = tree({PATH: BODY}, "0.27.0")
    opener = import_.tree_opener(None, None)  # type: ignore[arg-type]
    monkeypatch.setattr(
        import_,
        "tree_opener",
        lambda *_: lambda s: twin if s in ("0.27.0", "v0.27.0") else opener(s),
    )
    take(capsys, *write(one=ONE), "--base", "0.27.0")
    out = take(capsys, *write(seven=change(7)))
    assert out.startswith(
        "base 0.27.0: every hunk applies at its own line; a series is stored for it\n"
        "  just as well: 0.28.0, 0.29.0\n"
    )
    assert series("0.27.0") == ["one.patch", "seven.patch"]


def test_sections_that_no_wheel_has_are_kept_and_listed(folder: Path, capsys: Out) -> None:
    more = diff("int a;\n", "int b;\n", "csrc/x.cu") + diff("a\n", "b\n", "tests/x.py")
    out = take(capsys, *write(fix=ONE + more))
    assert "  kept: csrc/x.cu is built from source\n  kept: tests/x.py is not shipped\n" in out
    assert (
        (folder / "patches/v0.28.0/fix.patch")
        .read_bytes()
        .endswith(
            b"diff --git a/csrc/x.cu b/csrc/x.cu\n--- a/csrc/x.cu\n+++ b/csrc/x.cu\n"
            b"@@ -1 +1 @@\n-int a;\n+int b;\n"
            b"diff --git a/tests/x.py b/tests/x.py\n--- a/tests/x.py\n+++ b/tests/x.py\n"
            b"@@ -1 +1 @@\n-a\n+b\n"
        )
    )


OLDER = "import os\n\n\ndef f0():\n    return 0\n\n\ndef _own():\n    pass\n"


def test_a_file_from_elsewhere_is_refused_with_the_names_that_it_loses(
    folder: Path, capsys: Out
) -> None:
    whole = diff("", OLDER, PATH).replace(b"--- a/vllm/size.py", b"--- /dev/null")
    out = take(capsys, *write(whole=whole), status=3)
    names = "f1, g2, f3, f4, f5, f6, f7, f8"  # of the newest release that can be opened
    assert f"note: vllm/size.py is replaced as a whole; public names lost: {names}\n" in out
    assert sorted(files(folder)) == ["whole.patch"]


def test_a_replaced_file_becomes_hunks_and_what_it_loses_is_said(folder: Path, capsys: Out) -> None:
    shorter = BODY.replace("def f4():\n    return 4\n\n\n", "")
    lines = [f"-{line}\n" for line in BODY.splitlines()]
    lines += [f"+{line}\n" for line in shorter.splitlines()]
    counts = f"@@ -1,{len(BODY.splitlines())} +1,{len(shorter.splitlines())} @@\n"
    patch = f"--- a/{PATH}\n+++ b/{PATH}\n{counts}{''.join(lines)}".encode()
    out = take(capsys, *write(whole=patch))
    assert "note: vllm/size.py is replaced as a whole; public names lost: f4\n" in out
    text = (folder / "patches/v0.28.0/whole.patch").read_bytes()
    assert (text.count(b"\n-"), text.count(b"\n+")) == (1 + 4, 1)


def test_a_quilt_folder_is_taken_in_its_order(folder: Path, capsys: Out, check: Check) -> None:
    stack = folder / "debian" / "patches"
    stack.mkdir(parents=True)
    (stack / "zz.diff").write_bytes(ONE.replace(b"a/vllm", b"vllm").replace(b"b/vllm", b"vllm"))
    (stack / "aa.diff").write_bytes(TWO)
    (stack / "odd.diff").write_bytes(b"not even a patch\n")
    (stack / "overlay.toml").write_bytes(b"format = 1\n")
    (stack / "series").write_bytes(b"# ours\nzz.diff -p0 # first\n\naa.diff -p1\n")
    document = report(capsys, check, "debian")
    assert series() == ["zz.patch", "aa.patch"]
    assert document["order"] is None
    assert document["passed_over"] == [
        {"name": "debian/patches/odd.diff", "reason": "not in the series file"},
        {"name": "debian/patches/overlay.toml", "reason": "no patch"},
    ]
    assert [note for patch in document["patches"] for note in patch["notes"]] == []


def test_a_strip_level_that_the_tree_contradicts_is_noted(
    folder: Path, capsys: Out, check: Check
) -> None:
    (folder / "q").mkdir()
    (folder / "q/fix.patch").write_bytes(
        ONE.replace(b"a/vllm", b"x/y/vllm").replace(b"b/", b"x/y/")
    )
    (folder / "q/series").write_bytes(b"fix.patch -p2\n")
    document = report(capsys, check, "q", "--dry-run")
    assert not any("series says" in note for note in document["patches"][0]["notes"])
    (folder / "q/series").write_bytes(b"fix.patch -p1\n")
    document = report(capsys, check, "q")
    assert document["patches"][0]["notes"][-1] == (
        "q/fix.patch:1: the series says -p1; by the tree x/y/vllm/size.py is vllm/size.py"
    )


def test_a_stack_with_a_missing_patch_is_refused(folder: Path, capsys: Out) -> None:
    (folder / "q").mkdir()
    (folder / "q/series").write_bytes(b"\nfix.patch\n")
    assert run(["import", "q"]) == 1
    assert capsys.readouterr().err == "error: q/series:2: patch fix.patch is missing\n"


def test_a_folder_without_a_series_is_taken_by_name(
    folder: Path, capsys: Out, check: Check
) -> None:
    (folder / "in").mkdir()
    (folder / "in/0002-b.patch").write_bytes(TWO)
    (folder / "in/0001-a.patch").write_bytes(ONE)
    (folder / "in/0000-cover-letter.patch").write_bytes(mail("[PATCH 0/2] All", b""))
    (folder / "in/notes.txt").write_bytes(b"hello\n")
    (folder / "in/third.txt").write_bytes(THREE)
    document = report(capsys, check, "in")
    assert series() == ["a.patch", "b.patch", "third.patch"]
    text = (folder / "patches/v0.28.0/a.patch").read_text()
    assert "\nOrigin: 0001-a.patch\n" in text
    assert document["passed_over"] == [
        {"name": "in/0000-cover-letter.patch", "reason": "a mail without a patch"},
        {"name": "in/notes.txt", "reason": "no patch"},
    ]


def test_a_damaged_patch_in_a_folder_is_no_file_to_pass_over(folder: Path, capsys: Out) -> None:
    (folder / "in").mkdir()
    (folder / "in/a.patch").write_bytes(ONE)
    (folder / "in/b.txt").write_bytes(TWO[:-12])
    assert run(["import", "in"]) == 1
    assert capsys.readouterr().err.startswith("error: in/b.txt:3: hunk has ")
    assert sorted(files(folder)) == ["in/a.patch", "in/b.txt"]


def test_standard_input_is_named_by_its_subject(
    folder: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(mail("[PATCH] [Bugfix] Raise f1!", ONE)))
    monkeypatch.setattr(sys, "stdin", stdin)
    take(capsys, "-")
    assert series() == ["bugfix-raise-f1.patch"]
    text = (folder / "patches/v0.28.0/bugfix-raise-f1.patch").read_text(encoding="utf-8")
    assert text.startswith("Description: [Bugfix] Raise f1!\n Why it is.\n")
    assert "\nOrigin: standard input\n" in text


@pytest.fixture
def repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> git.Repo:
    """Return a repository with the release as `base` and two commits on it, the working folder."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "A Person")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.org")
        monkeypatch.setenv(f"GIT_{who}_DATE", "2026-11-30T10:00:00+00:00")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    repo = git.Repo.init(folder, initial_branch="main")
    (folder / "vllm").mkdir()
    for text, message in (
        (BODY, "base"),
        (swap(1), "[Core] Raise f1\n\nBecause.\n\nReason: too small"),
        (swap(1, 5), "Raise f5"),
    ):
        (folder / PATH).write_text(text)
        repo.git.add("--all")
        repo.git.commit("-m", message)
        if message == "base":
            repo.git.tag("base")
    return repo


def test_a_range_of_commits_is_a_series(
    folder: Path, repository: git.Repo, capsys: Out, check: Check
) -> None:
    repository.git.config("diff.noprefix", "true")
    repository.git.config("format.attach", "true")
    (folder / "sub").mkdir()
    document = report(capsys, check, "base..main")
    assert [patch["source"] for patch in document["patches"]] == [
        f"commit {repository.commit('main~1').hexsha}",
        f"commit {repository.commit('main').hexsha}",
    ]
    assert document["base"]["proof"] == "ids"
    assert series() == ["core-raise-f1.patch", "raise-f5.patch"]
    text = (folder / "patches/v0.28.0/core-raise-f1.patch").read_text()
    assert text.split("\n\n")[0] == (
        "Description: [Core] Raise f1\n Because.\nReason: too small\n"
        f"Origin: commit {repository.commit('main~1').hexsha}\nForwarded:\nExit-Condition:\n"
        "Applies-To: ==0.28.0\nAuthor: A Person <a@example.org>\n"
        "Date: Mon, 30 Nov 2026 10:00:00 +0000"
    )


def test_what_git_log_writes_is_a_series_from_the_oldest(
    folder: Path, repository: git.Repo, capsys: Out, check: Check
) -> None:
    repository.git.commit("--allow-empty", "-m", "nothing")
    (folder / PATH).write_text(swap(1, 5).replace("return 50", "return 55"))
    repository.git.commit("-am", "Raise f5 more")
    text = repository.git.log("-p", "base..main")
    (folder / "log.txt").write_text(text + "\n")
    document = report(capsys, check, "log.txt")
    assert series() == ["core-raise-f1.patch", "raise-f5.patch", "raise-f5-more.patch"]
    assert [patch["source"] for patch in document["patches"]] == [
        "log.txt#3", "log.txt#2", "log.txt#1",
    ]  # fmt: skip
    assert document["order"] is None
    text = (folder / "patches/v0.28.0/raise-f5.patch").read_text()
    assert text.startswith("Description: Raise f5\nReason:\n")
    assert "\nAuthor: A Person <a@example.org>\n" in text
    (left_out,) = document["patches"][1]["notes"]
    assert left_out.startswith("log.txt#2:33: text before the section left out: 'commit ")


@pytest.mark.usefixtures("repository")
def test_a_range_elsewhere_is_named_with_its_repository(
    folder: Path, capsys: Out, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    document = report(capsys, check, f"git:{folder}@base..", "--dry-run")
    assert [patch["name"] for patch in document["patches"]] == [
        "core-raise-f1.patch", "raise-f5.patch",
    ]  # fmt: skip


def test_a_commit_without_files_is_passed_over(
    repository: git.Repo, capsys: Out, check: Check
) -> None:
    repository.git.commit("--allow-empty", "-m", "nothing")
    document = report(capsys, check, "base..main")
    (passed,) = document["passed_over"]
    assert passed == {
        "name": f"commit {repository.commit('main').hexsha[:12]}",
        "reason": "changes no file",
    }


def test_a_file_that_is_given_twice_is_usage(folder: Path, capsys: Out) -> None:
    assert run(["import", *write(one=ONE), "one.patch"]) == 2
    assert capsys.readouterr().err == "error: one.patch: is given twice\n"
    assert sorted(files(folder)) == ["one.patch"]


def test_a_merge_is_refused(repository: git.Repo, folder: Path, capsys: Out) -> None:
    repository.git.checkout("-b", "side", "base")
    (folder / "vllm/new.py").write_text("x = 1\n")
    repository.git.add("--all")
    repository.git.commit("-m", "side")
    repository.git.merge("main", "-m", "both")
    assert run(["import", "base..side"]) == 1
    assert capsys.readouterr().err == (
        f"error: {folder}: {repository.commit('side').hexsha[:12]} is a merge of 2 commits, which "
        "is no one patch, expected a range without merges\n"
        "hint: rebase the branch, or name the ranges beside the merge one by one\n"
    )


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("main..base", "main..base holds no commit"),
        ("base...main", "'base...main' is no range of commits, expected A..B: those of B not in A"),
        ("..main", "'..main' is no range of commits, expected A..B: those of B not in A"),
        ("base..gone", "there is no commit 'gone'"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_a_range_that_means_nothing_is_refused(
    text: str, fact: str, folder: Path, capsys: Out
) -> None:
    assert run(["import", text]) == 1
    assert capsys.readouterr().err.startswith(f"error: {folder}: {fact}\n")


def test_a_range_outside_of_a_repository_is_refused(folder: Path, capsys: Out) -> None:
    assert run(["import", "a..b"]) == 1
    assert capsys.readouterr().err == (
        f"error: {folder}: the working folder is in no git repository\n"
        "hint: git:REPO@A..B names one\n"
    )


@pytest.mark.usefixtures("repository")
def test_a_repository_is_no_folder_of_patches(capsys: Out) -> None:
    assert run(["import", "."]) == 1
    assert capsys.readouterr().err == (
        "error: .: is a git repository, expected a folder of patch files\n"
        "hint: git:.@A..B takes its commits from A to B\n"
    )


def test_a_release_that_is_the_same_as_another_takes_none(folder: Path, capsys: Out) -> None:
    take(capsys, *write(seven=change(7)), "--base", "0.28.0")
    (folder / "patches/v0.29.0").mkdir()
    (folder / "patches/v0.29.0/same-as.toml").write_bytes(b'same-as = "v0.28.0"\n')
    before = files(folder)
    assert run(["import", *write(five=change(5)), "--base", "0.29.0"]) == 1
    assert files(folder) == {**before, "five.patch": change(5)}
    assert capsys.readouterr().err == (
        "error: patches/v0.29.0: holds only same-as.toml: the series of another release applies "
        "here\nhint: import into that release, or remove the file first\n"
    )


def test_what_is_left_out_of_a_file_is_in_the_report(capsys: Out, check: Check) -> None:
    text = mail("one", ONE).replace(b"Subject:", b"To: you\nSubject:") + b"Bye.\n"
    document = report(capsys, check, *write(fix=text))
    assert document["patches"][0]["notes"][-2:] == [
        "fix.patch: text after the last section left out: 'Bye.'",
        "fix.patch: fields of the mail left out: To",
    ]


def test_a_stored_series_that_does_not_apply_is_named(folder: Path, capsys: Out) -> None:
    take(capsys, *write(one=ONE))
    path = folder / "patches/v0.28.0/one.patch"
    path.write_bytes(path.read_bytes().replace(b"-    return 1", b"-    return 2"))
    assert run(["import", *write(five=change(5)), "--base", "0.28.0"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: patches/v0.28.0: the stored series does not apply: ")
    assert err.endswith("hint: `patchkit check` says more\n")


def test_another_series_folder_builds_on_those_before_it(
    folder: Path, capsys: Out, check: Check
) -> None:
    text = b'[tool.patchkit]\nseries = ["patches", "ours"]\n'
    (folder / "pyproject.toml").write_bytes(text)
    take(capsys, *write(one=ONE, two=TWO))
    document = report(capsys, check, *write(three=THREE), "--series", "ours")
    assert document["path"] == "ours/v0.28.0"
    assert document["patches"][0]["depends_on"] == ["patches/two"]
    assert run(["check", "--frozen", "--json"]) == 3
    findings = [f for s in json.loads(capsys.readouterr().out)["series"] for f in s["findings"]]
    assert {f["kind"] for f in findings} == {"header"}
    assert run(["import", "three.patch", "--series", "../other"]) == 1
    assert capsys.readouterr().err == (
        "error: ../other: is not a series folder of this repository, expected patches, ours\n"
        "hint: add it to `series` in [tool.patchkit] of pyproject.toml\n"
    )


# What else is stored ------------------------------------------------------------------------------

NEW = ["--base", "0.28.0"]


def assert_sound(capsys: Out) -> None:
    """Fail for a finding on what is stored other than an empty description."""
    capsys.readouterr()
    run(["check", "--frozen"])
    findings = [line for line in capsys.readouterr().out.splitlines() if "finding" not in line]
    assert [line for line in findings if not line.endswith(("Description is empty", "sound"))] == []


def two_folders(folder: Path, capsys: Out) -> None:
    """Store a patch in each of two series folders, the second made on the first."""
    (folder / "pyproject.toml").write_bytes(b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    take(capsys, *write(low=change(1)), *FIELDS, *NEW)
    high = change(6, old=swap(1))
    take(capsys, *write(high=high), *FIELDS, *NEW, "--series", "port")
    assert_sound(capsys)


def test_a_folder_above_is_carried_over_what_is_imported(
    folder: Path, capsys: Out, check: Check
) -> None:
    two_folders(folder, capsys)
    old = swap(1)
    mid = diff(old, "import os\nimport sys\n" + old, PATH)
    document = report(capsys, check, *write(mid=mid), *FIELDS, *NEW)
    assert document["notes"] == ["port/high.patch: changed"]
    assert b"\n@@ -25,7 +25,7 @@" in (folder / "port/v0.28.0/high.patch").read_bytes()
    assert_sound(capsys)


def test_an_import_below_what_edits_the_same_is_refused(folder: Path, capsys: Out) -> None:
    two_folders(folder, capsys)
    before = files(folder)
    names = write(mid=change(6, old=swap(1)))
    assert run(["import", *names, *FIELDS, *NEW]) == 1
    assert capsys.readouterr().err == (
        "error: port/v0.28.0/high.patch: cannot be carried over what is put below it: "
        "hunk 1 (f6): its change is there already\n"
        "hint: nothing was changed; leave that to high, or `patchkit fold` it first\n"
    )
    assert {n: d for n, d in files(folder).items() if n != "mid.patch"} == before


def test_a_folder_that_held_nothing_goes_below_one_that_did(folder: Path, capsys: Out) -> None:
    (folder / "pyproject.toml").write_bytes(b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    take(capsys, *write(high=change(6)), *FIELDS, *NEW, "--series", "port")
    take(capsys, *write(low=diff(BODY, "import os\n" + BODY, PATH)), *FIELDS, *NEW)
    assert_sound(capsys)
    assert b"\n@@ -24,7 +24,7 @@" in (folder / "port/v0.28.0/high.patch").read_bytes()


def test_a_release_that_is_the_same_is_told_of(folder: Path, capsys: Out) -> None:
    take(capsys, *write(one=change(6)), *FIELDS, *NEW)
    (folder / "patches/v0.29.0").mkdir()
    (folder / "patches/v0.29.0/same-as.toml").write_bytes(b'same-as = "v0.28.0"\n')
    said = take(capsys, *write(two=change(2, old=swap(6))), *FIELDS, *NEW)
    assert "note: v0.29.0 was the same as v0.28.0; the change does not apply there" in said
    assert series("0.29.0") == ["one.patch"]
    assert_sound(capsys)


def test_changes_on_top_of_all_patches_are_recorded_before_others_come(
    folder: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (edit, record):
        monkeypatch.setattr(module, "tree_opener", import_.tree_opener)
    take(capsys, *write(one=ONE), *FIELDS, *NEW)
    assert run(["edit"]) == 0
    path = folder / f".patchkit/edit/v0.28.0/{PATH}"
    path.write_text("import os\n" + path.read_text())
    before = files(folder)
    names = write(two=TWO)
    assert run(["import", *names, *FIELDS, *NEW]) == 1
    assert "holds changes that are not recorded: vllm/size.py\n" in capsys.readouterr().err
    assert {n: d for n, d in files(folder).items() if n != "two.patch"} == before
    assert run(["edit", "one", "--discard"]) == 0  # what stands at a patch keeps its ground
    path.write_text(path.read_text().replace("return 10", "return 100"))
    take(capsys, *names, *FIELDS, *NEW)
    assert run(["record"]) == 0
    assert_sound(capsys)
    assert series() == ["one.patch", "two.patch"]
