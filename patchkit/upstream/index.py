"""Where a named file is to be had: the indexes and folders of the user's pip configuration."""

from __future__ import annotations

import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from packaging.utils import canonicalize_name

from patchkit.errors import PatchkitError
from patchkit.upstream.pages import ACCEPT, IndexFile, parse_page
from patchkit.upstream.pins import Artifact
from patchkit.upstream.pipconfig import PipConfig, read_pip_config
from patchkit.upstream.transport import Http, UnreachableError, redact


def default_index_url() -> str:
    """Return the index that is used where pip's configuration names none, as a library knows it."""
    library: Any = importlib.import_module("distlib.index")
    # the simple API lies beside the one that the constant names
    return urljoin(str(library.DEFAULT_INDEX), "simple/")


@dataclass(frozen=True)
class Location:
    """Where one file lies: on this machine, or behind a URL."""

    path: Path | None = None
    url: str = ""

    def __str__(self) -> str:
        return str(self.path) if self.path else redact(self.url)


class Index:
    """The places that pip would look in, in pip's order."""

    def __init__(self, config: PipConfig | None = None) -> None:
        self.config = read_pip_config() if config is None else config
        self.http = Http(self.config)
        self._pages: dict[str, tuple[IndexFile, ...]] = {}
        self._silent: dict[str, UnreachableError] = {}  # places that gave no answer

    def locate(self, artifact: Artifact) -> Location:
        """Return where a pinned file is to be had, found by its name and then by its digest."""
        other: str | None = None
        failure: UnreachableError | None = None
        for source in self._sources(artifact.distribution):
            try:
                files = self._files(source)
            except UnreachableError as err:
                failure = failure or err
                continue
            for file in files:
                if file.filename != artifact.filename:
                    continue
                if _may_be(file, artifact):
                    return _location(file)
                other = other or f"{redact(source)} offers another file of that name"
        if failure is not None:
            raise failure
        raise PatchkitError(
            other or "no configured index or find-links folder offers the file",
            place=artifact.filename,
            expected=f"sha256 {artifact.sha256} as pinned" if other else None,
            hint=self._advice(),
        )

    def release_files(self, distribution: str) -> tuple[IndexFile, ...]:
        """Return all files of a distribution that the places offer, each name once.

        Raises where two places offer different files under one name.
        """
        found: dict[str, IndexFile] = {}
        for source in self._sources(distribution):
            for file in self._files(source):
                first = found.setdefault(file.filename, file)
                if file.sha256 and first.sha256 and file.sha256 != first.sha256:
                    raise PatchkitError(
                        "two configured indexes offer different files of this name",
                        place=file.filename,
                        hint="name one index in pip's configuration",
                    )
        return tuple(found.values())

    def digest(self, file: IndexFile) -> str:
        """Return the sha256 of an offered file, which is read where it lies on this machine."""
        location = _location(file)
        if file.sha256:
            return file.sha256
        if location.path is None:
            raise PatchkitError("the index gives no sha256 for the file", place=file.filename)
        with location.path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    def size_bytes(self, location: Location) -> int:
        """Return the size of a file, for an index that does not say."""
        if location.path is not None:
            return location.path.stat().st_size
        response = self.http.get(location.url, {}, method="HEAD")
        length = response.headers.get("Content-Length", "")
        if response.status != 200 or not length.isdigit():
            raise PatchkitError("the index does not tell the file's size", place=str(location))
        return int(length)

    def _sources(self, distribution: str) -> list[str]:
        """Return the pages and folders to look in; find-links first, they are mostly local."""
        name = canonicalize_name(distribution)
        sources = list(self.config.find_links)
        if not self.config.no_index:
            first = self.config.index_url or default_index_url()
            indexes = (first, *self.config.extra_index_urls)
            sources += [f"{url.rstrip('/')}/{name}/" for url in indexes]
        return sources

    def _files(self, source: str) -> tuple[IndexFile, ...]:
        if source in self._silent:  # asked for another file, it would let us wait once more
            raise self._silent[source]
        if source not in self._pages:
            path = _local_path(source)
            try:
                self._pages[source] = self._read_url(source) if path is None else _read_path(path)
            except UnreachableError as err:
                self._silent[source] = err
                raise
        return self._pages[source]

    def _read_url(self, url: str) -> tuple[IndexFile, ...]:
        response = self.http.get(url, {"Accept": ACCEPT})
        if response.status in (404, 410):  # the index does not have the project
            return ()
        if response.status != 200:
            hint = "check the credentials in pip's configuration or in netrc"
            raise UnreachableError(
                f"the index answers {response.status}",
                place=redact(url),
                hint=hint if response.status in (401, 403, 407) else None,
            )
        base = urljoin(url, response.geturl() or url)
        kind = response.headers.get("Content-Type", "text/html")
        return parse_page(response.data, kind, base, redact(url))

    def _advice(self) -> str:
        if self.config.no_index:
            return "pip's configuration says no-index: put the file into a find-links folder"
        return "check index-url, extra-index-url and find-links in pip's configuration"


def _may_be(file: IndexFile, artifact: Artifact) -> bool:
    """Return whether nothing that is known of an offered file speaks against the pin."""
    return file.sha256 in (None, artifact.sha256) and (
        file.size_bytes in (None, artifact.size_bytes) or not artifact.size_bytes
    )


def _location(file: IndexFile) -> Location:
    path = _local_path(file.url)
    return Location(path=path) if path else Location(url=file.url)


def _local_path(source: str) -> Path | None:
    """Return the path that a file URL or a plain path names, None for other URLs."""
    parts = urlsplit(source)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if "://" in source else Path(source).expanduser()


def _read_path(path: Path) -> tuple[IndexFile, ...]:
    """Return the files that a folder holds and that its page, or the given one, lists."""
    listed: tuple[IndexFile, ...] = ()
    page = path / "index.html" if path.is_dir() else path
    try:
        if page.is_file() and page.suffix in (".html", ".htm"):
            where = page.absolute().as_uri()
            listed = parse_page(page.read_bytes(), "text/html", where, str(page))
        found = sorted(path.iterdir()) if path.is_dir() else []
        files = [p for p in found if p.name.endswith((".whl", ".tar.gz")) and p.is_file()]
        return listed + tuple(
            IndexFile(p.name, p.absolute().as_uri(), size_bytes=p.stat().st_size) for p in files
        )
    except OSError:
        return listed  # pip passes over a place that is not there, too
