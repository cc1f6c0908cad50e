"""Regenerate the expected output of every case: `make golden`. Read the diff before you commit it."""

import json
import sys

from tests.harness import case_id, cases, run_case


def expected_text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    wanted = sys.argv[1:]
    for case in cases():
        if wanted and not any(word in case_id(case) for word in wanted):
            continue
        (case / "expected.json").write_text(expected_text(run_case(case)), encoding="utf-8")
        print(case_id(case))


if __name__ == "__main__":
    main()
