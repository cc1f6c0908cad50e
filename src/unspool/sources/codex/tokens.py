"""Tokens: which answer they are of.

    {"type":"token_usage_record","payload":{"response_id":"resp_1","usage":{"input_tokens":900,…}}}
    {"type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{…},…}}}

Most versions tell them behind the items of the answer, 0.47 to 0.55 before. Newer ones write a record
per response, and the event with the same counts beside it.
"""

from unspool.facts import UsageOf
from unspool.sources.codex.records import Counts, TokenInfo
from unspool.sources.scribe import Scribe


class Tokens:
    """What the lines so far have told of tokens."""

    def __init__(self) -> None:
        self.unpaid = ""
        """The last answer whose tokens are not told yet."""
        self.total: int | None = None
        self.ahead: tuple[Counts, Scribe] | None = None
        """Those that were told before the answer that they are of."""
        self.pays_after = False
        """Whether they are told behind their answer."""
        self.has_records = False

    def is_counted(self, info: TokenInfo | None, is_fork: bool) -> bool:
        """Whether a count is one of a response that nobody counted yet. Half of them repeat the total
        before; where a record per response stands beside them, they all do. A fork may begin with the
        last count of its parent."""
        total = info.total_token_usage.total_tokens if info and info.total_token_usage else None
        if info is None or total is None or total == self.total:
            return False
        inherited = is_fork and self.total is None and not self.unpaid
        self.total = total
        return info.last_token_usage is not None and not inherited and not self.has_records

    def open(self, answer: str, model: str, scribe: Scribe) -> None:
        """An answer begins."""
        self.unpaid = answer
        if self.ahead is not None:
            report(self.ahead[0], scribe, model, "message", answer)
            self.ahead, self.unpaid = None, ""

    def take_unpaid(self) -> str:
        answer, self.unpaid = self.unpaid, ""
        return answer


def report(counts: Counts, scribe: Scribe, model: str, on: UsageOf, subject: str) -> None:
    scribe.usage(
        on=on,
        subject=subject,
        model=model,
        prompt=counts.input_tokens,
        completion=counts.output_tokens,
        cached=counts.cached_input_tokens,
        cache_write=counts.cache_write_input_tokens,
        reasoning=counts.reasoning_output_tokens,
    )
