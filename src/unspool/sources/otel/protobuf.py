"""OTLP protobuf: binary files give the values of OTLP JSON. The only user of opentelemetry-proto.

A file is one request, or requests with their size in four bytes before each, as the collector's file
exporter writes them (which may pack each with zstandard).
"""

from collections.abc import Iterator
from typing import Any, BinaryIO

import zstandard

from unspool.errors import MissingExtra
from unspool.io.door import read_json, sample
from unspool.io.origins import Origin, Tally, open_origin

try:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
except ImportError as error:
    raise MissingExtra("OTLP protobuf needs: pip install 'unspool[otlp]'") from error

ZSTD = b"\x28\xb5\x2f\xfd"
_REQUEST = b"\x0a"
_LARGEST = 1 << 30
"""A piece that says it is larger than this is damage: collectors take a few megabytes."""


def iter_values(origin: Origin, tally: Tally) -> Iterator[dict[str, Any]]:
    """Every request as the JSON value that it would be, each counted as a record."""
    with open_origin(origin.path) as file:
        for offset, data, whole in _pieces(file):
            tally.records += 1
            value = _value(data) if whole else None
            if value is not None:
                yield value
            else:
                code = "invalid-protobuf" if whole else "truncated-protobuf"
                tally.lose(code, origin.path, offset, sample(data[:200]))


def _pieces(file: BinaryIO) -> Iterator[tuple[int, bytes, bool]]:
    """(offset, bytes, whether they are all there) of every request."""
    head = file.read(1)
    file.seek(0)
    if head == _REQUEST:
        yield 0, file.read(), True
        return
    offset = 0
    while prefix := file.read(4):
        size = int.from_bytes(prefix, "big")
        data = file.read(min(size, _LARGEST))
        yield offset, data, len(data) == size and len(prefix) == 4
        offset += len(prefix) + len(data)
        if len(data) < size:
            return


def _value(data: bytes) -> dict[str, Any] | None:
    """Spans and log records differ in their first field only: a span begins with the trace's id, a log
    record with its time. What is neither (metrics) is an empty value; None is damage."""
    try:
        if data.startswith(ZSTD):
            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        if data.startswith(b"{"):
            values = read_json(data).values
            return values[0] if len(values) == 1 and isinstance(values[0], dict) else None
        traces = TracesData.FromString(data)
        for resource in traces.resource_spans:
            for scope in resource.scope_spans:
                if any(span.trace_id and span.start_time_unix_nano for span in scope.spans):
                    return dict(MessageToDict(traces))
        logs = LogsData.FromString(data)
    except (DecodeError, zstandard.ZstdError):
        return None
    for logged in logs.resource_logs:
        for log_scope in logged.scope_logs:
            if any(r.time_unix_nano or r.observed_time_unix_nano for r in log_scope.log_records):
                return dict(MessageToDict(logs))
    return {}
