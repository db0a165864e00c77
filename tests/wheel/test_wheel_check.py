"""Each rule of the strict check has a wheel that it alone refuses, and the message says which."""

# ruff: noqa: ARG001 (every maker of a wheel takes both)

from __future__ import annotations

import io
import os
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from installer.sources import WheelFile

from patchkit.errors import PatchkitError
from patchkit.wheel.archive import open_archive, read_archive
from patchkit.wheel.check import check_wheel

Make = Callable[[Any, Any], bytes]
CASES: dict[str, tuple[Make, str]] = {}


def case(name: str, message: str) -> Callable[[Make], Make]:
    """Take a maker of a faulty wheel into the table, with what is said of it."""

    def take(make: Make) -> Make:
        CASES[name] = make, message
        return make

    return take


def refusal(wheel: bytes, filename: str, tmp_path: Path) -> str:
    """Return what the check says of a wheel, "" where it accepts it."""
    path = tmp_path / filename
    path.write_bytes(wheel)
    try:
        check_wheel(open_archive(path), filename)
    except PatchkitError as error:
        return str(error).replace(f"{tmp_path}/", "")
    return ""


def poked(offset: int, form: str, value: int, where: str = "both") -> Make:
    """Return a maker that overwrites a field: offsets are those of the central entry."""

    def make(maker: Any, kit: Any) -> bytes:
        wheel: bytes = maker.make()
        local, central = kit.locate(wheel, "vllm/config.py")
        if where in ("both", "central"):
            wheel = kit.poke(wheel, central + offset, form, value)
        if where in ("both", "local"):
            wheel = kit.poke(wheel, local + offset - 2, form, value)
        return wheel

    return make


LOCAL = "vllm-0.99.0-cp38-abi3-manylinux_2_28_x86_64.whl: member vllm/config.py has another"
for number, (offset, form, word) in enumerate(
    [(6, "<H", "version"), (8, "<H", "flags"), (10, "<H", "method"), (12, "<H", "time"),
     (14, "<H", "date"), (16, "<L", "CRC-32"), (20, "<L", "packed size"), (24, "<L", "size")]
):  # fmt: skip
    value = {8: 0x800, 10: 0}.get(offset, 7 + number)
    CASES[f"local {word}"] = poked(offset, form, value, "local"), f"another {word} in its local"
CASES["bad CRC in both"] = poked(16, "<L", 7), "vllm/config.py does not have the stated CRC-32"
CASES["encrypted"] = poked(8, "<H", 1), "member vllm/config.py has flags 0x1, expected a plain"
CASES["bzip2"] = poked(10, "<H", 12), "is packed by method 12, expected stored or deflate"
CASES["stored, sizes differ"] = poked(10, "<H", 0), "is stored, and its two sizes differ"
CASES["size in both"] = poked(24, "<L", 9), "vllm/config.py has 9 bytes, expected 67 as in RECORD"
CASES["ZIP64 size"] = poked(24, "<L", 0xFFFFFFFF), "member vllm/config.py needs ZIP64"
CASES["symlink"] = poked(38, "<L", 0o120777 << 16, "central"), "is neither a file nor a folder"
CASES["other disk"] = poked(34, "<H", 1, "central"), "has a comment or lies on another disk"


@case("trailing bytes", "bytes follow the end of the directory, expected an archive that ends")
def _(maker: Any, kit: Any) -> bytes:
    return maker.make() + b"\0\0"


@case("bytes in front", "the directory does not end where the end record starts")
def _(maker: Any, kit: Any) -> bytes:
    return b"#!/bin/sh\n" + maker.make()


@case("comment", "bytes follow the end of the directory")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    return wheel[:-2] + struct.pack("<H", 2) + b"hi"


@case("not a zip", "is no zip archive")
def _(maker: Any, kit: Any) -> bytes:
    return b"nothing of that kind, but long enough to hold an end record"


@case("cut", "is no zip archive")
def _(maker: Any, kit: Any) -> bytes:
    return maker.make()[:-40]


@case("entries uncounted", "the directory has 74 bytes after its last entry")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    count = struct.unpack_from("<H", wheel, len(wheel) - 12)[0] - 1
    return kit.poke(wheel, len(wheel) - 14, "<HH", count, count)


