"""Ledgers: what must come of a made-up session of Claude Code."""


class Answer:
    """One call of the model."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.calls: list[str] = []
        self.tokens = (0, 0)


class Ledger:
    """What one conversation must hold."""

    def __init__(self) -> None:
        self.prompts: dict[str, str] = {}
        """Line → its words."""
        self.answers: dict[str, Answer] = {}
        self.results: dict[str, str] = {}
        self.beside: list[str] = []
        """Words that stand somewhere, once."""
        self.queued: list[str] = []
        """Those among them that no line of the chain holds: no copy has them."""
        self.partly = False
        """Whether only its prompts, answers and results are known here."""
        self.chain: list[str] = []
        """Prompts and answers that count, in order."""
        self.gone: set[str] = set()
        self.marks: list[str] = []
        """Their kinds, also of what was abandoned."""
        self.copied: set[str] = set()
        self.parent: tuple[str, str | None] | None = None
        """(conversation, call)."""
