package main

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"windlass.dev/sdk"
	"windlass.dev/sdk/conditions"
	"windlass.dev/sdk/windlasstest"
)

// The tests of whole calls use the SDK's host in memory.

var shop = newApp().beside(apiVersion, kind)

// hostWith returns a host that has a WebApp with an image.
func hostWith(t *testing.T, image string) *windlasstest.Host {
	host := windlasstest.New(t)
	host.Put(object{
		"apiVersion": apiVersion, "kind": kind, "metadata": object{"name": "shop", "namespace": "default"},
		"spec": object{"image": image},
	})
	return host
}

// did returns the writes of a call, each as verb and kind, and then the reasons of its events.
func did(host *windlasstest.Host) []string {
	var all []string
	for _, write := range host.Writes() {
		all = append(all, fmt.Sprint(write.Verb, " ", write.Target.Kind, " ", write.Options.Subresource))
	}
	for _, event := range host.Events() {
		all = append(all, event.Reason)
	}
	host.Forget()
	return all
}

func reconciled(t *testing.T, host *windlasstest.Host) windlass.Outcome {
	t.Helper()
	outcome, err := host.Reconcile(reconcile, shop)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func TestANewAppGetsItsChildrenAndAStatus(t *testing.T) {
	host := hostWith(t, "nginx")
	reconciled(t, host)
	for _, write := range host.Writes()[:2] {
		if !write.Options.Owned || !write.Options.Force {
			t.Errorf("the %s is not applied as owned and by force", write.Target.Kind)
		}
	}
	if line := host.Lines()[0]; line.Message != "applied a child" || line.Fields["kind"] != "Deployment" {
		t.Errorf("the log says %+v", line)
	}
	equal(t, "what it did", did(host), []string{"apply Deployment ", "apply Service ", "apply WebApp status", "Created", "Created"})
	equal(t, "the phase", windlasstest.Read[WebApp](host, shop).Status.Phase, Pending)
}

func TestAnUnchangedAppCausesNoWrites(t *testing.T) {
	host := hostWith(t, "nginx")
	reconciled(t, host)
	host.Forget()
	reconciled(t, host)
	if all := did(host); len(all) != 0 {
		t.Errorf("it did %v", all)
	}
}

func TestADeletedChildIsCreatedAgain(t *testing.T) {
	host := hostWith(t, "nginx")
	reconciled(t, host)
	host.Forget()
	host.Remove(newApp().beside("v1", "Service"))
	reconciled(t, host)
	equal(t, "what it did", did(host), []string{"apply Service ", "Healed"})
}

func TestAnEditedSelectorIsRemovedAndHealed(t *testing.T) {
	host := hostWith(t, "nginx")
	reconciled(t, host)
	host.Forget()
	service := host.Object(newApp().beside("v1", "Service"))
	service["spec"].(object)["selector"].(object)["tier"] = "x"
	host.Put(service)
	reconciled(t, host)
	equal(t, "what it did", did(host), []string{"patch Service ", "apply Service ", "Healed"})
}

func TestATakenNameIsReportedOnceAndCheckedAgain(t *testing.T) {
	host := hostWith(t, "nginx")
	host.Put(object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "shop", "namespace": "default"}})
	for _, wanted := range [][]string{{"apply Deployment ", "apply WebApp status", "Created", "NameTaken"}, nil} {
		equal(t, "when it comes again", reconciled(t, host).After(), nameTakenRetry)
		equal(t, "what it did", did(host), wanted)
	}
}

func TestAFailedApplyDoesNotStopTheOtherChild(t *testing.T) {
	host := hostWith(t, "nginx")
	host.Fail("apply", "Deployment", windlass.Conflict)
	_, err := host.Reconcile(reconcile, shop)
	if !windlass.IsConflict(err) {
		t.Errorf("it returned %v", err)
	}
	equal(t, "what it did", did(host), []string{"apply Deployment ", "apply Service ", "Created"})
}

func TestALastingRefusalIsInTheStatus(t *testing.T) {
	host := hostWith(t, "nginx")
	host.Fail("apply", "Service", windlass.Forbidden)
	if _, err := host.Reconcile(reconcile, shop); !windlass.Is(err, windlass.Forbidden) {
		t.Errorf("it returned %v", err)
	}
	condition := conditions.Find(windlasstest.Read[WebApp](host, shop).Status.Conditions, ready)
	equal(t, "the reason", condition.Reason, "ApplyFailed")
	if !slices.Contains(did(host), "ApplyFailed") {
		t.Error("there is no event of it")
	}
}

func TestAnEmptyImageIsATerminalFailure(t *testing.T) {
	host := hostWith(t, " ")
	_, err := host.Reconcile(reconcile, shop)
	if err == nil || !windlass.IsTerminal(err) {
		t.Errorf("it returned %v", err)
	}
	equal(t, "what it did", did(host), []string{"apply WebApp status", "Invalid"})
}

func TestADeletedOrDeletingAppNeedsNothing(t *testing.T) {
	host := windlasstest.New(t)
	if outcome, err := host.Reconcile(reconcile, shop); err != nil || outcome != windlass.Done {
		t.Errorf("it answered %v, %v", outcome, err)
	}
	host.Put(object{
		"apiVersion": apiVersion, "kind": kind, "spec": object{"image": "nginx"},
		"metadata": object{"name": "shop", "namespace": "default", "deletionTimestamp": "2026-11-21T10:48:45Z"},
	})
	if outcome, err := host.Reconcile(reconcile, shop); err != nil || outcome != windlass.Done {
		t.Errorf("it answered %v, %v", outcome, errors.Join(err))
	}
	if all := did(host); len(all) != 0 {
		t.Errorf("it did %v", all)
	}
}
