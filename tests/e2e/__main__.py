"""Real engines on the CPU, from upstream's wheel and the patched one: `python -m tests.e2e DIR`.

The patched wheel is built and upstream's is taken out of it again, both as a user would. They are
installed into folders of their own, on top of one set of requirements, by the interpreter that
runs this. Both must generate the same, and lay pages out as the planner says.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.e2e.cases import CASES
from tests.e2e.compare import problems
from tests.e2e.engines import generate, install_both, lay_out
from tests.e2e.figures import differences, figures_of_plan, figures_of_run, plan_case

# The window model asks for layers that a CPU engine can only mix from 0.29.0 on.
MODELS = {"v0.28.0": ("qwen3",), "v0.29.0": ("qwen3", "window")}

# What no planner can know: the kernels for fp8 are for some machines only.
NOT_HERE = "FP8 KV cache on CPU requires x86 with AVX-512 or AMX."


def generated(release: str, paths: dict[str, Path]) -> list[str]:
    """What is wrong with what both wheels generate."""
    wrong = []
    for model in MODELS[release]:
        runs = {kind: generate(model, path, release) for kind, path in paths.items()}
        for kind, run in runs.items():
            print(f"{release} {model} {kind}:", json.dumps(run), flush=True)
        found = problems(model, runs["upstream"], runs["patched"], paths)
        wrong += [f"{release} {model}: {text}" for text in found]
    return wrong


def laid_out(release: str, paths: dict[str, Path]) -> list[str]:
    """Where the planner does not say what the engines do."""
    wrong = []
    for wheel, path in paths.items():
        chosen = [n for n, c in CASES.items() if release in c.releases and c.wheel == wheel]
        for name, run in (lay_out(chosen, path) if chosen else {}).items():
            print(f"{release} {name}:", json.dumps(run), flush=True)
            if run.get("error") == NOT_HERE:
                continue
            case = CASES[name]
            planned = plan_case(case, release, run.get("state_dtype", case.state_dtype))
            found = differences(figures_of_plan(planned), figures_of_run(run))
            wrong += [f"{release} {name}: {text}" for text in found]
    return wrong


def main(folder: Path, releases: list[str]) -> None:
    """Run every model and case of each release; exit with what is not as it must be."""
    wrong = []
    for release in releases:
        paths = install_both(release, folder)
        wrong += generated(release, paths) + laid_out(release, paths)
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:] or list(MODELS))
