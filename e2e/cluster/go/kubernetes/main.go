// Command kubernetes is every Kubernetes daemon of the embedded cluster, and etcd, in one program: the first argument
// names the one to run. One link step and one copy of the shared code keep the cold build short.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

var daemons = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllers.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes DAEMON [FLAGS]")
		os.Exit(2)
	}
	name := os.Args[1]
	os.Args = slices.Delete(os.Args, 0, 1)
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	daemon, known := daemons[name]
	if !known {
		fmt.Fprintf(os.Stderr, "kubernetes: no daemon is called %q\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(daemon()))
}
