"""HTTP as the user's pip configuration wants it: certificates, proxy, credentials, retries.

Errors name the place without its credentials.
"""

from __future__ import annotations

import netrc
import os
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import certifi
import urllib3

from patchkit.errors import PatchkitError
from patchkit.upstream.pipconfig import PipConfig

CONNECTIONS = 4
# the statuses that pip tries again
_RETRY_STATUS = (500, 502, 503, 520, 524, 527)


class UnreachableError(PatchkitError):
    """A server that gives no usable answer."""


class BrokenOffError(UnreachableError):
    """A transfer that ended before all of the body was there."""


def redact(url: str) -> str:
    """Return a URL without user, password, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class Http:
    """Requests with keep-alive; one object serves several threads."""

    def __init__(self, config: PipConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._pools: dict[tuple[str | None, bool], urllib3.PoolManager] = {}
        self._credentials = _index_credentials(config)
        self.retries = config.retries

    def get(
        self, url: str, headers: Mapping[str, str], *, method: str = "GET"
    ) -> urllib3.BaseHTTPResponse:
        """Return the answer with its body read, after redirects and retries."""
        with self._errors(url):
            return self._request(method, url, headers, preload=True)

    @contextmanager
    def stream(self, url: str, headers: Mapping[str, str]) -> Iterator[urllib3.BaseHTTPResponse]:
        """Give an answer whose body is still to be read."""
        with self._errors(url):
            response = self._request("GET", url, headers, preload=False)
        finished = False
        try:
            with self._errors(url, BrokenOffError):
                yield response
            finished = True
        finally:
            if not finished:  # what is left of the body must not serve the next request
                response.close()
            response.release_conn()

    def _request(
        self, method: str, url: str, headers: Mapping[str, str], *, preload: bool
    ) -> urllib3.BaseHTTPResponse:
        bare = _without_credentials(url)
        retries = urllib3.Retry(
            total=self._config.retries,
            status_forcelist=_RETRY_STATUS,
            backoff_factor=0.25,
            raise_on_status=False,
        )
        # compressed, the bytes of a range would not be those of the file
        plain = {"Accept-Encoding": "identity", "User-Agent": "patchkit"}
        sent = {**headers, **self._authorization(url), **plain}
        pool = self._pool(bare)
        return pool.request(method, bare, headers=sent, retries=retries, preload_content=preload)

    def _pool(self, url: str) -> urllib3.PoolManager:
        """Return the connections for a URL, by its proxy and by whether its host is verified."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        proxy = self._config.proxy or None
        if proxy is None and not proxy_bypass(host):
            found = getproxies()
            proxy = found.get(parts.scheme) or found.get("all")
        trusted = {host, f"{host}:{parts.port}"} & set(self._config.trusted_hosts)
        key = (proxy, not trusted)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = self._new_pool(proxy, verify=not trusted)
            pool: urllib3.PoolManager = self._pools[key]
            return pool

    def _new_pool(self, proxy: str | None, *, verify: bool) -> urllib3.PoolManager:
        context = ssl_context(self._config, verify=verify)
        if not verify:  # the user's pip configuration says so, and pip does not warn either
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        timeout = urllib3.Timeout(self._config.timeout_s or None)
        if proxy is None:
            return urllib3.PoolManager(
                maxsize=CONNECTIONS,
                timeout=timeout,
                ssl_context=context,
                cert_reqs=context.verify_mode,
            )
        if "//" not in proxy:
            proxy = f"http://{proxy}"
        user = _user_and_password(proxy)
        headers = urllib3.make_headers(proxy_basic_auth=":".join(user)) if user else None
        try:
            return urllib3.ProxyManager(
                _without_credentials(proxy),
                proxy_headers=headers,
                maxsize=CONNECTIONS,
                timeout=timeout,
                ssl_context=context,
                cert_reqs=context.verify_mode,
            )
        except (urllib3.exceptions.HTTPError, ValueError) as err:
            raise PatchkitError(
                f"the proxy {redact(proxy)} cannot be used", expected="an http or https proxy"
            ) from err

    def _authorization(self, url: str) -> dict[str, str]:
        """Return the header for a URL: its own credentials, its index's, or netrc's."""
        parts = urlsplit(url)
        user = _user_and_password(url) or self._credentials.get(parts.netloc.rpartition("@")[2])
        user = user or _netrc_login(parts.hostname or "")
        return urllib3.make_headers(basic_auth=":".join(user)) if user else {}

    @contextmanager
    def _errors(self, url: str, kind: type[UnreachableError] = UnreachableError) -> Iterator[None]:
        try:
            yield
        except (urllib3.exceptions.HTTPError, ssl.SSLError) as err:
            raise kind(
                f"no answer: {_reason(err)}",
                place=redact(url),
                hint="check the network and pip's configuration (index, proxy, certificates); "
                "releases that are in the cache need neither",
            ) from None  # urllib3's own text may hold the URL with its credentials


def ssl_context(config: PipConfig, *, verify: bool) -> ssl.SSLContext:
    """Return a context with the certificates pip's configuration names; else the system's."""
    cert, client = config.cert, config.client_cert
    try:
        folder = cert if cert and Path(cert).is_dir() else None
        context = ssl.create_default_context(cafile=None if folder else cert, capath=folder)
        if not cert:  # a slim system has none of its own; pip falls back on the same
            context.load_verify_locations(certifi.where())
        if client:
            context.load_cert_chain(client)
    except (OSError, ssl.SSLError) as err:
        raise PatchkitError(
            f"a certificate that pip's configuration names cannot be read: {err}",
            place=", ".join(path for path in (cert, client) if path),
        ) from err
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _reason(err: BaseException) -> str:
    """Return the innermost cause of a urllib3 error by its kind and, for the system's, its text."""
    inner: object = err
    while isinstance(inner, BaseException):
        following = getattr(inner, "reason", None) or inner.__cause__ or inner.__context__
        if not isinstance(following, BaseException):
            break
        inner = following
    text = f": {inner.strerror}" if isinstance(inner, OSError) and inner.strerror else ""
    return type(inner).__name__ + text


def _user_and_password(url: str) -> tuple[str, str] | None:
    parts = urlsplit(url)
    if parts.username is None:
        return None
    return unquote(parts.username), unquote(parts.password or "")


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _index_credentials(config: PipConfig) -> dict[str, tuple[str, str]]:
    """Return host to credentials: an index's serve for files on its host, too, as in pip."""
    found: dict[str, tuple[str, str]] = {}
    for url in (config.index_url or "", *config.extra_index_urls, *config.find_links):
        user = _user_and_password(url) if "://" in url else None
        if user:
            found.setdefault(urlsplit(url).netloc.rpartition("@")[2], user)
    return found


def _netrc_login(host: str) -> tuple[str, str] | None:
    """Return the user's netrc entry for a host; a file that cannot be read has none, as in pip."""
    named = os.environ.get("NETRC")
    path = Path(named) if named else Path("~/.netrc").expanduser()
    try:
        entry = netrc.netrc(path).authenticators(host)
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return None
    return (entry[0], entry[2] or "") if entry else None
