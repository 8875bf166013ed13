"""The user's pod template is merged over ours, field by field, and cannot take away what the operator needs."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.children.template import merged

TEMPLATES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "objects are merged": ({"spec": {"nodeSelector": {"pool": "gpu"}}}, {"nodeSelector": {"pool": "gpu"}}),
    "a volume is added": (
        {"spec": {"volumes": [{"name": "extra"}]}},
        {"volumes": [{"name": "tmp"}, {"name": "extra"}]},
    ),
    "the worker gets another variable": (
        {"spec": {"containers": [{"name": "worker", "env": [{"name": "MINE", "value": "1"}]}]}},
        {
            "containers": [
                {
                    "name": "worker",
                    "image": "ours",
                    "env": [{"name": "OURS"}, {"name": "MINE", "value": "1"}],
                    "args": ["a"],
                }
            ]
        },
    ),
    "a list without identities is replaced": (
        {"spec": {"containers": [{"name": "worker", "args": ["b"]}]}},
        {"containers": [{"name": "worker", "image": "ours", "env": [{"name": "OURS"}], "args": ["b"]}]},
    ),
    "a container beside ours": (
        {"spec": {"containers": [{"name": "proxy"}]}},
        {
            "containers": [
                {"name": "worker", "image": "ours", "env": [{"name": "OURS"}], "args": ["a"]},
                {"name": "proxy"},
            ]
        },
    ),
    "null removes": ({"spec": {"volumes": None}}, {"volumes": None}),
}


@pytest.mark.parametrize("case", TEMPLATES)
def test_the_users_template_is_merged_over_ours(case: str) -> None:
    worker = {"name": "worker", "image": "ours", "env": [{"name": "OURS"}], "args": ["a"]}
    ours = {
        "metadata": {"labels": {}, "annotations": {}},
        "spec": {"volumes": [{"name": "tmp"}], "containers": [worker]},
    }
    users, want = TEMPLATES[case]

    spec = merged(ours, users)["spec"]
    assert {key: spec.get(key) for key in want} == want


def test_our_labels_cannot_be_taken_away() -> None:
    ours = {"metadata": {"labels": {"steelyard.dev/job": "calculator"}, "annotations": {}}, "spec": {}}
    users = {"metadata": {"labels": {"steelyard.dev/job": "other", "team": "blue"}}}

    assert merged(ours, users)["metadata"]["labels"] == {"steelyard.dev/job": "calculator", "team": "blue"}
