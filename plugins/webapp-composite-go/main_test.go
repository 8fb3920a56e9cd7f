package main

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"windlass.dev/sdk"
	"windlass.dev/sdk/composer"
	"windlass.dev/sdk/windlasstest"
)

// The composer is a plain function, so the tests call it directly.

// newApp is a WebApp of generation 1 that was never reconciled.
func newApp() object {
	return object{
		"apiVersion": "apps.kubedojo.io/v1beta1", "kind": "WebApp",
		"metadata": object{"name": "shop", "namespace": "default", "uid": "u-1", "generation": int64(1)},
		"spec":     object{"image": "nginx", "replicas": int64(2), "port": int64(8080)},
	}
}

func document(value any) json.RawMessage {
	document, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return document
}

func plain(value any) object {
	var plain object
	if err := windlass.Decode(document(value), &plain); err != nil {
		panic(err)
	}
	return plain
}

func composed(t *testing.T, app object, children ...object) composer.Composition {
	t.Helper()
	request := composer.Request{Request: windlass.Request{Controller: "webapp", Namespace: "default", Name: "shop", Raw: document(app)}}
	for _, child := range children {
		request.RawChildren = append(request.RawChildren, document(child))
	}
	composition, err := compose(context.Background(), request)
	if err != nil {
		t.Fatal(err)
	}
	return composition
}

func reasons(composition composer.Composition) []string {
	var all []string
	for _, event := range composition.Events {
		all = append(all, event.Reason)
	}
	return all
}

// stored returns the children as the server stores them, with this many ready replicas in the Deployment.
func stored(t *testing.T, app object, ready int64) []object {
	var all []object
	for _, child := range composed(t, app).Children {
		kept := plain(child)
		kept["metadata"].(object)["generation"] = int64(1)
		kept["spec"].(object)["added"] = "by the server"
		all = append(all, kept)
	}
	all[0]["status"] = object{"observedGeneration": int64(1), "readyReplicas": ready, "updatedReplicas": int64(2)}
	return all
}

func runningApp(t *testing.T) object {
	app := newApp()
	app["status"] = plain(composed(t, newApp(), stored(t, newApp(), 2)...).Status)
	return app
}

// changed changes the image of an app, which becomes generation 2.
func changed(app object, image string) object {
	app["metadata"].(object)["generation"] = int64(2)
	app["spec"].(object)["image"] = image
	return app
}

func equal(t *testing.T, what string, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("%s: got %+v, wanted %+v", what, got, wanted)
	}
}

func phase(composition composer.Composition) string { return composition.Status.(Status).Phase }

func TestANewAppGetsItsChildrenAndIsPending(t *testing.T) {
	windlasstest.New(t)
	composition := composed(t, newApp())
	equal(t, "the children", len(composition.Children), 2)
	equal(t, "the events", reasons(composition), []string{"Created", "Created"})
	equal(t, "the phase", phase(composition), "Pending")
}

func TestTheServiceSelectsThePodsAndNamesTheirPort(t *testing.T) {
	windlasstest.New(t)
	children := composed(t, newApp()).Children
	deployment, service := children[0].(object)["spec"].(object), children[1].(object)["spec"].(object)
	template := deployment["template"].(object)
	if !windlass.HasFields(template["metadata"].(object)["labels"], service["selector"]) {
		t.Error("the Service does not select the Pods")
	}
	equal(t, "the selectors", deployment["selector"].(object)["matchLabels"], service["selector"])
	port := template["spec"].(object)["containers"].(list)[0].(object)["ports"].(list)[0].(object)
	equal(t, "the port's name", service["ports"].(list)[0].(object)["targetPort"], port["name"])
}

func TestAnUnchangedAppReportsNothing(t *testing.T) {
	windlasstest.New(t)
	app := runningApp(t)
	composition := composed(t, app, stored(t, newApp(), 2)...)
	equal(t, "the phase", phase(composition), "Running")
	equal(t, "the events", len(composition.Events), 0)
	equal(t, "the status", plain(composition.Status), app["status"])
}

func TestAChildThatWasDeletedOrEditedIsHealed(t *testing.T) {
	windlasstest.New(t)
	deployment := stored(t, newApp(), 2)[0]
	deployment["spec"].(object)["replicas"] = int64(7)
	composition := composed(t, runningApp(t), deployment)
	equal(t, "the events", reasons(composition), []string{"Healed", "Healed"})
	equal(t, "the phase", phase(composition), "Degraded")
}

func TestADeletingChildCausesNoEventUntilItIsGone(t *testing.T) {
	windlasstest.New(t)
	children := stored(t, newApp(), 2)
	children[1]["metadata"].(object)["deletionTimestamp"] = "2026-11-21T10:48:45Z"
	children[1]["spec"].(object)["ports"] = list{}
	equal(t, "the events", len(composed(t, runningApp(t), children...).Events), 0)
}

func TestAChangedSpecUpdatesTheChildrenAndIsPending(t *testing.T) {
	windlasstest.New(t)
	composition := composed(t, changed(runningApp(t), "nginx:2"), stored(t, newApp(), 2)...)
	equal(t, "the events", reasons(composition), []string{"Updated"})
	equal(t, "the phase", phase(composition), "Pending")
	equal(t, "the generation", *composition.Status.(Status).ObservedGeneration, int64(2))
}

func TestAnAppThatLosesAReplicaIsDegraded(t *testing.T) {
	windlasstest.New(t)
	status := composed(t, runningApp(t), stored(t, newApp(), 1)...).Status.(Status)
	equal(t, "the phase", status.Phase, "Degraded")
	equal(t, "the message", status.Conditions[0].Message, "1 of 2 replicas are ready")
}

func TestAnEmptyImageKeepsTheChildrenAndIsReportedOnce(t *testing.T) {
	windlasstest.New(t)
	app := changed(runningApp(t), " \t")
	composition := composed(t, app, stored(t, newApp(), 2)...)
	equal(t, "the children", len(composition.Children), 0)
	equal(t, "the event", composition.Events, []composer.Event{composer.Warning("Invalid", "Reconcile", "spec.image is empty")})
	status := composition.Status.(Status)
	for _, condition := range status.Conditions {
		equal(t, condition.Type, []string{condition.Status, condition.Reason}, []string{"False", "Invalid"})
	}
	equal(t, "the phase", status.Phase, "Pending")
	app["status"] = plain(status)
	equal(t, "the events when it is known", len(composed(t, app).Events), 0)
}

func TestADeletingAppIsLeftToTheGarbageCollector(t *testing.T) {
	request := composer.Request{Request: windlass.Request{Deleting: true, Raw: document(newApp())}}
	composition, err := compose(context.Background(), request)
	if err != nil || len(composition.Children) != 0 || composition.Status != nil {
		t.Errorf("it answered %+v, %v", composition, err)
	}
}