@case("entry too many", "entry 13 of the directory is damaged")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    return kit.poke(wheel, len(wheel) - 14, "<HH", 13, 13)


@case("counts differ", "the end record speaks of other disks or of a comment")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    return kit.poke(wheel, len(wheel) - 14, "<H", 3)


@case("count of ZIP64", "the archive needs ZIP64, which is not read")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    return kit.poke(wheel, len(wheel) - 14, "<HH", 0xFFFF, 0xFFFF)


@case("damaged entry", "entry 1 of the directory is damaged")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    return kit.poke(wheel, kit.locate(wheel, "vllm/_C.abi3.so")[1], "<4s", b"PK\1\1")


@case("entry too long", "entry 1 of the directory is damaged")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    return kit.poke(wheel, kit.locate(wheel, "vllm/_C.abi3.so")[1] + 30, "<H", 60000)


@case("local header gone", "member vllm/config.py has no local header at byte")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    return kit.poke(wheel, kit.locate(wheel, "vllm/config.py")[0], "<4s", b"PK\3\3")


@case("local name", "member vllm/config.py has another name in its local header")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    at = kit.locate(wheel, "vllm/config.py")[0]
    return kit.poke(wheel, at + 30, "<14s", b"vllm/konfig.py")


@case("member hidden from the directory", "member vllm/old.py starts at byte")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    at = kit.locate(wheel, "vllm/config.py")[1]
    size = 46 + len("vllm/config.py")
    wheel = wheel[:at] + wheel[at + size :]
    end = len(wheel) - 22
    count, length = struct.unpack_from("<H", wheel, end + 10)[0] - 1, 0
    length = struct.unpack_from("<L", wheel, end + 12)[0] - size
    return kit.poke(wheel, end + 8, "<HHL", count, count, length)


@case("bytes before the directory", "5 bytes lie between members and directory")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    start = struct.unpack_from("<L", wheel, len(wheel) - 6)[0]
    wheel = wheel[:start] + b"12345" + wheel[start:]
    return kit.poke(wheel, len(wheel) - 6, "<L", start + 5)


@case("data past the directory", "reaches into the directory")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    local, central = kit.locate(wheel, "vllm-0.99.0.dist-info/RECORD")
    packed = struct.unpack_from("<L", wheel, central + 20)[0] + 4
    wheel = kit.poke(wheel, central + 20, "<L", packed)
    return kit.poke(wheel, local + 18, "<L", packed)


@case("packed data goes on", "vllm/_C.abi3.so is packed into other bytes than stated")
def _(maker: Any, kit: Any) -> bytes:
    inner = maker.make()
    local, central = kit.locate(inner, "vllm/_C.abi3.so")
    end = kit.locate(inner, "vllm/__init__.py")[0]
    wheel = inner[:end] + b"more" + inner[end:]
    shifted = read_archive(inner, "x")
    for member in shifted.members[1:]:
        at = kit.locate(inner, member.name)[1] + 4
        wheel = kit.poke(wheel, at + 42, "<L", member.start + 4)
    packed = struct.unpack_from("<L", inner, central + 20)[0] + 4
    wheel = kit.poke(wheel, central + 4 + 20, "<L", packed)
    wheel = kit.poke(wheel, local + 18, "<L", packed)
    return kit.poke(wheel, len(wheel) - 6, "<L", shifted.directory.start + 4)


