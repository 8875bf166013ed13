"""`helm test`: the operator acts, and the Prometheus that it was given answers. Runs in the operator's image."""

import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

PATIENCE_SECONDS = 60


def operator() -> str:
    """What is wrong with the operator, nothing when it acts."""
    return ask(f"{os.environ['OPERATOR_URL']}/readyz")[0]


def prometheus() -> str:
    """What is wrong with Prometheus; a page for people at its address is no answer."""
    secret = Path(os.environ.get("PROMETHEUS_SECRET", "/nowhere"))
    header, ca = secret / "authorization", secret / "ca.crt"
    headers = {"Authorization": header.read_text().strip()} if header.exists() else {}
    trusted = ssl.create_default_context(cafile=ca) if ca.exists() else None
    wrong, said = ask(f"{os.environ['PROMETHEUS_URL']}/api/v1/query?query=vector(1)", headers, trusted)
    try:
        return wrong or ("" if json.loads(said)["status"] == "success" else said)
    except (ValueError, LookupError, TypeError):
        return f"what answers is no Prometheus: {said[:100]!r}"


def ask(url: str, headers: dict[str, str] | None = None, trusted: ssl.SSLContext | None = None) -> tuple[str, str]:
    """What is wrong, and the text of an answer that is a success."""
    request = urllib.request.Request(url, headers=headers or {})  # noqa: S310 - the chart writes the URLs
    try:
        with urllib.request.urlopen(request, timeout=5, context=trusted) as answer:  # noqa: S310
            return "", answer.read().decode(errors="replace")
    except urllib.error.HTTPError as refusal:
        return f"{refusal.code} {refusal.read().decode(errors='replace')}".strip(), ""
    except OSError as error:
        return str(error), ""


CHECKS = {
    "the operator acts": (operator, "its log says why: kubectl logs"),
    "Prometheus answers": (prometheus, "set prometheus.url, prometheus.secret or prometheus.bundled.enabled"),
}


def main() -> int:
    end = time.monotonic() + PATIENCE_SECONDS
    failed = 0
    for name, (wrong, remedy) in CHECKS.items():
        while (found := wrong()) and time.monotonic() < end:
            time.sleep(2)
        sys.stdout.write(f"FAIL {name}: {found}: {remedy}\n" if found else f"ok   {name}\n")
        failed += bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
