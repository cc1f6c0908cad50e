"""The CLI reference out of the commands themselves. `make golden` writes it; a test compares."""

from pathlib import Path

import click

from unspool.cli import COMMANDS, group

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# Commands

This page is made from the commands' own help by `make golden`. Data goes to stdout, progress and
summaries to stderr. Exit codes: 0 done, 1 failed, 2 wrong use, 3 done but with problems under
`--strict` (and for `compare` and `diff-messages` as `diff`: 0 same, 1 different, 2 trouble); 130 after
Ctrl-C.
"""


def page() -> str:
    parts = [HEAD]
    context = click.Context(
        group,
        info_name="unspool",
        max_content_width=96,
        terminal_width=96,
        help_option_names=["-h", "--help"],  # as the command line has it; commands remember it
    )
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        parts += _section(command, context, name)
    return "\n".join(parts)


def _section(command: click.Command, parent: click.Context, name: str) -> list[str]:
    own = click.Context(
        command, parent=parent, info_name=name, max_content_width=96, terminal_width=96
    )
    title = own.command_path.removeprefix("unspool ")
    made = [f"## unspool {title}\n", "```", command.get_help(own).rstrip(), "```", ""]
    if isinstance(command, click.Group):
        for sub in command.list_commands(own):
            found = command.get_command(own, sub)
            if found is not None:
                made += _section(found, own, sub)
    return made


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
