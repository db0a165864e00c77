"""A model on disk: its config.json, and what its weights take. Whatever is there is untrusted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError
from patchkit.report import counted

CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_LARGEST_JSON = 64 << 20  # bytes; the index of the largest models has some 10 MB
_EXPECTED = "config.json of a Hugging Face model, or the folder that it is in"
_OTHER_FORMATS = {
    "params.json": "params.json is Mistral's own format; the same model's config.json is needed",
    "model_index.json": "model_index.json is of a pipeline; name the folder of its language model",
    "adapter_config.json": "this is an adapter; name the model that it is for",
}


@dataclass(frozen=True)
class ConfigFile:
    """A config.json: what it is called, and what it says."""

    name: str
    values: Mapping[str, Any]


def read_config(shown: str) -> ConfigFile:
    """Return the config.json that a path names, or that lies in the folder that it names."""
    path = Path(shown)
    if not is_folder(path):
        return ConfigFile(shown, _read_object(path, shown))
    if not (path / CONFIG).is_file():
        raise PatchkitError(
            f"the folder has no {CONFIG}", place=shown, expected=_EXPECTED, hint=_instead(path)
        )
    name = f"{shown.rstrip('/')}/{CONFIG}"
    return ConfigFile(name, _read_object(path / CONFIG, name))


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; what is too long for a path is none."""
    try:
        return path.is_dir()
    except OSError:
        return False


def _instead(folder: Path) -> str | None:
    """What a folder without a config.json probably is."""
    for name, hint in _OTHER_FORMATS.items():
        if (folder / name).is_file():
            return hint
    found = sorted(folder.glob("snapshots/*/config.json")) or sorted(folder.glob("*/config.json"))
    if len(found) == 1:
        return f"did you mean {found[0].parent}?"
    if found:
        return f"{found[0].parent} and {len(found) - 1} more of its folders have one"
    if any(folder.glob("*.gguf")):
        return "a GGUF file does not say all that is needed; take config.json of the model"
    return None


def _read_object(path: Path, shown: str) -> Mapping[str, Any]:
    data = _read_small(path, shown)
    if data.startswith(b"GGUF"):
        raise PatchkitError("is a GGUF file", place=shown, expected=_EXPECTED)
    try:
        value = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=partial(_object_of, place=shown)
        )
    except json.JSONDecodeError as err:
        fact = f"is not JSON: {err.msg[:1].lower()}{err.msg[1:]}"
        place = f"{shown}:{err.lineno}:{err.colno}"
        raise PatchkitError(fact, place=place, expected=_EXPECTED) from err
    except UnicodeDecodeError as err:
        fact = f"is not text: byte {err.start} is not UTF-8"
        raise PatchkitError(fact, place=shown, expected=_EXPECTED) from err
    except (ValueError, RecursionError) as err:  # thousands of digits; thousands of brackets
        raise PatchkitError(
            "holds no JSON of a sane size", place=shown, expected=_EXPECTED
        ) from err
    if not isinstance(value, dict):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(
            type(value), "a single value"
        )
        raise PatchkitError(f"is {kind}, no JSON object", place=shown, expected=_EXPECTED)
    return value


def _object_of(pairs: list[tuple[str, Any]], place: str) -> dict[str, Any]:
    """Return a JSON object; of a name that stands there twice, readers take one or the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(
            name for name, count in Counter(name for name, _ in pairs).items() if count > 1
        )
        raise PatchkitError(f"{twice!r} stands there twice", place=place, expected="each name once")
    return found


def _read_small(path: Path, shown: str) -> bytes:
    """Return a file, which must be one, and not larger than a config or an index can be."""
    try:
        if not path.exists():
            raise PatchkitError("no such file or folder", place=shown, expected=_EXPECTED,
                                hint=_from_hub(shown))  # fmt: skip
        if not path.is_file():
            raise PatchkitError("is neither a file nor a folder", place=shown, expected=_EXPECTED)
        with path.open("rb") as file:
            data = file.read(_LARGEST_JSON + 1)
    except OSError as err:
        raise PatchkitError(
            f"cannot be read: {(err.strerror or str(err)).lower()}", place=shown
        ) from err
    if len(data) > _LARGEST_JSON:
        what = "is a GGUF file" if data.startswith(b"GGUF") else "is larger than 64 MiB"
        raise PatchkitError(what, place=shown, expected=_EXPECTED)
    return data


def _from_hub(shown: str) -> str | None:
    """What gets the file, where the name looks like one of the Hugging Face hub."""
    owner, slash, name = shown.partition("/")
    if not slash or "/" in name or owner in ("", ".", "..", "~") or name.endswith(".json"):
        return None
    return f"only files are read: `hf download {shown} {CONFIG} --local-dir {name}` fetches it"


def has_weights(path: Path) -> bool:
    """Return whether a folder holds weights that `weights_bytes` counts."""
    return is_folder(path) and any(path.glob("*.safetensors"))


def weights_bytes(folder: Path, shown: str) -> tuple[int, str]:
    """Return what the tensors of a checkpoint take in bytes, and which files they are in.

    Those that the index names, where there is one: beside its shards a folder may hold the same
    weights once more in one consolidated file. Headers are no weights.
    """
    index = folder / _INDEX
    if index.is_file():
        names = _indexed(_read_object(index, f"{shown}/{_INDEX}"), f"{shown}/{_INDEX}")
        what = f"the {counted(len(names), 'file')} that {_INDEX} names"
    else:
        found = sorted(path.name for path in folder.glob("*.safetensors"))
        names = [name for name in found if not name.startswith("consolidated")] or found
        what = names[0] if len(names) == 1 else f"{len(names)} files"
        what += ", by name no consolidated ones" if len(names) < len(found) else ""
    if not names:
        raise PatchkitError(
            "the folder has no safetensors files", place=shown,
            expected="a checkpoint, or --weights as an amount such as 17.6GiB",
        )  # fmt: skip
    return sum(_tensor_bytes(folder / name, f"{shown}/{name}") for name in names), what


def _indexed(index: Mapping[str, Any], place: str) -> list[str]:
    """Return the files that an index names, each once."""
    mapped = index.get("weight_map")
    if not isinstance(mapped, dict) or not mapped:
        raise PatchkitError("has no weight_map", place=place, expected="tensors by file")
    names = sorted({name if isinstance(name, str) else repr(name) for name in mapped.values()})
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise PatchkitError(
                f"weight_map names {name!r}", place=place, expected="safetensors files beside it"
            )
    return names


def _tensor_bytes(path: Path, shown: str) -> int:
    """Return the bytes of a safetensors file behind its header."""
    if path.exists() and not path.is_file():  # opening a pipe would wait for its other end
        raise PatchkitError("is no file", place=shown, hint="the checkpoint is not complete")
    try:
        size_bytes = path.stat().st_size
        with path.open("rb") as file:
            header_bytes = int.from_bytes(file.read(8), "little")
    except OSError as err:
        hint = "the checkpoint is not complete"
        raise PatchkitError(
            f"cannot be read: {(err.strerror or str(err)).lower()}", place=shown, hint=hint
        ) from err
    left = size_bytes - 8 - header_bytes
    if left < 0:
        fact = f"is no safetensors file: {size_bytes:,} B, and its header says {header_bytes:,} B"
        raise PatchkitError(fact, place=shown)
    return left
