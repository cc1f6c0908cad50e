"""The queue in Redis Streams, where many machines feed one store.

    unspool:events       the stream; group `store`, one consumer per worker
    unspool:acknowledged everything up to this id is in the store
    unspool:generation   made anew whenever Redis has lost everything: intakes send again then
    unspool:dead         what failed three times
    unspool:recent       conversations as they were written last, for `unspool show --queue`

A worker that dies leaves its entries pending; another one claims them after a minute. The stream is
trimmed only below what the store has acknowledged. Every event carries its id, and the store knows
those that it has: what is delivered twice is there once.
"""

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import zstandard

from unspool.errors import MissingExtra, QueueError
from unspool.live.queue import (
    MOST_TRIES,
    READ_BYTES,
    READ_EVENTS,
    Arrival,
    Backlog,
    Dead,
    Queued,
)
from unspool.trajectory import Trajectory, pack_trajectory, unpack_trajectory

try:
    import redis
except ImportError as error:  # pragma: no cover - an installation without the extra
    raise MissingExtra("a queue in Redis needs: pip install 'unspool[redis]'") from error

STREAM = "unspool:events"
GROUP = "store"
ACKNOWLEDGED = "unspool:acknowledged"
GENERATION = "unspool:generation"
DEAD = "unspool:dead"
RECENT = "unspool:recent"
CLAIM_MS = 60_000
TIMEOUT_SECONDS = 10.0
RECENT_CONVERSATIONS = 500
RECENT_BYTES = 8 * 1024 * 1024
"""A larger conversation is not put there: the store has it."""
_BEGINNING = "0-0"
_EMPTIED = ("NOGROUP", "no such key")
"""What Redis answers where it lost the group, or the whole stream."""
_AWAY = (redis.ConnectionError, redis.TimeoutError, OSError)


