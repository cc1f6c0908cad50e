"""OTLP protobuf files say what the same files in JSON say, in every way that requests are framed."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message
from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from tests.harness import CASES, facts_of, origins_of, plain, reduce_all
from unspool.io.origins import Tally

OTEL = CASES / "otel"
KINDS: dict[str, Callable[[], Message]] = {
    "resourceSpans": TracesData,
    "resourceLogs": LogsData,
    "resourceMetrics": MetricsData,
}
IDS = ("traceId", "spanId", "parentSpanId")


def with_bytes(value: Any) -> Any:
    """Ids as protobuf's own JSON writes bytes."""
    if isinstance(value, list):
        return [with_bytes(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64encode(bytes.fromhex(one)).decode()
        if name in IDS and isinstance(one, str)
        else with_bytes(one)
        for name, one in value.items()
    }


def requests_of(path: Path) -> list[bytes]:
    requests = []
    for line in path.read_text("utf-8").splitlines():
        value = with_bytes(json.loads(line))
        if not value:
            continue
        (name,) = value
        message = KINDS[name]()
        requests.append(ParseDict(value, message).SerializeToString(deterministic=True))
    return requests


def sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


FRAMES: dict[str, Callable[[list[bytes]], bytes]] = {
    "one": b"".join,  # repeated fields of one message add up
    "sized": lambda requests: b"".join(map(sized, requests)),
    "packed": lambda requests: b"".join(sized(zstandard.compress(one)) for one in requests),
}


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("file", ["tools/input/traces.jsonl", "claude_code_logs/input/logs.jsonl"])
def test_protobuf_says_what_json_says(file: str, frame: str, tmp_path: Path) -> None:
    folders = tmp_path / "json", tmp_path / "binary"
    for folder in folders:
        folder.mkdir()
    (folders[0] / "x").write_bytes((OTEL / file).read_bytes())
    (folders[1] / "x").write_bytes(FRAMES[frame](requests_of(OTEL / file)))
    as_json, binary = (plain(reduce_all(facts_of(origins_of(f))), f) for f in folders)
    assert as_json
    assert binary == as_json


def test_damage_is_a_problem(tmp_path: Path) -> None:
    requests = requests_of(OTEL / "tools/input/traces.jsonl")
    whole = FRAMES["sized"](requests)
    for cut in (len(whole) - 5, len(whole) // 2):
        (tmp_path / "x.binpb").write_bytes(whole[:cut])
        tally = Tally()
        facts_of(origins_of(tmp_path), tally)
        assert tally.problems == 1
    spoiled = bytes([0x0A, 0x05]) + b"\xff" * 5
    (tmp_path / "x.binpb").write_bytes(FRAMES["sized"]([requests[0], spoiled, *requests[1:]]))
    tally = Tally()
    assert reduce_all(facts_of(origins_of(tmp_path), tally))
    assert tally.problems == 1


def test_without_the_package_one_line_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "traces.binpb"
    file.write_bytes(FRAMES["sized"](requests_of(OTEL / "tools/input/traces.jsonl")))
    hide = (
        "import sys; sys.modules['opentelemetry.proto'] = None\n"
        "from unspool.__main__ import main; sys.argv[0] = 'unspool'; sys.exit(main())"
    )
    named, met = (
        subprocess.run(
            [sys.executable, "-c", hide, "extract", *map(str, paths), "--json"],
            capture_output=True, text=True,
        )
        for paths in ([file], [tmp_path, OTEL / "tools"])
    )  # fmt: skip
    assert named.returncode == 1
    assert named.stderr.strip() == "unspool: OTLP protobuf needs: pip install 'unspool[otlp]'"
    assert msgspec.json.decode(met.stderr)["problems"] == {"missing-extra": 1}
