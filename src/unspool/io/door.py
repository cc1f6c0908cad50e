"""The door: JSON out of bytes that are not always clean JSON. Behind it nothing is dirty or long.

There is one ladder, and a line climbs it only as far as it must:

1. clean   one value with fields of the expected types goes straight into its struct;
2. mended  bytes that are no UTF-8, half a surrogate pair, bare control characters in strings, fields of
           other types;
3. split   several values on a line: glued, or one that a second writer began in the middle of another;
           and one value over several lines, by literal newlines in its strings;
4. closed  a value that is cut off is closed where it breaks off, if the caller asks for it.

A string of more than 16 MB is cut on the way in: no agent writes one, and what works on it afterwards
would hold it many times.
"""

import json
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from itertools import chain
from operator import methodcaller
from typing import Any, NamedTuple, TypeVar

import jiter
import msgspec

from unspool.facts import NOBODY, Problem
from unspool.io.origins import Origin, Tally, iter_lines, open_origin, read_head
from unspool.io.structs import Shape

StructType = TypeVar("StructType", bound=msgspec.Struct)

LONGEST_BYTES = 16 << 20
"""A longer string is cut to its beginning."""

DEEPEST = 250
"""Deeper nesting is nobody's data, and no two Pythons agree how deep they can go."""

SAMPLE_CHARS = 200

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises where bytes are not clean JSON of the expected types."""


class Flaw(NamedTuple):
    """Something that is wrong: a code of docs/problems.md, the byte where it stands, what to show."""

    code: str
    place: int
    sample: str


class Salvage(msgspec.Struct):
    """What could be read of some bytes."""

    values: list[Any]
    places: list[int] = []
    """Where each value begins, in bytes."""
    flaws: list[Flaw] = []

    @property
    def code(self) -> str:
        """The worst flaw of the JSON; empty where it is clean, or merely odd: half a character, too,
        is a flaw of what stands in it."""
        codes = (flaw.code for flaw in self.flaws if flaw.code != HALVED)
        return max(codes, key=_CODES.index, default="")

    @property
    def lost(self) -> bool:
        """Whether something beside the values could not be read; else they are the whole, mended."""
        return bool(self.code) and not (self.values and self.code in _MENDED)


HALVED = "half-character"
_MENDED = ("long-value", "invalid-utf8", "recovered")
_CODES = (*_MENDED, "too-deep", "truncated-json", "invalid-json")
"""From harmless to worst."""


def iter_json_lines(
    origin: Origin,
    shape: Shape[StructType],
    tally: Tally,
    recover: bool = False,
    begins: tuple[bytes, ...] = (b'{"', b'{ "', b"["),
    mend: "Callable[[Any], Any] | None" = None,
    noise: bytes | tuple[bytes, ...] | re.Pattern[bytes] = (),
    whole: bool = False,
    lazy: bool = False,
    shorten: "Callable[[bytes], bytes] | None" = None,
) -> Iterator[tuple[int, bytes, StructType]]:
    """The records of JSON lines: (offset, the record's bytes, typed). What is wrong goes to the tally.

    `begins` is how a record's line begins; any other line goes on from the one before it. A record
    belongs to the byte range that it begins in. `mend` cleans a decoded value, where a source cuts
    texts across fields. A line that begins with `noise` and ends as an object does is not read.
    `whole`: the shape holds whatever a record has, so that decoding it has met all its bytes. `lazy`:
    what the shape leaves undecoded (`msgspec.Raw`) is not looked at: the shape does that itself, or the
    caller mends a line that proves bad there. To look costs as much as to decode.
    `shorten` is given a line with a string that may be too long, before that is cut.

    A file of which no line is a record is read whole: an array, or objects over many lines each. The
    elements of an array are records, too: their offset is that of the array plus their number.

    It counts the records: what is yielded typed is left to the caller to judge, all else is settled.
    """
    reader = _Reader(origin, shape, tally, recover, mend or clean)
    if not origin.lines:
        if origin.start:  # it is not cut into ranges: whoever reads the first reads it all
            return
        origin = msgspec.structs.replace(origin, end=None)
        head = read_head(origin.path)
        if not (head.objects or head.is_one_line):
            with open_origin(origin.path) as file:
                data = file.read()
            yield from reader.read_odd(0, data)
            return
    refuse_line = None if lazy else refuse_depth if whole else refuse_dirt
    shallow = 2 * DEEPEST if whole else 0  # so short a line cannot be nested too deep
    decode = shape.decode
    is_noise: Callable[[bytes], object] | None = None
    if isinstance(noise, re.Pattern):
        is_noise = noise.match
    elif noise:
        is_noise = methodcaller("startswith", noise)
    spoiled: list[tuple[int, bytes]] = []
    """A line that cannot be read as it stands, and those that go on from it."""
    whole_file = not origin.start and origin.end is None
    lines = iter_lines(origin) if whole_file else _iter_own_lines(origin, begins)
    for offset, line in lines:
        if not line.startswith(begins):
            if spoiled:
                spoiled.append((offset, line))
            else:
                yield from reader.read_odd(offset, line)
            continue
        if spoiled:
            yield from reader.read_spoiled(spoiled)
            spoiled = []
        if (
            is_noise is not None
            and is_noise(line)
            and line[-1:] == b"}"
            and not line.rfind(line[:8])
        ):
            tally.records += 1  # and no other record seems to be glued to it
            tally.noise += 1
            continue
        if len(line) > LONGEST_BYTES:
            line, flaws = cut_long_strings(line if shorten is None else shorten(line))
            tell_flaws(flaws, origin, tally, offset)
        try:
            value = decode(line)
            if refuse_line is not None and len(line) > shallow:
                refuse_line(line)
        except UNREADABLE:
            spoiled = [(offset, line)]
            continue
        tally.records += 1
        yield offset, line, value
    if spoiled:
        yield from reader.read_spoiled(spoiled)


def _iter_own_lines(origin: Origin, begins: tuple[bytes, ...]) -> Iterator[tuple[int, bytes]]:
    """The lines of a range: from the first that begins a record, to the last that goes on from one."""
    own = not origin.start
    for offset, line in iter_lines(origin):
        own = own or line.startswith(begins)
        if own:
            yield offset, line
    if own and origin.end is not None:
        for offset, line in iter_lines(msgspec.structs.replace(origin, start=origin.end, end=None)):
            if line.startswith(begins):
                return
            yield offset, line


Record = tuple[int, bytes, Any]


class _Reader:
    """Reads the lines of one origin that are not clean."""

    def __init__(
        self,
        origin: Origin,
        shape: Shape[Any],
        tally: Tally,
        recover: bool,
        mend: Callable[[Any], Any],
    ) -> None:
        self.origin = origin
        self.shape = shape
        self.tally = tally
        self.recover = recover
        self.mend = mend

    def read_spoiled(self, lines: list[tuple[int, bytes]]) -> Iterator[Record]:
        """A line that cannot be read, with those that go on from it: as one, else each by itself."""
        if len(lines) > 1:
            offset, last = lines[0][0], lines[-1][0]
            with open_origin(self.origin.path) as file:
                file.seek(offset)
                whole = file.read(last - offset) + file.readline()
            salvage = read_json(whole, mend=self.mend)
            records = all(isinstance(value, dict) for value in salvage.values)
            if salvage.values and records and not salvage.lost:
                yield from self.tell(offset, salvage)
                return
        for offset, line in lines:
            yield from self.read_odd(offset, line)

    def read_odd(self, offset: int, data: bytes) -> Iterator[Record]:
        if len(data) > LONGEST_BYTES:
            data, flaws = cut_long_strings(data)
            tell_flaws(flaws, self.origin, self.tally, offset)
        try:
            # An array may be the whole file: its elements are never all decoded at once.
            elements = _decode_elements(data)
            refuse_dirt(data)
        except UNREADABLE:
            yield from self.tell(offset, read_json(data, self.recover, self.mend))
            return
        for number, element in enumerate(elements, offset):
            record = bytes(element)
            # As a line would hold it: what a source keeps as it was written is compact.
            if b"\n" in record:
                record = msgspec.json.encode(msgspec.json.decode(record))
            yield from self.tell_value(number, record, None)

    def tell(self, offset: int, salvage: Salvage) -> Iterator[Record]:
        for place, value in zip(salvage.places, salvage.values, strict=True):
            items = value if isinstance(value, list) else [value]
            for number, item in enumerate(items, offset + place):
                yield from self.tell_value(number, msgspec.json.encode(item), item)
        tell_flaws(salvage.flaws, self.origin, self.tally, offset)

    def tell_value(self, offset: int, data: bytes, value: Any) -> Iterator[Record]:
        self.tally.records += 1
        wrong: list[str] = []
        try:
            typed = self.shape.decode(data)
        except UNREADABLE:
            value = msgspec.json.decode(data) if value is None else value
            if not isinstance(value, dict):
                self.tally.unrecognise(type(value).__name__, self.origin.path, offset)
                return
            typed = self.shape.convert(value, wrong)
        yield offset, data, typed
        if wrong:
            flaw = Flaw("wrong-type", 0, ", ".join(wrong))
            tell_flaws([flaw], self.origin, self.tally, offset)


def tell_flaws(flaws: list[Flaw], origin: Origin, tally: Tally, offset: int = 0) -> None:
    """What is wrong with a record, to the tally; what was not mended counts as a record lost."""
    for number, flaw in enumerate(flaws, 90 + len(tally.flaws)):
        if flaw.code in _CODES and flaw.code not in _MENDED:
            tally.records += 1
            tally.problems += 1
        tally.flaws.append(
            Problem(
                key=NOBODY,
                origin=origin.path,
                offset=offset + flaw.place,
                number=number,
                entry=f"problem:{number}",  # a record of its own, beside what was read there
                code=flaw.code,
                sample=flaw.sample,
            )
        )


_decode_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode


def read_json(
    data: bytes, recover: bool = False, mend: "Callable[[Any], Any] | None" = None
) -> Salvage:
    """What can be read of one text: a line, a document, a database value, a body.

    A clean text is one value. In all others objects count one by one, also where they stand in an
    array of which something is missing.
    """
    flaws: list[Flaw] = []
    if len(data) > LONGEST_BYTES:
        data, flaws = cut_long_strings(data)
    try:
        refuse_depth(data)
        return Salvage([msgspec.json.decode(data)], [0], flaws)
    except UNREADABLE as error:
        too_deep = isinstance(error, RecursionError)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")
        flaws.append(Flaw("invalid-utf8", 0, sample(data)))
    values: list[Any] = []
    places: list[int] = []
    at = _skip(text, 0)
    place = measured = 0
    while at < len(text):
        place += len(text[measured:at].encode("utf-8", "surrogatepass"))
        measured = at
        value, code = None, ""
        try:
            value, end = _decoder.raw_decode(text, at)
        except RecursionError:
            code, end = "too-deep", _end_of_brackets(text, at)
        except json.JSONDecodeError as error:
            end = _next_record(text, at, error.pos)
            piece = text[at:end]
            value = recover_json(piece) if recover else None
            if value is not None:
                code = "recovered"
            else:
                code = "truncated-json" if is_cut_off(piece) else "invalid-json"
        else:
            if is_too_deep(value):
                value, code = None, "too-deep"
        if value is not None:
            values.append((mend or clean)(value))
            places.append(place)
            # Half a surrogate pair had to be replaced: its other half is nowhere.
            if not code and repr(values[-1]).count("\ufffd") > repr(value).count("\ufffd"):
                code = HALVED
        if code:
            flaws.append(Flaw(code, place, sample(text[at : at + SAMPLE_CHARS])))
        at = _skip(text, end)
    if too_deep and not values and not flaws:  # nothing but brackets
        flaws.append(Flaw("too-deep", 0, sample(data)))
    return Salvage(values, places, flaws)


_decoder = json.JSONDecoder(strict=False)
"""Takes half a surrogate pair and bare control characters."""
_BETWEEN = re.compile(r"[\s\0,\ufeff\[\]]*")
"""What stands between values: white space, NUL bytes, commas, the brackets of arrays around them."""


def _skip(text: str, at: int) -> int:
    between = _BETWEEN.match(text, at)
    return between.end() if between else at


_OBJECT = re.compile(r'\{\s*"')
_RECORD_ENDS = re.compile(r'[\0 \t\r\n]*+(?:\Z|\{\s*")')
_LINE = re.compile(r'(?<=\n)\{(?=\s*")')
_OPENING = re.compile(r'\{\s*"\w+":')
_FAR_ENOUGH = 50
"""So many beginnings are tried: a long torn list is not read once for each of its elements."""


def _next_record(text: str, start: int, broken: int) -> int:
    """Where the next record begins behind a value that breaks; the end of the text if none does.

    A second writer that begins in the middle of a record breaks it right there:
        {"type":"user","text":"I thi{"type":"assistant","text":"Yes"}
    Whatever the first one was about to say, its string ends at the second one's first quote. Where the
    first stops behind a colon, the second becomes its value, and only the end is missing:
        {"type":{"type":"assistant","text":"Yes"}
    Behind text that is no JSON at all the next record may begin anywhere, behind a broken record on
    any line.
    """
    candidates = _OBJECT.finditer(text, start + 1)
    opening = _OPENING.match(text, start)
    if opening and not text[broken:].strip():
        candidates = re.compile(re.escape(opening[0])).finditer(text, start + 1)
    elif text[start] in "{[":
        nearby = _OBJECT.finditer(text, max(start + 1, broken - 4), broken + 12)
        candidates = chain(nearby, _LINE.finditer(text, broken))
    for _, candidate in zip(range(_FAR_ENOUGH), candidates, strict=False):
        try:
            _, end = _decoder.raw_decode(text, candidate.start())
        except (ValueError, RecursionError):
            continue
        if _RECORD_ENDS.match(text, end):  # else it is a part of the broken record
            return candidate.start()
    return len(text)


def _end_of_brackets(text: str, at: int) -> int:
    """Where a value ends that is nested too deep to be decoded."""
    depth = 0
    for token in _TOKEN.finditer(text, at):
        if token[0] in "{[":
            depth += 1
        elif token[0] in "}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return len(text)


_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)


def is_cut_off(text: str | bytes) -> bool:
    """Whether the text is the beginning of a JSON value, and not broken before its end."""
    return text[:1] in ("{", "[", b"{", b"[") and recover_json(text) is not None


def recover_json(text: str | bytes) -> Any:
    """A cut-off JSON value closed where it breaks off; None where not even that can be read."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    try:
        return clean(jiter.from_json(data, partial_mode="trailing-strings"))
    except ValueError:
        mended = _STRING.sub(_mend_string, data.decode("utf-8", "replace").encode())
    try:
        return clean(jiter.from_json(mended, partial_mode="trailing-strings"))
    except ValueError:
        return None


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_FLAW = re.compile(
    rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>u[dD][89a-fA-F]..)|.)|(?P<bare>[\x00-\x1f])",
    re.DOTALL,
)
"""A pair of surrogates, half of one, any other escape, a bare control character."""


def _mend_string(string: re.Match[bytes]) -> bytes:
    return _FLAW.sub(_mend_flaw, string[0])


def _mend_flaw(flaw: re.Match[bytes]) -> bytes:
    if flaw["half"]:
        return b"\\ufffd"
    return b"\\u%04x" % flaw[0][0] if flaw["bare"] else flaw[0]


def cut_long_strings(data: bytes) -> tuple[bytes, list[Flaw]]:
    """The JSON with its long strings cut to their beginning, and for each the size and hash of the
    bytes that stood between its quotes."""
    pieces: list[bytes] = []
    flaws: list[Flaw] = []
    at = 0
    for string in _STRING.finditer(data):
        start, end = string.span()
        if end - start - 2 <= LONGEST_BYTES:
            continue
        cut = _CUT.search(data, start + 1 + LONGEST_BYTES - _WITHIN, end)
        kept = data[start + 1 : cut.start()] if cut else b""
        with memoryview(data)[start + 1 : end - data.endswith(b'"', start + 1, end)] as inside:
            size_and_hash = f"{len(inside):,} bytes, sha256 {sha256(inside).hexdigest()}: "
        flaws.append(Flaw("long-value", 0, sample(size_and_hash + sample(kept[:SAMPLE_CHARS]))))
        pieces += (data[at : start + 1], kept, b'"')
        at = end
    pieces.append(data[at:])
    return b"".join(pieces), flaws


_WITHIN = 64
_CUT = re.compile(rb"(?<=[^\\]{12})(?![\x80-\xbf])|(?<!\\)(?=\\)(?!\\u[dD][c-fC-F])")
"""Where no escape goes on: twelve bytes (a pair of surrogates) without a backslash, not inside of a
character, or the first backslash of a row that is not the second half of a pair."""


_decode_string = msgspec.json.Decoder(str).decode


def unescape(text: bytes) -> str:
    """The inside of a JSON string as it reads; ValueError where the escapes are not JSON's."""
    quoted = b"".join((b'"', text, b'"'))
    try:
        return _decode_string(quoted)
    except msgspec.DecodeError:  # lone surrogates: real where a pair was cut in two
        inner: str = json.loads(quoted, strict=False)
        return inner.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def refuse_dirt(data: bytes) -> None:
    """Raise where JSON that was decoded in part (`msgspec.Raw`) would fail when the rest is."""
    if not data.isascii():
        data.decode()
    refuse_depth(data)


_ARRAYS, _OBJECTS, _BOTH = b"]" * 64, b"}" * 64, b"]}" * 32
"""How the end of a very deep value looks. (Long needles are found fast.)"""


def refuse_depth(data: bytes | bytearray) -> None:
    """Raise RecursionError where the JSON is nested too deep, on every Python: some decoders go
    deeper than what works on the value afterwards."""
    # (`in` tries to take its left side for a number first, which costs more than the search.)
    if (
        len(data) > 2 * DEEPEST
        and (data.find(_ARRAYS) >= 0 or data.find(_OBJECTS) >= 0 or data.find(_BOTH) >= 0)
        and is_too_deep(msgspec.json.decode(data))
    ):
        raise RecursionError("nested too deep")


def is_too_deep(value: Any) -> bool:
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        inner = [v for v in level if isinstance(v, dict | list)]
        level = [item for v in inner for item in (v.values() if isinstance(v, dict) else v)]
        if not level:
            return False
    return any(isinstance(v, dict | list) for v in level)


_SURROGATES = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """The text with surrogate pairs put together and lone ones, which UTF-8 cannot hold, replaced."""
    if text.isascii() or not _SURROGATES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def clean(value: Any, depth: int = 0) -> Any:
    """The value with every string cleaned; what is nested too deep is cut there."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict | list) and depth > DEEPEST:
        return "(nested too deep)"
    if isinstance(value, dict):
        return {clean_text(str(key)): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item, depth + 1) for item in value]
    return value


def sample(data: bytes | str) -> str:
    """A clipped piece of bad data to show to a person."""
    text = data[: SAMPLE_CHARS * 4].decode("utf-8", "replace") if isinstance(data, bytes) else data
    return text[:SAMPLE_CHARS]
