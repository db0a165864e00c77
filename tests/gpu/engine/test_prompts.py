"""The prompts, held against an induction that is written in three lines."""

from __future__ import annotations

from tests.gpu.engine.prompts import FIRST, prompts, repeat

VOCABULARY = 8192


def test_each_prompt_goes_on_as_the_nearest_repeat_of_its_last_token_does() -> None:
    """Caught: a continuation off by one; one of the first passage where it was revised."""
    for prompt in prompts(VOCABULARY):
        text = list(prompt.tokens)
        for expected in prompt.induced:
            nearest = len(text) - 2 - text[-2::-1].index(text[-1])
            assert text[nearest + 1] == expected, prompt.name
            text.append(expected)
        assert prompt.tokens[prompt.source] == prompt.induced[0]


def test_prompts_are_many_and_long_and_end_on_and_beside_edges_of_blocks() -> None:
    """Caught: a length that is not what was asked for."""
    found = {prompt.name: len(prompt.tokens) for prompt in prompts(VOCABULARY)}
    assert found == {
        "short": 200,
        "edge of a block": 512,
        "beside an edge": 1009,
        "near": 2048,
        "far": 2500,
        "middle": 4097,
        "farther": 6001,
        "farthest": 7800,
        "revised": 5000,
        "revised far": 7000,
    }
    assert {len(prompt.induced) for prompt in prompts(VOCABULARY)} == {96}


def test_before_its_repeat_no_token_stands_twice() -> None:
    """Caught: tokens drawn with repetition, which leaves two ways to go on."""
    prompt = repeat("any", 400, 100, 50, VOCABULARY)
    assert len(set(prompt.tokens[:-12])) == 388
    assert prompt.tokens[-12:] == prompt.tokens[88:100]
    assert prompt.induced == prompt.tokens[100:150]
    assert min(prompt.tokens) >= FIRST


def test_a_revised_passage_differs_from_the_first_at_every_24th_token() -> None:
    """Caught: a revision equal to the passage, after which no draft would be refused."""
    prompt = next(p for p in prompts(VOCABULARY) if p.name == "revised")
    first, text = prompt.tokens[:120], prompt.tokens
    start = prompt.source - 12
    changed = text[start : start + 120]
    assert [i for i in range(120) if first[i] != changed[i]] == [23, 47, 71, 95, 119]
    assert text[-12:] == first[:12]
    assert len(set(text)) == len(text) - (120 - 5) - 12
