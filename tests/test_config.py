from dataclasses import replace
from pathlib import Path

import pytest

from patchkit.config import Config, find_config
from patchkit.errors import UsageError
from patchkit.vllm.profile import VLLM


def write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)


def test_a_folder_without_pyproject_is_its_own_root(tmp_path: Path) -> None:
    assert find_config(tmp_path) == Config(root=tmp_path.resolve(), series=("patches",))


def test_the_nearest_table_upward_holds(tmp_path: Path) -> None:
    write(tmp_path, '[tool.patchkit]\nseries = ["patches", "kvarn_port/"]\n')
    write(tmp_path / "inner", '[project]\nname = "x"\n')
    (tmp_path / "inner" / "deep").mkdir()
    root = tmp_path.resolve()
    assert find_config(tmp_path / "inner" / "deep") == Config(
        root=root, series=("patches", "kvarn_port"), pins=None
    )


def test_pins_beside_pyproject_are_found_unless_others_are_named(tmp_path: Path) -> None:
    write(tmp_path, "[tool.patchkit]\n")
    (tmp_path / "upstream_pins.toml").write_text("format = 1\n")
    assert find_config(tmp_path).pins == tmp_path.resolve() / "upstream_pins.toml"
    write(tmp_path, '[tool.patchkit]\npins = "other.toml"\n')
    assert find_config(tmp_path).pins == tmp_path.resolve() / "other.toml"
    assert find_config(tmp_path).pins_to_write == tmp_path.resolve() / "other.toml"


def test_a_history_is_a_repository_relative_to_the_root(tmp_path: Path) -> None:
    write(tmp_path, '[tool.patchkit]\nhistory = "../vllm"\n')
    assert find_config(tmp_path).history == tmp_path.resolve() / "../vllm"
    write(tmp_path, "[tool.patchkit]\nhistory = 1\n")
    with pytest.raises(UsageError) as caught:
        find_config(tmp_path)
    text = "history is a number, expected the path of a git repository"
    assert str(caught.value).endswith(f"pyproject.toml: {text}")


def test_pins_are_written_beside_pyproject_where_there_are_none(tmp_path: Path) -> None:
    write(tmp_path, "[tool.patchkit]\n")
    assert find_config(tmp_path).pins is None
    assert find_config(tmp_path).pins_to_write == tmp_path.resolve() / "upstream_pins.toml"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            'serie = ["a"]',
            "unknown key 'serie' in [tool.patchkit], expected one of series, pins, profile, "
            "selections, history, records, claims",
        ),
        (
            'series = "patches"',
            'series is a string, expected a list of folders, such as ["patches"]',
        ),
        ("series = []", 'series is empty, expected a list of folders, such as ["patches"]'),
        ("series = [1]", "series[0] is a number, expected the name of a folder"),
        (
            'series = ["a", "../b"]',
            "series[1] is '../b', expected a folder within the repository, "
            "relative to pyproject.toml",
        ),
        (
            'series = ["/a"]',
            "series[0] is '/a', expected a folder within the repository, "
            "relative to pyproject.toml",
        ),
        (
            'series = ["a", "./a"]',
            "series[1] names 'a' a second time, expected each series folder once",
        ),
        ("pins = true", "pins is a boolean, expected the path of a TOML file"),
        ("records = 1", "records is a number, expected the name of a folder"),
        ("claims = []", 'claims is empty, expected a list of files, such as ["README.md"]'),
        ('claims = ["a.md", "a.md"]', "claims[1] names 'a.md' a second time, expected each once"),
        ('pins = ""', "pins is empty, expected the path of a TOML file"),
        (
            'profile = "x"',
            "tool.patchkit.profile: is a string, expected a table, [tool.patchkit.profile]",
        ),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(tmp_path: Path, table: str, message: str) -> None:
    write(tmp_path, f"[tool.patchkit]\n{table}\n")
    with pytest.raises(UsageError) as caught:
        find_config(tmp_path)
    assert str(caught.value) == f"pyproject.toml: {message}"


def test_the_profile_is_the_shipped_one_with_changes(tmp_path: Path) -> None:
    write(tmp_path, '[tool.patchkit.profile]\nnot-shipped = ["vllm/mine/"]\n')
    assert find_config(tmp_path).profile == replace(VLLM, not_shipped=("vllm/mine/",))


def test_a_table_of_the_wrong_type_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "[tool]\npatchkit = 3\n")
    with pytest.raises(UsageError) as caught:
        find_config(tmp_path)
    assert str(caught.value) == (
        "pyproject.toml: tool.patchkit is a number, expected a table, [tool.patchkit]"
    )


def test_broken_toml_is_named_with_its_full_path_from_below(tmp_path: Path) -> None:
    write(tmp_path, "[tool.patchkit\n")
    (tmp_path / "below").mkdir()
    with pytest.raises(UsageError) as caught:
        find_config(tmp_path / "below")
    path = tmp_path.resolve() / "pyproject.toml"
    assert str(caught.value).startswith(f"{path}: not valid TOML: ")
    assert "line 1" in str(caught.value)
