package main

import (
	"slices"

	"windlass.dev/sdk"
	"windlass.dev/sdk/conditions"
)

// The WebApp kind, as far as the plugin reads and writes it. The CRD is in examples/webapp/crd.yaml.
const (
	apiVersion = "apps.kubedojo.io/v1beta1"
	kind       = "WebApp"
)

// WebApp is an application that answers HTTP.
type WebApp struct {
	Metadata windlass.Metadata `json:"metadata"`
	Spec     Spec              `json:"spec"`
	Status   Status            `json:"status"`
}

// Spec is what is asked for.
type Spec struct {
	Image    string `json:"image"`
	Replicas int64  `json:"replicas"`
	// Port is what the container listens on.
	Port int64 `json:"port"`
}

// defaulted is an app of which nothing is said. The defaults are the CRD's.
func defaulted() WebApp { return WebApp{Spec: Spec{Replicas: 2, Port: 8080}} }

// Status is what is, as this plugin wrote it last.
type Status struct {
	// ObservedGeneration is the generation that the rest is about; zero: there has been none.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	ReadyReplicas      int64 `json:"readyReplicas"`
	// Phase is the state in one word; empty: not reconciled yet.
	Phase Phase `json:"phase,omitempty"`
	// Conditions are the state in detail: Ready and Progressing.
	Conditions []conditions.Condition `json:"conditions"`
}

func (status Status) equals(other Status) bool {
	return status.ObservedGeneration == other.ObservedGeneration && status.ReadyReplicas == other.ReadyReplicas &&
		status.Phase == other.Phase && slices.Equal(status.Conditions, other.Conditions)
}

// Phase is the state in one word.
type Phase string

// The phases.
const (
	// Pending: this spec has not been ready yet.
	Pending Phase = "Pending"
	// Running: all replicas of this spec are ready.
	Running Phase = "Running"
	// Degraded: this spec was ready, and is not now.
	Degraded Phase = "Degraded"
)

// isChanged says whether the spec is another than the one that the status is about.
func (app *WebApp) isChanged() bool { return app.Status.ObservedGeneration != app.Metadata.Generation }

// beside names an object in the same namespace and of the same name.
func (app *WebApp) beside(apiVersion, kind string) windlass.Ref {
	return app.Metadata.Beside(apiVersion, kind)
}
