"""Where a package lies on disk: an installed distribution, or a plain folder with its sources.

Nothing of the package is imported or run. A distribution is found by the names of the dist-info
folders on a search path, as `importlib.metadata` finds it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from patchkit.errors import PatchkitError
from patchkit.profile import Profile
from patchkit.vllm.profile import VLLM
from patchkit.wheel.metadata import parse_fields
from patchkit.wheel.record import Row, parse_rows

INSTALLED = "installed"
_DIST_INFO = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)\.dist-info")
_PLAIN_STATE = ".patchkit/applied"


@dataclass(frozen=True)
class Site:
    """One package on disk; paths are posix, relative to `root`, which the package's folder is in.

    `dist_info` is the name of its dist-info folder, and `distribution` and `version` what METADATA
    says; all three are None for a plain folder, which no installer knows of.
    """

    root: Path
    package: str = VLLM.package
    dist_info: str | None = None
    distribution: str | None = None
    version: str | None = None

    @property
    def place(self) -> str:
        """The package's folder, for messages."""
        return str(self.root / self.package)

    @property
    def state(self) -> str:
        """The folder of what patchkit keeps of an applied series."""
        return f"{self.dist_info}/patchkit" if self.dist_info else _PLAIN_STATE

    @property
    def work(self) -> str:
        """The folder of what is about to be put in place; it is there only meanwhile."""
        return f"{self.dist_info or '.patchkit'}/.patchkit-work"

    @property
    def record(self) -> str | None:
        """RECORD, None for a plain folder."""
        return f"{self.dist_info}/RECORD" if self.dist_info else None

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, through a link where it is one; None where there is none."""
        place = self.root / path
        try:
            return place.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            fact = f"cannot be read: {(err.strerror or str(err)).lower()}"
            raise PatchkitError(fact, place=str(place)) from err

    def rows(self) -> dict[str, Row]:
        """Return the rows of RECORD by path; none for a plain folder."""
        if self.record is None:
            return {}
        content = self.read(self.record)
        place = str(self.root / self.record)
        if content is None:
            raise PatchkitError(
                "there is no RECORD, so that nothing says what was installed",
                place=place,
                hint="install the wheel with pip or uv; conda and system packages leave it out",
            )
        return {row.path: row for row in parse_rows(content, place)}


def find_site(
    target: str, profile: Profile = VLLM, python: str | None = None, search: Sequence[str] = ()
) -> Site:
    """Return the package that `installed` or a folder names.

    `installed` is the distribution of one of the profile's names that comes first on the search
    path: that of the interpreter `python`, else `search`, else our own. A folder may be
    site-packages, a virtual environment, the package's own folder, or one that holds its sources.
    Raises PatchkitError where there is none, or more than one in the same folder, and for an
    editable install, whose files belong to a checkout.
    """
    if target == INSTALLED:
        folders = [*(_search_path(python) if python else search or sys.path)]
        for folder in dict.fromkeys(Path(f) for f in folders if f):
            site = _distribution_in(folder, profile)
            if site is not None:
                return _checked(site)
        names = " or ".join(profile.distributions)
        raise PatchkitError(
            f"no distribution {names} is installed",
            place=python or sys.prefix,
            hint="--python names the interpreter of another environment; or give its site-packages",
        )
    return _checked(_in_folder(Path(target).expanduser(), target, profile))


def _search_path(python: str) -> list[str]:
    """Return where an interpreter looks for packages; its own start-up runs, nothing else."""
    script = "import json, sys; print(json.dumps(sys.path[1:]))"
    try:
        done = subprocess.run(
            [python, "-c", script], check=True, capture_output=True, text=True, cwd="/"
        )
        found = json.loads(done.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as err:
        raise PatchkitError("is no Python that runs", place=python) from err
    return [str(folder) for folder in found]


def _in_folder(folder: Path, place: str, profile: Profile) -> Site:
    if not folder.is_dir():
        raise PatchkitError(
            "there is no folder of that name",
            place=place,
            expected=f"{INSTALLED}, a folder or a .whl",
        )
    tried = [folder]
    if (folder / "pyvenv.cfg").is_file():
        tried += sorted(folder.glob("lib/python*/site-packages"))
    if folder.name == profile.package and (folder / "__init__.py").is_file():
        tried.append(folder.absolute().parent)
    for root in tried:
        site = _distribution_in(root, profile)
        if site is not None:
            return site
    for root in tried:
        if (root / profile.package / "__init__.py").is_file():
            return Site(root, profile.package)
    raise PatchkitError(
        f"holds no package {profile.package}",
        place=place,
        expected=f"site-packages, an environment, or a folder that holds {profile.package}/",
    )


def _distribution_in(root: Path, profile: Profile) -> Site | None:
    """Return the one distribution of the profile in a folder, None where there is none."""
    try:
        names = sorted(entry.name for entry in root.iterdir() if entry.name.endswith(".dist-info"))
    except OSError:  # no folder: a zip on the search path, or one that may not be listed
        return None
    found = [match for name in names if (match := _DIST_INFO.fullmatch(name))]
    ours = [m[0] for m in found if canonicalize_name(m["name"]) in profile.distributions]
    if not ours:
        return None
    if len(ours) > 1:
        raise PatchkitError(
            f"{' and '.join(ours)} are installed there",
            place=str(root),
            expected="one distribution",
            hint="uninstall all of them and install the one that is meant",
        )
    place = root / ours[0] / "METADATA"
    if not place.is_file():
        raise PatchkitError("is missing", place=str(place), hint="the install is broken; repeat it")
    fields = parse_fields(place.read_bytes(), str(place))
    distribution = canonicalize_name(fields.one("Name"))
    return Site(root, profile.package, ours[0], distribution, fields.one("Version"))


def _checked(site: Site) -> Site:
    """Return the site, where its files are its own to change."""
    if site.dist_info is not None:
        _refuse_editable(site, site.root / site.dist_info / "direct_url.json")
    package = site.root / site.package
    if package.is_symlink():
        raise PatchkitError(
            f"is a link to {package.resolve()}",
            place=str(package),
            expected="a folder",
            hint="name the folder that it leads to",
        )
    if not package.is_dir():
        raise PatchkitError("there is no such folder", place=str(package))
    return site


def _refuse_editable(site: Site, url: Path) -> None:
    try:
        document = json.loads(url.read_bytes()) if url.is_file() else {}
        editable = document.get("dir_info", {}).get("editable") is True
    except (ValueError, AttributeError) as err:
        raise PatchkitError("cannot be read", place=str(url), expected="PEP 610") from err
    if editable:
        source = str(document.get("url", "")).removeprefix("file://")
        raise PatchkitError(
            f"is an editable install of {source}",
            place=str(site.root / str(site.dist_info)),
            expected="installed files",
            hint=f"`git apply` the patches there, or name that folder: {source}",
        )
