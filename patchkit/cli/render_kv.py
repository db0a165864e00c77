"""What `patchkit kv-plan` shows: a plan with its pages by kind, or a line a format."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from patchkit.cli import fitting
from patchkit.cli.fitting import filled, line_width
from patchkit.cli.render import say
from patchkit.kv.amounts import exact, gib, share
from patchkit.report import counted

# What belongs to the number before it, and is not to begin a line.
_UNITS = re.compile(r"(?<=[0-9]) (?=(?:(?:B|GiB|bytes|tokens?|requests?)\b|%))")
_LABEL = 18  # columns of what a line is about
_LEGEND = (
    "tokens: in all, as the engine logs them; bytes a token: in all layers that keep every token, "
    "without padding; longest request in tokens; requests at once of so many tokens"
)


def wrapped(text: str, indent: str = "", more: str | None = None) -> list[str]:
    """Return a text as lines that fit, no unit apart from its number."""
    lines = fitting.wrapped(_UNITS.sub("\0", text), indent, more)
    return [line.replace("\0", " ") for line in lines]


def show_plans(document: dict[str, Any]) -> None:
    """Print the model, what the cache has, each format or all in a table, and what was assumed."""
    for line in _head(document):
        say(line)
    if document["compare"]:
        _show_table(document)
    else:
        for plan in document["plans"]:
            _show_plan(plan, document["options"])
        if document["refusals"]:
            say()
            _show_refusals(document["refusals"])
    notes = document["notes"] + (_common_notes(document["plans"]) if document["compare"] else [])
    if notes:
        say()
    _say_all("assumed", notes)


def _head(document: dict[str, Any]) -> Iterator[str]:
    model, options, memory = document["model"], document["options"], document["memory"]
    kinds = [
        f"{model[f'{kind}_layers']} {text}"
        for kind, text in (("full", "full"), ("window", "window"), ("state", "state"))
        if model[f"{kind}_layers"]
    ]
    layers = f"{' + '.join(kinds)} layers"
    if model["drafter_layers"]:
        layers += f", {model['drafter_layers']} of them a drafter's"
    yield from wrapped(
        f"{model['name']}: {model['architecture']}, {model['dtype']}, {layers}", "", "  "
    )
    ranks = options["tensor_parallel"] * options["pipeline_parallel"]
    patch = "" if options["promotion"] else ", pristine"
    where = f"vLLM {document['release'].removeprefix('v')} on {options['platform']}{patch}"
    of_each = "" if ranks == 1 else f" of each of {ranks} ranks"
    yield from wrapped(f"{where}; the cache{of_each} has {exact(memory['bytes'])}", "", "  ")
    if memory["card_bytes"] is not None:
        taken = f"{memory['utilisation']} x {gib(memory['card_bytes'])}"
        weights = gib(-(-memory["weights_bytes"] // ranks))
        yield f"  = {taken} - weights {weights} - overhead {gib(memory['overhead_bytes'])}"


def _show_plan(plan: dict[str, Any], options: dict[str, Any]) -> None:
    say()
    say(plan["format"])
    for label, text in _figures(plan, options):
        _say_of(label, text)
    say()
    for line in _pages(plan["kinds"]):
        say(line)
    say()
    for label, text in _blocks(plan, options):
        _say_of(label, text)
    _say_all("how", plan["steps"])
    _say_all("note", plan["notes"])


def _say_all(label: str, texts: Sequence[str]) -> None:
    """Print remarks of one kind, which is said of the first."""
    for number, text in enumerate(texts):
        _say_of("" if number else label, text)


def _say_of(label: str, text: str) -> None:
    for line in wrapped(text, f"  {label:<{_LABEL}}", " " * (2 + _LABEL)):
        say(line)


def _figures(plan: dict[str, Any], options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What people ask for first."""
    length = f"{plan['max_model_len']:,} tokens"
    longest = f"{plan['longest']:,} tokens, of {plan['max_model_len']:,}"
    if plan["fits"]:
        yield "tokens", f"{plan['tokens']:,} in all; the engine logs it as `KV cache size`"
        yield "concurrency", f"{plan['concurrency']:.2f} requests of {length} at once"
    else:
        needed = f"one request of {length} needs {exact(plan['needed_bytes'])}"
        yield "does not start", f"{needed}, {_left(plan)}"
        longest += f"; --max-model-len {plan['longest']} starts" if plan["longest"] else ""
    yield "longest request", longest
    first, *others = plan["resident"]
    counts = [f"{counted(first['requests'], 'request')} of {first['tokens']:,} tokens"]
    counts += [f"{row['requests']:,} of {row['tokens']:,}" for row in others]
    most = options["max_num_seqs"]
    capped = any(row["requests"] == most for row in plan["resident"])
    cap = f"; {most:,} at most (--max-num-seqs)" if capped else ""
    yield "at once", ", or ".join(counts) + cap
    yield "limited by", plan["limit"]


