"""`python -m tests.placement_page`: write docs/how-placement-works.md from the recorded cases.

With pairs of releases (`0.28.0:0.29.0 …`) its examples are searched for anew first; a recorded case
stays where no shorter one is found. That takes minutes a pair.
"""

from __future__ import annotations

import sys
from functools import cache

from patchkit.syntax.tree import at_ease
from patchkit.upstream import open_tree
from tests.placement_page.page import CASES, PAGE, format_cases, make_page, read_cases
from tests.placement_page.search import shortest_cases


def main(pairs: list[str]) -> None:
    """Write the page; with pairs of releases, the cases as well."""
    opened = cache(open_tree)
    with at_ease():
        if pairs:
            known = read_cases() if CASES.exists() else []
            releases = [(old, new) for old, _, new in (pair.partition(":") for pair in pairs)]
            CASES.write_text(format_cases(shortest_cases(known, releases, opened)))
        PAGE.write_text(make_page(read_cases(), opened))


if __name__ == "__main__":
    main(sys.argv[1:])
