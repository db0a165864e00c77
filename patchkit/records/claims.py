"""The figures of a text, each held against what its mark says of where it is from."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction

from patchkit.errors import PatchkitError
from patchkit.records.arithmetic import evaluate
from patchkit.records.compare import COMPARABLE, check_condition, differences
from patchkit.records.figures import BLANKS, Figure, find_figures, parse_number
from patchkit.records.library import Library, Named, RefusedError, near
from patchkit.records.marks import Mark, bracket_marks, brackets, comment_marks
from patchkit.records.prose import blank, header_text, markdown_prose, plain_prose
from patchkit.records.quoted import contradictions, sentence
from patchkit.records.record import Row
from patchkit.records.units import PATTERN, UNITS, convert, parse_unit

# What breaks a rule, for the table of docs/records.md.
RULES = {
    "unmarked": "a figure says nothing of where it is from",
    "bad-mark": "a mark cannot be understood, or holds no figure or several",
    "missing-record": "there is no record of that name",
    "missing-row": "the record has no such row or value",
    "edited-record": "a record was edited, or is damaged",
    "stale": "a source that the record names has changed since",
    "mismatched": "the figure is not what the record, the ratio or the sum gives",
    "other-workload": "the record was measured under other conditions than those stated",
    "not-comparable": "the two rows of a ratio differ in more than the thing compared",
    "no-tree": "an engine was measured whose tree was not verified",
    "no-source": "a published figure lacks its source or its conditions",
}
_OPTIONS = {
    "record": {"format", "unit"},
    "ratio": {"format", "unit", "as", "compare"},
    "published": {"source", "conditions"},
    "arithmetic": {"format", "unit"},
}
_THOUSANDS = re.compile(r"[ \u00a0]?[kKMG](?=[^A-Za-z]|tok|req)")
_UNIT_BEHIND = re.compile(rf"{BLANKS}(?P<unit>{PATTERN})(?![^\W_])")
_FORMAT = re.compile(r",?\.\d[fg]")


@dataclass(frozen=True)
class Finding:
    """A figure or mark that breaks a rule: its line (1-based), what is so, what to do."""

    rule: str
    place: str
    lineno: int
    text: str
    hint: str | None = None


@dataclass(frozen=True)
class Judged:
    """A text with what is wrong in it, how many figures are marked as what, and the text as filled.

    What `filled` puts right is in `findings` as "mismatched".
    """

    findings: tuple[Finding, ...]
    counts: Mapping[str, int]
    filled: str


@dataclass
class _Text:
    """A text while it is judged; `prose` has its offsets."""

    place: str
    text: str
    prose: str
    figures: list[Figure]
    library: Library
    findings: list[Finding] = field(default_factory=list)
    edits: list[tuple[int, int, str]] = field(default_factory=list)
    quoted: list[tuple[int, tuple[Row, ...]]] = field(default_factory=list)

    def found(self, rule: str, at: int, text: str, hint: str | None = None) -> None:
        lineno = self.text.count("\n", 0, at) + 1
        self.findings.append(Finding(rule, self.place, lineno, text, hint))


def judge_text(text: str, place: str, library: Library) -> Judged:
    """Return what is wrong with the figures of a Markdown file, a patch's header or plain text."""
    is_markdown = place.endswith(".md")
    comments: list[tuple[int, str]] = []
    if is_markdown:
        prose, comments = markdown_prose(text)
    else:
        prose = plain_prose(header_text(text) if place.endswith(".patch") else text)
    bare = prose
    for start, end in brackets(prose):
        bare = bare[:start] + blank(bare[start:end]) + bare[end:]
    judged = _Text(place, text, bare, find_figures(bare, tables=is_markdown), library)
    marks = [*comment_marks(comments), *(m for m, *_ in bracket_marks(prose, judged.figures))]
    counts: Counter[str] = Counter()
    for mark in marks:
        _judge(judged, mark)
        counts[mark.kind] += mark.fault is None
    for figure in judged.figures:
        if not any(m.start <= figure.start and figure.end <= m.end for m in marks):
            shown = " ".join(text[figure.start : figure.end].split())
            unit = "" if figure.end > figure.number_end else f" ({figure.unit.name})"
            judged.found("unmarked", figure.start, f"{shown}{unit} says nothing of its source")
            counts["unmarked"] += 1
    _hold_sentences(judged)
    filled = text
    for start, end, new in sorted(judged.edits, reverse=True):
        filled = filled[:start] + new + filled[end:]
    findings = sorted(judged.findings, key=lambda finding: finding.lineno)
    return Judged(tuple(findings), dict(counts), filled)


