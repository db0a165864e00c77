"""What an interpreter has really loaded of a package: run inside it, by its own Python.

It is copied into the other environment's path, which has no patchkit: nothing but the standard
library is imported, and the oldest Python that vLLM runs on must read it. Run, it imports what it
is asked to; under the name `sitecustomize` it is what Python imports first when it starts, and
watches the program that follows. The interpreter compiles the sources that it is given, as they are
without and with the patches, and holds what it has loaded against both; so that it does not matter
what lies on disk by now.
"""

from __future__ import annotations

import ast
import atexit
import enum
import functools
import gc
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import sys
import threading
import time
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Set by whoever starts the interpreter: the folder of the request and of the reports.
FOLDER = "PATCHKIT_PROBE"
REQUEST = "request.json"
ASK = "ask"
POLL_S = 0.2

PATCHED, PRISTINE, OTHER, UNKNOWN = "patched", "pristine", "other", "unknown"
_BEGAN = time.time()  # this is what an interpreter imports first
_FUNCTION = 0x1 | 0x2  # optimised, with new locals: a function's code, not that of a class body
_MOST_ITEMS = 10_000  # of one container
_ABSENT = object()


def codes_of(source: str, path: str) -> dict[str, list[str]]:
    """Return the digests of every function's code by qualified name, a list a name.

    What a function defines within itself belongs to it and has no entry of its own.
    """
    found: dict[str, list[str]] = {}

    def visit(code: types.CodeType, prefix: str) -> None:
        for const in code.co_consts:
            if not isinstance(const, types.CodeType):
                continue
            name = prefix + const.co_name
            if const.co_flags & _FUNCTION == _FUNCTION:
                found.setdefault(name, []).append(digest_code(const))
            else:
                visit(const, f"{name}.")

    visit(compile(source, path, "exec", dont_inherit=True), "")
    return found


def digest_code(code: types.CodeType) -> str:
    """Return a digest of what a function does; line numbers and file names are left out."""
    return hashlib.sha256(repr(_plain(code)).encode("utf-8", "backslashreplace")).hexdigest()


def _plain(const: Any) -> Any:
    if isinstance(const, types.CodeType):
        code = const
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        return code.co_name, code.co_code, names, counts, [_plain(c) for c in code.co_consts]
    if isinstance(const, frozenset):  # its order differs from run to run
        return sorted(repr(_plain(item)) for item in const)
    if isinstance(const, tuple):
        return [_plain(item) for item in const]
    return type(const).__name__, const


