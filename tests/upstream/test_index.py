"""Finding a file: pages of both kinds, several places, credentials, proxies, certificates."""

import shutil
import ssl
import subprocess

import pytest

from patchkit.errors import PatchkitError
from patchkit.upstream.index import Index, default_index_url
from patchkit.upstream.pages import IndexFile, parse_page
from patchkit.upstream.pipconfig import PipConfig
from patchkit.upstream.transport import redact, ssl_context

SHA = "0123456789abcdef" * 4
JSON = "application/vnd.pypi.simple.v1+json"
BASE = "http://index.test/simple/vllm/"


def test_html_page_is_read():
    body = f"""<!DOCTYPE html><html><head><base href="../../files/"></head><body>
<a href="vllm-1.0.0-py3-none-any.whl#sha256={SHA}" data-requires-python="&gt;=3.10">one</a>
<a href="/elsewhere/vllm-1.0.0.tar.gz" data-yanked="broken &amp; bad">two</a>
<a href="http://other.test/vllm-2.0.0%2Bcpu-py3-none-any.whl#md5=00" data-yanked>three</a>
<a href="../">up</a><a name="no-href">none</a><a href="notes.html">notes</a><a href="http://[">x</a>
</body></html>""".encode()
    assert parse_page(body, "text/html; charset=utf-8", BASE, "page") == (
        IndexFile(
            "vllm-1.0.0-py3-none-any.whl",
            "http://index.test/files/vllm-1.0.0-py3-none-any.whl",
            SHA,
        ),
        IndexFile(
            "vllm-1.0.0.tar.gz",
            "http://index.test/elsewhere/vllm-1.0.0.tar.gz",
            yanked="broken & bad",
        ),
        IndexFile(
            "vllm-2.0.0+cpu-py3-none-any.whl",
            "http://other.test/vllm-2.0.0%2Bcpu-py3-none-any.whl",
            yanked=True,
        ),
    )


def test_json_page_is_read():
    body = f"""{{"meta": {{"api-version": "1.3"}}, "name": "vllm", "files": [
        {{"filename": "a-1-py3-none-any.whl", "url": "../../files/a-1-py3-none-any.whl",
          "hashes": {{"sha256": "{SHA.upper()}"}}, "size": 12, "yanked": false}},
        {{"filename": "a-1.tar.gz", "url": "https://other.test/a-1.tar.gz", "hashes": {{}},
          "yanked": "a reason"}}]}}""".encode()
    assert parse_page(body, JSON, BASE, "page") == (
        IndexFile("a-1-py3-none-any.whl", "http://index.test/files/a-1-py3-none-any.whl", SHA, 12),
        IndexFile("a-1.tar.gz", "https://other.test/a-1.tar.gz", yanked="a reason"),
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"nonsense", "page: the index page is not PEP 691 JSON"),
        (b"[]", "page: the index page is not PEP 691 JSON"),
        (
            b'{"meta": {"api-version": "1.0"}, "files": [{"filename": "x"}]}',
            "page: the index page is not PEP 691 JSON",
        ),
        (
            b'{"meta": {"api-version": "2.0"}, "files": []}',
            "page: the index speaks version 2, expected 1",
        ),
    ],
)
def test_bad_json_page_is_refused(body, message):
    with pytest.raises(PatchkitError) as caught:
        parse_page(body, JSON, BASE, "page")
    assert str(caught.value) == message


def test_default_index_is_a_secure_simple_index():
    assert default_index_url().startswith("https://")
    assert default_index_url().endswith("/simple/")
    assert default_index_url().count("/") == 4


@pytest.mark.parametrize("page", ["json", "html"])
def test_file_is_found_by_its_name_through_the_page(fake_index, pins, kit, page):
    fake_index.page = page
    location = fake_index.index().locate(pins.releases[0].artifacts[0])
    assert location.url == f"{fake_index.url}/files/{kit.WHEEL_NAME}"


def test_file_of_that_name_with_another_digest_is_passed_over(fake_index, pins, tmp_path, kit):
    artifact = pins.releases[0].artifacts[0]
    (tmp_path / kit.WHEEL_NAME).write_bytes(b"not it")
    index = fake_index.index(find_links=(str(tmp_path),))
    assert index.locate(artifact).url == f"{fake_index.url}/files/{kit.WHEEL_NAME}"
    fake_index.files[kit.WHEEL_NAME] = b"not it either"
    with pytest.raises(PatchkitError) as caught:
        fake_index.index().locate(artifact)
    assert str(caught.value) == (
        f"{kit.WHEEL_NAME}: {fake_index.url}/simple/vllm/ offers another file of that name, "
        f"expected sha256 {artifact.sha256} as pinned"
    )