def _left(plan: dict[str, Any]) -> str:
    """What there is for a request that does not fit."""
    if plan["available_bytes"] > 0:
        there = f"{exact(plan['available_bytes'])} are there"
        enough = plan["available_bytes"] >= plan["needed_bytes"]
        return f"{there}, of which one block is never given out" if enough else there
    return f"and 16-bit tails alone take {exact(plan['tail_bytes'])}"


def _pages(kinds: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table with a column a kind of layers."""
    rows = [("", *(kind["kind"] for kind in kinds))]
    rows += [
        ("format", *(kind["format"] or "-" for kind in kinds)),
        ("layers", *(f"{kind['layers']:,}" for kind in kinds)),
        ("groups (block tables)", *(_unit(kind["groups"], "", "shared") for kind in kinds)),
    ]
    if any(kind["window"] for kind in kinds):
        rows.append(("window", *(_unit(kind["window"], "tokens") for kind in kinds)))
    rows += [
        ("a token in one layer", *(_unit(kind["token_bytes"], "B") for kind in kinds)),
        ("block", *(_unit(kind["block"], "tokens") for kind in kinds)),
        ("block as it is born", *(_unit(kind["born_block"], "tokens") for kind in kinds)),
        ("kernel block", *(_kernel_block(kind) for kind in kinds)),
        ("page", *(_unit(kind["page_bytes"], "B") for kind in kinds)),
        ("padding in it", *(_unit(kind["padding_bytes"], "B", zero="none") for kind in kinds)),
        ("padding / page", *(_padding(kind) for kind in kinds)),
        ("blocks of a request", *(_blocks_of(kind) for kind in kinds)),
    ]
    return grid(rows, line_width())


def _unit(number: int | None, unit: str, zero: str = "-") -> str:
    return f"{number:,} {unit}".rstrip() if number else zero


def _kernel_block(kind: dict[str, Any]) -> str:
    """Kernels of states do not go by blocks."""
    return _unit(kind["kernel_block"] if kind["format"] else None, "tokens")


def _blocks_of(kind: dict[str, Any]) -> str:
    return _unit(kind["blocks_per_request"], "a group") if kind["groups"] else "shared"


def _padding(kind: dict[str, Any]) -> str:
    return share(kind["padding_bytes"], kind["page_bytes"]) if kind["page_bytes"] else "-"


def grid(rows: Sequence[Sequence[str]], width: int, indent: str = "  ", gap: int = 2) -> list[str]:
    """Return the lines of a table, all but the first column to the right, in as many as fit."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines: list[str] = []
    start = 1
    while start < len(widths):
        end, used = start, len(indent) + widths[0]
        while end < len(widths) and (end == start or used + gap + widths[end] <= width):
            used += gap + widths[end]
            end += 1
        lines += [""] if lines else []
        for row in rows:
            cells = (f"{row[n]:>{widths[n]}}" for n in range(start, end))
            line = (" " * gap).join([f"{indent}{row[0]:<{widths[0]}}", *cells])
            lines.append(line.rstrip())
        start = end
    return lines


def _blocks(plan: dict[str, Any], options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How pages make blocks, and blocks requests."""
    pages = f"{counted(plan['group_size'], 'page')} of {plan['page_bytes']:,} B"
    yield "one block", f"{plan['block_bytes']:,} B: {pages}"
    needed = exact(plan["needed_bytes"])
    blocks = f"{plan['blocks_per_request']:,} blocks for {plan['max_model_len']:,} tokens"
    yield "one request", f"{blocks}{_sum(plan['kinds'])}, of {plan['num_blocks']:,}; {needed}"
    if plan["state_bytes_per_request"]:
        yield "fixed state", f"{exact(plan['state_bytes_per_request'])} a request, of any length"
    if plan["tail_bytes"]:
        requests = counted(options["max_num_seqs"], "request")
        yield "16-bit tail", f"{exact(plan['tail_bytes'])} beside the pages, for {requests}"


def _sum(kinds: Sequence[dict[str, Any]]) -> str:
    """How the blocks of a request come together, where it has more than one block table."""
    parts = [
        f"{kind['groups']} x {kind['blocks_per_request']:,}" for kind in kinds if kind["groups"]
    ]
    return f" ({' + '.join(parts)})" if sum(kind["groups"] for kind in kinds) > 1 else ""


def _show_table(document: dict[str, Any]) -> None:
    """Print a line a format, then those that do not start and those that are refused."""
    plans = document["plans"]
    if plans:
        say()
        for line in _table(plans, document["lengths"]):
            say(line)
        say()
        most = document["options"]["max_num_seqs"]
        capped = any(row["requests"] == most for plan in plans for row in plan["resident"])
        for line in wrapped(f"{_LEGEND}; {most:,} at most (--max-num-seqs)" if capped else _LEGEND):
            say(line)
    stopped = [plan for plan in plans if not plan["fits"]]
    if stopped:
        length = f"{stopped[0]['max_model_len']:,}"
        for line in filled(f"do not start with {length} tokens: ", [p["format"] for p in stopped]):
            say(line)
    if document["refusals"]:
        say()
    _show_refusals(document["refusals"])


def _table(plans: Sequence[dict[str, Any]], lengths: Sequence[int]) -> list[str]:
    """Return the lines of the formats, in one table where it is not too wide."""
    over = ("", "", "longest", *("" for _ in lengths), "bytes", "tokens")
    titles = ("format", "tokens", "request", *(f"{n:,}" for n in lengths), "a token", "/ auto")
    rows = [over, titles, *(_row(plan) for plan in plans)]
    lines = grid(rows, line_width(), "")
    if len(lines) > len(rows):
        lines = grid(rows, line_width(), "", gap=1)
    at = lines[0].find("longest") + len("longest") + 1
    end = lines[0].find("bytes") - 1
    for words in ("requests at once of", "at once of"):
        if lines[0].endswith("tokens") and end - at >= len(words):
            lines[0] = f"{lines[0][:at]}{words.center(end - at)}{lines[0][end:]}"
            break
    return lines


def _row(plan: dict[str, Any]) -> tuple[str, ...]:
    ratio = plan["ratio_to_auto"]
    return (
        plan["format"],
        f"{plan['tokens']:,}",
        f"{plan['longest']:,}",
        *(f"{row['requests']:,}" for row in plan["resident"]),
        f"{plan['bytes_per_token']:,}",
        "-" if ratio is None else f"{ratio:.2f}",
    )


def _show_refusals(refusals: Sequence[dict[str, Any]]) -> None:
    """Print why formats are refused, those for the same reason together."""
    found: dict[tuple[str, str | None, str | None], list[str]] = {}
    for refusal in refusals:
        name = refusal["format"]
        reason = refusal["reason"].removeprefix(f"{name} ").removesuffix(f" of {name}")
        reason = re.sub(rf"\b{re.escape(name)}\b", "it", reason)
        found.setdefault((reason, refusal["expected"], refusal["hint"]), []).append(name)
    for (reason, expected, hint), formats in found.items():
        text = f"{', '.join(formats)}: refused: {reason}"
        for line in wrapped(f"{text}, expected {expected}" if expected else text, "", "  "):
            say(line)
        for line in wrapped(f"hint: {hint}", "  ", "    ") if hint else ():
            say(line)


def _common_notes(plans: Sequence[dict[str, Any]]) -> list[str]:
    """Return what was assumed for some formats, once for all that it was assumed for."""
    found: dict[str, list[str]] = {}
    for plan in plans:
        for note in plan["notes"]:
            found.setdefault(note.removeprefix(f"{plan['format']} "), []).append(plan["format"])
    return [
        note if len(names) == len(plans) > 1 else f"{', '.join(names)}: {note}"
        for note, names in found.items()
    ]
