"""`patchkit kv-plan`: what a KV cache holds, by model, format, memory and release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from patchkit.cli import render, render_kv
from patchkit.cli.kv_request import Request, make_plans
from patchkit.cli.options import json_option
from patchkit.errors import ExitCode, PatchkitError, UsageError

_AMOUNT, _COUNT = "SIZE", click.IntRange(1)
_COUNT.name = "integer"  # what is said not to be one


def tokens(text: str) -> int:
    """Return a number of tokens: 32768, 32,768, or as vLLM reads it 32k (32,000), 32K (32,768)."""
    digits = text.replace(",", "")
    unit = {"k": 1000, "K": 1024, "m": 10**6, "M": 1 << 20}.get(digits[-1:], 1)
    digits = digits[:-1] if unit > 1 else digits
    if not (digits.isascii() and digits.isdigit() and len(digits) < 13 and int(digits)):
        raise click.BadParameter(f"{text!r} is no number of tokens, such as 32768 or 32K")
    return int(digits) * unit


def longest(text: str) -> int:
    """Return a greatest length in tokens; vLLM's `auto` is what the plan finds."""
    if text in ("auto", "-1"):
        raise click.BadParameter(
            f"{text} is what comes out as `longest request`; leave it out, or name a length"
        )
    return tokens(text)


# Options of `vllm serve` that change pages, groups or blocks in a way that no rule here has.
_NOT_MODELLED = (
    "--num-gpu-blocks-override",
    "--kv-cache-dtype-skip-layers",
    "--mamba-block-size",
    "--mamba-cache-dtype",
    "--disable-hybrid-kv-cache-manager",
    "--decode-context-parallel-size",
    "--prefill-context-parallel-size",
)


class _Command(click.Command):
    """A command whose options are spelled as those of `vllm serve`, with underscores too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return what is left of the arguments; an unknown option is answered with what to do."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as err:
            if err.option_name in _NOT_MODELLED:
                raise UsageError(
                    f"{err.option_name} changes the cache, and no plan goes by it",
                    place=ctx.command_path,
                    hint="without it the plan is that of an engine without it",
                ) from err
            raise UsageError(
                f"no such option {err.option_name!r}", place=ctx.command_path,
                expected=" or ".join(err.possibilities or ()) or None,
                hint="options of `vllm serve` that the plan does not go by are left out; "
                f"`{ctx.command_path} --help` lists those that it knows",
            ) from err  # fmt: skip


_CHOICES = {
    "platform": click.Choice(["cuda", "cpu"]),
    "mode": click.Choice(["none", "align", "all"]),
    "rule": click.Choice(["upstream", "even"]),
    "dtype": click.Choice(["auto", "bfloat16", "float16", "half", "float32", "float"]),
    "state dtype": click.Choice(["auto", "bfloat16", "float16", "float32"]),
}
_DTYPES = {"auto": None, "half": "float16", "float": "float32"}


def _dtype(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Return the type that vLLM means by a word; None is what it takes by itself."""
    return None if value is None else _DTYPES.get(value, value)


