#!/usr/bin/env python3
"""Compares what OCaml's compiler writes natively with what it writes as a module, byte for byte but for two things.

OCaml's library marshals a block of more than seven fields with its header as it stands in memory, colour bits included: those say
how far the collector was, and nothing reads them. They are set to zero in both files. The digest of a compiled interface is the
MD5 of its own beginning, those bits included; so it must be that in each file, and is then replaced by the same mark in both, here
and where an object or an executable has it.

    ocaml_objects.py NATIVE OTHER NAME    compares NATIVE/NAME.cmi, .cmo and .byte with OTHER's, as far as NATIVE has them

It prints a line for each file, with the number of bytes that differed before. The exit status is 1 if anything else differs.
The format is that of `runtime/caml/intext.h` and `exec.h` of OCaml 5.4.
"""

import hashlib
import sys
from pathlib import Path

MAGIC = 12
MARSHALLED = b"\x84\x95\xa6\xbe"
HEADER = 20
MARK = b"the interface's "
assert len(MARK) == 16

# Bytes that follow a code; those of strings and doubles have a count before them.
NUMBERS = {0x00: 1, 0x01: 2, 0x02: 4, 0x03: 8, 0x04: 1, 0x05: 2, 0x06: 4, 0x14: 8}
STRINGS = {0x09: 1, 0x0A: 4, 0x15: 8}
DOUBLES = {0x0B: 8, 0x0C: 8}
DOUBLE_ARRAYS = {0x0D: 1, 0x0E: 1, 0x07: 4, 0x0F: 4}
BLOCK = 0x08
CUSTOM = 0x19
COLOURS = 0x300


class Odd(Exception):
    """A file that is not as this script knows it."""


def number(data, at, length):
    return int.from_bytes(data[at : at + length], "big")


def normalise_value(data, at, digest):
    """Clears colours in the marshalled value at this place, puts the mark where a string is the digest, and returns its end."""
    if data[at : at + 4] != MARSHALLED:
        raise Odd(f"no marshalled value at {at}")
    end = at + HEADER + number(data, at + 4, 4)
    at += HEADER
    missing = 1
    while missing:
        missing -= 1
        code = data[at]
        at += 1
        length = None
        if code >= 0x80:
            missing += (code >> 4) & 7
        elif code >= 0x40:
            pass
        elif code >= 0x20:
            length = code & 0x1F
        elif code in NUMBERS:
            at += NUMBERS[code]
        elif code in STRINGS:
            length = number(data, at, STRINGS[code])
            at += STRINGS[code]
        elif code in DOUBLES:
            at += DOUBLES[code]
        elif code in DOUBLE_ARRAYS:
            at += DOUBLE_ARRAYS[code] + 8 * number(data, at, DOUBLE_ARRAYS[code])
        elif code == BLOCK:
            header = number(data, at, 4)
            data[at : at + 4] = (header & ~COLOURS).to_bytes(4, "big")
            missing += header >> 10
            at += 4
        elif code == CUSTOM:
            at = after_custom(data, at)
        else:
            raise Odd(f"code {code:#x} at {at - 1}")
        if length is not None:
            if data[at : at + length] == digest:
                data[at : at + length] = MARK
            at += length
    if at != end:
        raise Odd(f"a value ends at {at}, not at {end}")
    return end


def after_custom(data, at):
    """The end of a boxed integer: its name, and what it is."""
    end = data.index(0, at)
    sizes = {b"_j": 8, b"_i": 4, b"_n": 9 if data[end + 1] == 2 else 5}
    name = bytes(data[at:end])
    if name not in sizes:
        raise Odd(f"a custom block {name}")
    return end + 1 + sizes[name]


def digest_of(interface):
    """The digest that an interface has of itself, which must be that of its beginning."""
    data = bytearray(interface)
    end = normalise_value(data, MAGIC, None)
    digest = hashlib.md5(interface[:end]).digest()
    if digest not in interface[end:]:
        raise Odd("an interface that has no digest of itself")
    return digest


def interface(data, digest):
    at = MAGIC
    while at < len(data):
        at = normalise_value(data, at, digest)


def object_file(data, digest):
    unit = number(data, MAGIC, 4)
    if normalise_value(data, unit, digest) != len(data):
        raise Odd("something follows the unit's description")


def executable(data, digest):
    """Sections, then their names and lengths, their number and a magic number."""
    sections = number(data, len(data) - MAGIC - 4, 4)
    table = len(data) - MAGIC - 4 - 8 * sections
    rows = [(bytes(data[at : at + 4]), number(data, at + 4, 4)) for at in range(table, table + 8 * sections, 8)]
    at = table - sum(length for _, length in rows)
    for name, length in rows:
        if name in (b"DATA", b"SYMB", b"CRCS") and normalise_value(data, at, digest) != at + length:
            raise Odd(f"something follows the value of section {name.decode()}")
        at += length


KINDS = {"cmi": interface, "cmo": object_file, "byte": executable}


def differences(native, other, name):
    """The lines about a name's files, and how many of them differ."""
    lines, bad = [], 0
    digests = [digest_of((place / f"{name}.cmi").read_bytes()) for place in (native, other)]
    for kind, normalise in KINDS.items():
        file = f"{name}.{kind}"
        if not (native / file).exists():
            continue
        raw = [(place / file).read_bytes() for place in (native, other)]
        datas = [bytearray(data) for data in raw]
        for data, digest in zip(datas, digests):
            normalise(data, digest)
        if datas[0] == datas[1]:
            differed = sum(one != two for one, two in zip(*raw))
            lines.append(f"ok: {file}: {differed} of {len(raw[0])} bytes are colours and digests that differ")
        else:
            bad += 1
            first = next((at for at, (one, two) in enumerate(zip(*datas)) if one != two), min(map(len, datas)))
            lines.append(f"FAILED: {file} differs at byte {first}; {len(datas[0])} bytes and {len(datas[1])}")
    return lines, bad


def main():
    native, other, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    try:
        lines, bad = differences(native, other, name)
    except (Odd, OSError, IndexError, ValueError) as error:
        lines, bad = [f"FAILED: {name}: {error}"], 1
    print("\n".join(lines))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
