package main

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/conditions"
	"windlass.dev/sdk/writes"
)

// The tests of the pure parts: the desired children, the decisions about them, and the status.

func now() time.Time { return time.Date(2026, 11, 21, 10, 48, 45, 0, time.UTC) }

// newApp is a WebApp of generation 1 that was never reconciled.
func newApp() *WebApp {
	app := defaulted()
	app.Metadata = windlass.Metadata{Name: "shop", Namespace: "default", UID: "u-1", Generation: 1}
	app.Spec.Image = "nginx"
	return &app
}

// runningApp is an app like newApp, whose replicas have become ready.
func runningApp() *WebApp {
	app := newApp()
	app.Status = statusOf(app, readyDeployment(app), nil, now)
	return app
}

// copied returns an object in the form in which the host returns it.
func copied(of object) object {
	document, err := json.Marshal(of)
	if err != nil {
		panic(err)
	}
	var copy object
	if err := windlass.Decode(document, &copy); err != nil {
		panic(err)
	}
	return copy
}

// stored returns a child as the server stores it, with defaults and an owner.
func stored(wanted object) object {
	stored := copied(wanted)
	metadata := stored["metadata"].(object)
	metadata["resourceVersion"], metadata["generation"] = "7", int64(1)
	metadata["ownerReferences"] = list{object{"uid": "u-1", "controller": true}}
	stored["spec"].(object)["sessionAffinity"] = "None"
	return stored
}

func readyDeployment(app *WebApp) object {
	deployment := stored(deploymentOf(app).wanted)
	deployment["status"] = object{"observedGeneration": int64(1), "readyReplicas": int64(2), "updatedReplicas": int64(2)}
	return deployment
}

func equal(t *testing.T, what string, got, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("%s: got %+v, wanted %+v", what, got, wanted)
	}
}

func TestThePluginsDefaultsEqualThoseOfTheSchema(t *testing.T) {
	app := newApp()
	equal(t, "the defaults", []int64{app.Spec.Replicas, app.Spec.Port}, []int64{2, 8080})
}

func TestTheServiceSelectsThePodsAndNamesTheirPort(t *testing.T) {
	app := newApp()
	deployment := deploymentOf(app).wanted["spec"].(object)
	service := serviceOf(app).wanted["spec"].(object)
	template := deployment["template"].(object)
	if !windlass.HasFields(template["metadata"].(object)["labels"], service["selector"]) {
		t.Error("the Service does not select the Pods")
	}
	equal(t, "the selectors", deployment["selector"].(object)["matchLabels"], service["selector"])
	port := template["spec"].(object)["containers"].(list)[0].(object)["ports"].(list)[0].(object)
	equal(t, "the port's name", service["ports"].(list)[0].(object)["targetPort"], port["name"])
	equal(t, "the port", port["containerPort"], int64(8080))
}

func TestDecisions(t *testing.T) {
	metadata := func(edit func(object)) func(object) {
		return func(service object) { edit(service["metadata"].(object)) }
	}
	spec := func(edit func(object)) func(object) {
		return func(service object) { edit(service["spec"].(object)) }
	}
	for _, each := range []struct {
		what   string
		app    *WebApp
		edit   func(object)
		wanted Decision
	}{
		{"a child that is as it should be is left alone", runningApp(), func(object) {}, Leave},
		{"what others add to a child is left alone", runningApp(), metadata(func(it object) { it["labels"].(object)["team"] = "a" }), Leave},
		{"an edited port is healed", runningApp(), spec(func(it object) { it["ports"].(list)[0].(object)["port"] = int64(81) }), Heal},
		{"a selector with more in it is healed", runningApp(), spec(func(it object) { it["selector"].(object)["tier"] = "x" }), Heal},
		{"a child that is going is left until it is gone", runningApp(), func(it object) {
			it["metadata"].(object)["deletionTimestamp"] = "2026-11-21T10:48:45Z"
			it["spec"].(object)["ports"] = list{}
		}, Leave},
		{"an object of someone else is not taken over", newApp(), metadata(func(it object) {
			it["ownerReferences"] = list{object{"uid": "u-2", "controller": true}}
		}), NameTaken},
		{"an object made by hand is not taken over", newApp(), func(it object) { it["metadata"] = object{"name": "shop"} }, NameTaken},
		{"an orphan with our labels is taken back", runningApp(), metadata(func(it object) { it["ownerReferences"] = list{} }), Heal},
	} {
		t.Run(each.what, func(t *testing.T) {
			service := serviceOf(each.app)
			cached := stored(service.wanted)
			each.edit(cached)
			equal(t, "the decision", decide(each.app, service, cached), each.wanted)
		})
	}
}

