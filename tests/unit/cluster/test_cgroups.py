"""Pods may not take the cores that the control plane needs to keep them."""

import pytest

from e2e.cluster import cgroups


@pytest.mark.parametrize(("cores", "cores_for_pods"), [(1, 0.5), (2, 1.5), (16, 15.5)])
def test_half_a_core_is_kept_from_pods(cores: int, cores_for_pods: float) -> None:
    assert cgroups.pods_quota(cores) == cores_for_pods * cgroups.PERIOD_MICROSECONDS
