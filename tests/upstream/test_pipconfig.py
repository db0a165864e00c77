"""The user's pip configuration: places, order, spellings."""

import os
import subprocess
import sys

import pytest

from patchkit.errors import PatchkitError
from patchkit.upstream.pipconfig import PipConfig, config_files, read_pip_config


@pytest.fixture
def write(tmp_path):
    """Write configuration files under a home, a prefix and an XDG folder; read the result."""

    def run(environ=None, **files):
        places = {
            "xdg_global": tmp_path / "etc" / "pip" / "pip.conf",
            "legacy": tmp_path / "home" / ".pip" / "pip.conf",
            "user": tmp_path / "home" / ".config" / "pip" / "pip.conf",
            "site": tmp_path / "prefix" / "pip.conf",
            "named": tmp_path / "named.conf",
        }
        for name, text in files.items():
            places[name].parent.mkdir(parents=True, exist_ok=True)
            places[name].write_text(text)
        given = {"XDG_CONFIG_DIRS": str(tmp_path / "etc"), **(environ or {})}
        if "named" in files:
            given["PIP_CONFIG_FILE"] = str(places["named"])
        return read_pip_config(
            given, home=tmp_path / "home", prefix=tmp_path / "prefix", platform="linux"
        )

    return run


def index(name):
    return f"[global]\nindex-url = http://{name}.test/simple\n"


@pytest.fixture(autouse=True)
def no_machine_file(monkeypatch):
    """Leave this machine's own /etc/pip.conf out."""
    import patchkit.upstream.pipconfig as module

    def without_etc(*args):
        return (path for path in config_files(*args) if str(path) != "/etc/pip.conf")

    monkeypatch.setattr(module, "config_files", without_etc)


def test_nothing_configured_is_pips_defaults(write):
    assert write() == PipConfig(
        index_url=None,
        extra_index_urls=(),
        find_links=(),
        no_index=False,
        cert=None,
        client_cert=None,
        proxy=None,
        trusted_hosts=(),
        timeout_s=15.0,
        retries=5,
    )


def test_later_file_wins(write):
    order = ["xdg_global", "legacy", "user", "site"]
    files = {}
    for name in order:
        files[name] = index(name.replace("_", "-"))
        assert write(**files).index_url == f"http://{name.replace('_', '-')}.test/simple"


def test_variable_wins_over_section_over_global(write):
    text = index("site") + "[download]\nindex-url = http://download.test/simple\n"
    assert write(site=text, user=index("user")).index_url == "http://download.test/simple"
    text = "[download]\nindex-url = http://download.test/simple\n"
    assert write(user=text, site=index("site")).index_url == "http://download.test/simple"
    found = write({"PIP_INDEX_URL": "http://variable.test/simple"}, site=text)
    assert found.index_url == "http://variable.test/simple"


def test_named_file_replaces_the_users_and_wins_over_the_sites(write):
    found = write(
        user="[global]\nproxy = http://user.test\n", site=index("site"), named=index("named")
    )
    assert (found.index_url, found.proxy) == ("http://named.test/simple", None)


def test_named_file_that_is_not_there_keeps_the_users(write, tmp_path):
    found = write({"PIP_CONFIG_FILE": str(tmp_path / "gone")}, user=index("user"))
    assert found.index_url == "http://user.test/simple"


def test_null_device_means_no_file(write):
    assert (
        write({"PIP_CONFIG_FILE": os.devnull}, user=index("user"), site=index("site"))
        == PipConfig()
    )


def test_all_options_are_read(write):
    text = """\
[global]
index_url = http://a.test/simple
extra-index-url =
    file:///b/simple
    http://c.test/simple
find-links = /wheels
    http://d.test/links.html
no-index = yes
cert = /ca.pem
client-cert = /client.pem
proxy = http://proxy.test:3128
trusted-host = a.test c.test:8080
timeout = 3
retries = 7
[install]
index-url = http://not-for-downloads.test/simple
"""
    assert write(user=text) == PipConfig(
        index_url="http://a.test/simple",
        extra_index_urls=("file:///b/simple", "http://c.test/simple"),
        find_links=("/wheels", "http://d.test/links.html"),
        no_index=True,
        cert="/ca.pem",
        client_cert="/client.pem",
        proxy="http://proxy.test:3128",
        trusted_hosts=("a.test", "c.test:8080"),
        timeout_s=3.0,
        retries=7,
    )


