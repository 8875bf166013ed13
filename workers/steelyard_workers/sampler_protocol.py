"""What environments and samplers agree on beyond vLLM's OpenAI API."""

from steelyard_workers.messages import PolicyVersion

MODEL_NAME = "policy"
"""The name under which samplers serve, whatever the weights."""

VERSION_HEADER = "X-Steelyard-Policy-Version"
"""In every response: the version that answered, `epoch.step`; the first and the last, `epoch.step, epoch.step`, when it
changed under way. Of a streamed response only the first is known when its headers are sent."""


def format_versions(first: PolicyVersion, last: PolicyVersion) -> str:
    """The header's value."""
    return str(first) if first == last else f"{first}, {last}"


def parse_versions(value: str) -> tuple[PolicyVersion, PolicyVersion]:
    """First and last version of a header's value; ValueError when it is none."""
    first, _, last = value.partition(", ")
    return PolicyVersion.parse(first), PolicyVersion.parse(last or first)
