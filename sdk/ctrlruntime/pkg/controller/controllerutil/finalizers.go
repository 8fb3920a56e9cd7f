package controllerutil

import (
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddFinalizer adds a finalizer, and returns false if the object has it already. It sends nothing.
func AddFinalizer(o client.Object, finalizer string) (finalizersUpdated bool) {
	if ContainsFinalizer(o, finalizer) {
		return false
	}
	o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	return true
}

// RemoveFinalizer removes a finalizer, and returns false if the object does not have it. It sends nothing.
func RemoveFinalizer(o client.Object, finalizer string) (finalizersUpdated bool) {
	if !ContainsFinalizer(o, finalizer) {
		return false
	}
	rest := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(one string) bool { return one == finalizer })
	o.SetFinalizers(rest)
	return true
}

// ContainsFinalizer reports whether an object has a finalizer.
func ContainsFinalizer(o client.Object, finalizer string) bool {
	return slices.Contains(o.GetFinalizers(), finalizer)
}
