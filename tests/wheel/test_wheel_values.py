"""File names, labels, RECORD, METADATA and `_version.py`, as values."""

from __future__ import annotations

import ast
import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from installer.records import RecordEntry, parse_record_file
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from patchkit.errors import PatchkitError
from patchkit.wheel.metadata import parse_fields, set_module_version, set_version
from patchkit.wheel.names import parse_label, parse_wheel_name, patched_version
from patchkit.wheel.paths import find_clash, path_problem
from patchkit.wheel.record import format_row, format_rows, parse_rows, renamed_row

NAME = "vllm-0.23.0-2-cp38-abi3-manylinux_2_28_x86_64.whl"


@pytest.mark.parametrize("label", ["syv.1", "Syv_1", "syv-1", "+syv.1", " SYV.1 ", "syv.01"])
def test_a_label_is_normalised_once(label: str) -> None:
    assert parse_label(label) == "syv.1"
    assert patched_version("0.28.0", label) == "0.28.0+syv.1"


def test_a_label_of_digits_is_one() -> None:
    assert parse_label("+1.0") == "1.0"
    assert str(parse_wheel_name(NAME).with_label("+1.0")) == NAME.replace("0.23.0", "0.23.0+1.0")


@pytest.mark.parametrize("label", ["", "+", " ", "a..b", ".a", "a/b", "ä", "a b", "a+b"])
def test_what_is_no_label_is_refused(label: str) -> None:
    with pytest.raises(PatchkitError, match="expected letters and digits, in parts separated"):
        parse_label(label)


def test_a_label_follows_upstreams_own() -> None:
    assert patched_version("0.28.0+cu129", "Syv_1") == "0.28.0+cu129.syv.1"


@given(st.from_regex(r"[a-z0-9]+([._-][a-z0-9]+){0,3}", fullmatch=True))
def test_a_label_is_what_packaging_makes_of_it(label: str) -> None:
    version = patched_version("0.28.0", label)
    assert parse_label(parse_label(label)) == parse_label(label)
    assert version == str(Version(f"0.28.0+{label}")) != "0.28.0"


def test_the_file_name_keeps_its_tags_and_upstreams_build_tag() -> None:
    name = parse_wheel_name(NAME)
    assert (name.build, name.tags) == ("2", "cp38-abi3-manylinux_2_28_x86_64")
    patched = name.with_label("syv.1")
    assert str(patched) == "vllm-0.23.0+syv.1-2-cp38-abi3-manylinux_2_28_x86_64.whl"
    assert patched.dist_info == "vllm-0.23.0+syv.1.dist-info"
    assert parse_wheel_filename(str(patched))[1:] == (
        Version("0.23.0+syv.1"), (2, ""), parse_wheel_filename(NAME)[3]
    )  # fmt: skip


PATHS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), min_size=1)
SAFE = PATHS.filter(lambda text: path_problem(text) is None and not text.endswith("/"))


@given(st.dictionaries(SAFE, st.binary(max_size=20), min_size=1))
def test_record_reads_what_it_writes_and_installer_reads_the_same(files: dict[str, bytes]) -> None:
    rows = (*(format_row(path, data) for path, data in files.items()), format_row("R", None))
    text = format_rows(rows)
    if "R" not in files:
        assert parse_rows(text, "RECORD") == rows
    entries = [
        RecordEntry.from_elements(*row) for row in parse_record_file(text.decode().splitlines())
    ]
    for entry, (path, data) in zip(entries, files.items(), strict=False):
        assert (entry.path, entry.size, entry.validate(data)) == (path, len(data), True)


def test_rows_keep_their_text() -> None:
    text = b'"vllm/a.py",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\r\nRECORD,,\n'
    rows = parse_rows(text, "RECORD")
    assert format_rows(rows) == text
    assert rows[0].path == "vllm/a.py"
    assert renamed_row(rows[0], "b,c").text == f'"b,c",{rows[0].digest},0\n'


def test_record_is_read_as_csv_reads_it() -> None:
    row = format_row('vllm/a "quoted", b.py', b"x")
    assert next(csv.reader(io.StringIO(row.text)))[0] == 'vllm/a "quoted", b.py'


def test_metadata_changes_in_its_version_alone() -> None:
    text = b"Metadata-Version: 2.4\r\nName: vllm\r\nversion:0.28.0\r\n\r\nVersion: 1\r\n"
    assert set_version(text, "0.28.0+syv.1", "METADATA") == text.replace(b"0.28.0", b"0.28.0+syv.1")
    with pytest.raises(PatchkitError, match="METADATA: Version is there 0 times, expected one"):
        set_version(b"Name: vllm\n\nVersion: 1\n", "2", "METADATA")


def test_fields_are_read_without_regard_to_case() -> None:
    fields = parse_fields(b"Name: vllm\nTAG: a\ntag: b\n\nbody\n", "WHEEL")
    assert (fields.one("name"), fields.all("Tag")) == ("vllm", ("a", "b"))


def test_the_version_module_says_what_setuptools_scm_would(kit: Any) -> None:
    content = kit.FILES["vllm/_version.py"]
    new = set_module_version(content, "0.99.0", "0.99.0+syv.1", "vllm/_version.py")
    assert new == content.replace(b"'0.99.0'", b"'0.99.0+syv.1'").replace(
        b"(0, 99, 0)", b"(0, 99, 0, 'syv.1')"
    )
    values: dict[str, Any] = {}
    exec(compile(ast.parse(new), "_version.py", "exec"), values)
    assert values["__version__"] == values["version"] == "0.99.0+syv.1"
    assert values["__version_tuple__"] == (0, 99, 0, "syv.1")


def test_a_version_module_of_another_version_is_refused() -> None:
    with pytest.raises(PatchkitError) as caught:
        set_module_version(b"__version__ = '0.98.0'\n", "0.99.0", "0.99.0+a", "vllm/_version.py")
    assert str(caught.value) == "vllm/_version.py: does not assign '0.99.0' to __version__"
    assert caught.value.hint == "--keep-module-version leaves the file as it is"


@given(st.lists(SAFE, unique=True, max_size=8))
def test_names_clash_where_a_disk_would_mix_them(names: list[str]) -> None:
    keys = [name.casefold() for name in names]
    if len(set(keys)) < len(keys):
        assert find_clash(names) is not None
    assert find_clash([*names, *names[:1]]) is not None or not names


def test_files_and_folders_clash() -> None:
    assert find_clash(["a/b", "a/c", "A/d"]) is None
    assert find_clash(["a", "a/c"]) == ("a", "a/c")
    assert find_clash(["a/c", "A"]) == ("A", "a/c")
    assert find_clash(["a/", "a/c"]) is None
    assert find_clash(["a/", "a/"]) == ("a/", "a/")
    assert find_clash(["\u00e9.py", "e\u0301.py"]) == ("\u00e9.py", "e\u0301.py")
