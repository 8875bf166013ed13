package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const retry = 500 * time.Millisecond

var errKubeletRestarted = errors.New("the kubelet has emptied its plugin directory")

// pool is one extended resource and its devices.
type pool struct {
	deviceplugin.UnimplementedDevicePluginServer
	resource string
	devices  []*deviceplugin.Device
}

func newPool(resource string, count int, prefix string) *pool {
	p := &pool{resource: resource}
	for i := range count {
		id := fmt.Sprintf("%s-%d", prefix, i)
		p.devices = append(p.devices, &deviceplugin.Device{ID: id, Health: deviceplugin.Healthy})
	}
	return p
}

// offer keeps the pool registered until ctx ends: a kubelet that starts empties its plugin directory and expects
// every plugin to come back.
func (p *pool) offer(ctx context.Context, directory string) {
	for ctx.Err() == nil {
		if err := p.serve(ctx, directory); err != nil {
			log.Printf("%s: %v", p.resource, err)
		}
		sleep(ctx, retry)
	}
}

func (p *pool) serve(ctx context.Context, directory string) error {
	socket := filepath.Join(directory, strings.NewReplacer("/", "-", ".", "-").Replace(p.resource)+".sock")
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, p)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	if err := p.register(ctx, directory, filepath.Base(socket)); err != nil {
		return err
	}
	log.Printf("%s: registered %d devices", p.resource, len(p.devices))
	for ctx.Err() == nil {
		if _, err := os.Stat(socket); errors.Is(err, os.ErrNotExist) {
			return errKubeletRestarted
		}
		sleep(ctx, retry)
	}
	return nil
}

func (p *pool) register(ctx context.Context, directory, endpoint string) error {
	kubelet := "unix://" + filepath.Join(directory, filepath.Base(deviceplugin.KubeletSocket))
	connection, err := grpc.NewClient(kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = deviceplugin.NewRegistrationClient(connection).Register(ctx, &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: endpoint, ResourceName: p.resource,
	})
	return err
}

func (p *pool) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

func (p *pool) ListAndWatch(_ *deviceplugin.Empty, stream deviceplugin.DevicePlugin_ListAndWatchServer) error {
	if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (p *pool) Allocate(_ context.Context, r *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	response := &deviceplugin.AllocateResponse{}
	for _, container := range r.ContainerRequests {
		visible := strings.Join(container.DevicesIds, ",")
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": visible},
		})
	}
	return response, nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
