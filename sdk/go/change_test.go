package windlass_test

import (
	"encoding/json"
	"testing"

	"windlass.dev/sdk"
)

type pod struct{ Metadata windlass.Metadata }

func podNamed(name string) json.RawMessage {
	return json.RawMessage(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "` + name + `", "namespace": "prod"}}`)
}

func TestAChangeHasItsExistingStatesOldFirst(t *testing.T) {
	for _, each := range []struct {
		change windlass.Change
		names  []string
	}{
		{windlass.Change{}, nil},
		{windlass.Change{RawNew: podNamed("new")}, []string{"new"}},
		{windlass.Change{RawOld: podNamed("old")}, []string{"old"}},
		{windlass.Change{RawOld: podNamed("old"), RawNew: podNamed("new")}, []string{"old", "new"}},
	} {
		states, err := windlass.States[pod](each.change)
		if err != nil || len(states) != len(each.names) {
			t.Fatal(states, err)
		}
		for place, name := range each.names {
			if states[place].Metadata.Name != name {
				t.Errorf("%s is not %s", states[place].Metadata.Name, name)
			}
		}
	}
}

func TestAStateThatDoesNotFitIsAnError(t *testing.T) {
	change := windlass.Change{RawNew: podNamed("new")}
	var now, before pod
	if is, err := change.New(&now); !is || err != nil || now.Metadata.Name != "new" {
		t.Error(now, is, err)
	}
	if is, err := change.Old(&before); is || err != nil {
		t.Error("a new object had a state before: ", is, err)
	}
	if _, err := windlass.States[struct{ Metadata string }](change); !windlass.IsTerminal(err) {
		t.Error(err)
	}
}

func TestAChangeNamesItsObject(t *testing.T) {
	for _, change := range []windlass.Change{{RawOld: podNamed("a")}, {RawOld: podNamed("b"), RawNew: podNamed("a")}} {
		if text := change.String(); text != "Pod prod/a" {
			t.Error(text)
		}
	}
}

func TestTargetsAreComparedByValue(t *testing.T) {
	if windlass.Primary("prod", "a") != windlass.Primary("prod", "a") || windlass.Primary("", "a") == windlass.Indexed("a", "") {
		t.Error("targets cannot be compared")
	}
	for target, text := range map[windlass.Target]string{
		windlass.Primary("prod", "a"): "prod/a", windlass.Primary("", "a"): "a", windlass.Indexed("by-selector", "app=web"): "by-selector: app=web",
	} {
		if target.String() != text {
			t.Error(target)
		}
	}
}
