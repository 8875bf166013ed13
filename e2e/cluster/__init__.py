"""A real Kubernetes on one machine, for tests and the demo: ``with Cluster("name").up() as cluster: ...``."""

from e2e.cluster.cluster import Cluster as Cluster
from e2e.cluster.errors import ClusterError as ClusterError
from e2e.cluster.errors import Exit as Exit
