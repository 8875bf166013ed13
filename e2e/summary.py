"""Adds up the JUnit reports of a test run and prints the one closing line: `N passed, N failed`.

A test that was skipped proved nothing: it is named, and the run did not succeed.
"""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def count(reports: list[Path]) -> tuple[int, int, list[str]]:
    """Passed, failed (errors included) and the names of skipped tests over all reports."""
    passed = failed = 0
    skipped = []
    for report in reports:
        for case in ET.parse(report).iter("testcase"):
            outcomes = {child.tag for child in case}
            if outcomes & {"failure", "error"}:
                failed += 1
            elif "skipped" in outcomes:
                skipped.append(f"{case.get('classname')}::{case.get('name')}")
            else:
                passed += 1
    return passed, failed, skipped


def main() -> int:
    passed, failed, skipped = count(sorted(Path(sys.argv[1]).glob("*.xml")))
    for name in skipped:
        print(f"skipped: {name}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or skipped or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
