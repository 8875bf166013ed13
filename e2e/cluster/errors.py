"""What can go wrong on the way to a cluster, each with an exit code of its own for scripts to tell apart."""

from enum import IntEnum


class Exit(IntEnum):
    FAILED = 1
    NOT_ROOT = 10
    NO_PACKAGES = 11
    NO_GO = 12
    NO_DISK = 13
    NO_KERNEL_FEATURE = 14
    NO_ADDRESSES = 15
    BUILD_FAILED = 20
    IMAGE_FAILED = 21
    START_FAILED = 22
    NO_SUCH_CLUSTER = 23


class ClusterError(Exception):
    """A sentence for the user, who may know nothing of this package, and the exit code that goes with it."""

    def __init__(self, code: Exit, message: str) -> None:
        super().__init__(message)
        self.code = code