class RedisQueue:
    """The same as `SqliteQueue` for whoever fills or empties it."""

    remote: Literal[True] = True
    name = "redis"

    def __init__(self, address: str, consumer: str | None = None) -> None:
        self.address = address
        self.consumer = consumer or f"{socket.gethostname()}-{os.getpid()}"
        self._pack = zstandard.ZstdCompressor(level=1).compress
        self._unpack = zstandard.ZstdDecompressor().decompress
        self._claim_from = _BEGINNING
        self._own_first = True
        """Whether entries may be pending that an earlier read of ours got."""
        try:
            self.client: Any = redis.Redis.from_url(
                address,
                socket_timeout=TIMEOUT_SECONDS,
                socket_connect_timeout=TIMEOUT_SECONDS,
                health_check_interval=30,
            )
        except ValueError as error:
            raise QueueError(f"{address} is no address of a Redis server: {error}") from None
        self.prepare()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (redis.RedisError, OSError) as error:
            text = str(error).splitlines()[0] if str(error) else type(error).__name__
            # Closed, refused, too slow: one trouble, told once. Of a wrong password the server tells.
            if isinstance(error, _AWAY) and not isinstance(error, redis.AuthenticationError):
                text = "it cannot be reached"
            raise QueueError(f"the queue {_shown(self.address)}: {text}") from None

    def prepare(self) -> None:
        """The group, and a generation: both are gone when Redis was emptied."""
        with self._explained():
            self.client.set(GENERATION, uuid.uuid4().hex, nx=True)
            try:
                self.client.xgroup_create(STREAM, GROUP, id=_BEGINNING, mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    def _with_group(self, act: Callable[[], Any]) -> Any:
        with self._explained():
            try:
                return act()
            except redis.ResponseError as error:
                if not any(code in str(error) for code in _EMPTIED):
                    raise
                self.prepare()
                return act()

    def _value(self, name: str) -> str:
        with self._explained():
            return str((self.client.get(name) or b"").decode())

    def generation(self) -> str:
        """Another one when the queue has lost everything."""
        return self._value(GENERATION)

    def acknowledged(self) -> str:
        """The id up to which the store has everything: `milliseconds-count`."""
        return self._value(ACKNOWLEDGED)

    def _group(self) -> dict[str, Any]:
        for group in self.client.xinfo_groups(STREAM):
            if group["name"] == GROUP.encode():
                return dict(group)
        raise redis.ResponseError("NOGROUP")

    def put(self, arrivals: Sequence[Arrival]) -> int:
        self.send(arrivals)
        return len(arrivals)

    def send(self, arrivals: Sequence[Arrival]) -> list[str]:
        """As `put`; the ids that they got."""
        with self._explained():
            pipeline = self.client.pipeline(transaction=False)
            for one in arrivals:
                pipeline.xadd(STREAM, self._fields(one))
            return [ident.decode() for ident in pipeline.execute()]

    def _fields(self, one: Arrival) -> dict[str, Any]:
        return {
            "event_id": one.event_id,
            "received_ns": one.received_ns,
            "platform": one.platform,
            "event_type": one.event_type,
            "session": one.session,
            "data": self._pack(one.data),
        }

    def _arrival(self, fields: dict[bytes, bytes]) -> Arrival:
        def text(name: bytes) -> str:
            return fields.get(name, b"").decode("utf-8", "replace")

        try:
            data = self._unpack(fields[b"data"])
            received = int(fields[b"received_ns"])
        except (KeyError, ValueError, zstandard.ZstdError):
            data, received = b"", time.time_ns()  # nobody of ours put it there: a counted problem
        ident = text(b"event_id") or uuid.uuid4().hex
        return Arrival(
            ident, received, text(b"platform"), text(b"event_type"), text(b"session"), data
        )

    def read(self, after: str, limit: int = READ_EVENTS) -> list[Queued]:
        """What we had and did not acknowledge, what dead workers had, then what is new."""
        limit = min(limit, 200)
        entries: list[Any] = []
        if self._own_first:
            entries = self._with_group(lambda: self._group_read(_BEGINNING, limit))
            self._own_first = bool(entries)
        if not entries:
            self._claim_from, entries, *_ = self._with_group(
                lambda: self.client.xautoclaim(
                    STREAM, GROUP, self.consumer, CLAIM_MS, start_id=self._claim_from, count=limit
                )
            )
        if not entries:
            entries = self._with_group(lambda: self._group_read(">", limit))
        found: list[Queued] = []
        size = 0
        for ident, fields in entries:
            if not fields:
                continue  # trimmed away while it was pending
            event = Queued(ident.decode(), _number(ident.decode()), self._arrival(fields))
            size += len(event.arrival.data)
            found.append(event)
            if size >= READ_BYTES:
                self._own_first = True  # the rest of them waits for the next read
                break
        return found

    def _group_read(self, start: str, limit: int) -> list[Any]:
        answer = self.client.xreadgroup(GROUP, self.consumer, {STREAM: start}, count=limit)
        return list(answer[0][1]) if answer else []

    def acknowledge(self, position: str, events: Sequence[Queued] = ()) -> None:
        """The store has these; the stream is trimmed below the first that it has not."""
        if not events:
            return

        def act() -> None:
            self.client.xack(STREAM, GROUP, *(event.position for event in events))
            pending = self.client.xpending(STREAM, GROUP)
            if pending["pending"]:
                lowest = pending["min"].decode()
                self.client.xtrim(STREAM, minid=lowest, approximate=False)
                self.client.set(ACKNOWLEDGED, _before(lowest))
                return
            last = self._group()["last-delivered-id"].decode()
            self.client.set(ACKNOWLEDGED, last)
            milliseconds, _, count = last.partition("-")
            after = f"{milliseconds}-{int(count) + 1}"
            self.client.xtrim(STREAM, minid=after, approximate=False)

        self._with_group(act)

    def fail(self, events: Sequence[Queued], error: str) -> list[Queued]:
        buried: list[Queued] = []
        with self._explained():
            for event in events:
                found = self.client.xpending_range(STREAM, GROUP, event.position, event.position, 1)
                if found and found[0]["times_delivered"] < MOST_TRIES:
                    self._own_first = True
                    continue
                pipeline = self.client.pipeline(transaction=True)
                pipeline.xadd(DEAD, {**self._fields(event.arrival), "error": error})
                pipeline.xack(STREAM, GROUP, event.position)
                pipeline.execute()
                buried.append(event)
        return buried

    def dead(self) -> list[Dead]:
        with self._explained():
            entries = self.client.xrange(DEAD)
        return [
            Dead(
                ident.decode(),
                self._arrival(fields),
                fields.get(b"error", b"").decode("utf-8", "replace"),
                time.strftime(
                    "%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(ident.partition(b"-")[0]) / 1000)
                ),
            )
            for ident, fields in entries
        ]

    def retry(self) -> int:
        found = self.dead()
        with self._explained():
            for one in found:
                pipeline = self.client.pipeline(transaction=True)
                pipeline.xadd(STREAM, self._fields(one.arrival))
                pipeline.xdel(DEAD, one.position)
                pipeline.execute()
        return len(found)

    def backlog(self, after: str) -> Backlog:
        def act() -> Backlog:
            group = self._group()
            waiting = (group.get("lag") or 0) + group["pending"]
            if not waiting:
                return Backlog(0, None)
            first = self.client.xrange(STREAM, count=1)
            oldest = int(first[0][0].partition(b"-")[0]) * 1_000_000 if first else None
            return Backlog(waiting, oldest)

        made: Backlog = self._with_group(act)
        return made

    # what was written last

    def put_recent(self, trajectory: Trajectory) -> None:
        """A conversation for those who look at it from other machines."""
        data = self._pack(pack_trajectory(trajectory))
        if len(data) > RECENT_BYTES:
            return
        name = f"{trajectory.source}/{trajectory.conversation_id}"
        with self._explained():
            pipeline = self.client.pipeline(transaction=True)
            pipeline.hset(RECENT, name, data)
            pipeline.zadd(f"{RECENT}:order", {name: time.time()})
            pipeline.execute()
            old = self.client.zrange(f"{RECENT}:order", 0, -RECENT_CONVERSATIONS - 1)
            if old:
                self.client.hdel(RECENT, *old)
                self.client.zrem(f"{RECENT}:order", *old)

    def recent(self, ident: str) -> list[Trajectory]:
        """Those whose id begins so; `source/` may stand before it."""
        with self._explained():
            names = [name.decode() for name in self.client.hkeys(RECENT)]
            chosen = [
                n for n in names if n.startswith(ident) or n.partition("/")[2].startswith(ident)
            ]
            exact = [n for n in chosen if ident in (n, n.partition("/")[2])]
            found = [self.client.hget(RECENT, name) for name in exact or sorted(chosen)]
        return [unpack_trajectory(self._unpack(data)) for data in found if data is not None]

    def close(self) -> None:
        self.client.close()


def _number(ident: str) -> int:
    """The id of an entry as one number that grows with it."""
    milliseconds, _, count = ident.partition("-")
    return int(milliseconds) * 1_000_000 + min(int(count), 999_999)


def _before(ident: str) -> str:
    milliseconds, _, count = ident.partition("-")
    return f"{milliseconds}-{int(count) - 1}" if int(count) else f"{int(milliseconds) - 1}-999999"


def _shown(address: str) -> str:
    """Without the password."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
