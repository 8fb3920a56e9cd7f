// Package predicate has filters for the events of watches.
//
// GenerationChangedPredicate, LabelChangedPredicate, AnnotationChangedPredicate, and And and Or of these, become
// predicates of the plugin's manifest, which the host evaluates. For all other predicates, the host calls the plugin
// about creations and updates. Deletions always count.
package predicate

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/internal/declared"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"windlass.dev/sdk/manifest"
)

// Predicate is a TypedPredicate of any object.
type Predicate = TypedPredicate[client.Object]

// TypedPredicate returns true for the events that count.
type TypedPredicate[object any] interface {
	Create(event.TypedCreateEvent[object]) bool
	// Delete is never called: deletions always count.
	Delete(event.TypedDeleteEvent[object]) bool
	Update(event.TypedUpdateEvent[object]) bool
	// Generic is never called.
	Generic(event.TypedGenericEvent[object]) bool
}

// Funcs is a TypedFuncs of any object.
type Funcs = TypedFuncs[client.Object]

// TypedFuncs is a predicate of functions. Events without a function count.
type TypedFuncs[object any] struct {
	CreateFunc  func(event.TypedCreateEvent[object]) bool
	DeleteFunc  func(event.TypedDeleteEvent[object]) bool
	UpdateFunc  func(event.TypedUpdateEvent[object]) bool
	GenericFunc func(event.TypedGenericEvent[object]) bool
}

func (p TypedFuncs[object]) Create(e event.TypedCreateEvent[object]) bool {
	return p.CreateFunc == nil || p.CreateFunc(e)
}

func (p TypedFuncs[object]) Delete(e event.TypedDeleteEvent[object]) bool {
	return p.DeleteFunc == nil || p.DeleteFunc(e)
}

func (p TypedFuncs[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return p.UpdateFunc == nil || p.UpdateFunc(e)
}

func (p TypedFuncs[object]) Generic(e event.TypedGenericEvent[object]) bool {
	return p.GenericFunc == nil || p.GenericFunc(e)
}

// DeclaredUpdates is for the manifest: functions that filter only deletions are not needed there.
func (p TypedFuncs[object]) DeclaredUpdates() *declared.Updates {
	if p.CreateFunc == nil && p.UpdateFunc == nil {
		return declared.Predicates()
	}
	return nil
}

// NewPredicateFuncs returns a predicate that tests the object of an event. For an update, it tests the new object.
func NewPredicateFuncs(filter func(object client.Object) bool) Funcs {
	return NewTypedPredicateFuncs(filter)
}

// NewTypedPredicateFuncs returns a predicate that tests the object of an event. For an update, it tests the new object.
func NewTypedPredicateFuncs[object any](filter func(object object) bool) TypedFuncs[object] {
	return TypedFuncs[object]{
		CreateFunc:  func(e event.TypedCreateEvent[object]) bool { return filter(e.Object) },
		DeleteFunc:  func(e event.TypedDeleteEvent[object]) bool { return filter(e.Object) },
		UpdateFunc:  func(e event.TypedUpdateEvent[object]) bool { return filter(e.ObjectNew) },
		GenericFunc: func(e event.TypedGenericEvent[object]) bool { return filter(e.Object) },
	}
}

// LabelSelectorPredicate returns a predicate that accepts objects with matching labels.
func LabelSelectorPredicate(s metav1.LabelSelector) (Predicate, error) {
	selector, err := metav1.LabelSelectorAsSelector(&s)
	if err != nil {
		return Funcs{}, err
	}
	return NewPredicateFuncs(func(object client.Object) bool { return selector.Matches(labels.Set(object.GetLabels())) }), nil
}

// updates returns the description of a predicate for updates, or nil if the author has set a function for creations.
func (p TypedFuncs[object]) updates(accepted ...manifest.Predicate) *declared.Updates {
	if p.CreateFunc != nil {
		return nil
	}
	return declared.Predicates(accepted...)
}

// ResourceVersionChangedPredicate is a TypedResourceVersionChangedPredicate of any object.
type ResourceVersionChangedPredicate = TypedResourceVersionChangedPredicate[client.Object]

// TypedResourceVersionChangedPredicate accepts updates with another resourceVersion. The host reports no other updates.
type TypedResourceVersionChangedPredicate[T metav1.Object] struct {
	TypedFuncs[T]
}

func (TypedResourceVersionChangedPredicate[T]) Update(e event.TypedUpdateEvent[T]) bool {
	return e.ObjectNew.GetResourceVersion() != e.ObjectOld.GetResourceVersion()
}

// DeclaredUpdates is for the manifest.
func (p TypedResourceVersionChangedPredicate[T]) DeclaredUpdates() *declared.Updates {
	return p.updates()
}

// GenerationChangedPredicate is a TypedGenerationChangedPredicate of any object.
type GenerationChangedPredicate = TypedGenerationChangedPredicate[client.Object]

// TypedGenerationChangedPredicate accepts updates of the desired state.
type TypedGenerationChangedPredicate[object metav1.Object] struct {
	TypedFuncs[object]
}

func (TypedGenerationChangedPredicate[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return e.ObjectNew.GetGeneration() != e.ObjectOld.GetGeneration()
}

// DeclaredUpdates is for the manifest.
func (p TypedGenerationChangedPredicate[object]) DeclaredUpdates() *declared.Updates {
	return p.updates(manifest.GenerationChanged)
}

// AnnotationChangedPredicate is a TypedAnnotationChangedPredicate of any object.
type AnnotationChangedPredicate = TypedAnnotationChangedPredicate[client.Object]

// TypedAnnotationChangedPredicate accepts updates of annotations.
type TypedAnnotationChangedPredicate[object metav1.Object] struct {
	TypedFuncs[object]
}

func (TypedAnnotationChangedPredicate[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return !maps.Equal(e.ObjectNew.GetAnnotations(), e.ObjectOld.GetAnnotations())
}

// DeclaredUpdates is for the manifest.
func (p TypedAnnotationChangedPredicate[object]) DeclaredUpdates() *declared.Updates {
	return p.updates(manifest.AnnotationsChanged)
}

// LabelChangedPredicate is a TypedLabelChangedPredicate of any object.
type LabelChangedPredicate = TypedLabelChangedPredicate[client.Object]

// TypedLabelChangedPredicate accepts updates of labels.
type TypedLabelChangedPredicate[object metav1.Object] struct {
	TypedFuncs[object]
}

func (TypedLabelChangedPredicate[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return !maps.Equal(e.ObjectNew.GetLabels(), e.ObjectOld.GetLabels())
}

// DeclaredUpdates is for the manifest.
func (p TypedLabelChangedPredicate[object]) DeclaredUpdates() *declared.Updates {
	return p.updates(manifest.LabelsChanged)
}
