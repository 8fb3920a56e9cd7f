// The WebApp plugin as a composer: a function that computes the desired children of a WebApp.
package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"windlass.dev/sdk"
	"windlass.dev/sdk/clock"
	"windlass.dev/sdk/composer"
	"windlass.dev/sdk/conditions"
	"windlass.dev/sdk/manifest"
)

var plugin = manifest.Manifest{
	Name:    "webapp-composite-go",
	Version: "0.1.0",
	Controllers: []manifest.Controller{{
		Name: "webapp",
		Primary: manifest.Watch{
			APIVersion: "apps.kubedojo.io/v1beta1", Kind: "WebApp", Predicates: []manifest.Predicate{manifest.GenerationChanged},
		},
		Owns: []manifest.Watch{{APIVersion: "apps/v1", Kind: "Deployment"}, {APIVersion: "v1", Kind: "Service"}},
	}},
}

func init() { composer.Register(plugin, compose) }

func main() {}

// WebApp is an application that answers HTTP. The CRD, which sets defaults and bounds, is in examples/webapp/crd.yaml.
type WebApp struct {
	Metadata windlass.Metadata
	Spec     struct {
		Image          string
		Replicas, Port int64
	}
	Status Status
}

// Status is the status that the composer last returned.
type Status struct {
	// ObservedGeneration is the generation that the other fields are about; nil before the first reconcile.
	ObservedGeneration *int64                 `json:"observedGeneration"`
	ReadyReplicas      int64                  `json:"readyReplicas"`
	Phase              string                 `json:"phase"`
	Conditions         []conditions.Condition `json:"conditions"`
}

type (
	object = windlass.Object
	list   = []any
)

func compose(_ context.Context, request composer.Request) (composer.Composition, error) {
	var app WebApp
	if err := request.Parent(&app); err != nil || request.Deleting {
		return composer.Composition{}, err
	}
	deployment, service := children(&app)
	running, err := child(request, app.Metadata.Beside("apps/v1", "Deployment"))
	if err != nil {
		return composer.Composition{}, err
	}
	serving, err := child(request, app.Metadata.Beside("v1", "Service"))
	if err != nil {
		return composer.Composition{}, err
	}
	problem := ""
	if strings.TrimSpace(app.Spec.Image) == "" {
		problem = "spec.image is empty"
	}
	status := statusOf(&app, deployment, running, problem)
	if problem != "" {
		// Without AllowEmpty, an answer without children leaves the existing ones.
		composition := composer.Composition{Status: status}
		if !slices.Equal(status.Conditions, app.Status.Conditions) {
			composition.Events = []composer.Event{composer.Warning("Invalid", "Reconcile", problem)}
		}
		return composition, nil
	}
	events := slices.Concat(change(&app, deployment, running), change(&app, service, serving))
	return composer.Composition{Children: list{deployment, service}, Status: status, Events: events}, nil
}

// child returns the child that a reference names; nil if it does not exist.
func child(request composer.Request, target windlass.Ref) (object, error) {
	found, err := composer.Child[object](request, target)
	if found == nil {
		return nil, err
	}
	return *found, err
}

// children returns the desired Deployment and Service of a WebApp.
func children(app *WebApp) (deployment, service object) {
	selector := object{"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.Metadata.Name}
	labels := object{"app.kubernetes.io/managed-by": "windlass"}
	for key, value := range selector {
		labels[key] = value
	}
	port := object{"name": "http", "containerPort": app.Spec.Port, "protocol": "TCP"}
	container := object{"name": "web", "image": strings.TrimSpace(app.Spec.Image), "ports": list{port}}
	template := object{"metadata": object{"labels": labels}, "spec": object{"containers": list{container}}}
	pods := object{"replicas": app.Spec.Replicas, "selector": object{"matchLabels": selector}, "template": template}
	ports := list{object{"name": "http", "port": int64(80), "targetPort": "http", "protocol": "TCP"}}
	metadata := object{"name": app.Metadata.Name, "namespace": app.Metadata.Namespace, "labels": labels}
	return object{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": pods},
		object{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": object{"selector": selector, "ports": ports}}
}

// change returns the event for the host's next action on a child; none if there is no action.
func change(app *WebApp, wanted, child object) []composer.Event {
	metadata, _ := child["metadata"].(object)
	seen := app.Status.ObservedGeneration
	reason, action, what := "Healed", "Heal", "was deleted or edited, and is restored"
	switch {
	case child != nil && (windlass.HasFields(child, wanted) || metadata["deletionTimestamp"] != nil):
		return nil
	case seen == nil && child == nil:
		reason, action, what = "Created", "Create", "created"
	case seen == nil || *seen != app.Metadata.Generation:
		reason, action, what = "Updated", "Update", "updated to the new spec"
	}
	return []composer.Event{composer.Normal(reason, action, fmt.Sprintf("%s %s: %s", wanted["kind"], app.Metadata.Name, what))}
}

// statusOf returns the new status, from the Deployment's report about the current spec.
func statusOf(app *WebApp, wanted, deployment object, problem string) Status {
	number := func(part, name string) int64 {
		fields, _ := deployment[part].(object)
		number, _ := fields[name].(int64)
		return number
	}
	readyReplicas, replicas := number("status", "readyReplicas"), app.Spec.Replicas
	isRolledOut := deployment != nil && windlass.HasFields(deployment, wanted) &&
		number("status", "observedGeneration") >= number("metadata", "generation") && number("status", "updatedReplicas") >= replicas
	isReady := problem == "" && isRolledOut && readyReplicas >= replicas

	ready := condition("Ready", isReady, "ReplicasNotReady", fmt.Sprintf("%d of %d replicas are ready", readyReplicas, replicas))
	if isReady {
		ready.Reason = "ReplicasReady"
	}
	progressing := condition("Progressing", true, "RollingOut", "the Deployment is rolling out this spec")
	switch {
	case problem != "":
		ready, progressing = condition("Ready", false, "Invalid", problem), condition("Progressing", false, "Invalid", problem)
	case isRolledOut:
		progressing = condition("Progressing", false, "RolledOut", "the Deployment runs this spec")
	}
	generation, seen := app.Metadata.Generation, app.Status.ObservedGeneration
	phase := "Pending"
	wasReady := app.Status.Phase == "Running" || app.Status.Phase == "Degraded"
	switch {
	case isReady:
		phase = "Running"
	case wasReady && seen != nil && *seen == generation:
		phase = "Degraded"
	}
	return Status{
		ObservedGeneration: &generation, ReadyReplicas: readyReplicas, Phase: phase,
		Conditions: conditions.Set(app.Status.Conditions, generation, clock.Now, ready, progressing),
	}
}

func condition(name string, holds bool, reason, message string) conditions.Condition {
	return conditions.Condition{Type: name, Status: conditions.Status(holds), Reason: reason, Message: message}
}
