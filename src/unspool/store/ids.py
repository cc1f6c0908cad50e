"""How a conversation is called in the store."""


def platform_of(source: str) -> str:
    """The spelling of the columns: `claude_code` for the source `claude-code`."""
    return source.replace("-", "_")


def row_id(source: str, ident: str) -> str:
    return f"{platform_of(source)}:{ident}"


def shown_id(row: str) -> str:
    """As every command takes and prints it: `claude-code/4f0c…` for `claude_code:4f0c…`."""
    platform, _, ident = row.partition(":")
    return f"{platform.replace('_', '-')}/{ident}"
