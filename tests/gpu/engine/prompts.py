"""Prompts of token ids for the constructed model, and how each goes on."""

from __future__ import annotations

import random
from dataclasses import dataclass

FIRST = 16  # ids below are left alone: one of them ends a text


@dataclass(frozen=True)
class Prompt:
    """A prompt that ends within a repeat, and the tokens that the repeat goes on with."""

    name: str
    tokens: tuple[int, ...]
    induced: tuple[int, ...]
    source: int  # the position in the prompt of the first induced token


def repeat(name: str, length: int, source: int, count: int, vocabulary: int) -> Prompt:
    """Tokens that are all different, then the 12 that stand before `source`, once more.

    No token stands twice before the repeat, so that there is one way to go on.
    """
    unique = random.Random(name).sample(range(FIRST, vocabulary), length - 12)
    tokens = (*unique, *unique[source - 12 : source])
    return Prompt(name, tokens, tuple(unique[source : source + count]), source)


def revised(name: str, length: int, count: int, vocabulary: int) -> Prompt:
    """A passage, filler, the passage with every 24th token replaced, filler, and its beginning.

    The nearer passage is to be followed; an n-gram looked up in the prompt finds the first one,
    so that what it drafts is refused at each token that was replaced.
    """
    draw = random.Random(name)
    passage_length = count + 24
    ids = draw.sample(range(FIRST, vocabulary), length)
    passage, rest = ids[:passage_length], ids[passage_length:]
    changed = [rest.pop() if i % 24 == 23 else token for i, token in enumerate(passage)]
    fill = length - 2 * passage_length - 12
    near = fill // 8
    tokens = [*passage, *rest[: fill - near], *changed, *rest[fill - near : fill], *changed[:12]]
    source = passage_length + fill - near + 12
    return Prompt(name, tuple(tokens), tuple(changed[12 : 12 + count]), source)


def prompts(vocabulary: int, count: int = 96) -> list[Prompt]:
    """Ten requests of 200 to 7,800 tokens; ends and repeats lie on and beside edges of blocks."""
    return [
        repeat("short", 200, 40, count, vocabulary),
        repeat("edge of a block", 512, 256, count, vocabulary),
        repeat("beside an edge", 1009, 33, count, vocabulary),
        repeat("near", 2048, 1800, count, vocabulary),
        repeat("far", 2500, 20, count, vocabulary),
        repeat("middle", 4097, 2049, count, vocabulary),
        repeat("farther", 6001, 100, count, vocabulary),
        repeat("farthest", 7800, 16, count, vocabulary),
        revised("revised", 5000, count, vocabulary),
        revised("revised far", 7000, count, vocabulary),
    ]
