package controller

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/windlass"
	sdk "windlass.dev/sdk"
	"windlass.dev/sdk/windlasstest"

	cronv1 "windlass.dev/plugins/cronjob/api/v1"
)

var (
	setUp sync.Once
	// clock is the time of the reconciler.
	clock time.Time
	// backup is the CronJob of the tests.
	backup = sdk.Ref{APIVersion: "batch.tutorial.kubebuilder.io/v1", Kind: "CronJob", Namespace: "prod", Name: "backup"}
)

// started returns a host for the reconciler, with the definition.
func started(t *testing.T) *windlasstest.Host {
	t.Helper()
	host := windlasstest.New(t)
	setUp.Do(func() {
		scheme := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{batchv1.AddToScheme, cronv1.AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{Scheme: scheme})
		if err != nil {
			t.Fatal(err)
		}
		now := func() time.Time { return clock }
		reconciler := &CronJobReconciler{mgr.GetClient(), mgr.GetScheme(), mgr.GetEventRecorder("cronjob"), now}
		if err := reconciler.SetupWithManager(mgr); err != nil {
			t.Fatal(err)
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		if err := mgr.Start(ended); err != nil {
			t.Fatal(err)
		}
		windlass.Manifest()
	})
	definition, err := os.ReadFile("../crd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	host.Define(string(definition))
	return host
}

// put stores the CronJob of the tests.
func put(host *windlasstest.Host, spec sdk.Object) {
	spec["schedule"] = "0 * * * *"
	spec["jobTemplate"] = sdk.Object{"spec": sdk.Object{"template": sdk.Object{}}}
	host.Put(sdk.Object{
		"apiVersion": backup.APIVersion, "kind": backup.Kind, "spec": spec,
		"metadata": sdk.Object{"name": backup.Name, "namespace": backup.Namespace, "uid": "u", "creationTimestamp": "2026-01-05T18:10:00Z"},
	})
}

// reconciled reconciles at a time, and returns the writes and Events.
func reconciled(t *testing.T, host *windlasstest.Host, now string) (string, sdk.Outcome) {
	t.Helper()
	clock = at(now)
	host.Forget()
	outcome, err := host.Reconcile(windlass.Reconcile, backup)
	if err != nil {
		t.Fatal(err)
	}
	return did(host), outcome
}

// did returns the writes and Events since the last call.
func did(host *windlasstest.Host) string {
	var all []string
	for _, write := range host.Writes() {
		all = append(all, strings.TrimSpace(write.Verb+" "+write.Target.Name+" "+write.Options.Subresource))
	}
	for _, event := range host.Events() {
		all = append(all, event.Reason)
	}
	return strings.Join(all, ", ")
}

func end(host *windlasstest.Host, name string) {
	job := host.Object(sdk.Ref{APIVersion: "batch/v1", Kind: "Job", Namespace: "prod", Name: name})
	job["status"] = sdk.Object{"conditions": []any{sdk.Object{"type": "Complete", "status": "True"}}}
	host.Put(job)
}

func TestARunStartsAtItsTimeAndOnlyOnce(t *testing.T) {
	host := started(t)
	put(host, sdk.Object{})
	first, outcome := reconciled(t, host, "2026-01-05T18:30:00Z")
	equal(t, "before", first, "update backup status")
	equal(t, "the wait", outcome.After(), 30*time.Minute)
	due, _ := reconciled(t, host, "2026-01-05T19:00:00Z")
	equal(t, "at the time", due, "create backup-1767639600, update backup status, JobCreated")
	after, _ := reconciled(t, host, "2026-01-05T19:00:01Z")
	equal(t, "afterwards", after, "")
	end(host, "backup-1767639600")
	ended, _ := reconciled(t, host, "2026-01-05T19:05:00Z")
	equal(t, "when it has ended", ended, "update backup status")
	cronJob := windlasstest.Read[cronv1.CronJob](host, backup)
	equal(t, "the last run", shown(&cronJob.Status.LastScheduleTime.Time), "2026-01-05T19:00:00Z")
}

func TestAJobThatWasDeletedAfterItsEndIsNotStartedAgain(t *testing.T) {
	host := started(t)
	put(host, sdk.Object{"successfulJobsHistoryLimit": 0})
	reconciled(t, host, "2026-01-05T19:00:00Z")
	end(host, "backup-1767639600")
	tidied, _ := reconciled(t, host, "2026-01-05T19:05:00Z")
	equal(t, "the end", tidied, "update backup status, delete backup-1767639600")
	after, _ := reconciled(t, host, "2026-01-05T19:06:00Z")
	equal(t, "afterwards", after, "")
}

func TestAReplacedJobIsDeletedFirst(t *testing.T) {
	host := started(t)
	put(host, sdk.Object{"concurrencyPolicy": "Replace"})
	reconciled(t, host, "2026-01-05T19:00:00Z")
	all, _ := reconciled(t, host, "2026-01-05T20:00:00Z")
	equal(t, "the next run", all, "delete backup-1767639600, create backup-1767643200, update backup status, JobReplaced, JobCreated")
}

func TestARefusedJobIsACondition(t *testing.T) {
	host := started(t)
	put(host, sdk.Object{})
	clock = at("2026-01-05T19:00:00Z")
	for _, wanted := range []string{"create backup-1767639600, update backup status, JobCreationFailed", "create backup-1767639600"} {
		host.Forget()
		host.Fail("create", "Job", sdk.Invalid)
		if _, err := host.Reconcile(windlass.Reconcile, backup); !sdk.Is(err, sdk.Invalid) {
			t.Fatal(err)
		}
		equal(t, "the call", did(host), wanted)
	}
}

func TestAServerErrorIsNoCondition(t *testing.T) {
	host := started(t)
	put(host, sdk.Object{})
	reconciled(t, host, "2026-01-05T18:30:00Z")
	host.Forget()
	host.Fail("create", "Job", sdk.ServerError)
	clock = at("2026-01-05T19:00:00Z")
	if _, err := host.Reconcile(windlass.Reconcile, backup); !sdk.Is(err, sdk.ServerError) {
		t.Fatal(err)
	}
	equal(t, "the call", did(host), "create backup-1767639600")
}

func TestATakenNameIsAConditionAndNotARetry(t *testing.T) {
	host := started(t)
	put(host, sdk.Object{})
	host.Put(sdk.Object{"apiVersion": "batch/v1", "kind": "Job", "metadata": sdk.Object{"name": "backup-1767639600", "namespace": "prod"}})
	all, outcome := reconciled(t, host, "2026-01-05T19:00:00Z")
	equal(t, "the call", all, "update backup status, NameTaken")
	equal(t, "the wait", outcome.After(), time.Hour)
}

func TestABlockedRunIsMissedWhenItsDeadlineHasPassed(t *testing.T) {
	host := started(t)
	put(host, sdk.Object{"concurrencyPolicy": "Forbid", "startingDeadlineSeconds": 600})
	reconciled(t, host, "2026-01-05T19:00:00Z")
	all, outcome := reconciled(t, host, "2026-01-05T20:00:00Z")
	equal(t, "when it is due", all, "")
	equal(t, "the wait", outcome.After(), 601*time.Second)
	all, outcome = reconciled(t, host, "2026-01-05T20:10:01Z")
	equal(t, "when the deadline has passed", all, "update backup status, MissedSchedule")
	equal(t, "the next wait", outcome.After(), 49*time.Minute+59*time.Second)
}

func TestAMisdatedJobStopsNothingAndIsNotRemembered(t *testing.T) {
	host := started(t)
	put(host, sdk.Object{})
	reconciled(t, host, "2026-01-05T19:00:00Z")
	end(host, "backup-1767639600")
	job := host.Object(sdk.Ref{APIVersion: "batch/v1", Kind: "Job", Namespace: "prod", Name: "backup-1767639600"})
	job["metadata"].(sdk.Object)["annotations"] = sdk.Object{cronv1.ScheduledAt: "2099-01-01T00:00:00Z"}
	host.Put(job)
	all, _ := reconciled(t, host, "2026-01-05T19:05:00Z")
	equal(t, "the call", all, "update backup status, JobMisdated")
	last := windlasstest.Read[cronv1.CronJob](host, backup).Status.LastScheduleTime
	equal(t, "the last run", shown(&last.Time), "2026-01-05T19:00:00Z")
	all, _ = reconciled(t, host, "2026-01-05T20:00:00Z")
	equal(t, "the next run", all, "create backup-1767643200, update backup status, JobCreated")
}
