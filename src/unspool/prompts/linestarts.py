"""Line starts: patterns that count only where a line begins."""

import re
from collections.abc import Iterator


class LineStart:
    """Finds a pattern at the starts of lines. It looks for the newline before it, a literal, which
    is ten times faster than `^`; and it makes no copy of the text, which may be very long."""

    def __init__(self, pattern: str) -> None:
        self._first = re.compile(f"(?:{pattern})")
        self._later = re.compile(f"\n(?:{pattern})")

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """The matches; all but one at the very beginning hold the newline before them."""
        at = 0
        first = self._first.match(text)
        if first is not None:
            yield first
            at = first.end()
        yield from self._later.finditer(text, at)
