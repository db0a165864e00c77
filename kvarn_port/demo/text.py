"""Texts that formats are measured on: three of our own, of fixed content, or the user's files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from .models import MissingError

FOLDER = Path(__file__).with_name("texts")
# English prose of our README and docs, a module of patchkit, and a terminal full of tables, all as
# they were on 2026-11-30: pages change, and figures on them could not be compared
OWN = tuple(FOLDER / f"{name}.txt" for name in ("prose", "code", "table"))


@dataclass(frozen=True)
class Text:
    """A text by its name, with the sha256 of its UTF-8."""

    name: str
    content: str
    sha256: str


def read(path: Path) -> Text:
    """Return the text in a file.

    Raises MissingError where it cannot be read as UTF-8.
    """
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise MissingError(f"{path}: {err}, expected a text in UTF-8") from err
    return Text(path.stem, content, hashlib.sha256(content.encode()).hexdigest())


def first_tokens(
    texts: Sequence[Text], encode: Callable[[str], list[int]], count: int
) -> torch.Tensor:
    """Return the first tokens of each text, [texts, count] int64.

    Raises MissingError where a text is shorter.
    """
    rows = []
    for text in texts:
        ids = encode(text.content)
        if len(ids) < count:
            fact = f"the text {text.name} has {len(ids)} tokens, {count} are wanted"
            raise MissingError(f"{fact}. Give a longer one, or a smaller --tokens")
        rows.append(ids[:count])
    return torch.tensor(rows, dtype=torch.int64)
