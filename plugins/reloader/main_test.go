package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/windlasstest"
)

// The tests of whole calls use the SDK's host in memory.

type object = windlass.Object

var web = windlass.Ref{APIVersion: "apps/v1", Kind: deployment, Namespace: "shop", Name: "web"}

// put stores a Deployment that uses the ConfigMap app, with annotations.
func put(host *windlasstest.Host, annotations object) {
	container := object{"name": "web", "envFrom": []any{object{"configMapRef": object{"name": "app"}}}}
	template := object{"metadata": object{"labels": object{"app": "web"}}, "spec": object{"containers": []any{container}}}
	host.Put(object{
		"apiVersion": "apps/v1", "kind": deployment, "spec": object{"template": template},
		"metadata": object{"name": "web", "namespace": "shop", "annotations": annotations},
	})
}

// putSource stores a source as the cache keeps it. Its digest is a letter, repeated.
func putSource(host *windlasstest.Host, ref Ref, digest string, labels object) {
	host.Put(object{
		"apiVersion": "v1", "kind": string(ref.kind), "digest": "sha256:" + strings.Repeat(digest, 64),
		"metadata": object{"name": ref.name, "namespace": "shop", "labels": labels},
	})
}

// stateOf is the state of a source with this digest.
func stateOf(ref Ref, digest string) string {
	return (&Settings{}).stateOf(ref, "shop", &Source{Digest: "sha256:" + strings.Repeat(digest, 64)})
}