class _Pipe(io.BytesIO):
    """What cannot seek: zipfile then writes sizes after the data."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise OSError

    tell = seek


def written(maker: Any, write: Callable[[zipfile.ZipFile, str, bytes], None], **kind: Any) -> bytes:
    """Return a wheel whose members are written in some other way."""
    buffer = kind.get("buffer", io.BytesIO())
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in maker.members().items():
            write(archive, path, content)
    return bytes(buffer.getvalue())


@case("data descriptors", "member vllm/_C.abi3.so has its sizes after its data")
def _(maker: Any, kit: Any) -> bytes:
    return written(maker, lambda a, path, data: a.writestr(path, data), buffer=_Pipe())


@case("ZIP64 in the local header", "vllm/_C.abi3.so has another packed size, size in its local")
def _(maker: Any, kit: Any) -> bytes:
    def write(archive: zipfile.ZipFile, path: str, data: bytes) -> None:
        with archive.open(path, "w", force_zip64=True) as file:
            file.write(data)

    return written(maker, write)


def with_extra(extra: bytes) -> Make:
    """Return a maker of a wheel with an extra field on each member."""

    def make(maker: Any, kit: Any) -> bytes:
        def write(archive: zipfile.ZipFile, path: str, data: bytes) -> None:
            info = zipfile.ZipInfo(path)
            info.extra = extra
            archive.writestr(info, data)

        return written(maker, write)

    return make


CASES["stale ZIP64 extra"] = (
    with_extra(struct.pack("<HHQ", 1, 8, 5)),
    "member vllm/_C.abi3.so has extra field 0x0001, which is stale here",
)
CASES["unicode path extra"] = (
    with_extra(struct.pack("<HHBL", 0x7075, 5, 1, 0)),
    "has extra field 0x7075, which is stale here",
)
CASES["damaged extra"] = with_extra(b"\x55\x54\x09\x00ab"), "has a damaged extra field"
CASES["extra twice"] = with_extra(b"\x55\x54\0\0" * 2), "has a damaged extra field"


@case("written twice", "member vllm/config.py is there twice")
def _(maker: Any, kit: Any) -> bytes:
    def write(archive: zipfile.ZipFile, path: str, data: bytes) -> None:
        archive.writestr(path, data)
        if path == "vllm/config.py":
            with pytest.warns(UserWarning, match="Duplicate name"):
                archive.writestr(path, data)

    return written(maker, write)


@case("member comment", "member vllm/_C.abi3.so has a comment")
def _(maker: Any, kit: Any) -> bytes:
    def write(archive: zipfile.ZipFile, path: str, data: bytes) -> None:
        info = zipfile.ZipInfo(path)
        info.comment = b"hi"
        archive.writestr(info, data)

    return written(maker, write)


def named(name: str) -> Make:
    """Return a maker of a wheel with a member of a name."""

    def make(maker: Any, kit: Any) -> bytes:
        maker.files[name] = b"x = 1\n"
        return bytes(maker.make())

    return make


for name, message in {
    "vllm/a\\b.py": "has a backslash",
    "/vllm/a.py": "is absolute",
    "C:a.py": "is absolute",
    "vllm/../a.py": "has an empty part, . or ..",
    "vllm/./a.py": "has an empty part, . or ..",
    "vllm//a.py": "has an empty part, . or ..",
    "vllm/a\nb.py": "has a character that does not print",
    "vllm/a\u2028b.py": "has a character that does not print",
    "vllm/a\u200bb.py": "has a character that does not print",
}.items():
    CASES[f"name {name!r}"] = named(name), f"member name {name!r} {message}"
CASES["case"] = named("vllm/Config.py"), "members vllm/config.py and vllm/Config.py share a place"
CASES["file and folder"] = named("vllm/config.py/a"), "share a place on some disks"
CASES["dist-info of others"] = (
    named("vllm-0.98.0.dist-info/METADATA"),
    "dist-info folder is vllm-0.98.0.dist-info, vllm-0.99.0.dist-info",
)
CASES["data of others"] = named("vllm-0.98.0.data/scripts/a"), "data folder is vllm-0.98.0.data"
CASES["data elsewhere"] = named("vllm-0.99.0.data/etc/a"), "data/etc/a has no place to go"


@case("folder with content", "folder vllm/sub/ has content")
def _(maker: Any, kit: Any) -> bytes:
    maker.files["vllm/sub/"] = b"x"
    return bytes(maker.make())


@case("name that is not UTF-8", "the name of member 4 is not UTF-8")
def _(maker: Any, kit: Any) -> bytes:
    wheel = poked(8, "<H", 0x800)(maker, kit)
    local, central = kit.locate(wheel, "vllm/config.py")
    wheel = kit.poke(wheel, local + 30, "<1s", b"\xff")
    return bytes(kit.poke(wheel, central + 46, "<1s", b"\xff"))


@case("name in another code page", "the name of member 4 is not ASCII")
def _(maker: Any, kit: Any) -> bytes:
    wheel = maker.make()
    local, central = kit.locate(wheel, "vllm/config.py")
    wheel = kit.poke(wheel, local + 30, "<1s", b"\xff")
    return bytes(kit.poke(wheel, central + 46, "<1s", b"\xff"))


def part(**parts: Any) -> Make:
    """Return a maker of a wheel with another part."""

    def make(maker: Any, kit: Any) -> bytes:
        for key, value in parts.items():
            setattr(maker, key, value)
        return bytes(maker.make())

    return make


META = b"Metadata-Version: 2.4\nName: vllm\nVersion: 0.99.0\n"
FORM = b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp38-abi3-linux_x86_64\n"
CASES |= {
    "no METADATA": (part(metadata=None), "vllm-0.99.0.dist-info/METADATA is missing"),
    "no WHEEL": (part(wheel=None), "vllm-0.99.0.dist-info/WHEEL is missing"),
    "no RECORD": (part(has_record=False), "vllm-0.99.0.dist-info/RECORD is missing"),
    "other name": (
        part(metadata=META.replace(b"vllm", b"other")),
        "METADATA has Name other, expected vllm",
    ),
    "other version": (
        part(metadata=META.replace(b"0.99.0", b"0.99.1")),
        "METADATA has Version 0.99.1, expected 0.99.0",
    ),
    "version unnormalised": (
        part(metadata=META.replace(b"0.99.0", b"0.99.00")),
        "METADATA has Version 0.99.00, expected 0.99.0",
    ),
    "version twice": (part(metadata=META + b"Version: 1\n"), "METADATA: Version is there 2 times"),
    "no version": (
        part(metadata=META.replace(b"Version: 0.99.0\n", b"")),
        "METADATA: Version is there 0 times",
    ),
    "empty name": (part(metadata=META.replace(b"vllm", b"")), "Name is there without a value"),
    "metadata 9": (part(metadata=META.replace(b"2.4", b"9.0")), "Metadata-Version is 9.0"),
    "metadata not UTF-8": (part(metadata=META + b"Summary: \xff\n"), "METADATA: is not UTF-8"),
    "metadata no headers": (part(metadata=b"Name vllm\n" + META), "METADATA: is damaged"),
    "wheel 2": (part(wheel=FORM.replace(b"1.0", b"2.0")), "Wheel-Version is 2.0, expected 1.x"),
    "purelib": (part(wheel=FORM.replace(b"false", b"maybe")), "Root-Is-Purelib is maybe"),
    "no tag": (part(wheel=FORM.replace(b"Tag", b"Tug")), "WHEEL has no Tag"),
    "odd tag": (part(wheel=FORM.replace(b"-abi3", b"")), "WHEEL has Tag cp38-linux_x86_64"),
    "other machine": (
        part(wheel=FORM.replace(b"x86_64", b"aarch64")),
        "WHEEL has Tag cp38-abi3-linux_aarch64, expected one for x86_64",
    ),
    "build in WHEEL alone": (part(wheel=FORM + b"Build: 2\n"), "WHEEL has Build 2, expected none"),
    "signed": (part(info={"RECORD.jws": b"x"}), "dist-info/RECORD.jws signs a RECORD"),
    "entry points": (
        part(info={"entry_points.txt": b"[console_scripts]\na = b\n"}),
        "entry_points.txt has a = b, expected MODULE:FUNCTION",
    ),
    "entry points no INI": (
        part(info={"entry_points.txt": b"a = b\n"}),
        "entry_points.txt cannot be read: MissingSectionHeaderError",
    ),
}


def record(old: str, new: str) -> Make:
    """Return a maker of a wheel with another RECORD."""

    def edit(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return part(record=edit)


ROW = "vllm/old.py,sha256=9TbLmJQBXBNmNDZjGDBhvBWw9zI3_n0s2q4lP8Yl1e0,12\n"


def in_row(change: Callable[[str], str]) -> Make:
    """Return a maker of a wheel whose RECORD has another row for vllm/old.py."""

    def edit(text: str) -> str:
        lines = text.splitlines(True)
        return "".join(change(ln) if ln.startswith("vllm/old.py,") else ln for ln in lines)

    return part(record=edit)


CASES |= {
    "row missing": (in_row(lambda _: ""), "vllm/old.py is not in RECORD"),
    "row of a deleted file": (
        in_row(lambda ln: ln + ln.replace("old", "older")),
        "vllm/older.py is in RECORD but not in the wheel",
    ),
    "row twice": (in_row(lambda ln: ln * 2), "RECORD:6: vllm/old.py is listed twice"),
    "stale digest": (
        in_row(lambda _: ROW),
        "vllm/old.py is sha256=eaUVcn-kCTNbHa-5rLvtziAd1_8GbPkXEQZaSL-7HoU, expected sha256=9TbL",
    ),
    "padded digest": (in_row(lambda ln: ln.replace(",12", "=,12")), "RECORD:5: digest of"),
    "md5": (in_row(lambda _: "vllm/old.py,md5=abc,12\n"), "digest of vllm/old.py is 'md5=abc'"),
    "no digest": (in_row(lambda _: "vllm/old.py,,12\n"), "RECORD has no digest or no size of"),
    "no size": (in_row(lambda ln: ln.replace(",12", ",")), "RECORD has no digest or no size of"),
    "other size": (
        in_row(lambda ln: ln.replace(",12", ",13")),
        "vllm/old.py has 12 bytes, expected 13 as in RECORD",
    ),
    "signed size": (in_row(lambda ln: ln.replace(",12", ",+12")), "size of vllm/old.py is '+12'"),
    "four fields": (in_row(lambda ln: ln.replace(",12", ",12,")), "expected path,digest,size"),
    "blank row": (in_row(lambda ln: f"{ln}\n"), "RECORD:6: row is '', expected path,digest,size"),
    "open quote": (in_row(lambda ln: f'"{ln}'), "is no row"),
    "own digest": (record("RECORD,,", "RECORD,,1"), "RECORD gives itself a digest or a size"),
    "not UTF-8": (part(record=lambda text: text.encode() + b"\xff,,\n"), "RECORD: is not UTF-8"),
}


@pytest.fixture
def fault(request: pytest.FixtureRequest, maker: Any, kit: Any) -> tuple[bytes, str]:
    """Return a faulty wheel and what is to be said of it."""
    make, message = CASES[request.param]
    return make(maker, kit), message


@pytest.mark.parametrize("fault", CASES, indirect=True)
def test_a_fault_is_refused_and_named(fault: tuple[bytes, str], maker: Any, tmp_path: Path) -> None:
    wheel, message = fault
    assert message in refusal(wheel, maker.filename, tmp_path)


def test_a_sound_wheel_is_accepted_by_all(maker: Any, tmp_path: Path) -> None:
    maker.files["vllm/sub/"] = b""
    maker.files["vllm/größe, weit.json"] = b"{}\n"
    maker.tags = "py3-none-any"
    wheel = maker.make()
    assert refusal(wheel, maker.filename, tmp_path) == ""
    assert oracles(tmp_path / maker.filename) == {"uv": True, "pip": True, "installer": True}


@pytest.mark.parametrize("build", ["", "2"])
def test_upstreams_tags_may_be_wider_than_those_in_wheel(
    build: str, maker: Any, tmp_path: Path
) -> None:
    maker.build = build
    assert refusal(maker.make(), maker.filename, tmp_path) == ""


@pytest.mark.parametrize(
    ("filename", "message"),
    [
        ("vllm-0.99.0+Syv_1-cp38-abi3-linux_x86_64.whl", "version is 0.99.0+Syv_1, expected"),
        ("vllm-0.99-cp38-abi3-linux_x86_64.whl", "dist-info folder is vllm-0.99.0.dist-info"),
        ("other-0.99.0-cp38-abi3-linux_x86_64.whl", "dist-info folder is vllm-0.99.0.dist-info"),
        ("vllm-0.99.0.whl", "is not the name of a wheel"),
        ("vllm-0.99.0-x-cp38-abi3-linux_x86_64.whl", "is not the name of a wheel"),
    ],
)
def test_the_file_name_must_agree(filename: str, message: str, maker: Any, tmp_path: Path) -> None:
    assert message in refusal(maker.make(), filename, tmp_path)


@pytest.mark.parametrize(
    ("size", "message"),
    [(9, "is packed into other bytes than stated"), (99, "has 67 bytes, expected 99 as stated")],
)
def test_a_content_of_another_size_is_refused(
    size: int, message: str, maker: Any, kit: Any
) -> None:
    archive = read_archive(poked(24, "<L", size)(maker, kit), "w.whl")
    with pytest.raises(PatchkitError) as caught:
        archive.read(archive.by_name["vllm/config.py"])
    assert str(caught.value) == f"w.whl: vllm/config.py {message}"


def test_known_rows_spare_the_content_but_not_the_row(maker: Any, kit: Any) -> None:
    wheel = poked(16, "<L", 7)(maker, kit)
    archive = read_archive(wheel, "w")
    rows = {row.path: row for row in _rows(archive)}
    known = {"vllm/config.py": rows["vllm/config.py"]}
    check_wheel(archive, maker.filename, known=known)
    other = {"vllm/config.py": rows["vllm/old.py"]}
    with pytest.raises(PatchkitError, match=r"digest of vllm/config.py in RECORD is not upstream"):
        check_wheel(archive, maker.filename, known=other)


def _rows(archive: Any) -> Any:
    from patchkit.wheel.record import parse_rows

    return parse_rows(archive.read(archive.by_name["vllm-0.99.0.dist-info/RECORD"]), "RECORD")


def oracles(path: Path) -> dict[str, bool]:
    """Return which of uv, pip and installer accept a wheel that lies on the disk."""
    found = {}
    for tool, command in {
        "uv": ["uv", "pip", "install", "--offline", "--no-cache", "--no-config"],
        "pip": ["pip", "install", "--no-index", "--no-cache-dir", "--quiet", "--no-compile"],
    }.items():
        options = ["--no-deps", "--target", str(path.parent / tool), str(path)]
        found[tool] = succeeds(*command, *options)
    try:
        with WheelFile.open(path) as wheel:
            wheel.validate_record()
        found["installer"] = True
    except ValueError:
        found["installer"] = False
    return found


def succeeds(*command: str) -> bool:
    """Return whether a module of this environment exits with status 0."""
    direct = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return not subprocess.run(
        [sys.executable, "-m", *command], check=False, capture_output=True, env=direct
    ).returncode


class _Index(BaseHTTPRequestHandler):
    """An index with one file, and without byte ranges: what reads from it reads a stream."""

    protocol_version = "HTTP/1.1"
    file: ClassVar[tuple[str, bytes]] = ("", b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer as to a GET, less the body."""
        self.do_GET()

    def do_GET(self) -> None:
        """Answer with the page or the file."""
        name, content = self.file
        page = self.path.startswith("/simple/")
        body = f'<a href="/files/{name}">{name}</a>'.encode() if page else content
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if page else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            with suppress(OSError):  # uv hangs up on what it refuses
                self.wfile.write(body)


