// Package controllerutil has helpers for owners, finalizers, and objects that may or may not exist.
package controllerutil

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// AlreadyOwnedError says that an object has another controller.
type AlreadyOwnedError struct {
	Object metav1.Object
	Owner  metav1.OwnerReference
}

func (e *AlreadyOwnedError) Error() string {
	return fmt.Sprintf("object %s/%s has another controller, %s %s", e.Object.GetNamespace(), e.Object.GetName(), e.Owner.Kind, e.Owner.Name)
}

// OwnerReferenceOption changes an owner reference.
type OwnerReferenceOption func(*metav1.OwnerReference)

// WithBlockOwnerDeletion sets whether the object keeps its owner from being deleted in the foreground.
func WithBlockOwnerDeletion(blockOwnerDeletion bool) OwnerReferenceOption {
	return func(reference *metav1.OwnerReference) { reference.BlockOwnerDeletion = &blockOwnerDeletion }
}

// SetControllerReference makes the owner the controller of an object. If the object has another controller, the error
// is an AlreadyOwnedError.
func SetControllerReference(owner, controlled metav1.Object, scheme *runtime.Scheme, opts ...OwnerReferenceOption) error {
	reference, err := referenceTo(owner, scheme)
	if err != nil {
		return err
	}
	if err := mayOwn(owner, controlled); err != nil {
		return err
	}
	reference.Controller, reference.BlockOwnerDeletion = new(true), new(true)
	for _, opt := range opts {
		opt(&reference)
	}
	if existing := metav1.GetControllerOf(controlled); existing != nil && !isSame(*existing, reference) {
		return &AlreadyOwnedError{Object: controlled, Owner: *existing}
	}
	put(controlled, reference)
	return nil
}

// SetOwnerReference makes the owner one of the owners of an object.
func SetOwnerReference(owner, object metav1.Object, scheme *runtime.Scheme, opts ...OwnerReferenceOption) error {
	reference, err := referenceTo(owner, scheme)
	if err != nil {
		return err
	}
	if err := mayOwn(owner, object); err != nil {
		return err
	}
	for _, opt := range opts {
		opt(&reference)
	}
	put(object, reference)
	return nil
}

// RemoveOwnerReference removes an owner from an object. It fails if the object does not have it.
func RemoveOwnerReference(owner, object metav1.Object, scheme *runtime.Scheme) error {
	reference, err := referenceTo(owner, scheme)
	if err != nil {
		return err
	}
	references := object.GetOwnerReferences()
	place := placeOf(references, reference)
	if place < 0 {
		return fmt.Errorf("%s is not an owner of %s", owner.GetName(), object.GetName())
	}
	object.SetOwnerReferences(slices.Delete(slices.Clone(references), place, place+1))
	return nil
}

// RemoveControllerReference removes the controller of an object. It fails if the object has another controller, or
// none.
func RemoveControllerReference(owner, object metav1.Object, scheme *runtime.Scheme) error {
	reference, err := referenceTo(owner, scheme)
	if err != nil {
		return err
	}
	existing := metav1.GetControllerOf(object)
	if existing == nil || !isSame(*existing, reference) {
		return fmt.Errorf("%s is not the controller of %s", owner.GetName(), object.GetName())
	}
	return RemoveOwnerReference(owner, object, scheme)
}

// HasControllerReference reports whether an object has a controller.
func HasControllerReference(object metav1.Object) bool {
	return metav1.GetControllerOfNoCopy(object) != nil
}

// HasOwnerReference reports whether an object is one of these owners.
func HasOwnerReference(ownerRefs []metav1.OwnerReference, obj client.Object, scheme *runtime.Scheme) (bool, error) {
	kind, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return false, err
	}
	version, name := kind.ToAPIVersionAndKind()
	return placeOf(ownerRefs, metav1.OwnerReference{APIVersion: version, Kind: name, Name: obj.GetName()}) >= 0, nil
}

// referenceTo is a reference to an owner, not as the controller.
func referenceTo(owner metav1.Object, scheme *runtime.Scheme) (reference metav1.OwnerReference, err error) {
	object, is := owner.(runtime.Object)
	if !is {
		return reference, fmt.Errorf("the owner is a %T, which is not an object", owner)
	}
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return reference, err
	}
	reference.APIVersion, reference.Kind = kind.ToAPIVersionAndKind()
	reference.Name, reference.UID = owner.GetName(), owner.GetUID()
	return reference, nil
}

var (
	errOtherNamespace = errors.New("an owner must be in the namespace of the object, or have no namespace")
	errClusterScoped  = errors.New("an object without a namespace cannot have an owner in one")
)

// mayOwn checks that the garbage collector would find the owner.
func mayOwn(owner, object metav1.Object) error {
	switch {
	case owner.GetNamespace() == "" || owner.GetNamespace() == object.GetNamespace():
		return nil
	case object.GetNamespace() == "":
		return fmt.Errorf("%w: owner %s/%s, object %s", errClusterScoped, owner.GetNamespace(), owner.GetName(), object.GetName())
	}
	return fmt.Errorf("%w: owner %s/%s, object %s/%s", errOtherNamespace, owner.GetNamespace(), owner.GetName(),
		object.GetNamespace(), object.GetName())
}

// put replaces the reference to the same owner, or appends one.
func put(object metav1.Object, reference metav1.OwnerReference) {
	references := slices.Clone(object.GetOwnerReferences())
	if place := placeOf(references, reference); place >= 0 {
		references[place] = reference
	} else {
		references = append(references, reference)
	}
	object.SetOwnerReferences(references)
}

func placeOf(references []metav1.OwnerReference, wanted metav1.OwnerReference) int {
	return slices.IndexFunc(references, func(reference metav1.OwnerReference) bool { return isSame(reference, wanted) })
}

// isSame reports whether two references have the same group, kind and name. Versions may differ.
func isSame(one, other metav1.OwnerReference) bool {
	first, err := schema.ParseGroupVersion(one.APIVersion)
	second, otherErr := schema.ParseGroupVersion(other.APIVersion)
	return err == nil && otherErr == nil && first.Group == second.Group && one.Kind == other.Kind && one.Name == other.Name
}
