"""Hunks, units and the patches cut from them."""

import subprocess

from tests.bench_rebase.changes import cut_patch, module_changes

PATH = "vllm/a.py"
OLD = b"".join(b"x%d = %d\n" % (n, n) for n in range(40))


def changed(*edits):
    text = OLD
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def test_changes_with_six_lines_between_them_are_one_hunk_and_with_seven_two():
    near = changed((b"x5 = 5\n", b"a\n"), (b"x12 = 12\n", b"b\n"))
    far = changed((b"x5 = 5\n", b"a\n"), (b"x13 = 13\n", b"b\n"))
    assert [len(hunk) for hunk in module_changes(PATH, OLD, near).hunks] == [2]
    assert [len(hunk) for hunk in module_changes(PATH, OLD, far).hunks] == [1, 1]
    assert [len(hunk) for hunk in module_changes(PATH, OLD, near, gap=0).hunks] == [1, 1]


def test_chosen_hunks_and_the_others_make_up_the_whole_change():
    new = changed((b"x5 = 5\n", b""), (b"x15 = 15\n", b"b\nc\n"), (b"x25 = 25\n", b"d\n"))
    changes = module_changes(PATH, OLD, new)
    assert changes.applied([0, 1, 2]) == new
    assert changes.applied([]) == changes.without([0, 1, 2]) == OLD
    assert changes.applied([1]) == changed((b"x15 = 15\n", b"b\nc\n"))
    assert changes.without([1]) == changed((b"x5 = 5\n", b""), (b"x25 = 25\n", b"d\n"))
    assert changes.regions(1, [1]) == ((14, 15), (14, 16))
    assert changes.regions(1, [0, 1]) == ((15, 16), (14, 16))


def test_a_patch_has_three_lines_of_context_and_the_numbers_of_its_own_hunks():
    new = changed((b"x5 = 5\n", b""), (b"x15 = 15\n", b"b\nc\n"), (b"x39 = 39\n", b"d"))
    changes = module_changes(PATH, OLD, new)
    authored = changes.applied([1, 2])
    patch = cut_patch(PATH, changes.old, authored, [*changes.hunks[1], *changes.hunks[2]])
    assert patch.partition(b"\n--- ")[2] == (
        b"a/vllm/a.py\n+++ b/vllm/a.py\n"
        b"@@ -13,7 +13,8 @@ x11 = 11\n x12 = 12\n x13 = 13\n x14 = 14\n-x15 = 15\n+b\n+c\n"
        b" x16 = 16\n x17 = 17\n x18 = 18\n"
        b"@@ -37,4 +38,4 @@ x35 = 35\n x36 = 36\n x37 = 37\n x38 = 38\n-x39 = 39\n+d\n"
        b"\\ No newline at end of file\n"
    )


def test_git_applies_a_cut_patch_and_knows_its_blobs(tmp_path):
    new = changed((b"x0 = 0\n", b"b\nc\n"), (b"x20 = 20\n", b""), (b"x39 = 39\n", b"d"))
    changes = module_changes(PATH, OLD, new)
    patch = cut_patch(PATH, changes.old, new, [c for hunk in changes.hunks for c in hunk])
    file = tmp_path / PATH
    file.parent.mkdir()
    file.write_bytes(OLD)
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "--index", "-"], cwd=tmp_path, input=patch, check=True)
    assert file.read_bytes() == new


SPREAD = b"\n" * 8


def unit(old_parts, new_parts, hunk):
    return module_changes(PATH, SPREAD.join(old_parts), SPREAD.join(new_parts)).unit(hunk)


def test_a_unit_holds_the_hunks_that_define_what_an_edit_reads():
    old = [b"import a\n", b"def f():\n    pass\n", b"def g():\n    pass\n", b"z = 1\n"]
    new = [
        b"import a\nimport b\n",
        b"def f():\n    return g(b, new=1)\n",
        b"def g(x, new):\n    pass\n",
        b"z = 2\n",
    ]
    assert unit(old, new, 1) == (0, 1, 2)
    assert unit(old, new, 0) == (0,)
    assert unit(old, new, 3) == (3,)


def test_a_unit_holds_the_hunks_that_no_longer_read_what_an_edit_takes_away():
    old = [b"import a\nimport c\n", b"def f():\n    return a\n", b"def g():\n    return c\n"]
    new = [b"import c\n", b"def f():\n    return 1\n", b"def g():\n    return c, 1\n"]
    assert unit(old, new, 0) == (0, 1)
    assert unit(old, new, 1) == (1,)


def test_a_name_of_another_function_does_not_define_it():
    old = [b"def f():\n    pass\n", b"def g():\n    x = 1\n", b"def h():\n    return x\n"]
    new = [b"def f():\n    x = 2\n", b"def g():\n    y = 1\n", b"def h(x):\n    return x\n"]
    assert unit([b"x = 0\n", *old], [b"", *new], 0) == (0, 3)
