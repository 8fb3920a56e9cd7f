package windlass

import (
	"encoding/json"

	"windlass.dev/sdk/internal/host"
)

// Change is a change of one object of a watch that the plugin's mapper maps (see package reconciler). As text it is the object,
// as in "Pod prod/shop-1".
type Change struct {
	// Controller is the controller's name in the manifest.
	Controller string
	// Watch is the name of the watch in the manifest.
	Watch string
	// RawOld is the state before. Empty: the object is new, or part of the watch's first list.
	RawOld json.RawMessage
	// RawNew is the state now. Empty: the object has gone, and RawOld is its last known state.
	RawNew json.RawMessage
}

// Old decodes the state before into value, a pointer to a struct or a map. False: there is none.
func (change Change) Old(value any) (bool, error) { return state(change.RawOld, value) }

// New decodes the state now, like Old. False: the object has gone.
func (change Change) New(value any) (bool, error) { return state(change.RawNew, value) }

func state(document json.RawMessage, value any) (bool, error) {
	if len(document) == 0 {
		return false, nil
	}
	return true, host.Expect("the changed object", string(document), value)
}

// States decodes the states that a change has: the one before, and then the one now. An update has both, and both count: a primary
// that the object concerned before must be told too.
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
	// One that does not fit has an error of its own.
	_, _ = state(document, &object)
	return Ref{Kind: object.Kind, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}.String()
}

// Target is primaries that a change concerns. Primary and Indexed make one; two can be compared by ==.
type Target = host.Target

// Primary is the primary with this key, which need not exist. A cluster-scoped one has no namespace.
func Primary(namespace, name string) Target { return Target{Namespace: namespace, Name: name} }

// Indexed is all primaries with this value in an index that the manifest declares for the primary, in whichever namespace. The
// value of an index of selectors is labels: "app=web,tier=front" finds the selectors that they match. Package labels writes it.
func Indexed(index, value string) Target { return Target{Index: index, Value: value} }
