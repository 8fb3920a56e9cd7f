package windlass

import (
	"encoding/json"

	"windlass.dev/sdk/internal/host"
)

// Object is an object of any kind, as JSON. When this SDK decodes it, whole numbers become int64 (uint64 if they are
// larger) and all other numbers float64.
type Object = map[string]any

// Metadata has the fields of an object's metadata that most plugins need. A plugin that needs more embeds it in its own
// struct, for example with OwnerReferences. It has no more fields, because decoding each field takes time in a new
// instance.
type Metadata struct {
	Name string `json:"name,omitempty"`
	// Namespace is empty for a cluster-scoped object.
	Namespace string `json:"namespace,omitempty"`
	// UID identifies the object. A later object of the same name has another UID.
	UID string `json:"uid,omitempty"`
	// ResourceVersion is the version, an opaque text.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Generation counts the changes of the desired state, if the kind has a generation.
	Generation        int64             `json:"generation,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
	CreationTimestamp string            `json:"creationTimestamp,omitempty"`
	// DeletionTimestamp is empty unless the object is being deleted.
	DeletionTimestamp string `json:"deletionTimestamp,omitempty"`
}

// Beside returns a reference to the object of another kind that has the same namespace and name.
func (metadata Metadata) Beside(apiVersion, kind string) Ref {
	return Ref{APIVersion: apiVersion, Kind: kind, Namespace: metadata.Namespace, Name: metadata.Name}
}

// OwnerReference names an owner of an object, in its metadata.ownerReferences. Function owners.Reference creates one.
// For a write with writes.Owned, the host adds the reference itself.
type OwnerReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	// Controller is true for at most one owner.
	Controller         bool `json:"controller,omitempty"`
	BlockOwnerDeletion bool `json:"blockOwnerDeletion,omitempty"`
}

// Decode decodes a JSON document into a value, with exact whole numbers. Where the value's type leaves the type of a
// number open, they become int64, or uint64 if they are larger.
func Decode(document []byte, into any) error { return host.Decode(string(document), into) }

// HasFields reports whether an object has every wanted field with the wanted value. Fields that the server or other
// clients have added are ignored, as in an apply. A list must contain each wanted element, at any position. Both
// arguments may be any values that JSON can represent.
//
// Do not use it to decide whether to apply: it does not notice a field that is no longer wanted, or a missing owner.
// The host itself skips an apply that would change nothing.
func HasFields(object, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		if fields, is := object.(map[string]any); is {
			return hasAll(fields, wanted)
		}
	case []any:
		if elements, is := object.([]any); is {
			return holdsAll(elements, wanted)
		}
	case string:
		if text, is := object.(string); is {
			return text == wanted
		}
	case nil:
		return object == nil
	}
	plain, wants := plainly(object), plainly(wanted)
	switch wants := wants.(type) {
	case map[string]any:
		fields, is := plain.(map[string]any)
		return is && hasAll(fields, wants)
	case []any:
		elements, is := plain.([]any)
		return is && holdsAll(elements, wants)
	}
	return equal(plain, wants)
}

func hasAll(fields, wanted map[string]any) bool {
	for key, value := range wanted {
		if field, has := fields[key]; !has || !HasFields(field, value) {
			return false
		}
	}
	return true
}

func holdsAll(elements, wanted []any) bool {
	for _, value := range wanted {
		found := false
		for _, element := range elements {
			found = found || HasFields(element, value)
		}
		if !found {
			return false
		}
	}
	return true
}

// plainly converts a value to the form that Decode creates. A value that cannot be JSON equals nothing.
func plainly(value any) any {
	switch value := value.(type) {
	case map[string]any, []any, string, bool, nil, int64, uint64, float64:
		return value
	case int:
		return int64(value)
	}
	document, err := json.Marshal(value)
	if err != nil {
		return &value
	}
	var plain any
	if err := Decode(document, &plain); err != nil {
		return &value
	}
	return plain
}

// equal compares values that are neither objects nor lists. It compares numbers by value: 2 and 2.0 are equal.
func equal(one, other any) bool {
	if number, is := one.(float64); is {
		one = whole(number)
	}
	if number, is := other.(float64); is {
		other = whole(number)
	}
	return one == other
}

// whole returns an int64 or a uint64 of the same value, if there is one, and otherwise the number itself.
func whole(number float64) any {
	if number >= -1<<63 && number < 1<<63 && number == float64(int64(number)) {
		return int64(number)
	}
	if number >= 1<<63 && number < 1<<64 {
		return uint64(number)
	}
	return number
}
