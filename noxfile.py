"""What can be run here: `nox -l` lists it. Each session sets up its own environment once.

An environment is installed anew only when pyproject.toml changes: the package is installed
editable, so that a change in the code needs nothing.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import nox

nox.needs_version = ">=2024.10.9"
nox.options.reuse_venv = "yes"
nox.options.default_venv_backend = "virtualenv"
nox.options.sessions = ["lint", "format", "types", "tests"]

PYPROJECT = Path(__file__).with_name("pyproject.toml")

# What vLLM's own modules need to be imported on a CPU; `patchkit test` uses the same.
ENVIRONMENT = nox.project.load_toml(PYPROJECT.with_name("patchkit") / "vllm" / "environment.toml")

# What runs kernels without a GPU: from numpy 2.4 on, the interpreter of this Triton fails. The
# engine's own Triton; alone, since torch from some indexes asks for another one.
TRITON = "triton==3.6.0"
INTERPRETER = ("numpy<2.4", "pytest>=8.2", "pytest-xdist>=3.6")


def install(
    session: nox.Session,
    *groups: str,
    package: bool = True,
    extra: Sequence[str] = (),
    alone: Sequence[str] = (),
) -> None:
    """Install dependency groups, the package and extra requirements, unless they are there.

    What is to be installed `alone` comes without its own requirements.
    """
    project = nox.project.load_toml(PYPROJECT)
    wanted = [*nox.project.dependency_groups(project, *groups), *extra]
    wanted += ["--editable", str(PYPROJECT.parent)] if package else []
    stamp = Path(session.virtualenv.location) / "installed.sha256"
    digest = hashlib.sha256(repr((wanted, alone, project)).encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    stamp.unlink(missing_ok=True)
    session.install(*wanted)
    if alone:
        session.install("--no-deps", *alone)
    stamp.write_text(digest)


def install_engine(session: nox.Session, *more: str) -> None:
    """Install what vLLM's modules need, torch for the CPU as the index has it."""
    wanted = (f"torch=={ENVIRONMENT['torch']}", *ENVIRONMENT["requirements"], *more)
    install(session, "test", extra=wanted, alone=ENVIRONMENT["alone"])


@nox.session
def rebase(session: nox.Session) -> None:
    """Move the stored series to a release: nox -s rebase -- v0.29.0"""
    install(session)
    session.run("patchkit", "rebase", *session.posargs)


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test that needs no GPU, then those that need an importable vLLM, or Triton."""
    install(session, "test", "lint")  # some put code through ruff
    session.run("pytest", "-m", "not gpu and not engine and not kernel", *session.posargs)
    if not session.posargs:
        session.notify("engine")
        session.notify("kernels")


@nox.session
def engine(session: nox.Session) -> None:
    """Run the tests that import vLLM's own modules, on the CPU, on every pinned release."""
    install_engine(session)
    session.run("python", "-m", "tests.engine", session.create_tmp(), *session.posargs)


@nox.session
def kernels(session: nox.Session) -> None:
    """Run kernel parity on the CPU through Triton's interpreter."""
    torch = f"torch=={ENVIRONMENT['torch']}"
    install(session, package=False, extra=(torch, *INTERPRETER), alone=(TRITON,))
    chosen = ("-n", "2", "-m", "kernel and not gpu", "--confcutdir", "tests/kernels")
    bench = [f"tests/bench/kernels/test_{name}.py" for name in ("gate", "tiny")]
    tests = session.posargs or ["tests/kernels", "tests/gpu/engine", *bench]
    # the two processes share two cores: more threads only wait for each other
    env = {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    session.run("python", "-m", "pytest", *chosen, *tests, env=env)


@nox.session
def e2e(session: nox.Session) -> None:
    """Run a real engine on the CPU from patched wheels: nox -s e2e -- [v0.29.0 …]"""
    install_engine(session, "compressed-tensors")  # which models with experts import
    folder = session.create_tmp()
    shutil.rmtree(folder)  # wheels of an earlier run
    session.run("python", "-m", "tests.e2e", folder, *session.posargs)
    shutil.rmtree(folder)


def on_the_device(session: nox.Session, module: str) -> None:
    """Run a module with what is installed on this machine, which no index need be reached for.

    Its exit status 5 says that something could not be shown: the session is skipped then, no pass.
    """
    needed = "import importlib.util as u, sys; sys.exit(None in map(u.find_spec, NAMES))"
    needed = needed.replace("NAMES", "('torch', 'triton')")
    candidates = [shutil.which(name) for name in ("python3", "python")]
    found = [python for python in (*candidates, sys.executable) if python]
    usable = [p for p in found if subprocess.run([p, "-c", needed], check=False).returncode == 0]
    if not usable:
        session.skip(f"no interpreter of {', '.join(found)} has torch and Triton")
    done = subprocess.run([usable[0], "-m", module, *session.posargs], check=False).returncode
    if done == 5:
        session.skip("not all of it could be shown here: see above")
    if done:
        session.error(f"{module} exits with {done}")


@nox.session(venv_backend="none")
def gpu(session: nox.Session) -> None:
    """Show what holds on a CUDA device: nox -s gpu -- [parity] [allocations]"""
    on_the_device(session, "tests.gpu")


@nox.session(name="gpu-bench", venv_backend="none")
def gpu_bench(session: nox.Session) -> None:
    """Time kernels against their peers on a CUDA device: nox -s gpu-bench -- [--quick | --list]"""
    on_the_device(session, "tests.bench.kernels")


@nox.session
def bench(session: nox.Session) -> None:
    """Time rebases, wheels, surveys: nox -s bench -- [rebase|wheel|where] [--hunks 10,100 …]"""
    install(session, "test")
    # one of them may have arguments; all run with none
    chosen = session.posargs[:1] or ["rebase", "wheel", "where"]
    for name in chosen:
        session.run("python", "-m", f"tests.bench.{name}", *session.posargs[1:])


@nox.session(name="bench-rebase")
def bench_rebase(session: nox.Session) -> None:
    """Judge placing on real upstream changes: nox -s bench-rebase -- --releases 0.23.0:0.24.0"""
    install(session, "test", "lint")
    session.run("python", "-m", "tests.bench_rebase", *session.posargs)


@nox.session
def history(session: nox.Session) -> None:
    """Judge "already upstream" on real changes, on every release: nox -s history [-- --out FILE]"""
    install(session, "test")
    session.run("python", "-m", "tests.history", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the rules of pyproject.toml."""
    install(session, "lint", package=False)
    session.run("ruff", "check", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Check the types."""
    install(session, "type")
    session.run("mypy", *session.posargs)


@nox.session(name="format")
def formatting(session: nox.Session) -> None:
    """Check the formatting; `nox -s format -- .` rewrites it."""
    install(session, "lint", package=False)
    session.run("ruff", "format", *(session.posargs or ["--diff", "."]))