def test_file_that_nobody_offers_is_an_error_with_advice(fake_index, pins, kit):
    fake_index.files.clear()
    with pytest.raises(PatchkitError) as caught:
        fake_index.index().locate(pins.releases[0].artifacts[0])
    assert str(caught.value) == (
        f"{kit.WHEEL_NAME}: no configured index or find-links folder offers the file"
    )
    assert caught.value.hint == (
        "check index-url, extra-index-url and find-links in pip's configuration"
    )


@pytest.mark.parametrize("form", ["folder", "url", "page"])
def test_find_links_are_looked_at_without_the_network(fake_index, pins, wheel, tmp_path, kit, form):
    path = tmp_path / "my wheels" / kit.WHEEL_NAME
    path.parent.mkdir()
    path.write_bytes(wheel)
    link = {
        "folder": str(path.parent),
        "url": path.parent.as_uri(),
        "page": (path.parent / "links.html").as_uri(),
    }[form]
    if form == "page":
        path = path.rename(tmp_path / kit.WHEEL_NAME)
        (tmp_path / "my wheels" / "links.html").write_text(f'<a href="../{kit.WHEEL_NAME}">x</a>')
    index = fake_index.index(find_links=(str(tmp_path / "gone"), link), no_index=True)
    assert index.locate(pins.releases[0].artifacts[0]).path == path
    assert fake_index.log == []


def test_extra_index_may_be_a_folder_of_pages(fake_index, pins, wheel, tmp_path, kit):
    page = tmp_path / "simple" / "vllm" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="../../files/{kit.WHEEL_NAME}">wheel</a>')
    path = tmp_path / "files" / kit.WHEEL_NAME
    path.parent.mkdir()
    path.write_bytes(wheel)
    fake_index.files.clear()
    extra = ((tmp_path / "gone").as_uri(), (tmp_path / "simple").as_uri())
    index = fake_index.index(extra_index_urls=extra)
    assert index.locate(pins.releases[0].artifacts[0]).path == path


def test_other_index_helps_where_the_first_does_not_answer(fake_index, pins, kit):
    config = PipConfig(
        index_url="http://127.0.0.1:9/simple",
        extra_index_urls=(f"{fake_index.url}/simple",),
        retries=0,
    )
    location = Index(config).locate(pins.releases[0].artifacts[0])
    assert location.url == f"{fake_index.url}/files/{kit.WHEEL_NAME}"


@pytest.mark.parametrize("status", [403, 500])
def test_index_that_refuses_is_an_error(fake_index, pins, status):
    fake_index.faults.statuses["/simple/vllm/"] = status
    with pytest.raises(PatchkitError) as caught:
        fake_index.index().locate(pins.releases[0].artifacts[0])
    assert str(caught.value) == f"{fake_index.url}/simple/vllm/: the index answers {status}"


def test_place_that_refuses_is_asked_once(fake_index, pins):
    fake_index.faults.statuses["/simple/vllm/"] = 403
    index = fake_index.index()
    for _ in range(3):
        with pytest.raises(PatchkitError, match="the index answers 403"):
            index.locate(pins.releases[0].artifacts[0])
    assert len(fake_index.log) == 1


def test_page_and_file_may_be_elsewhere(fake_index, pins, kit):
    fake_index.faults.redirects = {
        "/old/index/vllm/": "/simple/vllm/",
        "/old/file": f"/files/{kit.WHEEL_NAME}",
    }
    index = fake_index.index(index_url=f"{fake_index.url}/old/index/")
    location = index.locate(pins.releases[0].artifacts[0])
    assert location.url == f"{fake_index.url}/files/{kit.WHEEL_NAME}"
    answer = index.http.get(f"{fake_index.url}/old/file", {"Range": "bytes=0-1"})
    assert (answer.status, answer.data) == (206, b"PK")


def test_credentials_do_not_follow_to_another_host(fake_index, pins):
    fake_index.faults.redirects = {
        "/mine/vllm/": f"http://localhost:{fake_index.server_port}/simple/vllm/"
    }
    url = with_user(f"{fake_index.url}/mine/", "me:secret")
    fake_index.index(index_url=url).locate(pins.releases[0].artifacts[0])
    assert fake_index.authorizations == ["Basic bWU6c2VjcmV0", None]


def with_user(url, user):
    return url.replace("http://", f"http://{user}@")


def test_credentials_in_the_index_url_serve_for_its_files_too(fake_index, pins):
    fake_index.faults.user = "me:p@ss/word"
    url = with_user(f"{fake_index.url}/simple/", "me:p%40ss%2Fword")
    index = fake_index.index(index_url=url)
    location = index.locate(pins.releases[0].artifacts[0])
    assert index.http.get(location.url, {"Range": "bytes=0-0"}).status == 206


