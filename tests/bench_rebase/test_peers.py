"""Each tool is asked as its users ask it, and its answer read as it means it."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.bench_rebase.cases import Case
from tests.bench_rebase.changes import cut_patch, module_changes
from tests.bench_rebase.judge import Answer, Judgement, Verdict, judge
from tests.bench_rebase.keep import keep_case
from tests.bench_rebase.peers import TOOLS, answer, missing
from tests.bench_rebase.replay import read_case
from tests.bench_rebase.source import read_source

PATH = "vllm/a.py"
BASE = b"".join(b"def f%d(a):\n    b = a\n    return b\n\n\n" % n for n in range(4))


def case(authored, target, truth):
    changes = module_changes(PATH, BASE, authored)
    patch = cut_patch(PATH, read_source(BASE), authored, [c for h in changes.hunks for c in h])
    return Case("case", "none", ("1", "2"), PATH, 1, BASE, authored, patch, target, truth, "f1", ())


def edited(text, old=b"def f1(a):\n    b = a\n", new=b"def f1(a):\n    b = a + 1\n"):
    assert text.count(old) == 1
    return text.replace(old, new)


@pytest.fixture(params=TOOLS)
def tool(request):
    if request.param in missing():
        pytest.skip(f"{request.param} is not installed")
    return request.param


def verdict(tool, case):
    return judge(answer(tool, case), case.target, case.truth)


def test_every_tool_lands_a_patch_on_its_base_below_other_changes(tool):
    head, other = b"import x\n\n\n", {"vllm/other.py": b"z = 1\n"}
    authored = edited(BASE)
    result = verdict(
        tool, case(authored, {PATH: head + BASE, **other}, {PATH: head + authored, **other})
    )
    assert (result.verdict, result.exact) == (Verdict.RIGHT, True)


def test_every_tool_refuses_where_both_sides_changed_the_same_words(tool):
    authored = edited(BASE, b"def f1(a):\n    b = a\n", b"def f1(a):\n    b = left\n")
    target = edited(BASE, b"def f1(a):\n    b = a\n", b"def f1(a):\n    b = right\n")
    result = verdict(tool, case(authored, {PATH: target}, {PATH: authored}))
    assert result.verdict is Verdict.REFUSED
    assert result.remark


def test_git_apply_merges_with_the_base_where_the_context_changed():
    authored = edited(BASE)
    target = edited(
        BASE, b"def f1(a):\n    b = a\n    return b\n", b"def f1(a):\n    b = a\n    return a\n"
    )
    truth = edited(target)
    result = verdict("git apply --3way", case(authored, {PATH: target}, {PATH: truth}))
    assert result.verdict is Verdict.REFUSED  # the changed lines touch
    far = edited(BASE, b"\n\n\ndef f1(a):", b"\n\n# f1\ndef f1(a):")
    truth = edited(far)
    result = verdict("git apply --3way", case(authored, {PATH: far}, {PATH: truth}))
    assert (result.verdict, result.exact) == (Verdict.RIGHT, True)


def test_a_landing_in_a_decoy_is_wrong():
    if "GNU patch" in missing():
        pytest.skip("GNU patch is not installed")
    decoy = BASE.replace(b"def f", b"def old_f")
    authored = edited(BASE, b"    return b\n\n\ndef f2", b"    return 2\n\n\ndef f2")
    patch = (
        b"--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -7,2 +7,2 @@\n     b = a\n"
        b"-    return b\n+    return 2\n"
    )
    wrong = replace(case(authored, {PATH: decoy + BASE}, {PATH: decoy + authored}), patch=patch)
    result = verdict("GNU patch", wrong)
    assert result == Judgement(Verdict.WRONG, remark="vllm/a.py has another tree")


def test_a_crash_of_patchkit_is_counted_and_named(monkeypatch):
    def crash(*_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("tests.bench_rebase.peers.port", crash)
    authored = edited(BASE)
    result = verdict("patchkit", case(authored, {PATH: BASE}, {PATH: authored}))
    assert result.verdict is Verdict.REFUSED
    assert re.fullmatch(r"crash: ZeroDivisionError in test_peers\.py:\d+: oh", result.remark)


@pytest.mark.parametrize(
    ("landed", "content", "remark"),
    [
        (False, BASE + b"x = 1\n", "corrupt: nothing landed, yet files changed; conflicted: why"),
        (True, b"x = \n", "corrupt: what landed does not parse; conflicted: why"),
        (True, b"x = 1\n", "conflicted: why"),
        (False, BASE, "conflicted: why"),
    ],
)
def test_what_a_refused_run_leaves_is_looked_at(monkeypatch, landed, content, remark):
    outcomes = [SimpleNamespace(landed=False, status="conflicted", reason="why")]
    outcomes += [SimpleNamespace(landed=True)] if landed else []
    result = SimpleNamespace(
        ok=False, outcomes=outcomes, tree=SimpleNamespace(files={PATH: content})
    )
    monkeypatch.setattr("tests.bench_rebase.peers.port", lambda *_: result)
    judgement = verdict("patchkit", case(edited(BASE), {PATH: BASE}, {PATH: edited(BASE)}))
    assert judgement == Judgement(Verdict.REFUSED, remark=remark)


def test_a_kept_case_is_in_the_folder_of_its_last_verdict(tmp_path):
    kept = case(edited(BASE), {PATH: BASE}, {PATH: edited(BASE)})
    answer = Answer(True, {PATH: BASE})
    for last in (Verdict.REFUSED, Verdict.WRONG):
        keep_case(tmp_path, kept, answer, Judgement(last), ())
    assert not (tmp_path / "refused" / "case").exists()
    assert read_case(tmp_path / "wrong" / "case").digest == kept.digest
