// Package codec converts objects to and from the host's JSON.
package codec

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	windlass "windlass.dev/sdk"
)

// Encode returns an object as JSON, with this kind, which typed objects usually leave out.
func Encode(object runtime.Object, kind schema.GroupVersionKind) (json.RawMessage, error) {
	header := object.GetObjectKind()
	before := header.GroupVersionKind()
	header.SetGroupVersionKind(kind)
	defer header.SetGroupVersionKind(before)
	var document any = object
	if untyped, is := object.(*unstructured.Unstructured); is {
		document = untyped.Object
	}
	encoded, err := json.Marshal(document)
	if err != nil {
		return nil, windlass.Terminal(fmt.Errorf("the %s cannot be written as JSON: %w", kind.Kind, err))
	}
	return encoded, nil
}

// Decode replaces the contents of an object, which is a pointer to a struct, by those in the JSON. After
// an error, the object is unchanged.
func Decode(document json.RawMessage, object any) error {
	if untyped, is := object.(*unstructured.Unstructured); is {
		var fields map[string]any
		if err := utiljson.Unmarshal(document, &fields); err != nil {
			return misfit(object, err)
		}
		untyped.Object = fields
		return nil
	}
	target := reflect.ValueOf(object)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return windlass.Terminal(fmt.Errorf("an object of type %T is read into; it must be a pointer to a struct", object))
	}
	fresh := reflect.New(target.Type().Elem())
	if err := utiljson.Unmarshal(document, fresh.Interface()); err != nil {
		return misfit(object, err)
	}
	target.Elem().Set(fresh.Elem())
	return nil
}

// misfit is the error for an object that does not fit its Go type. Only a change of the object can help.
func misfit(object any, err error) error {
	return windlass.Terminal(fmt.Errorf("an object does not fit the type %T: %w", object, err))
}

// Ref names an object for the host.
func Ref(object metav1.Object, kind schema.GroupVersionKind) windlass.Ref {
	return windlass.Ref{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(),
	}
}

// Kind names a kind for the host.
func Kind(kind schema.GroupVersionKind) windlass.Kind {
	return windlass.Kind{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}
}
