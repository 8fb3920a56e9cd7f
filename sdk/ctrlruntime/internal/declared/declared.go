// Package declared has descriptions of predicates and handlers that the manifest can express. The host then evaluates
// them without calling the plugin.
package declared

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"windlass.dev/sdk/manifest"
)

// The packages whose types may describe themselves.
const (
	predicates = "sigs.k8s.io/controller-runtime/pkg/predicate"
	handlers   = "sigs.k8s.io/controller-runtime/pkg/handler"
)

// Updates are the predicates of a manifest's watch. One alternative is enough, and all predicates of an alternative
// must accept the update.
type Updates struct{ alternatives [][]manifest.Predicate }

// Predicates returns an alternative that consists of these predicates. Without any, it accepts every update.
func Predicates(predicates ...manifest.Predicate) *Updates {
	return &Updates{[][]manifest.Predicate{predicates}}
}

// And accepts the updates that both accept.
func (updates *Updates) And(other *Updates) *Updates {
	both := &Updates{}
	for _, one := range updates.alternatives {
		for _, another := range other.alternatives {
			both.alternatives = append(both.alternatives, append(append([]manifest.Predicate(nil), one...), another...))
		}
	}
	return both
}

// Or accepts the updates that at least one of the two accepts.
func (updates *Updates) Or(other *Updates) *Updates {
	return &Updates{append(append([][]manifest.Predicate(nil), updates.alternatives...), other.alternatives...)}
}

// Watch returns the predicates for a watch in the manifest. It returns none if every update is accepted.
func (updates *Updates) Watch() (predicates []manifest.Predicate) {
	for _, alternative := range updates.alternatives {
		switch len(alternative) {
		case 0:
			return nil
		case 1:
			predicates = append(predicates, alternative[0])
		default:
			predicates = append(predicates, manifest.And(alternative...))
		}
	}
	return predicates
}

// OfPredicate returns the updates that a predicate accepts, if the predicate describes them and accepts all creations
// and deletions. It returns nil for a predicate that only code can evaluate.
func OfPredicate(predicate any) *Updates {
	if says, is := own(predicate, predicates).(interface{ DeclaredUpdates() *Updates }); is {
		return says.DeclaredUpdates()
	}
	return nil
}

// Mapping is how a handler maps objects to requests.
type Mapping struct {
	// SameName maps each object to the request with its name.
	SameName bool
	// Owner is the kind of the owners to which objects are mapped.
	Owner schema.GroupKind
	// OnlyController restricts the owners to the controller.
	OnlyController bool
}

// OfHandler returns the mapping that a handler describes, or nil if only its code can map objects.
func OfHandler(handler any) *Mapping {
	if says, is := own(handler, handlers).(interface{ DeclaredMapping() *Mapping }); is {
		return says.DeclaredMapping()
	}
	return nil
}

// own returns the value if its type belongs to the package, and otherwise nil. A type that only embeds a type of the
// package may override its methods, so the inherited description may be wrong.
func own(value any, of string) any {
	kind := reflect.TypeOf(value)
	if kind != nil && kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	if kind == nil || kind.PkgPath() != of {
		return nil
	}
	return value
}
