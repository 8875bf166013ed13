// Command deviceplugin offers devices that exist by name only to a real kubelet: one plugin server per
// -resource NAME=COUNT=PREFIX. Containers see what they were given in NVIDIA_VISIBLE_DEVICES.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type resources []*pool

func (r *resources) String() string { return fmt.Sprint(len(*r)) }

func (r *resources) Set(text string) error {
	parts := strings.Split(text, "=")
	if len(parts) != 3 {
		return fmt.Errorf("want NAME=COUNT=PREFIX, got %q", text)
	}
	count, err := strconv.Atoi(parts[1])
	if err != nil {
		return err
	}
	*r = append(*r, newPool(parts[0], count, parts[2]))
	return nil
}

func main() {
	var offered resources
	directory := flag.String("directory", deviceplugin.DevicePluginPath, "the kubelet's device plugin directory")
	flag.Var(&offered, "resource", "NAME=COUNT=PREFIX, may be repeated")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var running sync.WaitGroup
	for _, p := range offered {
		running.Go(func() { p.offer(ctx, *directory) })
	}
	log.Printf("offering %d resources in %s", len(offered), *directory)
	running.Wait()
}
