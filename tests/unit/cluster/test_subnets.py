"""Where clusters live must never meet, neither each other nor the host's own networks."""

from ipaddress import IPv4Network
from itertools import combinations

import pytest

from e2e.cluster.network import MOST_CLUSTERS, Subnets, free_subnets


def networks(subnets: Subnets) -> list[IPv4Network]:
    return [subnets.link, subnets.pods, subnets.services]


def test_no_two_networks_of_any_two_clusters_overlap() -> None:
    every = [network for index in range(MOST_CLUSTERS) for network in networks(Subnets(index))]
    assert [pair for pair in combinations(every, 2) if pair[0].overlaps(pair[1])] == []


def test_every_address_lies_in_its_network() -> None:
    for subnets in map(Subnets, range(MOST_CLUSTERS)):
        assert {subnets.host, subnets.node} <= set(subnets.link.hosts())
        assert subnets.api_service in subnets.services
        assert subnets.dns_service in subnets.services


def test_the_interface_name_fits_the_kernel() -> None:
    assert max(len(Subnets(index).interface) for index in range(MOST_CLUSTERS)) <= 15


@pytest.mark.parametrize(
    ("routes", "first"),
    [
        pytest.param([], 0, id="an unused host gives the first index"),
        pytest.param(["192.0.2.0/24"], 0, id="networks elsewhere do not matter"),
        pytest.param(["10.213.0.0/24"], 1, id="a cluster that runs keeps its index"),
        pytest.param(["10.214.0.128/25"], 1, id="half a pod network is enough to stay away"),
        pytest.param(["10.215.0.0/16"], None, id="a host network over all service networks leaves nothing"),
        pytest.param(["10.213.0.0/24", "10.215.16.7/32", "10.214.2.0/24"], 3, id="each kind of network counts"),
    ],
)
def test_a_new_cluster_stays_away_from_known_routes(routes: list[str], first: int | None) -> None:
    free = free_subnets([IPv4Network(route) for route in routes])
    assert (free[0].index if free else None) == first