func TestAMissingChildIsCreatedFirstAndHealedLater(t *testing.T) {
	equal(t, "a new app", decide(newApp(), serviceOf(newApp()), nil), Create)
	equal(t, "a running app", decide(runningApp(), serviceOf(newApp()), nil), Heal)
}

func TestAChildOfAnotherSpecIsUpdated(t *testing.T) {
	app := runningApp()
	deployment := readyDeployment(app)
	app.Spec.Replicas, app.Metadata.Generation = 5, 2
	equal(t, "the decision", decide(app, deploymentOf(app), deployment), Update)
}

func TestAChangedPortIsRemovedBeforeTheApply(t *testing.T) {
	deployment := deploymentOf(runningApp()).wanted
	edited := stored(deployment)
	pod := edited["spec"].(object)["template"].(object)["spec"].(object)
	pod["containers"] = list{
		object{"name": "sidecar", "ports": list{object{"containerPort": int64(1)}}},
		object{"name": "web", "image": "nginx", "ports": list{object{"name": "http", "containerPort": int64(81), "protocol": "TCP"}}},
	}
	web := deployment["spec"].(object)["template"].(object)["spec"].(object)["containers"].(list)[0].(object)
	cut := writes.Step{Op: "replace", Path: "/spec/template/spec/containers/1/ports", Value: web["ports"]}
	equal(t, "the patch", surplus(edited, deployment), []writes.Step{cut})
	if steps := surplus(stored(deployment), deployment); len(steps) != 0 {
		t.Errorf("there is nothing to cut: %v", steps)
	}
}

// withReady returns the status of an app whose Deployment has this many ready replicas.
func withReady(app *WebApp, replicas int64) Status {
	deployment := readyDeployment(newApp())
	deployment["status"].(object)["readyReplicas"] = replicas
	return statusOf(app, deployment, nil, now)
}

func TestANewAppIsPendingUntilAllReplicasAreReady(t *testing.T) {
	pending := withReady(newApp(), 1)
	equal(t, "the phase", pending.Phase, Pending)
	equal(t, "the count", pending.ReadyReplicas, int64(1))
	equal(t, "the message", conditions.Find(pending.Conditions, ready).Message, "1 of 2 replicas are ready")
	equal(t, "the phase when all are", runningApp().Status.Phase, Running)
}

func TestAnAppThatLosesAReplicaIsDegradedUntilItIsBack(t *testing.T) {
	app := runningApp()
	app.Status = withReady(app, 1)
	equal(t, "the phase", app.Status.Phase, Degraded)
	equal(t, "the phase when it is back", withReady(app, 2).Phase, Running)
}

func TestARunningAppThatIsScaledUpIsPendingNotDegraded(t *testing.T) {
	app := runningApp()
	app.Spec.Replicas, app.Metadata.Generation = 4, 2
	scaled := withReady(app, 2)
	equal(t, "the phase", scaled.Phase, Pending)
	equal(t, "the generation", scaled.ObservedGeneration, int64(2))
	equal(t, "whether it is progressing", conditions.IsTrue(scaled.Conditions, progressing), true)
}

func TestADeploymentStatusForAnOlderSpecDoesNotCount(t *testing.T) {
	deployment := readyDeployment(newApp())
	deployment["metadata"].(object)["generation"] = int64(2)
	equal(t, "the phase", statusOf(newApp(), deployment, nil, now).Phase, Pending)
}

func TestAnUnchangedStatusStaysEqualOverTime(t *testing.T) {
	app := runningApp()
	later := statusOf(app, readyDeployment(app), nil, func() time.Time {
		t.Error("the time was read, so the call cannot be saved")
		return now()
	})
	equal(t, "whether it is equal", later.equals(app.Status), true)
}

func TestAnEmptyImageIsAProblemThatIsReportedOnce(t *testing.T) {
	app := newApp()
	if problem := specProblem(app.Spec); problem != nil {
		t.Fatalf("there is none: %v", problem)
	}
	app.Spec.Image = " \t"
	problem := specProblem(app.Spec)
	equal(t, "whether it is news", problem.isNews(app), true)
	app.Status = statusOf(app, nil, problem, now)
	equal(t, "whether it is news again", problem.isNews(app), false)
	known := conditions.Find(app.Status.Conditions, ready)
	equal(t, "the condition", []string{known.Status, known.Reason}, []string{"False", "Invalid"})
}

func TestOnlyALastingRefusalIsAProblem(t *testing.T) {
	for reason, lasts := range map[windlass.Reason]bool{
		windlass.Invalid: true, windlass.Conflict: false, windlass.ServerError: false, windlass.NotGranted: true,
	} {
		err := &windlass.APIError{Code: 400, Reason: reason, StatusReason: "Reason", Message: "message", Verb: "patch", Resource: "services"}
		equal(t, reason.String(), lastingProblem(err) != nil, lasts)
	}
}
