"""Where a definition went: renamed with drift, renamed and moved, renamed inside what moved."""

from __future__ import annotations

from patchkit import RebaseResult
from patchkit.names.rename import Renaming, renamed
from tests.moves import PATH, move

STEPS = "".join(f"    step{n}(x, {n})\n" for n in range(9))
BASE = f"import os\n\n\ndef launch(x):\n{STEPS}    return x\n\n\ndef other(x):\n    return os\n"
AUTHORED = BASE.replace("    step4(x, 4)\n", "    step4(x, 4)\n    launch(mine(x))\n")


def texts(result: RebaseResult) -> dict[str, str]:
    return {path: content.decode() for path, content in result.tree.files.items()}


def refuses(base: str, authored: str, target: dict[str, str] | str) -> bool:
    goal = {PATH: target} if isinstance(target, str) else target
    result = move(base, authored, target)
    return not result.ok and texts(result) == goal


def drifted(text: str) -> str:
    """Every statement but two changed a little: no statement says much of it is the same."""
    for n in (0, 1, 2, 6, 7, 8):
        text = text.replace(f"step{n}(x, {n})", f"step{n}(x, {n}, ctx)")
    return text


def test_a_name_that_extends_the_old_one_needs_like_words_and_not_like_statements() -> None:
    target = drifted(BASE).replace("launch", "launch_all")
    result = move(BASE, AUTHORED, target)
    assert result.ok
    assert texts(result) == {
        PATH: target.replace("    step4(x, 4)\n", "    step4(x, 4)\n    launch_all(mine(x))\n")
    }
    (outcome,) = result.outcomes
    assert (outcome.definition_before, outcome.definition_after) == ("launch", "launch_all")


def test_a_name_that_has_nothing_of_the_old_one_needs_the_same_statements() -> None:
    assert refuses(BASE, AUTHORED, drifted(BASE).replace("launch", "shoot"))
    assert move(BASE, AUTHORED, BASE.replace("launch", "shoot")).ok


def test_two_that_extend_the_old_name_and_say_the_same_are_no_rename() -> None:
    body = f"(x):\n{STEPS}    return x\n"
    target = f"import os\n\n\ndef launch_all{body}\n\ndef launch_any{body}"
    assert refuses(BASE, AUTHORED, target)


def test_of_two_like_ones_it_is_the_one_that_the_other_is_named_after() -> None:
    body = f"(x):\n{STEPS}    return x\n"
    target = f"import os\n\n\ndef launch_all_legacy{body}\n\ndef launch_all{body}"
    result = move(BASE, AUTHORED, target)
    assert result.ok
    assert result.outcomes[0].definition_after == "launch_all"
    # the copy says more of the old one than what it is named after
    changed = body.replace("step0(x, 0)", "step0(x, 0, y)")
    target = f"import os\n\n\ndef launch_all_legacy{body}\n\ndef launch_all{changed}"
    assert refuses(BASE, AUTHORED, target)


def test_of_two_like_ones_the_one_that_took_over_the_callers_is_the_renamed_one() -> None:
    base = BASE.replace("return os", "return launch(os)")
    authored = AUTHORED.replace("return os", "return launch(os)")
    body = f"(x):\n{STEPS}    return x\n"
    target = (
        f"import os\n\n\ndef launch_all{body}\n\ndef launch_all_legacy{body}\n\n"
        "def other(x):\n    return launch_all(os)\n"
    )
    result = move(base, authored, target)
    assert result.ok
    assert texts(result)[PATH] == target.replace(
        "    step4(x, 4)\n", "    step4(x, 4)\n    launch_all(mine(x))\n", 1
    )


def test_a_definition_that_was_renamed_and_moved_is_found_through_the_import() -> None:
    body = f"def launch_all(x):\n{STEPS}    return x\n"
    rest = "import os\n{}\n\ndef other(x):\n    return os\n"
    target = {PATH: rest.format("\nfrom vllm.new import launch_all\n"), "vllm/new.py": body}
    result = move(BASE, AUTHORED, target)
    assert result.ok
    assert texts(result) == {
        **target,
        "vllm/new.py": body.replace(
            "    step4(x, 4)\n", "    step4(x, 4)\n    launch_all(mine(x))\n"
        ),
    }
    (outcome,) = result.outcomes
    assert (outcome.path_after, outcome.definition_after) == ("vllm/new.py", "launch_all")
    assert refuses(BASE, AUTHORED, {**target, PATH: rest.format("")})


def method(name: str, indent: str = "    ") -> str:
    lines = f"def {name}(self, x):\n{STEPS}    return x\n".splitlines(keepends=True)
    return "".join(indent + line for line in lines)


def test_a_method_that_was_renamed_in_a_class_that_moved_takes_its_hunk_along() -> None:
    fields = "".join(f"    field{n}: int = {n}\n" for n in range(9))
    base = f"class K:\n{fields}\n{method('prepare')}\n\ndef other(x):\n    return K\n"
    authored = base.replace("        step4(x, 4)\n", "        step4(x, 4)\n        self.mine(x)\n")
    target = {
        PATH: "from vllm.new import K\n\n\ndef other(x):\n    return K\n",
        "vllm/new.py": f"class K:\n{fields}\n{method('prepare_all')}",
    }
    result = move(base, authored, target)
    assert result.ok
    assert texts(result)["vllm/new.py"] == target["vllm/new.py"].replace(
        "        step4(x, 4)\n", "        step4(x, 4)\n        self.mine(x)\n"
    )
    (outcome,) = result.outcomes
    assert outcome.definition_after == "K.prepare_all"
    said = [str(e) for e in outcome.evidence]
    assert "`K.prepare` is called `prepare_all` in the target; its uses follow" in said


