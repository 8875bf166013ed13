"""A cluster's name becomes a directory, a control group and part of socket paths."""

from pathlib import Path

import pytest

from e2e.cluster import Cluster, ClusterError, Exit
from e2e.cluster.layout import Layout
from e2e.cluster.network import Subnets


@pytest.mark.parametrize("name", ["", "../etc", "a/b", "with space", "Upper", "-option", "x" * 33, ".locks"])
def test_names_that_could_lead_elsewhere_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="letters, digits and hyphens"):
        Cluster(name)


def test_the_longest_name_leaves_room_for_sockets() -> None:
    layout = Layout("x" * 32, Subnets(0), programs=Path("/anywhere"))
    assert len(str(layout.containerd)) < 108


def test_asking_for_a_cluster_that_does_not_run_says_how_to_start_it() -> None:
    with pytest.raises(ClusterError, match="start it with `up`") as problem:
        _ = Cluster("never-started").kubeconfig
    assert problem.value.code == Exit.NO_SUCH_CLUSTER