def values_of(source: str) -> dict[str, Any]:
    """Return what a module and its classes bind at their top by dotted name: literals, else a mark
    that says only that the name is bound.
    """
    found: dict[str, Any] = {}

    for body, prefix in _bodies(ast.parse(source)):
        for node in body:
            targets = node.targets if isinstance(node, ast.Assign) else []
            if isinstance(node, ast.AnnAssign):
                targets = [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    value = getattr(node, "value", None)
                    found[prefix + target.id] = _literal(value) if value else _ABSENT
    return found


def defaults_of(source: str) -> dict[str, list[Any]]:
    """Return the literal defaults of every function of a module and its classes, a list a name."""
    found: dict[str, list[Any]] = {}
    for body, prefix in _bodies(ast.parse(source)):
        for node in _all_in(body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                args = node.args
                given = zip(args.kwonlyargs, args.kw_defaults, strict=True)
                by_name = {arg.arg: _literal(value) for arg, value in given if value is not None}
                literals = [_literal(value) for value in args.defaults]
                found.setdefault(prefix + node.name, []).append((literals, by_name))
    return found


def loose_names(source: str) -> set[str]:
    """Return the functions that need not be what their name is bound to: under a condition or a
    decorator, bound anew, or taken away again.
    """
    found: set[str] = set()
    for body, prefix in _bodies(ast.parse(source)):
        for node in _all_in(body):
            decorated = bool(getattr(node, "decorator_list", ()))
            if isinstance(node, _DEFINITIONS):
                if decorated or not any(node is top for top in body):
                    found.add(prefix + node.name)
                continue
            names = (n for n in ast.walk(node) if isinstance(n, ast.Name))
            found.update(prefix + n.id for n in names if not isinstance(n.ctx, ast.Load))
    return found


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _bodies(module: ast.Module) -> Iterator[tuple[list[ast.stmt], str]]:
    """Yield the statements of a module and of each class in it, with what its names begin with."""
    todo = [(module.body, "")]
    while todo:
        body, prefix = todo.pop()
        yield body, prefix
        found = (node for node in _all_in(body) if isinstance(node, ast.ClassDef))
        todo += [(node.body, f"{prefix}{node.name}.") for node in found]


def _all_in(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block and of those under conditions in it, but of no definition."""
    todo: list[ast.AST] = [*body]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (*_DEFINITIONS, ast.expr)):
            todo += ast.iter_child_nodes(node)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        return _ABSENT


class Subject:
    """A module whose source a series changes; `names` are the functions of it that differ."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.name, self.path = entry["module"], entry["path"]
        before, after = entry["pristine"], entry["patched"]
        self.codes = {
            PRISTINE: {} if before is None else codes_of(before, self.path),
            PATCHED: {} if after is None else codes_of(after, self.path),
        }
        old, new = self.codes[PRISTINE], self.codes[PATCHED]
        self.defaults = {
            PRISTINE: {} if before is None else defaults_of(before),
            PATCHED: {} if after is None else defaults_of(after),
        }
        given = self.defaults[PRISTINE], self.defaults[PATCHED]
        self.names = {
            name
            for name in {*old, *new}
            if old.get(name) != new.get(name)
            or repr(given[0].get(name)) != repr(given[1].get(name))
        }
        self.loose = {name for text in (before, after) if text for name in loose_names(text)}
        self.known_as = {self.name}
        self.module: types.ModuleType | None = None
        self.before = {} if before is None else values_of(before)
        self.after = {} if after is None else values_of(after)

    def find(self) -> types.ModuleType | None:
        """Return the module as this interpreter has it, be it as the program that it runs."""
        self.module = sys.modules.get(self.name)
        main = sys.modules.get("__main__")
        if self.module is None and main is not None:
            spec = _own(main).get("__spec__")
            if getattr(spec, "name", None) in (self.name, f"{self.name}.__main__"):
                self.module = main
                self.known_as.add("__main__")
        return self.module

    def judge(self, function: types.FunctionType) -> str | None:
        """Return whose code a function has; None for one that is not of this module, or does not
        differ.
        """
        name = function.__qualname__
        if function.__module__ not in self.known_as or name not in self.names:
            return None
        digest = digest_code(function.__code__)
        for kind in (PATCHED, PRISTINE):
            if digest in self.codes[kind].get(name, ()) and self._has_defaults(function, kind):
                return kind
        # what a decorator puts around a function calls itself as that does
        return None if "__wrapped__" in function.__dict__ else OTHER

    def _has_defaults(self, function: types.FunctionType, kind: str) -> bool:
        """Whether a function has the literal defaults that one of its name has in a source."""
        known = self.defaults[kind].get(function.__qualname__)
        return not known or any(
            len(literals) == len(function.__defaults__ or ())
            and all(map(_may_be, literals, function.__defaults__ or ()))
            and all(
                _may_be(value, (function.__kwdefaults__ or {}).get(name, _ABSENT))
                for name, value in by_name.items()
            )
            for literals, by_name in known
        )

    def look_at(self, module: types.ModuleType) -> dict[str, str]:
        """Return what a loaded module has of each name that differs."""
        found: dict[str, str] = {}
        for function in _functions_in(module):
            verdict = self.judge(function)
            if verdict and found.get(function.__qualname__) in (None, PATCHED):
                found[function.__qualname__] = verdict
        for name in {*self.before, *self.after}:
            if self.before.get(name, "") is not self.after.get(name, "") and (
                name not in found and self._differs(name)
            ):
                found[name] = self._judge_value(name, _attribute(module, name))
        for name in sorted(self.names - found.keys()):
            if "<" not in name:  # no name leads to what has none
                found[name] = self._judge_name(name, _attribute(module, name))
        return found

    def _judge_name(self, name: str, value: Any) -> str:
        """Judge by what is bound where a function of this module should be, and is not."""
        old, new = name in self.codes[PRISTINE], name in self.codes[PATCHED]
        if name in self.loose:
            return UNKNOWN
        if old != new:
            return PATCHED if (value is not _ABSENT) == new else PRISTINE
        return OTHER  # somebody has put something else in its place

    def _differs(self, name: str) -> bool:
        if (name in self.before) != (name in self.after):
            return True
        return not _same(self.before[name], self.after[name])

    def _judge_value(self, name: str, value: Any) -> str:
        old, new = name in self.before, name in self.after
        if old != new:
            return PATCHED if (value is not _ABSENT) == new else PRISTINE
        if issubclass(type(value), enum.Enum):
            value = value._value_
        for kind, known in ((PATCHED, self.after[name]), (PRISTINE, self.before[name])):
            if known is not _ABSENT and _same(known, value):
                return kind
        return UNKNOWN


def _may_be(literal: Any, value: Any) -> bool:
    """Whether a default that is no literal, or this one, can be a value."""
    return literal is _ABSENT or _same(literal, value)


def _same(one: Any, other: Any) -> bool:
    if one is _ABSENT or other is _ABSENT:
        return one is other
    return type(one) is type(other) and bool(one == other)


def _attribute(module: types.ModuleType, name: str) -> Any:
    """Return what a dotted name is bound to, with no descriptor called."""
    found: Any = module
    for word in name.split("."):
        spaces = [vars(found)] if hasattr(found, "__dict__") else []
        spaces += [
            getattr(found, "__dataclass_fields__", {}),
            getattr(found, "__annotations__", {}),
        ]
        found = next((space[word] for space in spaces if word in space), _ABSENT)
        if found is _ABSENT:
            return _ABSENT
    return found


def functions_of(value: Any) -> Iterator[types.FunctionType]:
    """Yield the plain functions that a value stands for, wrappers and descriptors taken off.

    Objects are anybody's: nothing of theirs is called, and no attribute asked for in a way that
    would load a lazy one.
    """
    seen: set[int] = set()
    todo = [value]
    while todo:
        item = todo.pop()
        if id(item) in seen or len(seen) > 20:
            continue
        seen.add(id(item))
        kind = type(item)
        if kind is types.FunctionType:
            yield item
            todo.append(item.__dict__.get("__wrapped__"))
        elif kind in (classmethod, staticmethod, types.MethodType):
            todo.append(item.__func__)
        elif kind is property:
            todo += [item.fget, item.fset, item.fdel]
        elif kind is functools.partial:
            todo.append(item.func)
        elif not issubclass(kind, (type, types.ModuleType)):
            # cached_property, lru_cache; triton's JITFunction
            spaces = _own(item)
            todo += [spaces[name] for name in ("__wrapped__", "func", "fn") if name in spaces]


def _own(item: Any) -> dict[str, Any]:
    """Return an object's own attributes, of a plain dictionary; none where it has no such."""
    try:
        found = object.__getattribute__(item, "__dict__")
    except Exception:  # an object of anybody's, in a state that we know nothing of
        return {}
    return found if type(found) is dict else {}


def _functions_in(module: types.ModuleType) -> Iterator[types.FunctionType]:
    """Yield the functions of a module and of its classes."""
    seen: set[int] = set()
    todo = list(vars(module).values())
    while todo:
        value = todo.pop()
        if not issubclass(type(value), type):
            yield from functions_of(value)
        elif value.__module__ == module.__name__ and id(value) not in seen:
            seen.add(id(value))
            todo += vars(value).values()


def held_in(value: Any) -> Iterator[tuple[str, types.FunctionType]]:
    """Yield the functions that a value holds, each with the words that lead to it.

    Only plain containers are looked into: others may load what they hold when they are asked.
    """
    kind = type(value)
    if issubclass(kind, type):
        for name, item in list(type.__dict__["__dict__"].__get__(value).items()):
            yield from ((f".{name}", function) for function in functions_of(item))
    elif kind is dict:
        for key, item in list(value.items())[:_MOST_ITEMS]:
            held = held_in(item) if issubclass(type(item), type) else _bare(item)
            yield from ((f"[{key!r}]{words}", function) for words, function in held)
    elif kind in (list, tuple):
        for at, item in enumerate(value[:_MOST_ITEMS]):
            yield from ((f"[{at}]", function) for function in functions_of(item))
    else:
        for function in functions_of(value):
            yield "", function
            for at, default in enumerate(function.__defaults__ or ()):
                yield from ((f" (default {at})", inner) for inner in functions_of(default))


def _bare(item: Any) -> Iterator[tuple[str, types.FunctionType]]:
    return (("", function) for function in functions_of(item))


def holders(subjects: Mapping[str, Subject]) -> Iterator[dict[str, str]]:
    """Yield who holds a function that differs and is not the patched code, the module aside.

    All functions that are alive are looked through first (a second, where searching every module
    takes half a minute with vLLM loaded, 2026-11-30); only what is found is then searched for.
    """
    gc.collect()
    known = {name: subject for subject in subjects.values() for name in subject.known_as}
    stale = {
        id(item): (item, state)
        for item in gc.get_objects()
        if type(item) is types.FunctionType
        and (subject := known.get(str(item.__module__))) is not None
        and (state := subject.judge(item)) not in (None, PATCHED)
    }
    if not stale:
        return
    modules = [subject.module for subject in subjects.values() if subject.module is not None]
    owned = {id(function) for module in modules for function in _functions_in(module)}
    missing = set(stale) - owned
    for name, module in list(sys.modules.items()):
        if name in known or not issubclass(type(module), types.ModuleType):
            continue
        for key, value in list(_own(module).items()):
            for words, function in held_in(value):
                if id(function) in stale:
                    missing.discard(id(function))
                    yield _holder(f"{name}.{key}{words}", *stale[id(function)])
    for number in sorted(missing):
        yield _holder("an object", *stale[number])


def _holder(holder: str, function: types.FunctionType, state: str | None) -> dict[str, str]:
    names = {"module": function.__module__, "name": function.__qualname__}
    return {"holder": holder, **names, "state": str(state)}


def inspect(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the report of this interpreter."""
    subjects: dict[str, Subject] = {}
    modules: list[dict[str, Any]] = []
    for entry in request["modules"]:
        subject = Subject(entry)
        module = subject.find()
        row = {"module": entry["module"], "path": entry["path"], "file": None, "names": {}}
        modules.append({**row, "loaded": module is not None})
        if module is None:
            continue
        modules[-1]["file"] = getattr(module, "__file__", None)
        if entry["pristine"] is not None or entry["patched"] is not None:
            subjects[entry["module"]] = subject
            modules[-1]["names"] = subject.look_at(module)
    return {
        "pid": os.getpid(),
        "began": _BEGAN,
        "python": sys.version.split()[0],
        "command": list(getattr(sys, "orig_argv", sys.argv)),
        "modules": modules,
        "holders": list(holders(subjects)),
    }


def write_report(folder: Path, request: Mapping[str, Any], errors: list[dict[str, str]]) -> None:
    """Write the report of this interpreter beside the request, as a whole or not at all.

    One that has loaded nothing of the package writes none.
    """
    loaded = any(entry["module"].split(".")[0] in sys.modules for entry in request["modules"])
    if not loaded and not errors:
        return
    path = folder / f"{os.getpid()}.json"
    text = json.dumps({**inspect(request), "errors": errors})
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def watch(folder: Path) -> None:
    """Report at the end of this interpreter, and earlier when it is asked; its children as well."""
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))

    def report() -> None:
        try:
            write_report(folder, request, [])
        except Exception as error:  # the program that is looked at must not end otherwise for it
            text = f"{type(error).__name__}: {error}"
            (folder / f"{os.getpid()}.failed").write_text(text, encoding="utf-8")

    def wait() -> None:
        while not (folder / ASK).exists():
            time.sleep(POLL_S)
        report()

    def start() -> None:
        threading.Thread(target=wait, name="patchkit-probe", daemon=True).start()

    def after_fork() -> None:
        start()
        pool = sys.modules.get("multiprocessing.util")
        if pool is not None:  # its children forget what was registered, and leave past atexit
            pool.register_after_fork(
                after_fork, lambda _: pool.Finalize(None, report, exitpriority=0)
            )

    atexit.register(report)
    os.register_at_fork(after_in_child=after_fork)
    start()


def import_and_report(folder: Path) -> None:
    """Import what the request names, then report."""
    request = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    errors = []
    for name in request["import"]:
        try:
            importlib.import_module(name)
        except BaseException as error:  # a module may even exit
            errors.append({"module": name, "text": f"{type(error).__name__}: {error}"})
    write_report(folder, request, errors)


def run_hidden() -> None:
    """Run the environment's own `sitecustomize`, of which Python imports the first on its path."""
    here = Path(__file__).resolve().parent
    path = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if __name__ == "__main__":
    import_and_report(Path(os.environ[FOLDER]))
elif __name__ == "sitecustomize":
    if FOLDER in os.environ:
        watch(Path(os.environ[FOLDER]))
    run_hidden()