def test_a_method_of_a_like_class_is_not_what_the_method_of_its_name_calls() -> None:
    base = f"class K:\n{method('run')}"
    authored = base.replace("        step4(x, 4)\n", "        step4(x, 4)\n        self.mine(x)\n")
    changed = base.replace("        step8(x, 8)\n", "        if x:\n            return x\n")
    target = base.replace("class K", "class KLegacy") + "\n\n" + changed
    result = move(base, authored, target)
    assert result.ok
    assert texts(result)[PATH] == base.replace("class K", "class KLegacy") + "\n\n" + (
        changed.replace("        step4(x, 4)\n", "        step4(x, 4)\n        self.mine(x)\n")
    )


def test_what_a_method_of_another_object_says_is_not_what_a_function_said() -> None:
    target = (
        f"import os\n\n\nclass K:\n{method('run')}\n\n"
        "def launch(x):\n    return os.run(x)\n\n\ndef other(x):\n    return os\n"
    )
    assert refuses(BASE, AUTHORED, target)


def test_a_function_is_not_called_because_the_method_has_its_name() -> None:
    base = f"class K:\n{method('run')}"
    authored = base.replace("        step4(x, 4)\n", "        step4(x, 4)\n        self.mine(x)\n")
    changed = base.replace("        step8(x, 8)\n", "        if x:\n            return x\n")
    copy = f"\n\ndef run(self, x):\n{STEPS}    return x\n"
    result = move(base, authored, changed + copy)
    assert result.ok
    assert texts(result)[PATH] == copy.join(
        [
            changed.replace("        step4(x, 4)\n", "        step4(x, 4)\n        self.mine(x)\n"),
            "",
        ]
    )


def test_a_parameter_stays_with_the_name_although_the_body_went_behind_a_call() -> None:
    authored = BASE.replace("def launch(x)", "def launch(x, quiet=False)")
    target = (
        "import os\n\n\ndef launch(x):\n    step0(x, 0)\n    return _launch(x)\n\n\n"
        f"def _launch(x):\n{STEPS}    return x\n\n\ndef other(x):\n    return os\n"
    )
    result = move(BASE, authored, target)
    assert result.ok
    assert texts(result)[PATH] == target.replace("def launch(x)", "def launch(x, quiet=False)")


def test_names_inside_a_renamed_class_are_said_with_its_new_name() -> None:
    steps = (
        Renaming("definition", "K", "K", "Kernel"),
        Renaming("definition", "K.run", "run", "run_all"),
        Renaming("variable", "K.run", "x", "y"),
    )
    assert renamed("K.run", steps) == "Kernel.run_all"
    assert renamed("K.run.inner", steps) == "Kernel.run_all.inner"
    assert renamed("K", steps) == "Kernel"
    assert renamed("Knot.run", steps) == "Knot.run"


def company(count: int, *, same: bool = True) -> str:
    """Functions that stand in the base beside `launch`."""
    value = "x" if same else "y"
    return "".join(f"\n\ndef beside{n}(x):\n    return {value} + {n}\n" for n in range(count))


def test_a_changed_function_went_where_three_others_of_its_file_went_word_for_word() -> None:
    base, authored = BASE + company(3), AUTHORED + company(3)
    launch = drifted(BASE.split("\n\n\n")[1]) + "\n"
    rest = "import os\n\n\ndef other(x):\n    return os\n"
    target = {PATH: rest, "vllm/new.py": "import os\n\n\n" + launch + company(3)}
    result = move(base, authored, target)
    assert [(o.status, o.path_after) for o in result.outcomes] == [("placed", "vllm/new.py")]
    assert texts(result)[PATH] == rest

    # two are not enough, nor three that changed, nor a file that the base has
    fewer = {**target, "vllm/new.py": "import os\n\n\n" + launch + company(2)}
    assert refuses(base, authored, fewer)
    other = "import os\n\n\n" + launch + company(3, same=False)
    assert refuses(base, authored, {**target, "vllm/new.py": other})
    # nor three that stayed where they were as well
    assert refuses(base, authored, {**target, PATH: rest + company(3)})


def test_of_many_definitions_of_a_name_a_conflict_shows_the_nearest() -> None:
    base = "class K:\n    def run(self):\n        return 1\n"
    target = {PATH: base.replace("return 1", "return 3")}
    other = "class Other:\n    def run(self):\n        return 1\n"
    near = PATH.rpartition("/")[0]
    target |= {f"{near}/z{number}.py": other for number in range(3)}
    target |= {f"vllm/a/far{number:02}.py": other for number in range(20)}
    (outcome,) = move(base, base.replace("return 1", "return 2"), target).outcomes
    assert outcome.candidates[:4] == (
        f"{PATH}:2 K.run",
        *(f"{near}/z{number}.py:2 Other.run" for number in range(3)),
    )
    assert len(outcome.candidates) == 12
