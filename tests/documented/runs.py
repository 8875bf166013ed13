"""Commands in blocks that tests/integration/operator/test_documented.py leaves out, and where they are run instead."""

NOT_INSTALLED = "nowhere: no suite installs Argo CD or Flux; docs/gitops.md says so"

ELSEWHERE = {
    "kubectl apply --server-side --kustomize manifests/overlays/cluster": (
        "tests/integration/operator/conftest.py::credentials"
    ),
    "kubectl apply --filename manifests/examples/calculator.yaml": (
        "e2e/scenarios/test_install.py::test_the_readme_leads_from_nothing_to_an_explained_decision"
    ),
    "kubectl apply -f gitops/argocd/application.yaml": NOT_INSTALLED,
    "kubectl apply -f gitops/flux/sync.yaml": NOT_INSTALLED,
}
"""Command -> `file::function` that runs it, or why nothing does."""

NEED_CONTAINERS = frozenset({"logs", "exec", "port-forward"})
"""Verbs of kubectl that ask a node: the API server of the integration tests has none with containers."""