@click.command(
    cls=_Command,
    short_help="Say what fits into a KV cache, and why.",
    context_settings={"token_normalize_func": lambda word: word.replace("_", "-")},
)
@click.argument("model", metavar="MODEL")
@click.option(
    "--format",
    "--kv-cache-dtype",
    "formats",
    multiple=True,
    metavar="FORMAT",
    help="A KV format; may be given more than once; auto unless given.",
)
@click.option("--compare", is_flag=True, help="All formats, one line each.")
@click.option(
    "--memory",
    metavar=_AMOUNT,
    help="What the cache has on one rank: 20GiB, 512MiB, 21474836480B.",
)
@click.option(
    "--kv-cache-memory-bytes",
    "as_served",
    metavar="BYTES",
    help="The same in the words of `vllm serve`, where a number alone is bytes.",
)
@click.option("--card", metavar=_AMOUNT, help="Instead: the memory of each card, with --weights.")
@click.option(
    "--utilisation",
    "--gpu-memory-utilization",
    "utilisation",
    metavar="SHARE",
    help="The share of a card that the engine takes; as vLLM has it unless given.",
)
@click.option(
    "--weights",
    metavar="SIZE|DIR",
    help="Weights of the whole model, or the checkpoint that has them; MODEL's unless given.",
)
@click.option(
    "--overhead",
    metavar=_AMOUNT,
    help="What a rank takes besides, for activations and CUDA graphs; 1.5GiB unless given.",
)
@click.option(
    "--drafter",
    "--spec-model",
    "drafter",
    metavar="PATH",
    help="config.json of a drafter, or its folder.",
)
@click.option("--mtp", is_flag=True, help="The drafter is in the model itself (MTP layers).")
@click.option(
    "--draft-tokens",
    "--spec-tokens",
    "draft_tokens",
    metavar="K",
    default=0,
    type=click.IntRange(0, 1024),
    help="Draft tokens a step; none unless given.",
)
@click.option(
    "--speculative-config",
    "-sc",
    metavar="JSON",
    help="In place of these three, as vLLM's option.",
)
@click.option(
    "--release",
    metavar="REL",
    help="The vLLM release; the newest stored or else pinned one unless given.",
)
@click.option("--pristine", is_flag=True, help="The release as it is, without block promotion.")
@click.option(
    "--max-model-len",
    metavar="TOKENS",
    type=longest,
    help="The longest request that the engine takes; the model's unless given.",
)
@click.option(
    "--at",
    "lengths",
    multiple=True,
    metavar="TOKENS",
    type=tokens,
    help="Count requests of this length too; may be given more than once.",
)
@click.option(
    "--tp",
    "--tensor-parallel-size",
    "-tp",
    "tensor_parallel",
    metavar="N",
    default=1,
    type=_COUNT,
    help="Tensor parallel ranks.",
)
@click.option(
    "--pp",
    "--pipeline-parallel-size",
    "-pp",
    "pipeline_parallel",
    metavar="N",
    default=1,
    type=_COUNT,
    help="Pipeline parallel ranks.",
)
@click.option(
    "--batched-tokens",
    "--max-num-batched-tokens",
    "batched_tokens",
    metavar="TOKENS",
    type=tokens,
    help="Tokens of a step at most; what `vllm serve` takes on such a card.",
)
@click.option(
    "--max-seqs",
    "--max-num-seqs",
    "max_seqs",
    metavar="N",
    type=_COUNT,
    help="Requests of a step at most; what `vllm serve` takes on such a card.",
)
@click.option(
    "--no-async/--async-scheduling",
    "--no-async-scheduling",
    "no_async",
    is_flag=True,
    help="Without asynchronous scheduling.",
)
@click.option(
    "--no-prefix-caching/--enable-prefix-caching",
    "--no-enable-prefix-caching",
    "no_prefix_caching",
    is_flag=True,
    help="Without prefix caching.",
)
@click.option(
    "--state-cache-mode",
    "--mamba-cache-mode",
    "state_cache_mode",
    type=_CHOICES["mode"],
    help="What of recurrent states is kept; by prefix caching unless given.",
)
@click.option(
    "--prefix-match-unit",
    metavar="TOKENS",
    type=tokens,
    help="How long the parts are by which prefixes are found again.",
)
@click.option(
    "--prefill-checkpoints",
    is_flag=True,
    help="States inside a prompt are kept too, as FlashInfer's kernels for them do.",
)
@click.option("--block-size", metavar="TOKENS", type=tokens, help="As vLLM's option.")
@click.option(
    "--backend",
    "--attention-backend",
    "backend",
    metavar="NAME",
    type=str.upper,
    help="An attention backend, such as TRITON_ATTN; the format's first unless given.",
)
@click.option("--platform", type=_CHOICES["platform"], default="cuda", help="cuda unless given.")
@click.option(
    "--group-rule",
    type=_CHOICES["rule"],
    default="upstream",
    help="How layers are grouped: as upstream does, or evenly.",
)
@click.option(
    "--dtype", type=_CHOICES["dtype"], callback=_dtype, help="The model's type; config.json's."
)
@click.option(
    "--state-dtype",
    "--mamba-ssm-cache-dtype",
    "state_dtype",
    type=_CHOICES["state dtype"],
    callback=_dtype,
    help="The type of recurrent states; the model's own.",
)
@click.option(
    "--formats",
    "own_formats",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Formats of your own, in TOML; docs/kv-plan.md has an example.",
)
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Draw capacity against context: a .png, .svg or .html.",
)
@json_option
def command(as_json: bool, plot: Path | None, **options: Any) -> ExitCode:
    """Say what fits into a KV cache, and why.

    MODEL is the config.json of a Hugging Face model, or its folder. For each format come block
    and page sizes, padding, blocks of a request, fixed states and 16-bit tails, tokens in all as
    the engine logs them, the longest request, how many requests are resident at once, what limits
    it, and what was assumed. Options are called as those of `vllm serve` too.

    Memory is that of one rank: --memory, or what --card leaves beside weights and overhead. The
    exit status is 3 where a format does not fit or the release refuses it; with --compare, where
    none fits.

    \b
    Examples:
      patchkit kv-plan Qwen3-8B --card 24GiB --weights 15.3GiB
      patchkit kv-plan config.json --memory 4.9GiB --mtp --draft-tokens 3
      patchkit kv-plan gpt-oss-20b --memory 2GiB --compare --at 8K --plot kv.svg
      patchkit kv-plan gemma-3-27b --card 24GiB --weights 27GiB --tp 2
    """
    kind = _plot_kind(plot)
    options["memory"] = _memory(options["memory"], options.pop("as_served"))
    made = make_plans(Request(**options))
    drawn = plot is not None and _draw(made.plans, made.title, made.subtitle, plot, kind)
    if as_json:
        render.show_json(made.document)
    else:
        render_kv.show_plans(made.document)
        if drawn:
            render.say(f"drawn in {plot}")
    if plot is not None and not drawn:
        render.say("nothing is drawn: no request fits", to_stderr=True)
    return ExitCode(made.document["exit_code"])


