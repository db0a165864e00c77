"""What CI asks: every figure here is backed, and every record is as it was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from patchkit import cli
from patchkit.records.record import read_record

ROOT = Path(__file__).parents[2]
RECORDS = sorted((ROOT / "docs" / "records").glob("*.json"))
SCHEMA = json.loads((ROOT / "docs" / "schema" / "run-record-1.json").read_bytes())


def test_every_figure_of_this_repository_is_backed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.run(["claims", "--json"]) == 0, capsys.readouterr().out
    document = json.loads(capsys.readouterr().out)
    assert document["files"] > 10
    assert document["marks"]["arithmetic"] > 0


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_every_record_is_what_its_schema_says(path: Path) -> None:
    Draft202012Validator(SCHEMA).validate(json.loads(path.read_bytes()))
    assert read_record(path).name == path.stem
