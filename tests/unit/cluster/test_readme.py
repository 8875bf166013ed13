"""Commands that a test runs are the ones that the page shows."""

from pathlib import Path

import pytest

from e2e.readme import README, commands

PAGE = """# Product

## Try it

```
make demo    # something else
```

## Use it

Some words.

```console
helm install x --set a.b=c    # with a comment

kubectl get pods
```

```
not this
```
"""


def test_commands_are_the_first_block_below_the_heading_without_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    assert commands(page, "Use it") == ["helm install x --set a.b=c", "kubectl get pods"]


def test_a_heading_without_commands_is_said(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Product\n\n## Use it\n\nSome words.\n")

    with pytest.raises(AssertionError, match="has no commands below 'Use it'"):
        commands(page, "Use it")


def test_the_newcomers_path_starts_with_installing_and_applying() -> None:
    install, apply, *_ = commands(*README)

    assert install.startswith("helm install steelyard charts/steelyard ")
    assert apply.startswith("kubectl apply ")
