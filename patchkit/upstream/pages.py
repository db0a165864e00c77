"""A page of a simple index, PEP 691 JSON or PEP 503 HTML, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from posixpath import basename
from typing import Any
from urllib.parse import parse_qs, unquote, urljoin, urlsplit

from patchkit.errors import PatchkitError

ACCEPT = (
    "application/vnd.pypi.simple.v1+json, "
    "application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
)
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class IndexFile:
    """One file that an index offers; what the index does not say is None.

    `yanked` is False, True, or the reason given (PEP 592).
    """

    filename: str
    url: str
    sha256: str | None = None
    size_bytes: int | None = None
    yanked: bool | str = False


def parse_page(body: bytes, content_type: str, url: str, place: str) -> tuple[IndexFile, ...]:
    """Return the files on a page that came from `url`, which errors call `place`."""
    kind = content_type.split(";")[0].strip().lower()
    if kind.endswith("json"):
        return tuple(_parse_json(body, url, place))
    return tuple(_parse_html(body, url))


def _parse_json(body: bytes, url: str, place: str) -> Iterator[IndexFile]:
    try:
        page = json.loads(body)
        major = str(page["meta"]["api-version"]).split(".")[0]
        files = page["files"]
    except (ValueError, KeyError, TypeError) as err:
        raise PatchkitError("the index page is not PEP 691 JSON", place=place) from err
    if major != "1":  # PEP 629: refuse a higher major version
        raise PatchkitError(f"the index speaks version {major}", place=place, expected="1")
    for row in files:
        yield _json_file(row, url, place)


def _json_file(row: dict[str, Any], url: str, place: str) -> IndexFile:
    try:
        size = row.get("size")
        yanked = row.get("yanked", False)
        return IndexFile(
            filename=basename(str(row["filename"])),
            url=urljoin(url, str(row["url"])),
            sha256=_digest(row.get("hashes", {}).get("sha256")),
            size_bytes=size if isinstance(size, int) else None,
            yanked=yanked if isinstance(yanked, str) and yanked else bool(yanked),
        )
    except (KeyError, AttributeError, TypeError, ValueError) as err:
        raise PatchkitError("the index page is not PEP 691 JSON", place=place) from err


def _digest(value: object) -> str | None:
    text = str(value).lower()
    return text if _DIGEST.fullmatch(text) else None


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.base: str | None = None
        self.anchors: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of <a> and of the first <base>."""
        found = dict(attrs)
        if tag == "a" and found.get("href"):
            self.anchors.append(found)
        if tag == "base" and self.base is None:
            self.base = found.get("href")


def _parse_html(body: bytes, url: str) -> Iterator[IndexFile]:
    parser = _Anchors()
    parser.feed(body.decode("utf-8", errors="replace"))
    parser.close()
    base = urljoin(url, parser.base) if parser.base else url
    for anchor in parser.anchors:
        try:
            target = urljoin(base, anchor["href"] or "")
            parts = urlsplit(target)
        except ValueError:  # not a URL, so not a file either
            continue
        filename = unquote(basename(parts.path))
        if not filename.endswith((".whl", ".tar.gz")):
            continue
        digest = parse_qs(parts.fragment).get("sha256", [None])[0]
        yanked = anchor.get("data-yanked") or True if "data-yanked" in anchor else False
        yield IndexFile(filename, target.split("#")[0], _digest(digest), None, yanked)
