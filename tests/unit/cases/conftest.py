"""The job under control that tests of the operator start from."""

from tests.unit.operator.conftest import operated

__all__ = ["operated"]
