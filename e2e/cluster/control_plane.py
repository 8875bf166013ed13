"""The daemons that make a Kubernetes API, and their command lines."""

from e2e.cluster.layout import Layout

ETCD = "http://127.0.0.1:2379"
NODE_GRACE_SECONDS = 40


def etcd(layout: Layout) -> list[str]:
    return [
        *map(str, layout.daemon("etcd")),
        f"--data-dir={layout.state / 'etcd'}",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--unsafe-no-fsync",  # the cluster does not outlive the machine anyway
    ]


def apiserver(layout: Layout) -> list[str]:
    pki, node = layout.pki, layout.subnets.node
    return [
        *map(str, layout.daemon("kube-apiserver")),
        f"--etcd-servers={ETCD}",
        f"--bind-address={node}",
        f"--advertise-address={node}",
        "--secure-port=6443",
        f"--cert-dir={pki}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        f"--token-auth-file={pki / 'tokens.csv'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged",
        f"--service-cluster-ip-range={layout.subnets.services}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-accounts.key'}",
        f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
        f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={pki / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--default-unreachable-toleration-seconds=300",
        "--default-not-ready-toleration-seconds=300",
    ]


def controller_manager(layout: Layout) -> list[str]:
    pki = layout.pki
    return [
        *map(str, layout.daemon("kube-controller-manager")),
        f"--kubeconfig={layout.kubeconfig('kube-controller-manager')}",
        "--leader-elect=false",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={pki / 'service-accounts.key'}",
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--cluster-signing-cert-file={pki / 'ca.crt'}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler(layout: Layout) -> list[str]:
    return [
        *map(str, layout.daemon("kube-scheduler")),
        f"--kubeconfig={layout.kubeconfig('kube-scheduler')}",
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]
