"""What `patchkit kv-plan` shows: a plan with its pages by kind, or a line a format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from patchkit.cli.fitting import filled, line_width, wrapped
from patchkit.cli.render import say
from patchkit.kv.size import exact, gib, share
from patchkit.report import counted

_LABEL = 18  # columns of what a line is about
_LEGEND = (
    "tokens: in all, as the engine logs them; longest request, and requests of that many tokens "
    "at once; bytes a token: in all layers that keep every token, without padding; tokens / auto: "
    "against those of auto"
)


def show_plans(document: dict[str, Any]) -> None:
    """Print the model, what the cache has, each format or all in a table, and what was assumed."""
    for line in _head(document):
        say(line)
    if document["compare"]:
        _show_table(document)
    else:
        for plan in document["plans"]:
            _show_plan(plan, document["options"])
        for refusal in document["refusals"]:
            say()
            for line in _refused(refusal):
                say(line)
    if document["notes"]:
        say()
    _say_all("assumed", document["notes"])


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
    for label, text in _figures(plan):
        _say_of(label, text)
    say()
    for line in _pages(plan["kinds"]):
        say(line)
    say()
    for label, text in _blocks(plan, options):
        _say_of(label, text)
    _say_all("how", plan["steps"])
    _say_all("assumed", plan["notes"])


def _say_all(label: str, texts: Sequence[str]) -> None:
    """Print remarks of one kind, which is said of the first."""
    for number, text in enumerate(texts):
        _say_of("" if number else label, text)


def _say_of(label: str, text: str) -> None:
    for line in wrapped(text, f"  {label:<{_LABEL}}", " " * (2 + _LABEL)):
        say(line)


def _figures(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What people ask for first."""
    length = f"{plan['max_model_len']:,} tokens"
    if plan["fits"]:
        yield "tokens", f"{plan['tokens']:,} in all; the engine logs it as `GPU KV cache size`"
        yield "concurrency", f"{plan['concurrency']:.2f} requests of {length} at once"
    else:
        yield (
            "does not start",
            (
                f"one request of {length} needs {exact(plan['needed_bytes'])}, "
                f"{exact(plan['available_bytes'])} are there"
            ),
        )
    yield "longest request", f"{plan['longest']:,} tokens, of {plan['max_model_len']:,}"
    first, *others = plan["resident"]
    counts = [f"{counted(first['requests'], 'request')} of {first['tokens']:,} tokens"]
    counts += [f"{row['requests']:,} of {row['tokens']:,}" for row in others]
    yield "at once", ", or ".join(counts)
    yield "limited by", plan["limit"]


def _pages(kinds: Sequence[dict[str, Any]]) -> list[str]:
    """Return a table with a column a kind of layers."""
    rows = [("", *(kind["kind"] for kind in kinds))]
    rows += [
        ("format", *(kind["format"] or "-" for kind in kinds)),
        ("layers", *(f"{kind['layers']:,}" for kind in kinds)),
        ("groups (block tables)", *(f"{kind['groups']:,}" for kind in kinds)),
    ]
    if any(kind["window"] for kind in kinds):
        rows.append(("window", *(_unit(kind["window"], "tokens") for kind in kinds)))
    rows += [
        ("a token in one layer", *(_unit(kind["token_bytes"], "B") for kind in kinds)),
        ("block", *(_unit(kind["block"], "tokens") for kind in kinds)),
        ("block as it is born", *(_unit(kind["born_block"], "tokens") for kind in kinds)),
        ("kernel block", *(_unit(kind["kernel_block"], "tokens") for kind in kinds)),
        ("page", *(_unit(kind["page_bytes"], "B") for kind in kinds)),
        ("padding in it", *(_unit(kind["padding_bytes"], "B", zero="none") for kind in kinds)),
        ("padding / page", *(_padding(kind) for kind in kinds)),
        ("blocks of a request", *(_unit(kind["blocks_per_request"], "a group") for kind in kinds)),
    ]
    return grid(rows, line_width())