@pytest.fixture(scope="module")
def streaming() -> Iterator[Callable[[str, bytes, Path], bool]]:
    """Give what says whether uv installs a wheel as it comes from an index."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}/simple/"

        def accepts(name: str, content: bytes, target: Path) -> bool:
            _Index.file = name, content
            project = name.split("-")[0] + "==" + name.split("-")[1]
            options = ["--no-cache", "--no-config", "--no-deps", "--index-url", url]
            return succeeds("uv", "pip", "install", *options, "--target", str(target), project)

        yield accepts
        server.shutdown()
        thread.join()


def test_uv_takes_a_patched_wheel_as_it_comes(
    repository: Any, streaming: Callable[..., bool], tmp_path: Path
) -> None:
    repository.maker.tags = "py3-none-any"
    built = repository.build()
    content = built.path.read_bytes()
    assert streaming(built.path.name, content, tmp_path / "target")
    assert (tmp_path / "target/vllm/zz.py").read_bytes() == b"last = 2\n"


@pytest.mark.parametrize(
    "fault",
    ["local method", "local CRC-32", "member hidden from the directory",
     "bytes before the directory", "packed data goes on", "folder with content"],
    indirect=True,
)  # fmt: skip
def test_what_uv_refuses_in_a_stream_alone_is_refused(
    fault: tuple[bytes, str], maker: Any, streaming: Callable[..., bool], tmp_path: Path
) -> None:
    """uv takes each of these files from the disk; so do pip and installer."""
    wheel, message = fault
    name = maker.filename.replace(maker.tags, "py3-none-any")
    path = tmp_path / name
    path.write_bytes(wheel)
    assert oracles(path) == {"uv": True, "pip": True, "installer": True}
    assert not streaming(name, wheel, tmp_path / "target")
    assert message in refusal(wheel, maker.filename, tmp_path)
