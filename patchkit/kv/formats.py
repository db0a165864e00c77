"""The formats that a KV cache can have, from the table that is shipped and from users' files."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files

from packaging.version import Version

from patchkit.errors import PatchkitError
from patchkit.kv.packing import SLOTS, Packing, Side
from patchkit.kv.toml_table import Table

SHIPPED = "formats.toml"
MODEL_BITS = "model"  # as wide as the model's own type
NO_WINDOWS = "none"
TAIL_BYTES = 2  # of an element of a tail row, which is not packed yet
TAIL_ROWS = 16  # tail rows are rounded up to a multiple of so many


@dataclass(frozen=True)
class Format:
    """One format: what a token takes, and what a release has to have for it.

    `backends` are the attention backends that take it on CUDA, the one that is chosen by default
    first. `since` and `until` are the first and the last release that know its name; None is any.
    `needs` names what no release has; `card` what the card has to be. `window_format` is the format
    of layers with a sliding window; None where the format can have none, and `window_since` is the
    first release that can. Of a dense model the first and the last `boundary_layers` stay `auto`;
    of a hybrid none do.
    """

    name: str
    packing: Packing
    backends: tuple[str, ...]
    since: str | None = None
    until: str | None = None
    needs: str | None = None
    card: str | None = None
    window_format: str | None = "auto"
    window_since: str | None = None
    boundary_layers: int = 0

    @property
    def backend(self) -> str:
        """The attention backend that CUDA takes by default."""
        return self.backends[0]

    @property
    def tile(self) -> int | None:
        """Tokens that are packed together; None where each is packed by itself."""
        return self.packing.tile

    def token_bytes(self, num_kv_heads: int, head_dim: int, head_dim_v: int, dtype: str) -> int:
        """Return the bytes of one token in one layer of so many heads.

        `dtype` is the model's own type. Raises PatchkitError where the format cannot hold such a
        head.
        """
        try:
            return num_kv_heads * self.packing.slot_bytes(head_dim, head_dim_v, dtype)
        except PatchkitError as error:
            raise PatchkitError(error.fact, place=self.name, expected=error.expected) from error

    def missing_on(self, release: str) -> str | None:
        """Return why a release does not know this format; None where it does, or needs a port."""
        return _missing(self.name, self.since, self.until, release)

    def no_window_on(self, release: str) -> str | None:
        """Return why a model with sliding windows cannot have this format; None where it can."""
        reason = f"layers with a sliding window cannot cache {self.name}"
        if self.window_format is None:
            return reason
        if self.window_since is not None and Version(release) < Version(self.window_since):
            return f"{reason} before vLLM {self.window_since}"
        return None

    def tail_rows(self, draft_tokens: int) -> int:
        """Return the rows of 16-bit values that a request keeps in each layer beside its pages.

        Those are the tokens of the open tile and of the drafts behind it, since drafts that are
        rejected must not have been packed.
        """
        if self.tile is None:
            return 0
        return -(-(self.tile + draft_tokens) // TAIL_ROWS) * TAIL_ROWS

    def tail_bytes(
        self, num_kv_heads: int, head_dim: int, head_dim_v: int, draft_tokens: int
    ) -> int:
        """Return the bytes of these rows, of one request in one layer."""
        row_bytes = num_kv_heads * (head_dim + head_dim_v) * TAIL_BYTES
        return self.tail_rows(draft_tokens) * row_bytes


@dataclass(frozen=True)
class Unplanned:
    """A name that releases know, or that could be asked for, and why there is no plan for it."""

    name: str
    reason: str
    since: str | None = None
    until: str | None = None
    hint: str | None = None

    def missing_on(self, release: str) -> str | None:
        """Return why a release does not know this name; None where it does."""
        return _missing(self.name, self.since, self.until, release)


@dataclass(frozen=True)
class Formats:
    """All formats by name, in the order in which they are listed, and those without a plan."""

    planned: Mapping[str, Format]
    unplanned: Mapping[str, Unplanned]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that there is a plan for."""
        return tuple(self.planned)

    def get(self, name: str) -> Format:
        """Return a format; raises PatchkitError where there is none of that name, or no plan."""
        if name in self.planned:
            return self.planned[name]
        if name in self.unplanned:
            known = self.unplanned[name]
            raise PatchkitError(f"{name} is not planned: {known.reason}", hint=known.hint)
        near = difflib.get_close_matches(name, self.names, n=3, cutoff=0.6)
        hint = f"near {', '.join(near)}; a" if near else "a"
        raise PatchkitError(
            f"no format is named {name!r}",
            expected=f"one of {', '.join(self.names)}",
            hint=f"{hint} format of your own is a few lines of TOML: docs/kv-plan.md has one",
        )


