// Package finalizer calls functions for the finalizers of an object that is being deleted.
package finalizer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// Result says what a finalizer has changed in the object. The caller writes these changes.
type Result struct {
	// Updated is true if something other than the status has changed.
	Updated bool
	// StatusUpdated is true if the status has changed.
	StatusUpdated bool
}

// Finalizer cleans up before an object is deleted.
type Finalizer interface {
	Finalize(context.Context, client.Object) (Result, error)
}

// Registerer has finalizers by their names.
type Registerer interface {
	// Register adds a finalizer. The name must be new.
	Register(key string, f Finalizer) error
}

// Finalizers runs finalizers. For an object that is being deleted, Finalize runs the finalizers that the object has,
// and removes their names. To any other object, it adds the names of all finalizers.
type Finalizers interface {
	Registerer
	Finalizer
}

// NewFinalizers returns Finalizers without any finalizer.
func NewFinalizers() Finalizers { return finalizers{} }

type finalizers map[string]Finalizer

func (all finalizers) Register(key string, f Finalizer) error {
	if all[key] != nil {
		return fmt.Errorf("there is a finalizer %q already", key)
	}
	all[key] = f
	return nil
}

func (all finalizers) Finalize(ctx context.Context, obj client.Object) (result Result, err error) {
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(all)) {
		finalizer := all[key]
		if obj.GetDeletionTimestamp().IsZero() {
			result.Updated = controllerutil.AddFinalizer(obj, key) || result.Updated
			continue
		}
		if !controllerutil.ContainsFinalizer(obj, key) {
			continue
		}
		one, err := finalizer.Finalize(ctx, obj)
		result.Updated = result.Updated || one.Updated
		result.StatusUpdated = result.StatusUpdated || one.StatusUpdated
		if err != nil {
			errs = append(errs, fmt.Errorf("finalizer %q: %w", key, err))
			continue
		}
		controllerutil.RemoveFinalizer(obj, key)
		result.Updated = true
	}
	return result, errors.Join(errs...)
}
