"""A folder to work in, and the published JSON Schemas read strictly."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from patchkit.cli import COMMANDS, module_name
from patchkit.errors import PatchkitError
from patchkit.tree import SourceTree

FOLDER = Path(__file__).parents[2] / "docs" / "schema"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder, which is the working folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def check() -> Callable[[dict[str, Any]], None]:
    """Return what fails unless a document is what its schema says, with no undescribed field."""
    return _check


def _check(document: dict[str, Any]) -> None:
    name, number = document["schema"].removeprefix("patchkit.").split("/")
    schemas = {path.name: _strict(json.loads(path.read_bytes())) for path in FOLDER.iterdir()}
    registry: Registry[Any] = Registry().with_resources(
        [(name, Resource.from_contents(schema)) for name, schema in schemas.items()]
    )
    schema = schemas[f"{name}-{number}.json"]
    jsonschema.Draft202012Validator(schema, registry=registry).validate(document)


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _strict(value) for key, value in schema.items()}
    return {**schema, "additionalProperties": False} if "properties" in schema else schema


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> dict[str, SourceTree]:
    """Return the trees that the commands open by name; a test puts in what it needs."""
    found: dict[str, SourceTree] = {}
    for command in COMMANDS:
        module = importlib.import_module(f"patchkit.cli.{module_name(command)}")
        if hasattr(module, "tree_opener"):
            monkeypatch.setattr(module, "tree_opener", lambda *_: found.__getitem__)
    return found


@pytest.fixture
def unanswered(trees: dict[str, SourceTree], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the index have no answer for 0.30.0, whatever asks it."""

    def opened(spec: str) -> SourceTree:
        if spec == "v0.30.0":
            raise PatchkitError("no answer: timed out", place="the index")
        return trees[spec]

    for command in ("exits", "forecast"):
        monkeypatch.setattr(f"patchkit.cli.{command}.tree_opener", lambda *_: opened)
