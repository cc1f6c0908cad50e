"""`docs/atif.md` names every rule, and no other."""

import re
from pathlib import Path

from tests.atif.test_rules import BROKEN

ROOT = Path(__file__).parents[2]


def test_every_rule_is_documented() -> None:
    page = (ROOT / "docs" / "atif.md").read_text(encoding="utf-8")
    code = "".join(
        path.read_text(encoding="utf-8")
        for path in [
            ROOT / "src/unspool/sinks/atif/rules.py",
            ROOT / "src/unspool/cli/validate.py",
        ]
    )
    called = re.findall(r'(?:error|warning|report)\(\s*"([a-z0-9-]+)"', code)
    made = re.findall(r'Finding\("error", "([a-z0-9-]+)"', code)
    rules = {*called, *made}
    table = page.split("| rule | level |")[1]
    assert rules == {
        name
        for row in table.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([a-z0-9-]+)`", row.split("|")[1])
    }
    assert {rule for _, rule, _, _ in BROKEN} <= rules
