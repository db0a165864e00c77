"""Names for patches: what a stored patch file is called, from a file's name or a subject."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ODD = re.compile(r"[^A-Za-z0-9._+]+")
_NUMBER = re.compile(r"\d{4}-(?=.)")  # as `git format-patch` puts it before a name
_TAG = re.compile(r"\s*\[(?:[^\]]*\b)?(?:PATCH|RFC)\b([^\]]*)\]", re.IGNORECASE)
_COUNT = re.compile(r"\b(\d+)/(\d+)$")
_SUFFIXES = (".patch", ".diff", ".mbox", ".eml", ".txt")
_LONGEST = 60


def split_subject(subject: str) -> tuple[str, tuple[int, int] | None]:
    """Return a mail's subject without `[PATCH 2/3]`, and the number and count in that."""
    numbers = None
    while match := _TAG.match(subject):
        found = _COUNT.search(match[1].strip())
        numbers = (int(found[1]), int(found[2])) if found else numbers
        subject = subject[match.end() :]
    return subject.strip(), numbers


def stem_of_file(name: str) -> str:
    """Return what a file's name says: without folder, suffix and leading number."""
    stem = name.rpartition("/")[2]
    for suffix in _SUFFIXES:
        stem = stem.removesuffix(suffix)
    return _NUMBER.sub("", stem, count=1) if _NUMBER.match(stem) else stem


def stem_of_subject(subject: str) -> str:
    """Return the words of a subject as a name, cut between two of them where it is long."""
    words = _ODD.sub("-", subject.lower()).strip("-.").split("-")
    stem = words[0][:_LONGEST]
    for word in words[1:]:
        if len(stem) + 1 + len(word) > _LONGEST:
            break
        stem += f"-{word}"
    return stem


def free_names(stems: Iterable[str]) -> list[str]:
    """Return a file name for each stem: valid in a series file, and each once in any case."""
    taken: set[str] = set()
    names = []
    for stem in stems:
        plain = _ODD.sub("-", stem).strip("-.") or "patch"
        number, name = 1, f"{plain}.patch"
        while name.casefold() in taken:
            number += 1
            name = f"{plain}-{number}.patch"
        taken.add(name.casefold())
        names.append(name)
    return names
