"""A small site-packages as an installer leaves it, and a repository with a series for it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from patchkit.config import Config, find_config
from patchkit.diff import diff_files, format_files
from patchkit.installed.apply import Plan, plan_apply
from patchkit.installed.kept import read_applied
from patchkit.installed.revert import plan_revert
from patchkit.installed.site import Site, find_site
from patchkit.installed.source import Source, make_export, read_export, repository_source
from patchkit.installed.transaction import Transaction
from patchkit.repository.workspace import write_new_folder
from patchkit.series.overlay import Overlay, format_overlay, overlay_entry
from patchkit.series.selection import select_patches
from patchkit.tree import SourceTree
from patchkit.verifying.subject import Given, Report, verify_site
from patchkit.wheel.record import format_row, format_rows

VERSION = "0.99.0"
SIZE = b"""\
from vllm.units import KILO


def size(blocks):
    return blocks * 16


def name(spec):
    if spec is None:
        return "nothing"
    return str(spec)


def shown(specs):
    return ", ".join(name(spec) for spec in specs)


def total(specs):
    if not specs:
        return 0
    if len(specs) == 1:
        return specs[0]
    known = [spec for spec in specs if spec]
    specs = known
    largest = max(specs)
    return largest * KILO
"""
FILES: dict[str, bytes] = {
    "vllm/_C.abi3.so": bytes(range(256)) * 4,
    "vllm/__init__.py": b"from vllm._version import __version__\n",
    "vllm/_version.py": b"__version__ = version = '0.99.0'\n",
    "vllm/old.py": b"gone = True\n",
    "vllm/run.sh": b"#!/bin/sh\nexit 0\n",
    "vllm/size.py": SIZE,
    "vllm/units.py": b"KILO = 1000\n",
}
PROMOTED = SIZE.replace(
    b"def shown(specs):\n",
    b"def promote(specs, largest):\n    return [max(s, largest) for s in specs]\n\n\n"
    b"def shown(specs):\n",
).replace(b"    specs = known\n", b"    specs = promote(known, max(known))\n")
# one: three hunks, of which the second defines what the third calls. two: a new, a changed and a
# removed file.
ONE = {**FILES, "vllm/size.py": PROMOTED.replace(b"blocks * 16", b"blocks * 32")}
TWO = {**ONE, "vllm/new/mod.py": b"new = 1\n", "vllm/units.py": b"KILO = 1024\n"}
del TWO["vllm/old.py"]
MODES = {"vllm/run.sh": 0o100755, "vllm/_C.abi3.so": 0o100755}
HEADER = b"""\
Description: %s
Reason: a test
Origin: written here
Forwarded: no
Exit-Condition: never
Applies-To: >=0.99,<0.100
%s
"""


def patch(
    name: str, old: Mapping[str, bytes], new: Mapping[str, bytes], more: str = "", **modes: Any
) -> bytes:
    """Return a stored patch with a full header."""
    header = HEADER % (name.encode(), more.encode())
    return header + format_files(diff_files(dict(old), dict(new), **modes))


@dataclass
class Place:
    """A repository and a site-packages, and what is done to them."""

    root: Path
    version: str = VERSION
    name: str = "vllm"
    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    release: dict[str, bytes] = field(default_factory=lambda: dict(FILES))

    @property
    def packages(self) -> Path:
        """The site-packages folder."""
        return self.root / "site-packages"

    @property
    def info(self) -> Path:
        """The dist-info folder."""
        return self.packages / f"{self.name}-{self.version}.dist-info"

    def write(self, name: str, content: bytes) -> Path:
        """Write a file below the root."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(content)
        return path

    def install(self, extra: Mapping[str, bytes] | None = None, *, crlf: bool = False) -> None:
        """Lay out the distribution; `extra` are files that RECORD lists without a digest."""
        info = self.info.name
        distribution = self.name.replace("_", "-")
        text = f"Metadata-Version: 2.4\nName: {distribution}\nVersion: {self.version}\n"
        files = {**self.files, f"{info}/METADATA": text.encode(), f"{info}/INSTALLER": b"x\n"}
        rows = [format_row("../../bin/vllm", b"x")]
        rows += [format_row(path, content) for path, content in files.items()]
        rows += [format_row(path, None) for path in extra or {}]
        record = format_rows([*rows, format_row(f"{info}/RECORD", None)])
        files |= {**(extra or {}), f"{info}/RECORD": record}
        if crlf:
            files[f"{info}/RECORD"] = record.replace(b"\n", b"\r\n")
        for path, content in files.items():
            written = self.write(f"site-packages/{path}", content)
            written.chmod(0o755 if path in MODES else 0o644)

    def series(self, release: str = VERSION, **patches: bytes) -> None:
        """Store a series for a release."""
        folder = f"patches/v{release}"
        for left in (self.root / folder).glob("*.patch"):
            left.unlink()
        self.write(f"{folder}/series", "".join(f"{n}.patch\n" for n in patches).encode())
        for name, data in patches.items():
            self.write(f"{folder}/{name}.patch", data)

    def overlay(self, path: str, content: bytes, release: str = VERSION) -> None:
        """Store a whole new file."""
        source = f"extra/{path.rpartition('/')[2]}"
        self.write(source, content)
        overlay = Overlay((overlay_entry(source, path, content),))
        self.write(f"patches/v{release}/overlay.toml", format_overlay(overlay))

    @property
    def config(self) -> Config:
        """The repository's configuration."""
        return find_config(self.root)

    def site(self) -> Site:
        """Return the site."""
        return find_site(str(self.packages))

    def source(self) -> Source:
        """Return the repository's series."""
        return repository_source(self.config)

    def open_tree(self, _: str) -> SourceTree:
        """Return the release, whatever it is called."""
        return SourceTree(self.release, MODES, "release", VERSION)

    def export(self, name: str = "exported", *releases: str) -> Source:
        """Export the series and read it back."""
        files = make_export(self.config, releases or (VERSION,), self.open_tree, "test")
        write_new_folder(self.root / name, files)
        return read_export(self.root / name)

    def plan(self, source: Source | None = None, **choice: Any) -> Plan:
        """Return what an apply would do."""
        used = source or self.source()

        def choose(stored: Any) -> Any:
            patches = {(s.folder, n): d for s in stored for n, d in s.series.patches.items()}
            return select_patches(patches, **choice)

        opener = None if used.is_export else self.open_tree
        site = self.site()
        return plan_apply(site, used, choose, read_applied(site), opener)

    def apply(self, source: Source | None = None, **choice: Any) -> Plan:
        """Apply."""
        transaction = Transaction(self.site())
        with transaction.locked():
            plan = self.plan(source, **choice)
            if plan.steps:
                transaction.commit("apply", plan.steps)
        return plan

    def revert(self) -> None:
        """Revert."""
        site = self.site()
        transaction = Transaction(site)
        with transaction.locked():
            undo = plan_revert(site, read_applied(site))
            transaction.commit("revert", undo.steps, undo.emptied)

    def verify(self, source: Source | None = None) -> Report:
        """Verify, against what was recorded unless a source is given."""
        opener = None if source is None or source.is_export else self.open_tree
        return verify_site(self.site(), Given(source, None, opener) if source else None)

    def states(self, source: Source | None = None) -> dict[str, str]:
        """Return the state of every hunk, `patch:number` to state."""
        hunks = self.verify(source).verified.hunks
        return {f"{h.spot.patch.partition('.')[0]}:{h.spot.hunk}": h.state for h in hunks}

    def everything(self) -> dict[str, tuple[bytes, int]]:
        """Return bytes and permission bits of all that lies in site-packages."""
        return {
            path.relative_to(self.packages).as_posix(): (
                path.read_bytes(),
                path.stat().st_mode & 0o7777,
            )
            for path in sorted(self.packages.rglob("*"))
            if path.is_file()
        }

    def folders(self) -> set[str]:
        """Return all folders of site-packages."""
        paths = self.packages.rglob("*")
        return {p.relative_to(self.packages).as_posix() for p in paths if p.is_dir()}

    def sound_record(self) -> bool:
        """Return whether RECORD lists what is there, with its digest and size."""
        listed = {}
        for line in (self.info / "RECORD").read_text().splitlines():
            path, digest, size = line.split(",")
            listed[path] = (digest, size)
        listed.pop("../../bin/vllm")
        there = self.everything()
        own = f"{self.info.name}/RECORD"
        return set(listed) == set(there) and all(
            f"{path},{digest},{size}\n" == format_row(path, there[path][0]).text
            for path, (digest, size) in listed.items()
            if path != own
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a repository with two patches for 0.99.0, and 0.99.0 installed."""
    found = Place(tmp_path)
    found.write("pyproject.toml", b"[tool.patchkit]\n")
    found.series(one=patch("one", FILES, ONE), two=patch("two", ONE, TWO))
    found.install()
    return found


class Kit:
    """The makers above, for tests: with importlib's import mode a test cannot import them."""

    FILES, ONE, TWO, SIZE = FILES, ONE, TWO, SIZE
    patch = staticmethod(patch)
    Place = Place

    @staticmethod
    def sha256(content: bytes) -> str:
        """Return a digest in hex."""
        return hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="session")
def kit() -> type[Kit]:
    """What makes sites and patches."""
    return Kit