def _unit(number: int | None, unit: str, zero: str = "-") -> str:
    return f"{number:,} {unit}" if number else zero


def _padding(kind: dict[str, Any]) -> str:
    return share(kind["padding_bytes"], kind["page_bytes"]) if kind["page_bytes"] else "-"


def grid(rows: Sequence[Sequence[str]], width: int, indent: str = "  ") -> list[str]:
    """Return the lines of a table, all but the first column to the right, in as many as fit."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines: list[str] = []
    start = 1
    while start < len(widths):
        end, used = start, len(indent) + widths[0]
        while end < len(widths) and (end == start or used + 2 + widths[end] <= width):
            used += 2 + widths[end]
            end += 1
        lines += [""] if lines else []
        for row in rows:
            cells = (f"{row[n]:>{widths[n]}}" for n in range(start, end))
            lines.append(f"{indent}{row[0]:<{widths[0]}}  {'  '.join(cells)}".rstrip())
        start = end
    return lines


def _blocks(plan: dict[str, Any], options: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """How pages make blocks, and blocks requests."""
    yield (
        "one block",
        (
            f"{plan['block_bytes']:,} B: {counted(plan['group_size'], 'page')} of "
            f"{plan['page_bytes']:,} B"
        ),
    )
    sums = [f"{kind['groups']} x {kind['blocks_per_request']:,}" for kind in plan["kinds"]]
    yield (
        "one request",
        (
            f"{plan['blocks_per_request']:,} blocks for {plan['max_model_len']:,} tokens "
            f"({' + '.join(sums)}), of {plan['num_blocks']:,}; {exact(plan['needed_bytes'])}"
        ),
    )
    if plan["state_bytes_per_request"]:
        yield "fixed state", f"{exact(plan['state_bytes_per_request'])} a request, of any length"
    if plan["tail_bytes"]:
        yield (
            "16-bit tail",
            (
                f"{exact(plan['tail_bytes'])} beside the pages, "
                f"for {counted(options['max_num_seqs'], 'request')}"
            ),
        )


def _show_table(document: dict[str, Any]) -> None:
    """Print a line a format, then those that do not start and those that are refused."""
    plans = document["plans"]
    if plans:
        say()
        for line in _table(plans, document["lengths"]):
            say(line)
        say()
        for line in wrapped(_LEGEND):
            say(line)
    stopped = [plan for plan in plans if not plan["fits"]]
    if stopped:
        length = f"{stopped[0]['max_model_len']:,}"
        for line in filled(f"do not start with {length} tokens: ", [p["format"] for p in stopped]):
            say(line)
    for refusal in document["refusals"]:
        for line in _refused(refusal):
            say(line)


def _table(plans: Sequence[dict[str, Any]], lengths: Sequence[int]) -> list[str]:
    """Return the lines of the formats, in one table where it is not too wide."""
    over = ("", "", "longest", *("" for _ in lengths), "bytes", "tokens")
    titles = ("format", "tokens", "request", *(f"{n:,}" for n in lengths), "a token", "/ auto")
    lines = grid([over, titles, *(_row(plan) for plan in plans)], line_width(), "")
    words = "requests at once of"
    at = lines[0].find("longest") + len("longest") + 2
    end = lines[0].find("bytes")
    if lines[0].endswith("tokens") and end - at > len(words):
        centred = words.center(end - at - 2).rstrip()
        lines[0] = f"{lines[0][:at]}{centred:<{end - at}}{lines[0][end:]}"
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


def _refused(refusal: dict[str, Any]) -> Iterator[str]:
    text = f"{refusal['format']}: refused: {refusal['reason']}"
    if refusal["expected"]:
        text += f", expected {refusal['expected']}"
    yield from wrapped(text, "", "  ")
    if refusal["hint"]:
        yield from wrapped(f"hint: {refusal['hint']}", "  ", "    ")
