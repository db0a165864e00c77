"""A package index on the loopback address, with the faults of real ones, and small wheels."""

import base64
import hashlib
import html
import io
import json
import random
import tarfile
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

from patchkit.upstream.cache import Cache
from patchkit.upstream.index import Index
from patchkit.upstream.pins import Artifact, Pins, Release
from patchkit.upstream.pipconfig import PipConfig

VERSION_FILE = b"__version__ = version = '0.99.0'\n"
PACKAGE = {
    "vllm/__init__.py": b"",
    "vllm/_version.py": VERSION_FILE,
    "vllm/config/cache.py": b"block_size = 16\n",
    "vllm/third_party/x/kernel.cuh": b"__device__ int block_size;\r\n",
    "vllm/v1/core/utils.py": b"def unify(block_size):\n    return block_size\n",
    "vllm/run.sh": b"#!/bin/sh\n",
}


def compiled(seed: int, size_bytes: int = 3 << 20) -> bytes:
    """Return bytes that do not compress, as a library's do not."""
    return random.Random(seed).randbytes(size_bytes)


def make_wheel(
    files: dict[str, bytes] | None = None,
    *,
    name: str = "vllm",
    version: str = "0.99.0",
    record_extra: dict[str, bytes] | None = None,
    record_lacks: str = "",
) -> bytes:
    """Return a wheel whose libraries lie between its sources, as in the real ones."""
    members = dict(PACKAGE if files is None else files)
    info = f"{name}-{version}.dist-info"
    members |= {f"{info}/METADATA": b"Name: vllm\n", f"{info}/WHEEL": b"Wheel-Version: 1.0\n"}
    rows = []
    for path, content in {**members, **(record_extra or {})}.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        if path != record_lacks:
            rows.append(f"{path},sha256={digest},{len(content)}\n")
    members[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in members.items():
            entry = zipfile.ZipInfo(path, (2024, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if path.endswith((".sh", ".so")) else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()


def record_of(wheel: bytes) -> bytes:
    """Return a wheel's RECORD."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        return archive.read(next(n for n in archive.namelist() if n.endswith("/RECORD")))


def make_sdist(files: dict[str, bytes], top: str = "vllm-0.99.0") -> bytes:
    """Return an sdist with a link and an executable besides the files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{top}/{path}")
            entry.size = len(content)
            entry.mode = 0o755 if path.endswith(".sh") else 0o644
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo(f"{top}/vllm/link.py")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return buffer.getvalue()


def pin(filename: str, content: bytes, *, yanked: bool | str = False) -> Artifact:
    """Return the pin of a file."""
    record = None
    if filename.endswith(".whl"):
        record = hashlib.sha256(record_of(content)).hexdigest()
    digest = hashlib.sha256(content).hexdigest()
    return Artifact(filename, len(content), digest, record, yanked)


@dataclass
class Faults:
    """What is wrong with a server; all well by default."""

    ranges: str = "yes"  # or "ignored", "wrong", "416"
    statuses: dict[str, int] = field(default_factory=dict)  # path to status
    redirects: dict[str, str] = field(default_factory=dict)  # path to Location
    cut_after: int | None = None  # bytes of a body after which the connection is closed ...
    cut_times: int = 1  # ... so many times
    flip_at: int | None = None  # offset in a file of the byte that comes out wrong
    hold_at: int | None = None  # bytes of files after which the server waits for `go`
    user: str | None = None  # "name:password" that is asked for
    hashes: bool = True
    sizes: bool = True


class FakeIndex(ThreadingHTTPServer):
    """An index with one project a distribution; `log` holds (method, path, Range, peer)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.yanked: dict[str, str] = {}
        self.page = "json"
        self.faults = Faults()
        self.log: list[tuple[str, str, str | None, int]] = []
        self.authorizations: list[str | None] = []
        self.served_bytes = 0
        self.held, self.go = threading.Event(), threading.Event()

    @property
    def url(self) -> str:
        """Where the server is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that the tests break."""

    def config(self, **options: object) -> PipConfig:
        """Return a pip configuration that names this index alone."""
        given = {"index_url": f"{self.url}/simple/", "retries": 1, "timeout_s": 5.0, **options}
        return PipConfig(**given)  # type: ignore[arg-type]

    def index(self, **options: object) -> Index:
        """Return a client of this index alone."""
        return Index(self.config(**options))

    def ranges(self) -> list[str | None]:
        """Return the Range headers of the requests for files."""
        return [asked for _, path, asked, _ in self.log if path.startswith("/files/")]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeIndex

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer as to a GET, less the body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer with a page or a file."""
        server, faults = self.server, self.server.faults
        path = unquote(urlsplit(self.path).path)
        server.log.append((self.command, path, self.headers.get("Range"), self.client_address[1]))
        server.authorizations.append(self.headers.get("Authorization"))
        if faults.user is not None:
            wanted = "Basic " + base64.b64encode(faults.user.encode()).decode()
            if self.headers.get("Authorization") != wanted:
                return self._send(401, b"", {})
        if path in faults.statuses:
            return self._send(faults.statuses[path], b"", {})
        if path in faults.redirects:
            return self._send(302, b"", {"Location": faults.redirects[path]})
        if path.startswith("/simple/"):
            return self._page(path.removeprefix("/simple/").strip("/"))
        content = server.files.get(path.removeprefix("/files/"))
        return self._send(404, b"", {}) if content is None else self._file(content)

    def _page(self, project: str) -> None:
        prefix = project.replace("-", "_") + "-"
        names = [name for name in self.server.files if name.startswith(prefix)]
        if not names:
            return self._send(404, b"", {})
        if self.server.page == "json":
            page: dict[str, object] = {"meta": {"api-version": "1.1"}, "name": project}
            page["files"] = [self._json_row(name) for name in names]
            kind = "application/vnd.pypi.simple.v1+json"
            return self._send(200, json.dumps(page).encode(), {"Content-Type": kind})
        rows = "".join(self._html_row(name) for name in names)
        body = f"<!DOCTYPE html><html><body>{rows}</body></html>".encode()
        return self._send(200, body, {"Content-Type": "text/html; charset=utf-8"})

    def _json_row(self, name: str) -> dict[str, object]:
        content = self.server.files[name]
        digest = (
            {"sha256": hashlib.sha256(content).hexdigest()} if self.server.faults.hashes else {}
        )
        row: dict[str, object] = {"filename": name, "url": f"../../files/{name}", "hashes": digest}
        if self.server.faults.sizes:
            row["size"] = len(content)
        if name in self.server.yanked:
            row["yanked"] = self.server.yanked[name] or True
        return row

    def _html_row(self, name: str) -> str:
        digest = hashlib.sha256(self.server.files[name]).hexdigest()
        fragment = f"#sha256={digest}" if self.server.faults.hashes else ""
        yanked = ""
        if name in self.server.yanked:
            yanked = f' data-yanked="{html.escape(self.server.yanked[name])}"'
        return f'<a href="../../files/{name}{fragment}"{yanked}>{name}</a><br/>\n'

    def _file(self, content: bytes) -> None:
        faults = self.server.faults
        if faults.flip_at is not None:
            at = faults.flip_at
            content = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        asked = self.headers.get("Range")
        if asked is None or faults.ranges == "ignored":
            return self._send(200, content, {})
        if faults.ranges == "416":
            return self._send(416, b"", {})
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start, end = int(first), int(last) + 1 if last else len(content)
        if faults.ranges == "wrong":
            start, end = 0, end - start
        headers = {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}"}
        return self._send(206, content[start:end], headers)

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        faults = self.server.faults
        is_file = urlsplit(self.path).path.startswith("/files/")
        if is_file and faults.cut_after is not None and faults.cut_times > 0 and body:
            faults.cut_times -= 1
            self.wfile.write(body[: faults.cut_after])
            self.close_connection = True
            return
        for at in range(0, len(body), 1 << 16):
            chunk = body[at : at + (1 << 16)]
            if is_file:
                self._hold(faults.hold_at)
                self.server.served_bytes += len(chunk)
            self.wfile.write(chunk)

    def _hold(self, hold_at: int | None) -> None:
        """Wait, once so many bytes of files were served, until the test says go."""
        if hold_at is not None and self.server.served_bytes >= hold_at:
            self.server.held.set()
            self.server.go.wait(60)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch, tmp_path):
    """Keep the tester's own proxies, netrc and certificates out of the tests."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))


@pytest.fixture
def fake_index():
    """An index that is running."""
    with FakeIndex() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.go.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path):
    """An empty cache."""
    return Cache(tmp_path / "cache")


WHEEL_NAME = "vllm-0.99.0-cp38-abi3-manylinux_2_28_x86_64.whl"
MIXED = {
    "vllm/__init__.py": b"",
    "vllm/_C.abi3.so": compiled(1),
    "vllm/_version.py": VERSION_FILE,
    "vllm/config/cache.py": b"block_size = 16\n",
    "vllm/_moe_C.abi3.so": compiled(2),
    "vllm/third_party/x/kernel.cuh": b"__device__ int block_size;\r\n",
    "vllm/v1/core/utils.py": b"def unify(block_size):\n    return block_size\n",
    "vllm/run.sh": b"#!/bin/sh\n",
    "vllm/vllm-rs": compiled(3, 1 << 20),
    "vllm/zz.py": b"last = 1\n",
    "vllm/_flash_C.abi3.so": compiled(4),
}


@pytest.fixture(scope="session")
def wheel() -> bytes:
    """A wheel of 10 MB with 40 kB of sources."""
    return make_wheel(MIXED)


@pytest.fixture
def pins(fake_index, wheel) -> Pins:
    """Pins of one release that the index offers."""
    fake_index.files[WHEEL_NAME] = wheel
    return Pins((Release("0.99.0", (pin(WHEEL_NAME, wheel),)),))


class Kit:
    """The makers above, for tests: with importlib's import mode a test cannot import them."""

    PACKAGE, MIXED, WHEEL_NAME, VERSION_FILE = PACKAGE, MIXED, WHEEL_NAME, VERSION_FILE
    Faults = Faults
    make_wheel = staticmethod(make_wheel)
    make_sdist = staticmethod(make_sdist)
    record_of = staticmethod(record_of)
    compiled = staticmethod(compiled)
    pin = staticmethod(pin)


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    """What makes wheels, sdists and pins."""
    return Kit
