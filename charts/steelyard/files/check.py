"""`helm test`: the operator acts, and the Prometheus that it was given answers. Runs in the operator's image."""

import os
import sys
import time
import urllib.error
import urllib.request

PATIENCE_SECONDS = 60


def ask(url: str) -> tuple[bool, str]:
    """Whether the answer is a success, and its text."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - the chart writes the URLs
            return True, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return False, f"{refusal.code} {refusal.read().decode()}"
    except OSError as error:
        return False, str(error)


def main() -> int:
    operator, prometheus = os.environ["OPERATOR_URL"], os.environ["PROMETHEUS_URL"]
    checks = {
        f"{operator}/readyz": "the operator does not act; kubectl logs says why",
        f"{prometheus}/api/v1/query?query=vector(1)": "set prometheus.url or prometheus.bundled.enabled",
    }
    end = time.monotonic() + PATIENCE_SECONDS
    failed = 0
    for url, remedy in checks.items():
        well, said = ask(url)
        while not well and time.monotonic() < end:
            time.sleep(2)
            well, said = ask(url)
        sys.stdout.write(f"ok   {url}\n" if well else f"FAIL {url}: {said}: {remedy}\n")
        failed += not well
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
