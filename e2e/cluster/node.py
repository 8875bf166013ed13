"""The cluster's one node: containerd, the kubelet, kube-proxy, DNS, the device plugin and the volume provisioner."""

import json
import shutil
from pathlib import Path

from e2e.cluster import cgroups
from e2e.cluster.layout import Layout
from e2e.cluster.pki import NODE

DEVICES = {"nvidia.com/gpu": 8, "nvidia.com/gpu.shared": 4}
PLUGINS = Path("/usr/lib/cni")  # where Debian's containernetworking-plugins puts them
CONTAINERD = """\
version = 2
root = "{root}"
state = "/run/containerd"
disabled_plugins = [{disabled}]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
"""


def configure(layout: Layout, pause: str) -> None:
    """Writes every configuration file of the node into the cluster's state directory."""
    state, networks = layout.state, layout.state / "networks"
    networks.mkdir()
    (networks / "10-pods.conflist").write_text(json.dumps(_pod_network(layout)))
    for name, disabled in (("containerd", ""), ("containerd-images-only", '"io.containerd.grpc.v1.cri"')):
        text = CONTAINERD.format(
            root=layout.store,
            socket=layout.containerd,
            pause=pause,
            plugins=PLUGINS,
            networks=networks,
            disabled=disabled,
        )
        (state / f"{name}.toml").write_text(text)
    (state / "kubelet.json").write_text(json.dumps(_kubelet(layout)))
    (state / "Corefile").write_text(_corefile(layout))
    shutil.copy("/etc/resolv.conf", state / "resolv.conf")


def _pod_network(layout: Layout) -> dict[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": str(layout.subnets.pods)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}


def _kubelet(layout: Layout) -> dict[str, object]:
    node = str(layout.subnets.node)
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node,
        "healthzBindAddress": node,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(layout.pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroups.name(layout.name)}/{cgroups.PODS}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "clusterDNS": [str(layout.subnets.dns_service)],
        "clusterDomain": "cluster.local",
        "resolvConf": str(layout.state / "resolv.conf"),
        "containerRuntimeEndpoint": f"unix://{layout.containerd}",
        # A disk that is nearly full is the user's affair: an eviction would only hide it.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "maxPods": 200,
        "serializeImagePulls": False,
        "shutdownGracePeriod": "0s",
    }


def _corefile(layout: Layout) -> str:
    return f"""\
.:53 {{
    bind {layout.subnets.node}
    errors
    ready {layout.subnets.node}:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {layout.kubeconfig("dns")}
        pods insecure
        ttl 2
    }}
}}
"""


def containerd(layout: Layout, *, images_only: bool = False) -> list[str]:
    name = "containerd-images-only" if images_only else "containerd"
    return ["containerd", f"--config={layout.state / name}.toml"]


def kubelet(layout: Layout) -> list[str]:
    return [
        *map(str, layout.daemon("kubelet")),
        f"--config={layout.state / 'kubelet.json'}",
        f"--kubeconfig={layout.kubeconfig('kubelet')}",
        f"--cert-dir={layout.state / 'kubelet-pki'}",
        f"--hostname-override={NODE}",
        f"--node-ip={layout.subnets.node}",
    ]


def proxy(layout: Layout) -> list[str]:
    node = layout.subnets.node
    return [
        *map(str, layout.daemon("kube-proxy")),
        f"--kubeconfig={layout.kubeconfig('kube-proxy')}",
        f"--hostname-override={NODE}",
        "--proxy-mode=iptables",
        f"--cluster-cidr={layout.subnets.pods}",
        f"--healthz-bind-address={node}:10256",
        f"--metrics-bind-address={node}:10249",
        # The table of connections is the host's: a network namespace may not resize it.
        "--conntrack-max-per-core=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]


def dns(layout: Layout) -> list[str]:
    return [str(layout.programs / "dns"), "-conf", str(layout.state / "Corefile")]


def device_plugin(layout: Layout) -> list[str]:
    prefixes = {name: "GPU" if name == "nvidia.com/gpu" else "GPU-shared" for name in DEVICES}
    offers = [f"-resource={name}={count}={prefixes[name]}" for name, count in DEVICES.items()]
    return [str(layout.programs / "deviceplugin"), *offers]


def provisioner(layout: Layout) -> list[str]:
    return [
        str(layout.programs / "provisioner"),
        f"-kubeconfig={layout.kubeconfig('provisioner')}",
        f"-root={layout.state / 'volumes'}",
    ]


def dns_service(layout: Layout) -> dict[str, object]:
    """The Service that pods know as their name server; what stands behind it is a process of the node, not a pod."""
    ports = [("dns", "UDP"), ("dns-tcp", "TCP")]
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "kube-dns", "namespace": "kube-system"},
                "spec": {
                    "clusterIP": str(layout.subnets.dns_service),
                    "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
                },
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": "kube-dns",
                    "namespace": "kube-system",
                    "labels": {"kubernetes.io/service-name": "kube-dns"},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": [str(layout.subnets.node)]}],
                "ports": [{"name": name, "port": 53, "protocol": protocol} for name, protocol in ports],
            },
        ],
    }