func reconciled(t *testing.T, host *windlasstest.Host) windlass.Outcome {
	t.Helper()
	outcome, err := host.Reconcile(reconcile, web)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

// reasons returns the reasons of the events since the last call.
func reasons(host *windlasstest.Host) []string {
	var all []string
	for _, event := range host.Events() {
		all = append(all, event.Reason)
	}
	host.Forget()
	return all
}

// environment returns the names of the variables of the first container.
func environment(host *windlasstest.Host) []string {
	var all []string
	for _, variable := range windlasstest.Read[Workload](host, web).Spec.Template.Spec.Containers[0].Env {
		all = append(all, variable.Name)
	}
	return all
}

func TestAnotherDigestKeyReplacesNoPods(t *testing.T) {
	host := windlasstest.New(t)
	put(host, object{auto: "true"})
	putSource(host, app, "a", nil)
	reconciled(t, host)
	before := windlasstest.Read[Workload](host, web).Metadata.Annotations[seen]
	host.Configure(object{"digestKey": strings.Repeat("k", 32)})
	host.Forget()
	reconciled(t, host)
	equal(t, "the events", len(reasons(host)), 0)
	equal(t, "whether seen is the same", windlasstest.Read[Workload](host, web).Metadata.Annotations[seen] == before, false)
	putSource(host, app, "b", nil)
	reconciled(t, host)
	equal(t, "the events after a change", reasons(host), []string{"Reloaded"})
}

func TestAChangeReloadsAndTheFirstSightDoesNot(t *testing.T) {
	host := windlasstest.New(t)
	put(host, object{auto: "true"})
	putSource(host, app, "a", nil)
	reconciled(t, host)
	equal(t, "the environment at first", len(environment(host)), 0)
	seenAt := windlasstest.Read[Workload](host, web).Metadata.Annotations[seen]
	equal(t, "what it has seen", seenAt, `{"version":2,"sources":{"ConfigMap/app":"`+stateOf(app, "a")+`"}}`)
	equal(t, "the events at first", len(reasons(host)), 0)

	putSource(host, app, "b", nil)
	reconciled(t, host)
	equal(t, "the environment", environment(host), []string{"STAKATER_APP_CONFIGMAP"})
	equal(t, "the version", host.Writes()[0].Options.ResourceVersion != "", true)
	equal(t, "the events", reasons(host), []string{"Reloaded"})
	reconciled(t, host)
	equal(t, "the writes without a change", len(host.Writes()), 0)
}

func TestAWorkloadWithoutAnnotationsIsNotWritten(t *testing.T) {
	host := windlasstest.New(t)
	put(host, nil)
	putSource(host, app, "a", nil)
	reconciled(t, host)
	equal(t, "the writes", len(host.Writes()), 0)
}

func TestAWorkloadThatOptsOutLosesTheAnnotation(t *testing.T) {
	for what, settings := range map[string]object{"no annotation": {}, "an ignored namespace": {"ignoreNamespaces": []any{"shop"}}} {
		host := windlasstest.New(t)
		host.Configure(settings)
		annotations := object{seen: Seen{"ConfigMap/app": "1"}.text(&Settings{})}
		if what != "no annotation" {
			annotations[auto] = "true"
		}
		put(host, annotations)
		putSource(host, app, "a", nil)
		reconciled(t, host)
		if _, has := windlasstest.Read[Workload](host, web).Metadata.Annotations[seen]; has {
			t.Errorf("%s: it still has it", what)
		}
		equal(t, what, len(environment(host)), 0)
	}
}

func TestMistakesAreToldAndTheRestGoesOn(t *testing.T) {
	host := windlasstest.New(t)
	put(host, object{
		"configmap.reloader.stakater.com/reload": "(,app", pausePeriod: "soon", seen: Seen{"ConfigMap/app": "1"}.text(&Settings{}),
	})
	putSource(host, app, "a", nil)
	reconciled(t, host)
	equal(t, "the events", reasons(host), []string{"InvalidAnnotation", "InvalidAnnotation", "Reloaded"})
}

func TestAPatternFindsNewSources(t *testing.T) {
	host := windlasstest.New(t)
	put(host, object{"secret.reloader.stakater.com/reload": "key-.*"})
	for _, name := range []string{"key-1", "key-2", "other"} {
		putSource(host, Ref{Secret, name}, "a", nil)
	}
	reconciled(t, host)
	equal(t, "what it has seen", len(seenBy(windlasstest.Read[Workload](host, web), &Settings{})), 2)
}

func TestOnlySelectedSourcesCount(t *testing.T) {
	host := windlasstest.New(t)
	host.Configure(object{"resourceLabelSelector": "reload=yes"})
	put(host, object{auto: "true", "configmap.reloader.stakater.com/reload": "more"})
	putSource(host, app, "a", object{"reload": "no"})
	putSource(host, Ref{ConfigMap, "more"}, "a", object{"reload": "yes"})
	reconciled(t, host)
	seenNow := seenBy(windlasstest.Read[Workload](host, web), &Settings{})
	equal(t, "what it has seen", seenNow, Seen{"ConfigMap/more": stateOf(Ref{ConfigMap, "more"}, "a")})
}

func TestAPauseAsksForAnotherCall(t *testing.T) {
	host := windlasstest.New(t)
	put(host, object{auto: "true", pausePeriod: "5m", seen: Seen{"ConfigMap/app": "1"}.text(&Settings{})})
	putSource(host, app, "a", nil)
	equal(t, "the next call", reconciled(t, host).After(), 5*time.Minute)
	equal(t, "the environment in the pause", len(environment(host)), 0)
	host.Time = host.Time.Add(5 * time.Minute)
	equal(t, "the next call after the pause", reconciled(t, host), windlass.Done)
	equal(t, "the environment after the pause", len(environment(host)), 1)
	equal(t, "the events", reasons(host), []string{"Reloaded"})
}

func TestAPauseOfTheOriginalEndsWithItsPeriod(t *testing.T) {
	for what, it := range map[string]struct {
		period   string
		settings object
		resumes  bool
	}{
		"over":                    {"1m", object{}, true},
		"without a period":        {"", object{}, false},
		"with an unreadable one":  {"soon", object{}, false},
		"in an ignored namespace": {"1m", object{"ignoreNamespaces": []any{"shop"}}, false},
	} {
		host := windlasstest.New(t)
		host.Configure(it.settings)
		put(host, object{pausedAt: "2025-05-06T01:24:17Z", pausePeriod: it.period})
		deployment := host.Object(web)
		deployment["spec"].(windlass.Object)["paused"] = true
		host.Put(deployment)
		reconciled(t, host)
		workload := windlasstest.Read[Workload](host, web)
		equal(t, what, !workload.Spec.Paused, it.resumes)
		equal(t, what+", the annotation", workload.Metadata.Annotations[pausedAt] == "", it.resumes)
		equal(t, what+", the events", slices.Contains(reasons(host), "Resumed"), it.resumes)
	}
}

func TestTooManySourcesAreReported(t *testing.T) {
	host := windlasstest.New(t)
	put(host, object{"configmap.reloader.stakater.com/reload": ".*"})
	for number := range 800 {
		putSource(host, Ref{ConfigMap, strings.Repeat("a", 200) + fmt.Sprint(number)}, "a", nil)
	}
	reconciled(t, host)
	equal(t, "the events", reasons(host), []string{"TooManySources"})
}

func TestFailuresOfTheServerAreReturned(t *testing.T) {
	host := windlasstest.New(t)
	put(host, object{auto: "true"})
	putSource(host, app, "a", nil)
	host.Fail("patch", deployment, windlass.Conflict)
	if _, err := host.Reconcile(reconcile, web); !windlass.IsConflict(err) {
		t.Errorf("%v", err)
	}
	equal(t, "the events", len(reasons(host)), 0)
}

func TestAChangeConcernsWorkloadsThatUseOrNameTheSource(t *testing.T) {
	host := windlasstest.New(t)
	put(host, object{"secret.reloader.stakater.com/reload": "d.*"})
	change := windlasstest.Change("secrets", nil, object{"metadata": object{"name": "db", "namespace": "shop"}})
	change.Controller = "deployments"
	targets, err := toWorkloads(context.Background(), change)
	equal(t, "the error", err, error(nil))
	equal(t, "a target by its name", slices.Contains(targets, windlass.Primary("shop", "web")), true)
	equal(t, "a target by an index", slices.Contains(targets, windlass.Indexed("secret-0", "shop/db")), true)

	workload := host.Object(web)
	template := workload["spec"].(object)["template"].(object)
	template["metadata"] = object{"annotations": object{"secret.reloader.stakater.com/reload": "db"}}
	workload["metadata"].(object)["annotations"] = object{}
	host.Put(workload)
	targets, err = toWorkloads(context.Background(), change)
	equal(t, "the error with a template", err, error(nil))
	equal(t, "a target by its template", slices.Contains(targets, windlass.Primary("shop", "web")), true)
	workload["metadata"].(object)["annotations"] = object{auto: "false"}
	host.Put(workload)
	targets, err = toWorkloads(context.Background(), change)
	equal(t, "the error with an opt-out", err, error(nil))
	equal(t, "a target in spite of an opt-out", slices.Contains(targets, windlass.Primary("shop", "web")), false)

	host.Configure(object{"ignoreNamespaces": []any{"shop"}})
	targets, err = toWorkloads(context.Background(), change)
	equal(t, "the targets in an ignored namespace", len(targets), 0)
	equal(t, "its error", errors.Join(err), error(nil))
}