def _judge(judged: _Text, mark: Mark) -> None:
    try:
        if mark.fault is not None:
            raise RefusedError("bad-mark", mark.fault)
        if mark.whole is not None:
            _check_lines(judged.text, mark, mark.whole)
        _check_options(mark)
        if mark.kind == "published":
            _published(judged, mark)
        else:
            figure = _figure(judged, mark)
            _hold(judged, mark, figure, *_given(judged, mark, figure))
    except RefusedError as err:
        judged.found(err.rule, mark.start, err.fact, err.hint)
    except PatchkitError as err:
        judged.found("bad-mark", mark.start, str(err), err.hint)
    except ArithmeticError:
        judged.found("bad-mark", mark.start, "holds or gives a number of too many digits")


def _check_lines(text: str, mark: Mark, whole: tuple[int, int]) -> None:
    """Refuse a comment that begins a line with more on it: Markdown takes all of it for HTML."""
    for at, after in ((whole[0], mark.start), (mark.end, whole[1])):
        before = text[text.rfind("\n", 0, at) + 1 : at]
        if not before.strip() and text[after:].partition("\n")[0].strip():
            raise RefusedError(
                "bad-mark",
                "begins a line, which Markdown takes for HTML",
                hint="put it behind the first word of the line",
            )


def _check_options(mark: Mark) -> None:
    known = _OPTIONS[mark.kind]
    takes_conditions = mark.kind in ("record", "ratio")
    for key in mark.options:
        if key not in known and not takes_conditions:
            raise RefusedError("bad-mark", f"{key}= means nothing in a mark of {mark.kind}")
    if (form := mark.options.get("format")) is not None and not _FORMAT.fullmatch(form):
        raise RefusedError("bad-mark", f"format={form} is none such as .0f, ,.1f or .3g")
    if (unit := mark.options.get("unit")) is not None and parse_unit(unit) is None:
        raise RefusedError("bad-mark", f"unit={unit} is no unit", hint=", ".join(UNITS))


def _published(judged: _Text, mark: Mark) -> None:
    if mark.words:
        raise RefusedError("bad-mark", f"cannot be understood: {mark.words!r}")
    for key in ("source", "conditions"):
        if not mark.options.get(key, "").strip():
            hint = 'published: source="…" conditions="…"'
            raise RefusedError("no-source", f"a published figure without its {key}", hint=hint)
    if not any(mark.start <= figure.start < mark.end for figure in judged.figures):
        raise RefusedError("bad-mark", "holds no figure")


def _figure(judged: _Text, mark: Mark) -> Figure | None:
    """Return the figure that a mark is about; None where it is still to be filled in.

    A unit that stands behind the mark is the figure's as well: that is how it is read.
    """
    inside = [f for f in judged.figures if mark.start <= f.start and f.end <= mark.end]
    body = judged.prose[mark.start : mark.end]
    if len(inside) > 1:
        raise RefusedError("bad-mark", f"holds {len(inside)} figures, and each needs a mark")
    if not inside and not judged.text[mark.start : mark.end].strip():
        return None
    figure = inside[0] if inside else _bare_number(body, mark.start)
    if _THOUSANDS.match(judged.text, figure.number_end):
        raise RefusedError("bad-mark", "holds a number with a letter for its thousands")
    behind = _UNIT_BEHIND.match(judged.text, mark.whole[1]) if mark.whole else None
    unit = parse_unit(behind["unit"]) if behind and figure.end == figure.number_end else None
    return replace(figure, unit=unit) if unit else figure


def _bare_number(body: str, at: int) -> Figure:
    number = parse_number(body)
    if number is None:
        raise RefusedError("bad-mark", f"holds no figure: {' '.join(body.split()) or 'code'!r}")
    return replace(
        number, start=number.start + at, number_end=number.number_end + at, end=number.end + at
    )


# What a mark gives ------------------------------------------------------------------------------


def _given(judged: _Text, mark: Mark, figure: Figure | None) -> tuple[Decimal, str]:
    """Return the value that a mark gives, and its unit; refuse what does not back a figure."""
    if mark.kind == "arithmetic":
        unit = mark.options.get("unit") or (figure.unit.name if figure else "")
        return _decimal(evaluate(mark.words)), unit
    if mark.kind == "record":
        named = judged.library.find(mark.words)
        _conditions(judged, mark, [named])
        return named.value, "" if named.field == "n" else named.row.unit
    return _ratio(judged, mark), "×"


def _conditions(judged: _Text, mark: Mark, named: Sequence[Named]) -> None:
    for one in named:
        judged.library.check(one)
        for key, wanted in mark.options.items():
            if key in _OPTIONS[mark.kind]:
                continue
            if other := check_condition(one.record, one.row, key, wanted):
                raise RefusedError("other-workload", f"record {one.record.name}: {other}")
    judged.quoted.append((mark.start, tuple(one.row for one in named)))