def read_formats(extra: Mapping[str, bytes] | None = None) -> Formats:
    """Return the shipped formats, and behind them those of users' files, by file name.

    A format that is shipped cannot be given another meaning, but a name without a plan can get one.
    Raises PatchkitError with file, format and word for what cannot be read.
    """
    planned: dict[str, Format] = {}
    unplanned: dict[str, Unplanned] = {}
    shipped = files("patchkit.kv").joinpath(SHIPPED).read_bytes()
    for file, content in [(SHIPPED, shipped), *(extra or {}).items()]:
        for name, row in _tables(content, file):
            if name in planned:
                fact = "a format of this name is there already"
                raise PatchkitError(fact, place=row.place, expected="another name")
            unplanned.pop(name, None)
            if "unplanned" in row.words:
                unplanned[name] = _read_unplanned(name, row)
            else:
                planned[name] = _read_format(name, row)
                _check_window_format(planned, name, row)
    return Formats(planned, unplanned)


def _tables(content: bytes, file: str) -> Iterator[tuple[str, Table]]:
    """Yield the formats of a file, each with its name."""
    try:
        document = tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PatchkitError(f"not valid TOML: {error}", place=file) from error
    top = Table(document, file)
    top.only("formats")
    rows = Table(top.below("formats").words, f"{file}: formats")
    for name in rows.words:
        yield name, rows.below(name)


def _read_unplanned(name: str, row: Table) -> Unplanned:
    row.only("unplanned", "hint", "since", "until")
    reason = row.text("unplanned") or ""
    return Unplanned(name, reason, row.release("since"), row.release("until"), row.text("hint"))


def _read_format(name: str, row: Table) -> Format:
    packing_words = ("key", "value", "tile", "slot", "fills_bytes", "same_head_dims", "head_dims")
    words = ("backends", "since", "until", "needs", "card", "window_format", "window_since")
    row.only(*packing_words, *words, "boundary_layers")
    window_format = row.text("window_format") or name
    return Format(
        name=name,
        packing=_read_packing(row),
        backends=row.texts("backends"),
        since=row.release("since"),
        until=row.release("until"),
        needs=row.text("needs"),
        card=row.text("card"),
        window_format=None if window_format == NO_WINDOWS else window_format,
        window_since=row.release("window_since"),
        boundary_layers=row.integer("boundary_layers", 0),
    )


def _read_packing(row: Table) -> Packing:
    tile = row.integer("tile", least=1) if "tile" in row.words else None
    return Packing(
        key=_read_side(row.below("key"), tile),
        value=_read_side(row.below("value"), tile),
        tile=tile,
        slot=row.choice("slot", SLOTS),
        fills_bytes=row.truth("fills_bytes"),
        same_head_dims=row.truth("same_head_dims"),
        head_dims=row.integers("head_dims"),
    )


def _read_side(side: Table, tile: int | None) -> Side:
    side.only("bits", "token_bytes", "block", "block_bytes", "channel_bytes")
    if "channel_bytes" in side.words and tile is None:
        raise side.wrong("channel_bytes", "a tile, since a token alone has no channels to share")
    if ("block" in side.words) != ("block_bytes" in side.words):
        raise side.wrong(
            "block_bytes" if "block" in side.words else "block", "both block and block_bytes"
        )
    return Side(
        bits=None if side.words.get("bits") == MODEL_BITS else side.integer("bits", least=1),
        token_bytes=side.integer("token_bytes", 0),
        block=side.integer("block", least=1) if "block" in side.words else None,
        block_bytes=side.integer("block_bytes", 0),
        channel_bytes=side.integer("channel_bytes", 0),
    )


def _check_window_format(planned: Mapping[str, Format], name: str, row: Table) -> None:
    """Raise PatchkitError where the layers with a window have a format that is not there yet."""
    wanted = planned[name].window_format
    if wanted is not None and wanted not in planned:
        raise row.wrong("window_format", f'"{NO_WINDOWS}", or a format that is listed before')


def _missing(name: str, since: str | None, until: str | None, release: str) -> str | None:
    version = Version(release)
    if since is not None and version < Version(since):
        return f"{name} comes with vLLM {since}, {version} does not know it"
    if until is not None and version > Version(until):
        return f"{name} went after vLLM {until}, {version} does not know it"
    return None
