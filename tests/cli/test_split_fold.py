"""`patchkit split`, `fold` and `drop` on a stored series; `rename` wherever a patch is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli import run
from patchkit.config import parse_config
from patchkit.diff import diff_files, format_files, parse_patch
from patchkit.editing.stack import open_stack
from patchkit.placing.acceptance import Acceptance
from patchkit.placing.adaptation import fingerprint_hunk, make_adaptation
from patchkit.repository.store import read_stored
from patchkit.repository.verdicts import source_digest
from patchkit.series.anchoring import plan_on, stored_overrides, with_overrides
from patchkit.series.override import Overrides
from patchkit.series.proof_digest import digest_tests
from patchkit.series.verdict import Colour, StoredVerdict, Verdict, format_verdicts, parse_verdicts
from patchkit.tree import SourceTree
from tests.editing.store import (
    BASE,
    FOUR,
    HEADERS,
    NEW,
    OTHER,
    PATCHES,
    SERIES,
    SIZE,
    edited,
    header,
    lay_out,
    read,
    tree,
    write,
)

Check = Callable[[dict[str, Any]], None]
Trees = dict[str, SourceTree]
Out = pytest.CaptureFixture[str]
AT = "patches/v0.28.0"
# three hunks, of which the third needs the second
WIDE = edited(
    edited(BASE, SIZE, b"import math\n", b"import math\n\n\ndef wide(n):\n    return n * 32\n"),
    OTHER, b"def third(x):\n    y = x", b"def third(x):\n    y = -x",
)  # fmt: skip
WIDE = edited(WIDE, SIZE, b"LIMIT = math.pi", b"LIMIT = wide(3)")
# two hunks that need each other
MUTUAL = edited(
    edited(BASE, SIZE, b"import math\n", b"import math\n\n\ndef low(n):\n    return high(n)\n"),
    SIZE, b"LIMIT = math.pi", b"def high(n):\n    return low(n)",
)  # fmt: skip


@pytest.fixture
def store(folder: Path, trees: Trees, capsys: Out) -> Path:
    """Return a repository with four sound patches."""
    trees["v0.28.0"] = tree()
    lay_out(folder)
    assert run(["check"]) == 0
    capsys.readouterr()
    return folder


@pytest.fixture
def wide(folder: Path, trees: Trees, capsys: Out) -> Path:
    """Return a repository with one patch of several hunks."""
    trees["v0.28.0"] = tree()
    write(folder, "pyproject.toml", b"[tool.patchkit]\n")
    write(folder, f"{AT}/series", b"wide.patch\n")
    write(folder, f"{AT}/wide.patch", header("Widen") + format_files(diff_files(BASE, WIDE)))
    assert run(["check"]) == 0
    capsys.readouterr()
    return folder


def said(capsys: Out) -> list[str]:
    return capsys.readouterr().out.splitlines()


def final(folder: Path) -> dict[str, bytes]:
    """Return the release with all that is stored for it."""
    stack = open_stack(parse_config({}, root=folder, place=""), "0.28.0", lambda _: tree())
    return dict(stack.top("patches").files)


def stored(folder: Path) -> dict[str, bytes]:
    return {n.removeprefix(f"{AT}/"): d for n, d in read(folder).items() if n.startswith(AT)}


def decide(folder: Path, patch: str, number: int) -> Overrides:
    """Store an adaptation and an accepted drift on a hunk, and return them."""
    data = stored(folder)[patch]
    plan = plan_on(data, patch, {SIZE: BASE[SIZE], OTHER: BASE[OTHER]})
    hunk = next(job.hunk for f in plan.files for job in f.jobs if job.number == number)
    adaptation = make_adaptation(
        release="0.29.0", path=OTHER, hunks=[(number, hunk)], before=b"a\n", after=b"b\n",
        reason="it has to be b",
    )  # fmt: skip
    drift = Acceptance(
        "0.29.0", number, fingerprint_hunk(hunk), "call", "f", "1:ab", "f takes more", "fine"
    )
    both = Overrides((adaptation,), (drift,))
    name = patch.replace(".patch", ".anchors.toml")
    write(folder, f"{AT}/{name}", with_overrides(stored(folder)[name], plan, both, name))
    return both


def overrides(folder: Path, patch: str) -> Overrides:
    return stored_overrides(stored(folder)[patch.replace(".patch", ".anchors.toml")], patch)


# Split ------------------------------------------------------------------------------------------


def hunks(folder: Path, patch: str) -> int:
    return sum(len(file.hunks) for file in parse_patch(stored(folder)[patch], patch).files)


def test_the_new_patch_comes_right_after_what_is_left(
    wide: Path, capsys: Out, check: Check
) -> None:
    before = final(wide)
    words = ["split", "wide", "--hunks", "1", "--into", "sign", "--description", "Turn the sign"]
    assert run([*words, "--dry-run"]) == 0
    assert said(capsys) == [
        "patches/v0.28.0: wide.patch: changed",
        "patches/v0.28.0: sign.patch: new",
        "would write patches/v0.28.0",
        "note: wide.patch comes first, then sign.patch",
        "nothing was written: --dry-run",
    ]
    assert stored(wide)["series"] == b"wide.patch\n"
    assert run([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert (document["patch"], document["new"]) == ("wide.patch", "sign.patch")
    assert stored(wide)["series"] == b"wide.patch\nsign.patch\n"
    sign = parse_patch(stored(wide)["sign.patch"], "sign")
    assert sign.preamble == header("Turn the sign")
    assert [file.path for file in sign.files] == [OTHER]
    assert final(wide) == before == WIDE
    assert run(["check", "--frozen"]) == 0


def test_the_new_patch_comes_first_where_the_rest_needs_it(wide: Path, capsys: Out) -> None:
    assert (
        run(["split", "wide", "--hunks", "2", "--into", "base", "--description", "Bring it"]) == 0
    )
    lines = said(capsys)
    assert "note: base.patch comes first, then wide.patch" in lines
    assert (
        "note: declared: wide.patch needs base.patch: `wide` is defined by base.patch#1 "
        f"({SIZE}:4) and called in wide.patch#2 ({SIZE}:21)" in lines
    )
    assert stored(wide)["series"] == b"base.patch\nwide.patch\n"
    assert b"Depends-On: base\n" in stored(wide)["wide.patch"]
    assert b"Depends-On" not in stored(wide)["base.patch"]
    assert final(wide) == WIDE
    assert run(["check", "--frozen"]) == 0


def test_a_split_of_what_needs_each_other_is_refused(
    folder: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.28.0"] = tree()
    write(folder, "pyproject.toml", b"[tool.patchkit]\n")
    write(folder, f"{AT}/series", b"both.patch\n")
    write(folder, f"{AT}/both.patch", header("Both") + format_files(diff_files(BASE, MUTUAL)))
    assert run(["check"]) == 0
    before = read(folder)
    capsys.readouterr()
    assert run(["split", "both", "--hunks", "1", "--into", "part"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"error: {AT}/both.patch: cannot be split there: ")
    assert "both needs the other hunks: " in err
    assert "part needs the other hunks: " in err
    assert read(folder) == before


@pytest.mark.parametrize("words", [["--hunks", "1"], ["--files", OTHER], ["--files", "*/other*"]])
def test_split_and_fold_is_the_identity(wide: Path, words: list[str]) -> None:
    before = read(wide)
    assert run(["split", "wide", *words, "--into", "part"]) == 0
    assert read(wide) != before
    assert run(["fold", "part", "--into", "wide"]) == 0
    assert read(wide) == before


def test_split_and_fold_is_the_identity_in_the_other_order_but_for_the_header(wide: Path) -> None:
    before = stored(wide)
    assert run(["split", "wide", "--hunks", "2", "--into", "part"]) == 0
    assert run(["fold", "part", "--into", "wide"]) == 0
    assert stored(wide) == before


@pytest.mark.usefixtures("wide")
def test_files_are_named_by_folder_path_or_pattern(capsys: Out) -> None:
    assert run(["split", "wide", "--files", "csrc,vllm/size.py", "--into", "part"]) == 1
    assert capsys.readouterr().err == (
        f"error: {AT}/wide.patch: changes no file 'csrc'\nhint: it changes {OTHER}, {SIZE}\n"
    )
    assert run(["split", "wide", "--files", "vllm/", "--into", "part"]) == 1
    assert capsys.readouterr().err == (
        f"error: {AT}/wide.patch: all of its hunks are to be taken out\n"
        "hint: `patchkit rename` gives the whole patch another name\n"
    )


@pytest.mark.parametrize(
    ("words", "status", "fact"),
    [
        (["--hunks", "9"], 1, "has no hunk 9, expected 1 to 3"),
        (["--hunks", "x"], 2, "'x' is no hunk, expected 1,3 or 2-4"),
        (["--hunks", "2-"], 2, "'2-' is no hunk, expected 1,3 or 2-4"),
        (["--hunks", "1-3"], 1, "all of its hunks are to be taken out"),
        ([], 2, "one of --hunks and --files says what goes"),
        (["--hunks", "1", "--files", "x"], 2, "one of --hunks and --files says what goes"),
    ],
)
def test_an_odd_choice_of_hunks_is_refused(
    wide: Path, capsys: Out, words: list[str], status: int, fact: str
) -> None:
    before = read(wide)
    assert run(["split", "wide", *words, "--into", "part"]) == status
    assert fact in capsys.readouterr().err
    assert read(wide) == before


def test_a_new_file_and_a_section_that_does_not_ship_go_as_a_whole(
    folder: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.28.0"] = tree()
    after = {**edited(BASE, SIZE, b"* 16", b"* 32"), NEW: b"NEW = 1\n"}
    csrc = {"csrc/a.cu": b"".join(b"%d\n" % n for n in range(40))}
    built = edited(edited(csrc, "csrc/a.cu", b"\n3\n", b"\nx\n"), "csrc/a.cu", b"\n33\n", b"\ny\n")
    data = format_files((*diff_files(BASE, after), *diff_files(csrc, built)))
    write(folder, "pyproject.toml", b"[tool.patchkit]\n")
    write(folder, f"{AT}/series", b"p.patch\n")
    head = header("P", "Optional-Sections: csrc/")
    write(folder, f"{AT}/p.patch", head + data)
    assert run(["check"]) == 0
    capsys.readouterr()
    assert run(["split", "p", "--hunks", "3", "--into", "q"]) == 1
    assert capsys.readouterr().err == (
        f"error: {AT}/p.patch: csrc/a.cu is not shipped, and goes as a whole, "
        "expected all of its hunks: 3, 4\n"
    )
    assert run(["split", "p", "--files", "csrc/*,vllm/new.py", "--into", "q"]) == 0
    assert [file.path for file in parse_patch(stored(folder)["q.patch"], "q").files] == [
        NEW, "csrc/a.cu",
    ]  # fmt: skip
    assert run(["fold", "q", "--into", "p"]) == 0
    assert stored(folder)["p.patch"] == head + data


def test_decisions_go_with_their_hunks(wide: Path) -> None:
    both = decide(wide, "wide.patch", 3)
    before = stored(wide)
    assert run(["split", "wide", "--hunks", "1", "--into", "sign"]) == 0
    moved = overrides(wide, "wide.patch")
    assert moved.adaptations[0].hunks == (2,)
    assert moved.acceptances[0].hunk == 2
    assert moved.adaptations[0].diff == both.adaptations[0].diff
    assert overrides(wide, "sign.patch") == Overrides()
    assert run(["fold", "sign", "--into", "wide"]) == 0
    assert stored(wide) == before
    assert run(["split", "wide", "--hunks", "3", "--into", "limit"]) == 0
    assert overrides(wide, "wide.patch") == Overrides()
    assert overrides(wide, "limit.patch").adaptations[0].hunks == (1,)
    assert overrides(wide, "limit.patch").acceptances[0].reason == "fine"


def test_a_decision_on_a_hunk_that_changes_is_not_lost_unasked(store: Path, capsys: Out) -> None:
    decide(store, "one.patch", 1)
    before = read(store)
    assert run(["edit", "one"]) == 0
    path = store / ".patchkit/edit/v0.28.0" / SIZE
    path.write_bytes(path.read_bytes().replace(b"* 32", b"* 64"))
    capsys.readouterr()
    assert run(["record"]) == 1
    assert capsys.readouterr().err == (
        f"error: {AT}: decisions would be lost with the hunks that they are on: one.patch: hunk 1: "
        "the adaptation to 0.29.0 (it has to be b); one.patch: hunk 1: the drift of `f` accepted "
        "for 0.29.0\n"
        "hint: nothing was changed; --forget-decisions drops them, a rebase asks again\n"
    )
    assert read(store) == before
    assert run(["record", "--forget-decisions"]) == 0
    lines = said(capsys)
    assert "note: a decision is gone: one.patch: hunk 1: the drift of `f` accepted for 0.29.0" in (
        lines
    )
    assert overrides(store, "one.patch") == Overrides()
    assert run(["check", "--frozen"]) == 0


def test_a_decision_that_held_no_more_before_is_nobodys_business(store: Path) -> None:
    decide(store, "one.patch", 1)
    path = store / AT / "one.anchors.toml"
    path.write_bytes(path.read_bytes().replace(b'base_hunk = "1:', b'base_hunk = "1:f'))
    assert overrides(store, "one.patch").acceptances[0].base_hunk.startswith("1:f")
    before = path.read_bytes()
    assert run(["fold", "three", "--into", "two"]) == 0
    assert path.read_bytes() == before


def test_a_mode_goes_with_the_first_hunk_of_its_file(
    folder: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.28.0"] = tree()
    after = edited(BASE, SIZE, b"import math\n", b"import math\n\nX = 1\n")
    after = edited(after, SIZE, b"LIMIT = math.pi", b"LIMIT = math.e")
    files = diff_files(BASE, after, None, {SIZE: 0o100755})
    write(folder, "pyproject.toml", b"[tool.patchkit]\n")
    write(folder, f"{AT}/series", b"p.patch\n")
    write(folder, f"{AT}/p.patch", header("P") + format_files(files))
    assert run(["check"]) == 0
    before = read(folder)
    for hunk, keeps in (("1", "q"), ("2", "p")):
        assert run(["split", "p", "--hunks", hunk, "--into", "q"]) == 0
        assert b"new mode 100755" in stored(folder)[f"{keeps}.patch"]
        assert sum(b"new mode" in data for data in stored(folder).values()) == 1
        assert run(["fold", "q", "--into", "p"]) == 0
        assert read(folder) == before
    del capsys


# Fold -------------------------------------------------------------------------------------------


def test_neighbours_are_merged_and_named_by_the_one(store: Path, capsys: Out, check: Check) -> None:
    assert run(["fold", "two", "--into", "one", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["folded"] == ["two.patch"]
    found = stored(store)
    assert found["series"] == b"# mine\none.patch\n# it uses twice\nthree.patch\nfour.patch\n"
    assert found["one.patch"].startswith(
        b"Description: Double the size\n .\n Bring in twice\nReason: it is too small\n"
    )
    assert b"Depends-On: one\n" in found["three.patch"]
    assert "two.patch" not in found
    assert "two.anchors.toml" not in found
    assert final(store) == FOUR
    assert run(["check", "--frozen"]) == 0


def test_patches_that_commute_need_not_be_neighbours(store: Path) -> None:
    assert run(["fold", "four", "--into", "one"]) == 0
    assert (
        stored(store)["series"] == b"# mine\none.patch\ntwo.patch\n# it uses twice\nthree.patch\n"
    )
    assert [f.path for f in parse_patch(stored(store)["one.patch"], "one").files] == [NEW, SIZE]
    assert final(store) == FOUR
    assert run(["check", "--frozen"]) == 0


def test_an_earlier_patch_can_be_folded_into_a_later_one(store: Path) -> None:
    assert run(["fold", "one", "--into", "four"]) == 0
    assert (
        stored(store)["series"] == b"# mine\ntwo.patch\n# it uses twice\nthree.patch\nfour.patch\n"
    )
    assert stored(store)["four.patch"].startswith(
        b"Description: Add a module\n .\n Double the size"
    )
    assert final(store) == FOUR
    assert run(["check", "--frozen"]) == 0


def test_several_are_folded_nearest_first(store: Path) -> None:
    assert run(["fold", "three", "two", "--into", "one"]) == 0
    assert stored(store)["series"] == b"# mine\none.patch\n# it uses twice\nfour.patch\n"
    assert b"Depends-On" not in stored(store)["one.patch"]
    assert final(store) == FOUR
    assert run(["check", "--frozen"]) == 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["three", "--into", "one"], "two.patch is between them"),
        (["two", "--into", "four"], "three.patch is between them"),
    ],
)
def test_a_fold_across_what_is_needed_is_refused(
    store: Path, capsys: Out, words: list[str], why: str
) -> None:
    before = read(store)
    assert run(["fold", *words]) == 1
    err = capsys.readouterr().err
    assert f"cannot be brought beside {words[2]}.patch: {why}, and the two do not commute: " in err
    assert "`twice` is defined by two.patch#1" in err
    assert read(store) == before


def test_two_that_add_in_one_gap_do_not_change_places(
    folder: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.28.0"] = tree()
    write(folder, "pyproject.toml", b"[tool.patchkit]\n")
    write(folder, f"{AT}/series", b"a.patch\nb.patch\nc.patch\n")
    steps: list[dict[str, bytes]] = [BASE]
    for name, below in (("low", b"def area("), ("high", b"def low(")):
        code = f"def {name}(n):\n    return n\n\n\n".encode() + below
        steps.append(edited(steps[-1], SIZE, below, code))
    steps.append({**steps[-1], NEW: b"NEW = 1\n"})
    for name, before, after in zip("abc", steps, steps[1:], strict=False):
        data = header(name) + format_files(diff_files(before, after))
        write(folder, f"{AT}/{name}.patch", data)
    run(["check"])
    stored_before = read(folder)
    capsys.readouterr()
    assert run(["fold", "a", "--into", "c"]) == 1
    assert "b.patch is between them, and the two do not commute: " in capsys.readouterr().err
    assert read(folder) == stored_before


def test_a_folder_above_depends_on_what_took_the_others(store: Path) -> None:
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    after = edited(FOUR, SIZE, b"math.pi", b"math.e")
    for name, needs in (("two", "patches/two, one"), ("top", "two, patches/two, one")):
        data = header(name, f"Depends-On: {needs}")
        new = after if name == "two" else edited(after, OTHER, b"def third(", b"def fourth(")
        data += format_files(diff_files(FOUR if name == "two" else after, new))
        write(store, f"port/v0.28.0/{name}.patch", data)
    write(store, "port/v0.28.0/series", b"two.patch\ntop.patch\n")
    assert run(["check"]) == 0
    assert run(["fold", "patches/two", "--into", "one"]) == 0
    assert b"Depends-On: patches/one, one\n" in (store / "port/v0.28.0/two.patch").read_bytes()
    top = (store / "port/v0.28.0/top.patch").read_bytes()
    assert b"Depends-On: two, patches/one, one\n" in top
    assert run(["check", "--frozen"]) == 0


def test_a_fold_that_leaves_nothing_is_refused(store: Path, capsys: Out) -> None:
    back = edited(FOUR, SIZE, b"* 32", b"* 16")
    write(store, f"{AT}/series", SERIES + b"back.patch\n")
    write(store, f"{AT}/back.patch", header("Back", "Depends-On: one") + format_files(
        diff_files(FOUR, back)
    ))  # fmt: skip
    assert run(["check"]) == 0
    capsys.readouterr()
    assert run(["fold", "back", "--into", "one"]) == 1
    assert "back.patch undoes all of it: nothing would be left" in capsys.readouterr().err


@pytest.mark.usefixtures("store")
def test_a_fold_into_itself_is_usage(capsys: Out) -> None:
    assert run(["fold", "one", "--into", "one"]) == 2
    assert run(["fold", "one", "one", "--into", "two"]) == 2
    assert run(["fold", "nine", "--into", "two"]) == 1
    assert "has no patch 'nine'" in capsys.readouterr().err


def test_what_a_header_cannot_take_is_told(store: Path, capsys: Out) -> None:
    path = store / AT / "two.patch"
    path.write_bytes(path.read_bytes().replace(b">=0.28,<0.29", b">=0.27,<0.29"))
    assert run(["fold", "two", "--into", "one"]) == 0
    assert "note: not taken over: two.patch: Applies-To: >=0.27,<0.29" in said(capsys)
    assert b"Applies-To: >=0.28,<0.29\n" in stored(store)["one.patch"]


# Drop -------------------------------------------------------------------------------------------


def test_what_else_is_in_the_folder_stays(store: Path) -> None:
    write(store, f"{AT}/NOTES.md", b"mine\n")
    write(store, f"{AT}/series", SERIES.replace(b"one.patch", b"one.patch -p0 # mine"))
    assert run(["drop", "four", "--reason", "gone"]) == 0
    assert stored(store)["NOTES.md"] == b"mine\n"
    assert b"one.patch # mine\n" in stored(store)["series"]  # what is stored is -p1


def test_a_dropped_patch_leaves_its_reason(store: Path, capsys: Out, check: Check) -> None:
    assert run(["drop", "one", "--reason", "upstream\nhas it", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert document["dropped"] == [
        {"release": "0.28.0", "patch": "one.patch", "reason": "upstream has it"}
    ]
    assert stored(store)["series"] == (
        b"# mine\n# one: upstream has it\ntwo.patch\n# it uses twice\nthree.patch\nfour.patch\n"
    )
    assert "one.patch" not in stored(store)
    assert "one.anchors.toml" not in stored(store)
    assert final(store) == edited(FOUR, SIZE, b"* 32", b"* 16")
    assert run(["check", "--frozen"]) == 0


def test_the_last_patches_leave_their_reasons_at_the_end(store: Path) -> None:
    assert run(["drop", "four", "--reason", "gone"]) == 0
    assert stored(store)["series"].endswith(b"three.patch\n# four: gone\n")
    for name in ("three", "two", "one"):
        assert run(["drop", name, "--reason", "gone too"]) == 0
    assert stored(store) == {
        "series": b"# mine\n# one: gone too\n# two: gone too\n# it uses twice\n# three: gone too\n"
        b"# four: gone\n"
    }


def test_status_finds_the_reason(store: Path, trees: Trees, capsys: Out) -> None:
    trees["v0.28.1"] = tree(version="0.28.1")
    lay_out(store, "0.28.1")
    assert run(["check"]) == 0
    assert run(["drop", "one", "--reason", "upstream has it"]) == 0
    assert run(["status", "--json"]) == 0
    text = capsys.readouterr().out
    document = json.loads(text[text.index('{\n  "schema": "patchkit.status/1"') :])
    assert document["releases"][1]["left_out"] == [{"patch": "one.patch", "why": "upstream has it"}]


def test_what_is_needed_is_dropped_only_with_what_needs_it(store: Path, capsys: Out) -> None:
    before = read(store)
    assert run(["drop", "two", "--reason", "gone"]) == 1
    assert capsys.readouterr().err == (
        f"error: {AT}/two.patch: is needed by three.patch: three.patch needs two.patch: `twice` is "
        f"defined by two.patch#1 ({SIZE}:8) and called in three.patch#1 ({SIZE}:18)\n"
        "hint: nothing was changed; --with-dependents drops them as well\n"
    )
    assert read(store) == before
    assert run(["drop", "two", "--reason", "gone", "--with-dependents"]) == 0
    assert stored(store)["series"] == (
        b"# mine\none.patch\n# two: gone\n# it uses twice\n"
        b"# three: needs two, which is left out too\nfour.patch\n"
    )
    assert run(["check", "--frozen"]) == 0


def test_a_declared_need_counts_too(store: Path, capsys: Out) -> None:
    path = store / AT / "four.patch"
    path.write_bytes(HEADERS["four.patch"][:-1] + b"Depends-On: one\n\n" + (
        PATCHES["four.patch"].removeprefix(HEADERS["four.patch"])
    ))  # fmt: skip
    assert run(["drop", "one", "--reason", "gone"]) == 1
    assert "four.patch needs one.patch: its header declares it" in capsys.readouterr().err


def test_a_patch_goes_from_every_release_on_request(store: Path, trees: Trees, capsys: Out) -> None:
    trees["v0.28.1"] = tree(version="0.28.1")
    lay_out(store, "0.28.1")
    assert run(["check"]) == 0
    assert run(["drop", "one", "--reason", "x", "--release", "v0.28.0", "--all-releases"]) == 2
    assert run(["drop", "one", "--reason", "gone", "--all-releases"]) == 0
    found = [name for name in read(store) if name.endswith("one.patch")]
    assert found == []
    assert run(["drop", "four", "--reason", " "]) == 1
    assert "needs a reason" in capsys.readouterr().err


# Rename -----------------------------------------------------------------------------------------


def verdict(release: str, patch: str) -> StoredVerdict:
    return StoredVerdict(
        release, patch, Verdict.NEEDED, Colour.RED, Colour.GREEN, "why", "0.28.0", ("t.py",),
        "a", "b", "c", None,
    )  # fmt: skip


@pytest.fixture
def named(store: Path, trees: Trees, capsys: Out) -> Path:
    """Return a repository that names the second patch wherever one can."""
    trees["v0.28.1"] = tree(version="0.28.1")
    lay_out(store, "0.28.1")
    write(store, "patches/v0.27.0/series", b"# two: not yet\none.patch\n")
    write(store, "patches/v0.27.0/one.patch", PATCHES["one.patch"])
    trees["v0.27.0"] = tree(version="0.27.0")
    text = (
        b'[tool.patchkit]\n[tool.patchkit.selections]\nkv = ["one", "two"] # mine\nx = ["three"]\n'
    )
    write(store, "pyproject.toml", text)
    verdicts = [verdict("0.28.0", "two.patch"), verdict("0.28.1", "two.patch")]
    write(
        store, "patches/verdicts.toml", format_verdicts([*verdicts, verdict("0.28.0", "one.patch")])
    )
    run(["check"])
    capsys.readouterr()
    return store


def test_a_new_name_holds_everywhere(named: Path, capsys: Out, check: Check) -> None:
    before = read(named)
    assert run(["rename", "two", "double", "--dry-run"]) == 0
    assert read(named) == before
    capsys.readouterr()
    assert run(["rename", "two", "double", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    check(document)
    assert [entry["path"] for entry in document["written"]] == [
        "patches/v0.28.0", "patches/v0.28.1", "patches/v0.27.0", "patches/verdicts.toml",
        "pyproject.toml",
    ]  # fmt: skip
    after = read(named)
    assert [name for name in after if "two" in name] == []
    assert after[f"{AT}/double.patch"] == before[f"{AT}/two.patch"]
    assert after[f"{AT}/double.anchors.toml"] == before[f"{AT}/two.anchors.toml"]
    assert after[f"{AT}/series"] == SERIES.replace(b"two.patch", b"double.patch")
    assert b"Depends-On: double\n" in after[f"{AT}/three.patch"]
    assert after["patches/v0.27.0/series"] == b"# double: not yet\none.patch\n"
    assert after["pyproject.toml"] == before["pyproject.toml"].replace(b'"two"', b'"double"')
    names = [v.patch for v in parse_verdicts(after["patches/verdicts.toml"], "v")]
    assert names == ["double.patch", "one.patch", "double.patch"]
    assert final(named) == FOUR
    assert run(["rename", "double", "two"]) == 0
    assert read(named) == before


def test_in_one_release_alone_the_others_keep_the_name(named: Path, capsys: Out) -> None:
    before = read(named)
    assert run(["rename", "two", "double", "--release", "0.28.1"]) == 0
    assert said(capsys)[-1] == (
        "note: the selections of pyproject.toml still say two.patch, as other releases do"
    )
    after = read(named)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert all(n.startswith(("patches/v0.28.1/", "patches/verdicts.toml")) for n in changed)
    names = [(v.release, v.patch) for v in parse_verdicts(after["patches/verdicts.toml"], "v")]
    assert names == [("0.28.0", "one.patch"), ("0.28.0", "two.patch"), ("0.28.1", "double.patch")]


def test_a_patch_of_that_name_in_another_folder_is_another_patch(store: Path, capsys: Out) -> None:
    write(store, "pyproject.toml", b'[tool.patchkit]\nseries = ["patches", "port"]\n')
    steps = [FOUR, edited(FOUR, OTHER, b"def third(", b"def fourth(")]
    steps.append(edited(steps[-1], SIZE, b"math.pi", b"math.e"))
    heads = (header("Rename"), header("Limit", "Depends-On: two, patches/two, one"))
    for name, head, before, after in zip(("two", "top"), heads, steps, steps[1:], strict=False):
        data = head + format_files(diff_files(before, after))
        write(store, f"port/v0.28.0/{name}.patch", data)
    write(store, "port/v0.28.0/series", b"two.patch\ntop.patch\n")
    assert run(["check"]) == 0
    capsys.readouterr()
    assert run(["rename", "two", "double"]) == 1
    assert "'two' names patches/two.patch and port/two.patch" in capsys.readouterr().err
    assert run(["rename", "patches/two", "double"]) == 0
    top = (store / "port/v0.28.0/top.patch").read_bytes()
    assert b"Depends-On: two, patches/double, one\n" in top
    assert run(["rename", "one", "single"]) == 0
    top = (store / "port/v0.28.0/top.patch").read_bytes()
    assert b"Depends-On: two, patches/double, single\n" in top


@pytest.mark.parametrize(
    ("words", "status", "fact"),
    [
        (["two", "ONE"], 1, "there is a patch one.patch already"),
        (["two", "two"], 2, "two.patch is its name already"),
        (["nine", "ten"], 1, "'nine' names no stored patch"),
        (["two", "x", "--release", "v0.27.0"], 1, "v0.27.0 holds no two.patch"),
        (["two", "a/b"], 2, "'a/b' is no name for a patch"),
    ],
)
def test_an_odd_name_is_refused(
    named: Path, capsys: Out, words: list[str], status: int, fact: str
) -> None:
    before = read(named)
    assert run(["rename", *words]) == status
    assert fact in capsys.readouterr().err
    assert read(named) == before


# Between them ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["split", "one", "--hunks", "1", "--into", "x"],
        ["fold", "two", "--into", "one"],
        ["drop", "four", "--reason", "gone"],
        ["rename", "one", "uno"],
    ],
)
def test_nothing_is_edited_while_a_work_tree_holds_changes(
    store: Path, capsys: Out, words: list[str]
) -> None:
    assert run(["edit", "two"]) == 0
    at = store / ".patchkit/edit/v0.28.0"
    (at / OTHER).write_bytes(b"x = 1\n")
    before = read(store)
    assert run(words) == 1
    assert capsys.readouterr().err == (
        f"error: {at}: holds changes that are not recorded: {OTHER}\n"
        "hint: `patchkit record` stores them; --discard throws them away\n"
    )
    assert read(store) == before


def test_a_series_that_a_stopped_rebase_began_with_stays_as_it_is(
    store: Path, trees: Trees, capsys: Out
) -> None:
    trees["v0.29.0"] = tree(edited(BASE, SIZE, b"blocks * 16", b"blocks * 17"), "0.29.0")
    assert run(["rebase", "v0.29.0"]) == 3
    new = format_files(diff_files(FOUR, edited(FOUR, OTHER, b"def third", b"def fourth")))
    write(store, "new.patch", new)
    trees["0.28.0"] = trees["v0.28.0"]
    before = read(store)
    capsys.readouterr()
    drop, rename = ["drop", "four", "--reason", "x"], ["rename", "one", "uno"]
    for words in (drop, rename, ["import", "new.patch", "--base", "0.28.0"]):
        assert run(words) == 1
        assert capsys.readouterr().err == (
            f"error: {AT}: a rebase onto v0.29.0 has stopped that began with it\n"
            "hint: finish it with `patchkit rebase --continue`, or drop it with `--abort`\n"
        )
    assert read(store) == before


def test_a_verdict_that_holds_no_more_is_told(store: Path, capsys: Out) -> None:
    path = store / AT / "one.patch"
    path.write_bytes(path.read_bytes().replace(b"Forwarded", b"Test: t.py\nForwarded"))
    write(store, "t.py", b"def test(): pass\n")
    digest = source_digest(read_stored(store, "patches", "0.28.0"), "one.patch")
    tests = digest_tests(("t.py",), {"t.py": b"def test(): pass\n"})
    held = StoredVerdict(
        "0.28.0", "one.patch", Verdict.NEEDED, Colour.RED, Colour.GREEN, "why", "0.28.0",
        ("t.py",), digest, digest, tests, None,
    )  # fmt: skip
    write(store, "patches/verdicts.toml", format_verdicts([held]))
    assert run(["check", "--frozen"]) == 0
    capsys.readouterr()
    assert run(["drop", "four", "--reason", "gone", "--dry-run"]) == 0
    assert [line for line in said(capsys) if "verdict" in line] == []
    assert run(["fold", "two", "--into", "one"]) == 0
    assert (
        "note: the verdict on one.patch holds no more; `patchkit test v0.28.0 one.patch` makes it "
        "anew" in said(capsys)
    )
    write(store, "t.py", b"def test(): assert True\n")  # holds no more whatever is done to patches
    assert run(["drop", "four", "--reason", "gone"]) == 0
    assert [line for line in said(capsys) if "verdict" in line] == []
