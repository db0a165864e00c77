"""Random schedules as an engine makes them: chunks, decode, drafts, prefix hits, preemption.

What a position holds is a number that stands for all tokens up to it, so that equal prefixes, and
they alone, have equal contents. Blocks are found by that number as soon as the step that fills them
is scheduled, by other requests of the same step too; drafts fill none that can be found.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random


@dataclass
class Request:
    """Tokens that are known, how many of them are in the cache, and where."""

    tokens: list[int]
    goal: int
    computed: int = 0
    pages: list[int] = field(default_factory=list)
    slot: int = -1


@dataclass(frozen=True)
class Row:
    """A request in a step: contents of all positions, this step's and its drafts' included."""

    contents: list[int]
    committed: int
    pages: list[int]
    slot: int

    @property
    def query_len(self) -> int:
        """How many positions the step computes."""
        return len(self.contents) - self.committed


@dataclass
class Counts:
    """What has happened, so that a test can say that all of it did."""

    hits: int = 0
    same_step_hits: int = 0
    preemptions: int = 0
    skips: int = 0
    rejections: int = 0
    chunks: int = 0


class Schedule:
    """Steps of a few requests over a few pages and slots, by a seed."""

    def __init__(self, seed: int, group: int, longest: int, *, slots: int = 4, pages: int = 40):
        self.random = Random(seed)
        self.group, self.longest = group, longest
        self.slots, self.free = list(range(slots)), list(range(pages))
        self.users = [0] * pages
        self.found: dict[int, int] = {}  # content of a block's last position -> page
        self.fresh: set[int] = set()  # pages filled by this step
        self.numbers: dict[tuple[int, int], int] = {}
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.drafts: list[tuple[Request, int, list[int]]] = []
        self.counts = Counts()
        self.stems = [[self.random.randrange(50) for _ in range(5 * group)] for _ in range(2)]

    def step(self) -> list[Row]:
        """Return what the next step computes, after what the last one led to."""
        self._verify()
        self.fresh = set()
        if self.running and self.random.random() < 0.06:
            self._preempt(self.random.choice(self.running))
        rows = []
        for request in list(self.running):
            if self.random.random() < 0.15:
                self.counts.skips += 1
            elif request in self.running:
                rows += self._schedule(request)
        while self.slots and self.random.random() < 0.5:
            rows += self._schedule(self._admit())
        return rows

    def contents(self, tokens: list[int]) -> list[int]:
        """Return the number of each position of some tokens."""
        numbers, last = [], 0
        for token in tokens:
            last = self.numbers.setdefault((last, token), len(self.numbers) + 1)
            numbers.append(last)
        return numbers

    def _admit(self) -> Request:
        """Return a request that now has a slot, with the pages of what it shares with others."""
        request = self.waiting.pop() if self.waiting else self._arrival()
        request.slot = self.slots.pop(self.random.randrange(len(self.slots)))
        contents = self.contents(request.tokens)
        for end in range(self.group, len(contents), self.group):
            page = self.found.get(contents[end - 1])
            if page is None:
                break
            if not self.users[page]:
                self.free.remove(page)
            self.users[page] += 1
            request.pages.append(page)
            self.counts.hits += 1
            self.counts.same_step_hits += page in self.fresh
        request.computed = len(request.pages) * self.group
        self.running.append(request)
        return request

    def _arrival(self) -> Request:
        """Return a new request: a part of a stem, then tokens of its own."""
        stem = self.random.choice(self.stems)
        tokens = stem[: self.random.randrange(len(stem))]
        tokens += [self.random.randrange(50) for _ in range(self.random.randrange(1, 8))]
        return Request(tokens, len(tokens) + self.random.randrange(1, 3 * self.group))

    def _schedule(self, request: Request) -> list[Row]:
        """Return the row of a request, none where pages are short; its blocks can be found."""
        left = len(request.tokens) - request.computed
        known = min(left, self.random.randrange(1, 4 * self.group))
        count = self.random.randrange(self.longest) if left == 1 else 0
        drafts = [self.random.randrange(50) for _ in range(count)]
        contents = self.contents(request.tokens[: request.computed + known] + drafts)
        more = -(-len(contents) // self.group) - len(request.pages)
        if more > len(self.free):
            self._preempt(request)
            return []
        for _ in range(more):
            page = self.free.pop(0)
            self.found = {key: at for key, at in self.found.items() if at != page}
            self.users[page] = 1
            request.pages.append(page)
        for tile in range(request.computed // self.group, len(contents) // self.group):
            end = (tile + 1) * self.group
            if end <= request.computed + known and contents[end - 1] not in self.found:
                self.found[contents[end - 1]] = request.pages[tile]
                self.fresh.add(request.pages[tile])
        self.counts.chunks += known > self.longest
        self.drafts.append((request, known, drafts))
        return [Row(contents, request.computed, list(request.pages), request.slot)]

    def _verify(self) -> None:
        """Accept some drafts of the last step, sample a token where all are computed."""
        for request, known, drafts in self.drafts:
            accepted = self.random.randrange(len(drafts) + 1)
            self.counts.rejections += len(drafts) - accepted
            request.tokens += drafts[:accepted]
            request.computed += known + accepted
            if request.computed == len(request.tokens):
                request.tokens.append(self.random.randrange(50))
            if len(request.tokens) > request.goal:
                self._leave(request)
        self.drafts = []

    def _preempt(self, request: Request) -> None:
        """Take everything but its tokens from a request."""
        self.counts.preemptions += 1
        self._leave(request)
        request.computed, request.pages, request.slot = 0, [], -1
        self.waiting.insert(0, request)

    def _leave(self, request: Request) -> None:
        """Give back the slot and pages; a page can be found until somebody takes it."""
        self.running.remove(request)
        self.slots.append(request.slot)
        for page in reversed(request.pages):
            self.users[page] -= 1
            if not self.users[page]:
                self.free.append(page)