def test_all_variables_are_read(write):
    found = write(
        {
            "PIP_INDEX_URL": "http://a.test/simple",
            "PIP_EXTRA_INDEX_URL": "http://b.test/simple http://c.test/simple",
            "PIP_FIND_LINKS": "/wheels /more",
            "PIP_NO_INDEX": "1",
            "PIP_CERT": "/ca.pem",
            "PIP_CLIENT_CERT": "/client.pem",
            "PIP_PROXY": "http://proxy.test",
            "PIP_TRUSTED_HOST": "a.test",
            "PIP_DEFAULT_TIMEOUT": "180",
            "PIP_RETRIES": "0",
        }
    )
    assert found == PipConfig(
        index_url="http://a.test/simple",
        extra_index_urls=("http://b.test/simple", "http://c.test/simple"),
        find_links=("/wheels", "/more"),
        no_index=True,
        cert="/ca.pem",
        client_cert="/client.pem",
        proxy="http://proxy.test",
        trusted_hosts=("a.test",),
        timeout_s=180.0,
        retries=0,
    )


def test_empty_variable_is_unset(write):
    assert write({"PIP_INDEX_URL": ""}, user=index("user")).index_url == "http://user.test/simple"


def test_false_flag_turns_a_files_true_off(write):
    text = "[global]\nno-index = true\n"
    assert write(user=text).no_index is True
    assert write({"PIP_NO_INDEX": "0"}, user=text).no_index is False


def test_certificates_fall_back_on_the_http_librarys_variables(write):
    environ = {"REQUESTS_CA_BUNDLE": "/requests.pem", "CURL_CA_BUNDLE": "/curl.pem"}
    assert write(environ).cert == "/requests.pem"
    assert write({"CURL_CA_BUNDLE": "/curl.pem"}).cert == "/curl.pem"
    assert write({**environ, "PIP_CERT": "/pip.pem"}).cert == "/pip.pem"


def test_percent_signs_are_plain(write):
    text = "[global]\nindex-url = http://me:p%40ss@a.test/simple\n"
    assert write(user=text).index_url == "http://me:p%40ss@a.test/simple"


@pytest.mark.parametrize(
    ("option", "value", "wanted"),
    [
        ("timeout", "soon", "a number, 0 or more"),
        ("retries", "-1", "a number, 0 or more"),
        ("timeout", "nan", "a number, 0 or more"),
        ("no-index", "perhaps", "true or false"),
    ],
)
def test_bad_value_is_refused_by_place(write, tmp_path, option, value, wanted):
    with pytest.raises(PatchkitError) as caught:
        write(user=f"[global]\n{option} = {value}\n")
    path = tmp_path / "home" / ".config" / "pip" / "pip.conf"
    assert str(caught.value) == f"{path}: [global] {option}: is {value!r}, expected {wanted}"


def test_bad_variable_is_refused_by_name(write):
    with pytest.raises(PatchkitError) as caught:
        write({"PIP_DEFAULT_TIMEOUT": "soon"})
    assert str(caught.value) == (
        "the environment's 'timeout' option: is 'soon', expected a number, 0 or more"
    )


@pytest.mark.parametrize(
    "text", ["index-url = http://me:secret@a.test\n", "[global\n", b"\xff\xfe"]
)
def test_broken_file_is_refused_and_not_quoted(write, tmp_path, text):
    path = tmp_path / "home" / ".config" / "pip" / "pip.conf"
    path.parent.mkdir(parents=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(PatchkitError) as caught:
        write()
    assert caught.value.place == str(path)
    assert "secret" not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


def test_mac_folders_are_pips(tmp_path):
    def files():
        return [str(path) for path in config_files({}, tmp_path, tmp_path / "prefix", "darwin")]

    assert files() == [
        "/Library/Application Support/pip/pip.conf",
        "/etc/pip.conf",
        f"{tmp_path}/.pip/pip.conf",
        f"{tmp_path}/.config/pip/pip.conf",
        f"{tmp_path}/prefix/pip.conf",
    ]
    (tmp_path / "Library" / "Application Support" / "pip").mkdir(parents=True)
    assert files()[3] == f"{tmp_path}/Library/Application Support/pip/pip.conf"


def test_pip_itself_reads_the_same(write, tmp_path):
    pytest.importorskip("pip")
    text = index("user") + "no-index = true\n"
    environ = {"PIP_DEFAULT_TIMEOUT": "7", "PIP_EXTRA_INDEX_URL": "http://b.test/simple"}
    ours = write(environ, user=text, xdg_global=index("global") + "retries = 9\n")
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env={**environ, "HOME": str(tmp_path / "home"), "XDG_CONFIG_DIRS": str(tmp_path / "etc")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    theirs = dict(line.split("=", 1) for line in listed.splitlines())
    assert theirs["global.index-url"] == repr(ours.index_url)
    assert theirs["global.retries"] == repr(str(ours.retries))
    assert theirs["global.no-index"] == "'true'"
    assert theirs[":env:.extra-index-url"] == repr(ours.extra_index_urls[0])
    assert theirs[":env:.default-timeout"] == "'7'"
    assert ours.timeout_s == 7.0
    assert ours.no_index is True
