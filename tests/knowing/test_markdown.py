"""What is put into the page shows as it was, by a parser that is not ours."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from patchkit.knowing.markdown import code, inline, paragraphs, slug, table

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shown(tokens: list[Token]) -> str:
    """The text that a reader sees of some tokens."""
    parts = []
    for token in tokens:
        if token.children:
            parts.append(shown(token.children))
        elif token.type in ("text", "code_inline"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append("\n")
    return "".join(parts)


def kinds(text: str) -> list[str]:
    """The blocks that a text makes, and what marks there are in them."""
    return [
        kind.type
        for token in READER.parse(text)
        for kind in (token, *(token.children or ()))
        if kind.type not in ("inline", "text", "softbreak", "text_special")
    ]


PARAGRAPH = ["paragraph_open", "paragraph_close"]
TEXTS = st.text(st.sampled_from("ab1 _*`[]()<>#+-=.|~\\&;:!\n\t{}$\"'/hxtp"), max_size=24)


@given(TEXTS)
@example("1. a")
@example("=")
@example("# a")
@example("&lt;b>")
@example("a\n---")
@example("![a](b)")
@example("_a_ a_b")
@example("__1__")
@example("a__b_ _c")
@example("a http://b_c.d/*e*")
@example("**")
@example("a\\")
@example("~~a~~")
@example("0) b")
@example("a<b>c</b>")
@example("[a]: http://b")
def test_a_text_is_shown_as_it_was_with_its_blanks_folded(text: str) -> None:
    tokens = READER.parse(inline(text))
    assert shown(tokens) == " ".join(text.split())
    links = ["link_open", "link_close"] * inline(text).count("<http")
    expected = [PARAGRAPH[0], *links, PARAGRAPH[1]] if text.strip() else []
    assert kinds(inline(text)) == expected


@given(TEXTS)
@example("`")
@example("a ` b")
@example("``a`")
@example("|")
def test_code_is_shown_as_it_was(text: str) -> None:
    folded = " ".join(text.split())
    if folded:
        assert shown(READER.parse(f"x {code(text)}")) == f"x {folded}"


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=3))
@example([("|", "a|b")])
@example([("\\|", "\\")])
@example([("http://a/b|c", "")])
def test_a_cell_is_shown_as_it_was(rows: list[tuple[str, str]]) -> None:
    lines = table(("one", "two"), [(inline(a), inline(b)) for a, b in rows])
    tokens = READER.parse("\n".join(lines))
    cells = [shown([token]) for token in tokens if token.type == "inline"]
    assert cells == ["one", "two", *(" ".join(cell.split()) for row in rows for cell in row)]


def test_lines_become_lines_of_a_paragraph_and_a_blank_one_ends_it() -> None:
    assert paragraphs("\n- a\n  # b\n\n    c\n") == ["\\- a", "\\# b", "", "c"]


def test_a_link_is_one_and_its_period_is_none_of_it() -> None:
    assert inline("see https://example.org/a_b.") == "see <https://example.org/a_b>."
    assert inline("(https://example.org/x)") == "(<https://example.org/x>)"
    assert inline("https://example.org") == "<https://example.org>"


def test_what_no_reader_takes_is_replaced() -> None:
    assert inline("a\x00b\udce9c\x1b") == "a\ufffdb\ufffdc\ufffd"


def test_names_stay_readable() -> None:
    assert inline("unify_kv_cache_spec_page_size(x)") == "unify_kv_cache_spec_page_size(x)"


@pytest.mark.parametrize(
    ("heading", "fragment"),
    [("block-promotion", "block-promotion"), ("kv/Some Patch_1!", "kvsome-patch_1")],
)
def test_a_fragment_is_githubs(heading: str, fragment: str) -> None:
    assert slug(heading) == fragment
