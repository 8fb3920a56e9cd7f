package controllerutil

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/internal/codec"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// OperationResult is the effect of CreateOrUpdate or CreateOrPatch.
type OperationResult string

// The results.
const (
	// OperationResultNone: the object was already in the wanted state.
	OperationResultNone OperationResult = "unchanged"
	// OperationResultCreated: the object is new.
	OperationResultCreated OperationResult = "created"
	// OperationResultUpdated: the object was changed, but not its status.
	OperationResultUpdated OperationResult = "updated"
	// OperationResultUpdatedStatus: the object and its status were changed.
	OperationResultUpdatedStatus OperationResult = "updatedStatus"
	// OperationResultUpdatedStatusOnly: only the status was changed.
	OperationResultUpdatedStatusOnly OperationResult = "updatedStatusOnly"
)

// MutateFn changes the object, which it closes over, to the wanted state. It must not change the object's name or
// namespace.
type MutateFn func() error

var errRenamed = errors.New("the function that changes the object must not change its name or namespace")

// mutate calls the function, if there is one.
func mutate(f MutateFn, obj client.Object) error {
	if f == nil {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	if err := f(); err != nil {
		return err
	}
	if client.ObjectKeyFromObject(obj) != key {
		return errRenamed
	}
	return nil
}

// CreateOrUpdate creates an object that does not exist, and updates an object that differs from the wanted state. The
// function changes the existing object, or an empty one, to the wanted state.
func CreateOrUpdate(ctx context.Context, c client.Client, obj client.Object, f MutateFn) (OperationResult, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if apierrors.IsNotFound(err) {
		if err := mutate(f, obj); err != nil {
			return OperationResultNone, err
		}
		if err := c.Create(ctx, obj); err != nil {
			return OperationResultNone, err
		}
		return OperationResultCreated, nil
	}
	if err != nil {
		return OperationResultNone, err
	}
	existing := obj.DeepCopyObject()
	if err := mutate(f, obj); err != nil {
		return OperationResultNone, err
	}
	if equality.Semantic.DeepEqual(existing, obj) {
		return OperationResultNone, nil
	}
	if err := c.Update(ctx, obj); err != nil {
		return OperationResultNone, err
	}
	return OperationResultUpdated, nil
}

// CreateOrPatch creates an object that does not exist. It patches an object and its status if they differ from the
// wanted state. The function changes the existing object, or an empty one, to the wanted state.
func CreateOrPatch(ctx context.Context, c client.Client, obj client.Object, f MutateFn) (OperationResult, error) {
	err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if err != nil && !apierrors.IsNotFound(err) {
		return OperationResultNone, err
	}
	exists := err == nil
	before := obj.DeepCopyObject().(client.Object)
	if err := mutate(f, obj); err != nil {
		return OperationResultNone, err
	}
	if !exists {
		// A new object gets its status in a later call, as with controller-runtime.
		if err := c.Create(ctx, obj); err != nil {
			return OperationResultNone, err
		}
		return OperationResultCreated, nil
	}
	found, err := differences(before, obj)
	if err != nil {
		return OperationResultNone, err
	}
	result := OperationResultNone
	if found.outsideStatus {
		if err := c.Patch(ctx, obj, client.MergeFrom(before)); err != nil {
			return OperationResultNone, err
		}
		result, before = OperationResultUpdated, obj.DeepCopyObject().(client.Object)
	}
	if !found.inStatus {
		return result, nil
	}
	if err := patchStatus(ctx, c, obj, before, found.status); err != nil {
		return result, err
	}
	if result == OperationResultUpdated {
		return OperationResultUpdatedStatus, nil
	}
	return OperationResultUpdatedStatusOnly, nil
}

// patchStatus sets the status of an object whose current state is before. A nil status removes the status.
// Afterwards, obj has the new state.
func patchStatus(ctx context.Context, c client.Client, obj, before client.Object, status any) error {
	all, err := fields(before)
	if err != nil {
		return err
	}
	all["status"] = status
	if status == nil {
		delete(all, "status")
	}
	document, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := codec.Decode(document, obj); err != nil {
		return err
	}
	return c.Status().Patch(ctx, obj, client.MergeFrom(before))
}

// difference describes where two states of an object differ.
type difference struct {
	outsideStatus, inStatus bool
	// status is the later status; nil if there is none.
	status any
}

func differences(before, now client.Object) (found difference, err error) {
	old, err := fields(before)
	if err != nil {
		return found, err
	}
	wanted, err := fields(now)
	if err != nil {
		return found, err
	}
	found.inStatus, found.status = !reflect.DeepEqual(old["status"], wanted["status"]), wanted["status"]
	delete(old, "status")
	delete(wanted, "status")
	found.outsideStatus = !reflect.DeepEqual(old, wanted)
	return found, nil
}

func fields(object client.Object) (all map[string]any, err error) {
	document, err := json.Marshal(object)
	if err == nil {
		err = utiljson.Unmarshal(document, &all)
	}
	return all, err
}