def _memory(memory: str | None, as_served: str | None) -> str | None:
    """Return the amount that is given by either name, with a unit where vLLM's has one."""
    if as_served is None:
        return memory
    if memory is not None:
        raise UsageError(
            "--memory and --kv-cache-memory-bytes are two names of one amount",
            place="patchkit kv-plan",
            expected="one of them",
        )
    return f"{as_served}B" if as_served.isdecimal() else as_served


def _plot_kind(plot: Path | None) -> str:
    from patchkit.kv.plot import KINDS

    kind = "" if plot is None else plot.suffix.removeprefix(".").lower()
    if plot is not None and kind not in KINDS:
        raise UsageError(
            f"{plot.name} says no kind of picture", place="--plot",
            expected="a name that ends in .png, .svg or .html",
        )  # fmt: skip
    return kind


def _draw(plans: Sequence[Any], title: str, subtitle: str, path: Path, kind: str) -> bool:
    """Write a picture; return False where there is nothing to be seen on it."""
    from patchkit.kv.curves import curves
    from patchkit.kv.plot import picture
    from patchkit.repository.workspace import write_file

    drawn = curves(plans)
    if not drawn:
        return False
    if path.is_dir():
        raise PatchkitError("cannot be written: is a directory", place=str(path))
    try:
        write_file(path, picture(drawn, title, subtitle, kind))
    except OSError as err:
        fact = f"cannot be written: {(err.strerror or str(err)).lower()}"
        raise PatchkitError(fact, place=str(path)) from err
    return True
