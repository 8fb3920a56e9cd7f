package windlass

import (
	"encoding/json"

	"windlass.dev/sdk/internal/host"
)

// Change is a change of one object of a watch that the plugin's mapper handles (see package reconciler). Its String
// method returns the object, as in "Pod prod/shop-1".
type Change struct {
	// Controller is the controller's name in the manifest.
	Controller string
	// Watch is the name of the watch in the manifest.
	Watch string
	// RawOld is the state before the change. It is empty if the object is new, or part of the watch's first list.
	RawOld json.RawMessage
	// RawNew is the state after the change. It is empty if the object was deleted; then RawOld is its last known state.
	RawNew json.RawMessage
}

// Old decodes the state before the change into value, a pointer to a struct or a map. It returns false if there is no
// such state.
func (change Change) Old(value any) (bool, error) { return state(change.RawOld, value) }

// New decodes the state after the change, like Old. It returns false if the object was deleted.
func (change Change) New(value any) (bool, error) { return state(change.RawNew, value) }

func state(document json.RawMessage, value any) (bool, error) {
	if len(document) == 0 {
		return false, nil
	}
	return true, host.Expect("the changed object", string(document), value)
}

// States decodes the states of a change, the old one first. An update has two states, and any other change has one.
// Handle both: an update also concerns the primaries that only the old state concerned.
func States[T any](change Change) ([]*T, error) {
	var states []*T
	for _, document := range []json.RawMessage{change.RawOld, change.RawNew} {
		value := new(T)
		is, err := state(document, value)
		if err != nil {
			return nil, err
		}
		if is {
			states = append(states, value)
		}
	}
	return states, nil
}

func (change Change) String() string {
	var object struct {
		Kind     string
		Metadata struct{ Name, Namespace string }
	}
	document := change.RawNew
	if len(document) == 0 {
		document = change.RawOld
	}
	// An object that cannot be decoded has no name here. Decoding its state returns the error.
	_, _ = state(document, &object)
	return Ref{Kind: object.Kind, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}.String()
}

// Target selects primaries that a change concerns. Primary and Indexed create one. Targets can be compared with ==.
type Target = host.Target

// Primary selects the primary with this key, which need not exist. The namespace of a cluster-scoped primary is empty.
func Primary(namespace, name string) Target { return Target{Namespace: namespace, Name: name} }

// Indexed selects all primaries with this value in an index that the manifest declares for the primary, in any
// namespace. The value for an index of selectors is a set of labels: "app=web,tier=front" selects the primaries whose
// selector matches these labels. Package labels writes this form.
func Indexed(index, value string) Target { return Target{Index: index, Value: value} }
