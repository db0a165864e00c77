"""What of compiled kernels reads a uniform register that nothing has written.

    python -m tests.kernels.sass [FILE OR FOLDER ...]

looks at .cubin files, all of a folder, Triton's cache unless one is named. ptxas of CUDA 12.8 keeps
descriptors of wgmma's operands in uniform registers; where it ran out of them it left out the
instructions that set some, and a product was taken of whatever lay at that place of shared memory.
The exit status is 1 where a kernel has it, 5 where there is no kernel to look at. Uniform registers
are written on no condition but branches, so that the first that is said of one, in the order of the
code, must be a write.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# of `nvdisasm`: an address in a comment, a predicate, the operation, its operands
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
OPERAND_COMMA = re.compile(r",(?![^\[]*\])")
# desc[UR4] and c[UR4] are pairs; gdesc[UR4] is four, the first two of an operand in shared memory
MENTIONED = re.compile(r"(gdesc\[|desc\[|c\[)?\bUR(\d+)\b")


def unwritten(code: str) -> list[str]:
    """Return the instructions of disassembled code that read a register before any writes it."""
    written: set[int] = set()
    found = []
    for operation, operands in instructions(code):
        read, wrote = uniform(operation, operands)
        if read - written:
            found.append(f"{operation} {', '.join(operands)}")
        written |= read | wrote
    return found


def instructions(code: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each operation with its operands."""
    for line in code.splitlines():
        if found := INSTRUCTION.match(line):
            operands = [one.strip() for one in OPERAND_COMMA.split(found[2])] if found[2] else []
            yield found[1], operands


def uniform(operation: str, operands: list[str]) -> tuple[set[int], set[int]]:
    """Return the uniform registers that an instruction reads and those that it writes."""
    wide = 4 if ".128" in operation else 2 if re.search(r"\.(64|WIDE)\b", operation) else 1
    writes = bool(operands) and re.fullmatch(r"UR\d+", operands[0]) is not None
    wrote = set(_registers(operands[0], wide)) if writes else set()
    read: set[int] = set()
    for place, operand in enumerate(operands[writes:], start=writes):
        for kind, first in MENTIONED.findall(operand):
            at = int(first)
            if kind == "gdesc[":
                # with the left operand in registers the right one alone is described
                in_registers = place > 1 and re.match(r"-?R(\d|Z)", operands[1]) is not None
                read |= set(range(at + 2 * in_registers, at + 4))
            elif kind:
                read |= {at, at + 1}
            else:
                # a wide product is added to a pair; its factors are single
                both = ".WIDE" not in operation or place == 3
                read |= set(_registers(f"UR{at}", wide if operation[0] == "U" and both else 1))
    return read, wrote


def _registers(name: str, wide: int) -> range:
    first = int(name.removeprefix("UR"))
    return range(first, first + wide)


def disassembled(cubin: Path) -> str:
    """Return the code of a compiled kernel, by the disassembler that comes with Triton."""
    from triton import knobs

    command = [knobs.nvidia.nvdisasm.path, str(cubin)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cache() -> Path:
    """Return the folder of Triton's cache."""
    from triton import knobs

    return Path(knobs.cache.dir)


def main() -> int:
    """Print what is found; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="*", type=Path)
    places = parser.parse_args().places or [cache()]
    files = [
        file
        for place in places
        for file in ([place] if place.is_file() else sorted(place.rglob("*.cubin")))
    ]
    if not files:
        print(f"nothing was looked at: no kernel in {', '.join(map(str, places))}")
        return 5
    wrong = {file: found for file in files if (found := unwritten(disassembled(file)))}
    for file, found in wrong.items():
        print(f"{file}: {len(found)} read what nothing wrote, first {found[0]}")
    print(f"{len(files)} kernels, {len(wrong)} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