def test_credentials_are_taken_from_netrc(fake_index, pins, monkeypatch, tmp_path):
    fake_index.faults.user = "me:secret"
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert fake_index.index().locate(pins.releases[0].artifacts[0]).url


def test_broken_netrc_is_no_netrc(fake_index, pins, monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text("machine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert fake_index.index().locate(pins.releases[0].artifacts[0]).url
    assert fake_index.authorizations == [None]


def test_wrong_credentials_are_an_error_that_does_not_show_them(fake_index, pins):
    fake_index.faults.user = "me:right"
    url = with_user(f"{fake_index.url}/simple/", "me:wr0ng-secret")
    with pytest.raises(PatchkitError) as caught:
        fake_index.index(index_url=url).locate(pins.releases[0].artifacts[0])
    assert str(caught.value) == f"{fake_index.url}/simple/vllm/: the index answers 401"
    assert caught.value.hint == "check the credentials in pip's configuration or in netrc"


def test_no_error_shows_credentials_or_queries(pins):
    url = "http://me:s3cret@127.0.0.1:9/simple/?token=s3cret"
    with pytest.raises(PatchkitError) as caught:
        Index(PipConfig(index_url=url, retries=0)).locate(pins.releases[0].artifacts[0])
    parts = [caught.value, caught.value.hint, caught.value.__cause__]
    assert "s3cret" not in " ".join(map(str, parts))
    assert redact("https://me:s3cret@x.test:8/a?b=s3cret#s3cret") == "https://x.test:8/a"


def test_proxy_of_pips_configuration_is_used(fake_index, pins):
    index = fake_index.index(index_url="http://index.invalid/simple/", proxy=fake_index.url)
    assert index.locate(pins.releases[0].artifacts[0]).url.startswith("http://index.invalid/files/")


def test_proxy_without_a_scheme_is_taken_as_http(fake_index, pins):
    proxy = fake_index.url.removeprefix("http://")
    index = fake_index.index(index_url="http://index.invalid/simple/", proxy=proxy)
    assert index.locate(pins.releases[0].artifacts[0]).url


def test_proxy_of_the_environment_is_used_unless_bypassed(fake_index, pins, monkeypatch):
    monkeypatch.setenv("http_proxy", fake_index.url)
    index = fake_index.index(index_url="http://index.invalid/simple/")
    assert index.locate(pins.releases[0].artifacts[0]).url
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert fake_index.index(retries=0).locate(pins.releases[0].artifacts[0]).url


def test_proxy_of_an_unknown_kind_is_an_error(fake_index, pins):
    with pytest.raises(PatchkitError) as caught:
        fake_index.index(proxy="socks5://me:s3cret@127.0.0.1:9").locate(
            pins.releases[0].artifacts[0]
        )
    assert str(caught.value) == (
        "the proxy socks5://127.0.0.1:9 cannot be used, expected an http or https proxy"
    )


@pytest.fixture
def secure_index(fake_index, tmp_path):
    """The index over TLS with a certificate that no system trusts; gives the certificate."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl program to make a certificate with")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    request = f"req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {cert} -subj /CN=x"
    arguments = [*request.split(), "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([openssl, *arguments], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    fake_index.socket = context.wrap_socket(fake_index.socket, server_side=True)
    return cert


def test_certificate_of_pips_configuration_is_trusted_and_no_other(fake_index, pins, secure_index):
    url = fake_index.url.replace("http://", "https://") + "/simple/"
    artifact = pins.releases[0].artifacts[0]
    assert fake_index.index(index_url=url, cert=str(secure_index)).locate(artifact).url
    with pytest.raises(PatchkitError) as caught:
        fake_index.index(index_url=url, retries=0).locate(artifact)
    assert "no answer: SSLCertVerificationError" in str(caught.value)


def test_certificate_that_is_named_is_trusted_alone(secure_index):
    named = ssl_context(PipConfig(cert=str(secure_index)), verify=True)
    assert [dict(*ca["subject"]) for ca in named.get_ca_certs()] == [{"commonName": "x"}]
    assert len(ssl_context(PipConfig(), verify=True).get_ca_certs()) > 100


def test_trusted_host_is_not_verified(fake_index, pins, secure_index):  # noqa: ARG001
    url = fake_index.url.replace("http://", "https://") + "/simple/"
    index = fake_index.index(index_url=url, trusted_hosts=("127.0.0.1",))
    assert index.locate(pins.releases[0].artifacts[0]).url


def test_certificate_that_cannot_be_read_is_an_error(fake_index, pins, tmp_path):
    path = str(tmp_path / "gone.pem")
    with pytest.raises(PatchkitError) as caught:
        fake_index.index(cert=path).locate(pins.releases[0].artifacts[0])
    assert caught.value.place == path
    assert caught.value.fact.startswith(
        "a certificate that pip's configuration names cannot be read: "
    )
