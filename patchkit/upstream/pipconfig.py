"""The user's pip configuration, read where pip reads it.

Order and places are those of pip's documentation, "Configuration files": global, user, site and
`PIP_CONFIG_FILE`, each over the one before; then `[global]` under `[download]` under `PIP_*`
variables. pip itself is not asked: an environment made by uv has none, and asking takes 0.3 s.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import PatchkitError

_SECTIONS = ("global", "download")
_TRUE = {"1", "y", "yes", "t", "true", "on"}
_FALSE = {"0", "n", "no", "f", "false", "off"}
# pip's other spellings of the same options
_ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}


@dataclass(frozen=True)
class PipConfig:
    """The options of `pip download` that say where files come from and how they are reached."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    trusted_hosts: tuple[str, ...] = ()
    timeout_s: float = 15.0
    retries: int = 5


def read_pip_config(
    environ: Mapping[str, str] | None = None,
    *,
    home: Path | None = None,
    prefix: Path | None = None,
    platform: str = sys.platform,
) -> PipConfig:
    """Return what pip would use for a download that is started here and now."""
    environ = os.environ if environ is None else environ
    home = Path.home() if home is None else home
    prefix = Path(sys.prefix) if prefix is None else prefix
    sections: dict[str, dict[str, str]] = {name: {} for name in _SECTIONS}
    places: dict[str, str] = {}
    for path in config_files(environ, home, prefix, platform):
        for section, options in _read_file(path).items():
            if section in sections:
                sections[section].update(options)
                places.update({key: f"{path}: [{section}] {key}" for key in options})
    options = {}
    for section in _SECTIONS:
        options.update(sections[section])
    for name, value in _environment_options(environ):
        options[name] = value
        places[name] = f"the environment's {name!r} option"
    return _from_options(options, places, environ)


def config_files(
    environ: Mapping[str, str], home: Path, prefix: Path, platform: str
) -> Iterator[Path]:
    """Yield pip's configuration files, those that override others last."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:  # pip's documented way to say "no file at all"
        return
    if platform == "darwin":
        yield Path("/Library/Application Support/pip/pip.conf")
    else:
        folders = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
        yield from (Path(folder, "pip", "pip.conf") for folder in folders.split(os.pathsep))
    yield Path("/etc/pip.conf")
    if not (named and Path(named).exists()):
        yield home / ".pip" / "pip.conf"
        yield _user_folder(environ, home, platform) / "pip.conf"
    yield prefix / "pip.conf"
    if named:
        yield Path(named)


def _user_folder(environ: Mapping[str, str], home: Path, platform: str) -> Path:
    if platform == "darwin":
        folder = home / "Library" / "Application Support" / "pip"
        return folder if folder.is_dir() else home / ".config" / "pip"
    configured = environ.get("XDG_CONFIG_HOME")
    return (Path(configured) if configured else home / ".config") / "pip"


def _read_file(path: Path) -> dict[str, dict[str, str]]:
    """Return section to option to value; a file that is not there has none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as err:
        raise PatchkitError(f"cannot read pip's configuration: {err}", place=str(path)) from err
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text, str(path))
    except configparser.Error as err:
        fact = "pip's configuration cannot be parsed: " + type(err).__name__
        raise PatchkitError(fact, place=str(path)) from None  # its text may quote a password
    return {
        section: {_option_name(key): value for key, value in parser.items(section) if value}
        for section in parser.sections()
    }


def _environment_options(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in environ.items():
        if key.startswith("PIP_") and value:  # pip takes an empty variable as unset
            yield _option_name(key.removeprefix("PIP_")), value


def _option_name(key: str) -> str:
    name = key.lower().replace("_", "-").removeprefix("--")
    return _ALIASES.get(name, name)


def _from_options(
    options: Mapping[str, str], places: Mapping[str, str], environ: Mapping[str, str]
) -> PipConfig:
    # what pip's HTTP library falls back on for certificates
    bundle = environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    return PipConfig(
        index_url=options.get("index-url"),
        extra_index_urls=tuple(options.get("extra-index-url", "").split()),
        find_links=tuple(options.get("find-links", "").split()),
        no_index=_flag(options, "no-index", places),
        cert=options.get("cert") or bundle,
        client_cert=options.get("client-cert"),
        proxy=options.get("proxy"),
        trusted_hosts=tuple(options.get("trusted-host", "").split()),
        timeout_s=_number(options, "timeout", 15.0, places),
        retries=int(_number(options, "retries", 5, places)),
    )


def _flag(options: Mapping[str, str], name: str, places: Mapping[str, str]) -> bool:
    value = options.get(name, "no").lower()
    if value not in _TRUE | _FALSE:
        raise PatchkitError(f"is {value!r}", place=places[name], expected="true or false")
    return value in _TRUE


def _number(
    options: Mapping[str, str], name: str, default: float, places: Mapping[str, str]
) -> float:
    value = options.get(name)
    if value is None:
        return default
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise PatchkitError(f"is {value!r}", place=places[name], expected="a number, 0 or more")
    return number
