"""A small assembler for the classic BPF programs that seccomp runs.

A program is a list of instructions with names for jump targets; `assemble` turns it into the kernel's `struct sock_filter`
array, eight bytes an instruction.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ALLOW: Final = 0x7FFF0000
"""The verdict: let the call through."""
KILL: Final = 0x80000000
"""The verdict: kill the whole process."""

_LOAD_WORD: Final = 0x20
_AND: Final = 0x54
_JUMP: Final = 0x05
_JUMP_EQUAL: Final = 0x15
_JUMP_BITS: Final = 0x45
_RETURN: Final = 0x06
_FARTHEST: Final = 255


@dataclass(frozen=True, slots=True)
class Label:
    """A place in a program that jumps can name."""

    name: str


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction; `target` is where it jumps when its test holds."""

    code: int
    value: int = 0
    target: str | None = None


def load(offset: int) -> Instruction:
    """Put the 32-bit word at `offset` of the call's data into the accumulator."""
    return Instruction(_LOAD_WORD, offset)


def mask(bits: int) -> Instruction:
    """Keep only `bits` of the accumulator."""
    return Instruction(_AND, bits)


def jump(target: str) -> Instruction:
    """Go to `target`."""
    return Instruction(_JUMP, 0, target)


def jump_if_equal(value: int, target: str) -> Instruction:
    """Go to `target` when the accumulator is `value`."""
    return Instruction(_JUMP_EQUAL, value, target)


def jump_if_any_bit(bits: int, target: str) -> Instruction:
    """Go to `target` when the accumulator has any of `bits`."""
    return Instruction(_JUMP_BITS, bits, target)


def stop(verdict: int) -> Instruction:
    """End with a verdict."""
    return Instruction(_RETURN, verdict)


def error(number: int) -> int:
    """The verdict: the call fails with this `errno`."""
    return 0x00050000 | number


def assemble(program: Sequence[Instruction | Label]) -> bytes:
    """The program as the kernel wants it.

    Raises:
        ValueError: a jump goes backwards or farther than 255 instructions, or names a label that is not there.
    """
    places: dict[str, int] = {}
    instructions: list[Instruction] = []
    for item in program:
        if isinstance(item, Label):
            places[item.name] = len(instructions)
        else:
            instructions.append(item)
    return b"".join(_encode(item, index, places) for index, item in enumerate(instructions))


def _encode(item: Instruction, index: int, places: dict[str, int]) -> bytes:
    if item.target is None:
        return struct.pack("=HBBI", item.code, 0, 0, item.value)
    if item.target not in places:
        raise ValueError(f"no label {item.target}")
    distance = places[item.target] - index - 1
    if item.code == _JUMP and distance >= 0:
        return struct.pack("=HBBI", item.code, 0, 0, distance)
    if not 0 <= distance <= _FARTHEST:
        raise ValueError(f"{item.target} is {distance} instructions away")
    return struct.pack("=HBBI", item.code, distance, 0, item.value)
