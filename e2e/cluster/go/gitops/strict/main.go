// Strict reads manifests of Flux on standard input and fails on a field that Flux does not know.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	kustomizev1 "github.com/fluxcd/kustomize-controller/api/v1"
	sourcev1 "github.com/fluxcd/source-controller/api/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

func main() {
	if err := read(yaml.NewYAMLReader(bufio.NewReader(os.Stdin))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(documents *yaml.YAMLReader) error {
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := decode(document); err != nil {
			return err
		}
	}
}

func decode(document []byte) error {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := sigsyaml.Unmarshal(document, &head); err != nil {
		return err
	}
	known := map[string]any{
		kustomizev1.GroupVersion.String() + " " + kustomizev1.KustomizationKind: &kustomizev1.Kustomization{},
		sourcev1.GroupVersion.String() + " " + sourcev1.GitRepositoryKind:       &sourcev1.GitRepository{},
	}
	into, ok := known[head.APIVersion+" "+head.Kind]
	if !ok {
		return fmt.Errorf("%s of %s is not a kind of Flux", head.Kind, head.APIVersion)
	}
	return sigsyaml.UnmarshalStrict(document, into)
}