def _ratio(judged: _Text, mark: Mark) -> Decimal:
    parts = [part.strip() for part in mark.words.split("/")]
    if len(parts) != 2:
        raise RefusedError("bad-mark", f"{mark.words!r} is no ratio, as in RECORD#ROW / RECORD#ROW")
    if parts[1].startswith("#"):
        parts[1] = parts[0].partition("#")[0] + parts[1]
    one, other = (judged.library.find(part) for part in parts)
    compare = mark.options.get("compare", "")
    if compare not in COMPARABLE:
        fact = f"compare={compare} names nothing that two rows may differ in"
        raise RefusedError("bad-mark", fact, hint=near(compare, list(COMPARABLE)))
    _conditions(judged, mark, [one, other])
    sides = ((one.record, one.row), (other.record, other.row))
    if other_fields := differences(*sides, compare):
        listed = "; ".join(f"{name}: {a} and {b}" for name, a, b in other_fields)
        fact = f"the rows differ in more than {compare}: {listed}"
        raise RefusedError("not-comparable", fact)
    if one.field != other.field:
        raise RefusedError("not-comparable", f"{one.field} and {other.field} are compared")
    if not differences(*sides, ""):
        raise RefusedError("not-comparable", f"the rows do not differ in {compare}")
    if not other.value:
        raise RefusedError("not-comparable", f"{parts[1]} is 0")
    return _as(mark.options.get("as", "of"), one.value / other.value)


def _as(form: str, ratio: Decimal) -> Decimal:
    if form not in ("of", "more", "less"):
        raise RefusedError("bad-mark", f"as={form} is neither of, more nor less")
    return {"of": ratio, "more": ratio - 1, "less": 1 - ratio}[form]


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


# The figure against it --------------------------------------------------------------------------


def _hold(judged: _Text, mark: Mark, figure: Figure | None, value: Decimal, unit: str) -> None:
    """Note a figure that is not what its mark gives, and what it is to be."""
    wanted = mark.options.get("unit")
    if figure is not None and figure.unit.name:
        wanted = figure.unit.name
    wanted = wanted or unit
    amount = convert(value, unit, wanted)
    if amount is None:
        raise RefusedError(
            "mismatched", f"the figure is in {wanted}, its source in {unit or 'none'}"
        )
    number = _number(amount, mark.options.get("format"), figure)
    if figure is None:
        text = _joined(number, wanted) if wanted else number
        judged.edits.append((mark.start, mark.end, text))
        judged.found(
            "mismatched", mark.start, f"nothing is filled in, {_source(mark)} gives {text}"
        )
        return
    shown = judged.text[figure.start : figure.number_end]
    same = figure.value == Decimal(number.replace(",", "")) and not shown[:1].isalpha()
    if same or (shown[:1].isalpha() and figure.value == amount):
        return
    judged.edits.append((figure.start, figure.number_end, number))
    fact = f"the figure is {shown}, {_source(mark)} gives {number} {wanted}".rstrip()
    judged.found("mismatched", figure.start, fact, "`patchkit claims --fill` writes it")


def _joined(number: str, unit: str) -> str:
    return f"{number}×" if unit == "×" else f"{number} {unit}"


def _source(mark: Mark) -> str:
    return {"record": "the record", "ratio": "the ratio"}.get(mark.kind, "the sum")


def _number(amount: Decimal, form: str | None, figure: Figure | None) -> str:
    """Return an amount as it is to be written: as the format says, else as exactly as before.

    Nothing that is not 0 is written as 0.
    """
    if form is not None:
        text = format(float(amount), form)
    elif figure is not None and figure.value:
        text = f"{amount.quantize(Decimal(1).scaleb(-figure.decimals), ROUND_HALF_EVEN):,f}"
    else:
        text = _significant(amount)
    if amount and not Decimal(text.replace(",", "")):
        text = _significant(amount)
    return text


def _significant(amount: Decimal) -> str:
    """Return an amount with three digits that say something, more where it is a thousand."""
    if amount == amount.to_integral_value():
        return f"{int(amount):,}"
    decimals = max(0, 2 - amount.adjusted()) if amount else 0
    return f"{amount:,.{decimals}f}"


def _hold_sentences(judged: _Text) -> None:
    """Note each sentence that states a length which none of the rows that it quotes has."""
    rows: dict[tuple[int, int], list[Row]] = {}
    for at, quoted in judged.quoted:
        rows.setdefault(sentence(judged.prose, at), []).extend(quoted)
    for (start, end), quoted_rows in rows.items():
        for text in contradictions(judged.prose[start:end], quoted_rows):
            judged.found("other-workload", start + _first(judged.prose[start:end]), text)


def _first(text: str) -> int:
    return len(text) - len(text.lstrip())
