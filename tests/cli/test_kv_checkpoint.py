"""What lies on disk: a config.json, and the weights of a checkpoint."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from patchkit.cli.checkpoint import ConfigFile, has_weights, read_config, weights_bytes
from patchkit.errors import PatchkitError

EXPECTED = ", expected config.json of a Hugging Face model, or the folder that it is in"


def refused(name: str) -> PatchkitError:
    with pytest.raises(PatchkitError) as error:
        read_config(name)
    return error.value


def test_a_config_is_read_from_a_file_or_its_folder(folder: Path) -> None:
    (folder / "m").mkdir()
    (folder / "m" / "config.json").write_text('\ufeff{"a": 1}')
    for name in ("m", "m/", "m/config.json"):
        assert read_config(name) == ConfigFile("m/config.json", {"a": 1})


@pytest.mark.parametrize(("content", "said"), [
    (b'{"a": 1,\n "b" 2}', "c.json:2:6: is not JSON: expecting ':' delimiter" + EXPECTED),
    (b"", "c.json:1:1: is not JSON: expecting value" + EXPECTED),
    (b"[1]", "c.json: is a list, no JSON object" + EXPECTED),
    (b"null", "c.json: is null, no JSON object" + EXPECTED),
    (b"7", "c.json: is a single value, no JSON object" + EXPECTED),
    (b'"x"', "c.json: is a text, no JSON object" + EXPECTED),
    (b"GGUF\x03\x00\x00\x00", "c.json: is a GGUF file" + EXPECTED),
    (b'{"a": "\xff"}', "c.json: is not text: byte 7 is not UTF-8" + EXPECTED),
    (b'{"a": ' + b"9" * 5000 + b"}", "c.json: holds no JSON of a sane size" + EXPECTED),
    (b"[" * 200_000, "c.json: holds no JSON of a sane size" + EXPECTED),
    (b'{"a": 1, "b": {"d": 2, "c": 1, "c": 1}}',
     "c.json: 'c' stands there twice, expected each name once"),
])  # fmt: skip
def test_what_is_no_config_is_refused_with_its_place(
    content: bytes, said: str, folder: Path
) -> None:
    (folder / "c.json").write_bytes(content)
    assert str(refused("c.json")) == said


def test_a_file_larger_than_the_memory_is_not_read(folder: Path) -> None:
    for name, start, said in (("m.gguf", b"GGUF", "is a GGUF file"),
                              ("m.bin", b"\0", "is larger than 64 MiB")):  # fmt: skip
        with (folder / name).open("wb") as file:
            file.write(start)
            file.truncate(1 << 40)
        assert str(refused(name)) == f"{name}: {said}{EXPECTED}"


def test_what_is_neither_file_nor_folder_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert refused("pipe").fact == "is neither a file nor a folder"
    assert refused("none.json").fact == "no such file or folder"
    assert refused("none.json").hint is None


def test_a_text_that_is_too_long_for_a_path_is_no_file(folder: Path) -> None:
    assert folder
    assert refused("a" * 300).fact == "cannot be read: file name too long"
    assert not has_weights(Path("a" * 300))


def test_a_name_of_the_hub_is_answered_with_how_to_get_it(folder: Path) -> None:
    assert folder
    assert refused("Qwen/Qwen3-8B").hint == (
        "only files are read: `hf download Qwen/Qwen3-8B config.json --local-dir Qwen3-8B` "
        "fetches it"
    )
    for path in ("./Qwen3-8B", "/tmp/none/x", "configs/none.json"):
        assert refused(path).hint is None, path


def test_a_folder_without_a_config_says_what_it_probably_is(folder: Path) -> None:
    assert str(refused(".")) == f".: the folder has no config.json{EXPECTED}"
    assert refused(".").hint is None
    (folder / "q4.gguf").touch()
    assert "take config.json of the model" in (refused(".").hint or "")
    inner = folder / "snapshots" / "abc"
    inner.mkdir(parents=True)
    (inner / "config.json").write_text("{}")
    assert refused(".").hint == "did you mean snapshots/abc?"
    (folder / "snapshots" / "xyz").mkdir()
    (folder / "snapshots" / "xyz" / "config.json").write_text("{}")
    assert refused(".").hint == "snapshots/abc and 1 more of its folders have one"
    (folder / "params.json").touch()
    assert (refused(".").hint or "").startswith("params.json is Mistral's own format")


def shard(path: Path, tensor_bytes: int, header: bytes = b'{"w": {}}') -> None:
    content = len(header).to_bytes(8, "little") + header + bytes(tensor_bytes)
    path.write_bytes(content)


def index(folder: Path, *names: str) -> None:
    mapped = {f"layers.{n}.w": name for n, name in enumerate(names)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": mapped}))


def test_one_consolidated_file_beside_its_shards_is_not_counted(tmp_path: Path) -> None:
    shard(tmp_path / "model-00001-of-00002.safetensors", 1000)
    shard(tmp_path / "model-00002-of-00002.safetensors", 500)
    shard(tmp_path / "consolidated.safetensors", 1500)
    assert weights_bytes(tmp_path, "m") == (1500, "2 files, by name no consolidated ones")
    index(tmp_path, *["model-00001-of-00002.safetensors"] * 3, "model-00002-of-00002.safetensors")
    shard(tmp_path / "other.safetensors", 7)
    assert weights_bytes(tmp_path, "m") == (
        1500, "the 2 files that model.safetensors.index.json names",
    )  # fmt: skip


def test_weights_that_are_tied_are_counted_once(tmp_path: Path) -> None:
    shard(tmp_path / "a.safetensors", 1000)
    index(tmp_path, "a.safetensors", "a.safetensors")
    assert weights_bytes(tmp_path, "m") == (
        1000, "the 1 file that model.safetensors.index.json names",
    )  # fmt: skip


def test_a_single_file_is_counted_without_its_header(tmp_path: Path) -> None:
    assert not has_weights(tmp_path)
    shard(tmp_path / "consolidated.safetensors", 42, b"{}" + b" " * 100)
    assert has_weights(tmp_path)
    assert weights_bytes(tmp_path, "m") == (42, "consolidated.safetensors")


def test_a_checkpoint_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    def said() -> str:
        with pytest.raises(PatchkitError) as error:
            weights_bytes(tmp_path, "m")
        return str(error.value)

    assert said() == (
        "m: the folder has no safetensors files, expected a checkpoint, or --weights as an amount "
        "such as 17.6GiB"
    )
    index(tmp_path, "a.safetensors")
    assert said() == "m/a.safetensors: cannot be read: no such file or directory"
    (tmp_path / "a.safetensors").write_bytes(b"\xff" * 8 + b"{}")
    assert said() == (
        "m/a.safetensors: is no safetensors file: 10 B, and its header says "
        "18,446,744,073,709,551,615 B"
    )
    (tmp_path / "a.safetensors").write_bytes((3).to_bytes(8, "little") + b"{}")
    assert said() == "m/a.safetensors: is no safetensors file: 10 B, and its header says 3 B"
    (tmp_path / "a.safetensors").unlink()
    os.mkfifo(tmp_path / "a.safetensors")
    assert said() == "m/a.safetensors: is no file"
    index(tmp_path, "../a.safetensors")
    assert said() == (
        "m/model.safetensors.index.json: weight_map names '../a.safetensors', expected safetensors "
        "files beside it"
    )
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": 3}}')
    assert "weight_map names '3'" in said()
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": []}')
    assert said() == "m/model.safetensors.index.json: has no weight_map, expected tensors by file"
