// Judge says what Helm, Flux and Argo CD make of an object: a JSON request on standard input, a JSON answer on
// standard output.
//
// Helm and Flux ask kstatus, Flux also evaluates health check expressions; both run here as the libraries they are.
// Argo CD's own packages cannot be imported, so its part is the interpreter that it embeds, with the libraries it opens.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	forked "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/apis/kustomize"
	"github.com/fluxcd/pkg/runtime/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type request struct {
	// Object is what the API server returns.
	Object unstructured.Unstructured `json:"object"`
	// Expressions are Flux's healthCheckExprs for the object's kind.
	Expressions *kustomize.HealthCheckExpressions `json:"expressions"`
	// Script is Argo CD's health.lua for the object's kind.
	Script string `json:"script"`
}

type verdict struct {
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

type answer struct {
	// Kstatus is what the library of the Kubernetes project says.
	Kstatus verdict `json:"kstatus"`
	// Fork is what the library says that Helm 4 and Flux use instead.
	Fork verdict `json:"fork"`
	// Flux is what the expressions say, when there are any.
	Flux *verdict `json:"flux,omitempty"`
	// Argo is what the script returns, when there is one.
	Argo *verdict `json:"argo,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	var asked request
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	said, err := judge(&asked)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(said)
}

func judge(asked *request) (*answer, error) {
	computed, err := kstatus.Compute(&asked.Object)
	if err != nil {
		return nil, fmt.Errorf("kstatus: %w", err)
	}
	fork, err := forked.Compute(&asked.Object)
	if err != nil {
		return nil, fmt.Errorf("Flux's kstatus: %w", err)
	}
	said := &answer{
		Kstatus: verdict{computed.Status.String(), computed.Message},
		Fork:    verdict{fork.Status.String(), fork.Message},
	}
	if asked.Expressions != nil {
		if said.Flux, err = flux(asked); err != nil {
			return nil, fmt.Errorf("healthCheckExprs: %w", err)
		}
	}
	if asked.Script != "" {
		if said.Argo, err = argo(asked); err != nil {
			return nil, fmt.Errorf("health.lua: %w", err)
		}
	}
	return said, nil
}

func flux(asked *request) (*verdict, error) {
	evaluator, err := cel.NewStatusEvaluator(asked.Expressions)
	if err != nil {
		return nil, err
	}
	found, err := evaluator.Evaluate(context.Background(), &asked.Object)
	if err != nil {
		return nil, err
	}
	return &verdict{found.Status.String(), found.Message}, nil
}
