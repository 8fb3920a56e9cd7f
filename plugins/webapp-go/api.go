package main

import (
	"slices"

	"windlass.dev/sdk"
	"windlass.dev/sdk/conditions"
)

// The WebApp kind. This file has the fields that the plugin reads and writes; the CRD is in examples/webapp/crd.yaml.
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

// Spec is the desired state.
type Spec struct {
	Image    string `json:"image"`
	Replicas int64  `json:"replicas"`
	// Port is the port that the container listens on.
	Port int64 `json:"port"`
}

// defaulted returns an app with the CRD's defaults.
func defaulted() WebApp { return WebApp{Spec: Spec{Replicas: 2, Port: 8080}} }

// Status is the status as this plugin last wrote it.
type Status struct {
	// ObservedGeneration is the generation that the other fields are about; zero before the first reconcile.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	ReadyReplicas      int64 `json:"readyReplicas"`
	// Phase is the state in one word; empty before the first reconcile.
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
	// Pending means that the current spec has not been ready yet.
	Pending Phase = "Pending"
	// Running means that all replicas of the current spec are ready.
	Running Phase = "Running"
	// Degraded means that the current spec was ready, and is not now.
	Degraded Phase = "Degraded"
)

// isChanged reports whether the spec is newer than the spec that the status is about.
func (app *WebApp) isChanged() bool { return app.Status.ObservedGeneration != app.Metadata.Generation }

// beside returns a reference to the object of another kind with the same namespace and name.
func (app *WebApp) beside(apiVersion, kind string) windlass.Ref {
	return app.Metadata.Beside(apiVersion, kind)
}
