"""The one place that knows what things are called: the API group, labels, object names, the field manager."""

from enum import StrEnum

GROUP = "steelyard.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

JOB_KIND = "AgenticRLJob"
JOB_PLURAL = "agenticrljobs"
REVISION_KIND = "AllocationRevision"
REVISION_PLURAL = "allocationrevisions"
POOL_KIND = "RLPool"
POOL_PLURAL = "rlpools"

FIELD_MANAGER = "steelyard"

LABEL_APP = "app.kubernetes.io/name"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_JOB = f"{GROUP}/job"
LABEL_STAGE = f"{GROUP}/stage"
LABEL_PROFILE = f"{GROUP}/profile"

APP_WORKER = "steelyard-worker"
MANAGED_BY = "steelyard"
BUS = "bus"
"""Value of the stage label on the bus, which is no stage."""

DEFAULT_PROFILE = "default"
"""The one profile of a stage that names none: no GPUs."""

MAX_JOB_NAME = 40
MAX_PROFILE_NAME = 12
"""Together they keep `<job>-trainer-<profile>-0`, the longest pod hostname, within 63 characters."""


class Stage(StrEnum):
    """The four stages. The value is used in object names and labels, `field` in the resources."""

    SAMPLER = "sampler"
    ENVIRONMENT = "environment"
    REWARD_SERVER = "reward-server"
    TRAINER = "trainer"

    field: str
    """The key of this stage in a resource: `rewardServer` for reward-server."""
    attribute: str
    """The attribute of this stage in a Python model: `reward_server`."""

    def __init__(self, value: str) -> None:
        head, *rest = value.split("-")
        self.field = head + "".join(word.capitalize() for word in rest)
        self.attribute = value.replace("-", "_")

    @classmethod
    def of_field(cls, field: str) -> "Stage":
        """The stage whose key in a resource is `field`; ValueError when there is none."""
        for stage in cls:
            if stage.field == field:
                return stage
        raise ValueError(f"{field!r} is no stage; stages are {', '.join(s.field for s in cls)}")


def revision_name(job: str, number: int) -> str:
    return f"{job}-{number}"
