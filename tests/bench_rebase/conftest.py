"""Target and truth as small texts."""

from textwrap import dedent

import pytest

from tests.bench_rebase.refactors.ground import Ground
from tests.bench_rebase.source import enclosing, read_source, split_lines

PATH = "vllm/core/module.py"


def text(code: str) -> bytes:
    """Return code without the indentation that it has inside a test."""
    return dedent(code).lstrip("\n").encode()


@pytest.fixture
def ground():
    """Return a function that makes the ground from a truth whose edit is marked.

    Lines that end in `#+` are the patch's additions, lines that end in `#-` its removals.
    """

    def make(code: str) -> Ground:
        target, truth, regions = [], [], [[], []]
        for line in split_lines(text(code)):
            plain = line.replace(b"#+", b"").replace(b"#-", b"").rstrip() + b"\n"
            if not line.rstrip().endswith(b"#+"):
                target.append(plain)
            if not line.rstrip().endswith(b"#-"):
                truth.append(plain)
            if line != plain:
                regions[0] += [len(target) - line.rstrip().endswith(b"#-"), len(target)]
                regions[1] += [len(truth) - line.rstrip().endswith(b"#+"), len(truth)]
        sides = [(min(region), max(region)) for region in regions]
        files = [b"".join(lines) for lines in (target, truth)]
        fuller = sides[1][0] < sides[1][1]
        chain = enclosing(read_source(files[fuller]), *sides[fuller])
        return Ground({PATH: files[0]}, {PATH: files[1]}, PATH, chain, (sides[0], sides[1]))

    return make
