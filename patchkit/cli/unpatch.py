"""`patchkit unpatch`: upstream's wheel out of a patched one."""

from __future__ import annotations

from pathlib import Path

import click

from patchkit.cli import render
from patchkit.cli.options import here, json_option, read_pins, shown_path
from patchkit.errors import ExitCode
from patchkit.wheel.archive import open_archive
from patchkit.wheel.unpatch import read_way, unpatch_wheel


@click.command(short_help="Write the file that a patched wheel was made from.")
@click.argument("wheel", type=click.Path(path_type=Path))
@click.option(
    "--output",
    default=".",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The folder to write to; the working folder unless given.",
)
@json_option
def command(wheel: Path, output: Path, as_json: bool) -> ExitCode:
    """Write the file that a patched wheel was made from.

    Everything needed is in the wheel. The result is upstream's file, byte for byte: its sha256 is
    the one that was pinned when the wheel was built, or nothing is written.

    \b
    Examples:
      patchkit unpatch dist/vllm-0.28.0+mine.1-*.whl --output upstream
    """
    way, _, _ = read_way(open_archive(wheel))
    pinned = read_pins(here()).artifact(way.filename)
    path, way = unpatch_wheel(wheel, output, pinned)
    if as_json:
        document = {
            "schema": "patchkit.unpatch/1",
            "exit_code": int(ExitCode.DONE),
            "path": shown_path(path),
            "sha256": way.sha256,
            "size_bytes": way.size_bytes,
            "pinned": pinned is not None,
        }
        render.show_json(document)
    else:
        pin = "as pinned" if pinned else "as its provenance says; the file is not pinned"
        render.say(f"wrote {shown_path(path)}")
        render.say(f"sha256 {way.sha256}, {pin}")
    return ExitCode.DONE
