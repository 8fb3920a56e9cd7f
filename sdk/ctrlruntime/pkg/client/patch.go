package client

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

var (
	// Apply sends the whole object as a server-side apply.
	//
	// Deprecated: use Client.Apply.
	Apply Patch = wholePatch{types.ApplyPatchType}
	// Merge sends the whole object as a merge patch.
	Merge Patch = wholePatch{types.MergePatchType}
)

type wholePatch struct{ patchType types.PatchType }

func (p wholePatch) Type() types.PatchType { return p.patchType }

func (wholePatch) Data(obj Object) ([]byte, error) { return json.Marshal(obj) }

// RawPatch returns a patch with this text.
func RawPatch(patchType types.PatchType, data []byte) Patch { return &rawPatch{patchType, data} }

type rawPatch struct {
	patchType types.PatchType
	data      []byte
}

func (p *rawPatch) Type() types.PatchType { return p.patchType }

func (p *rawPatch) Data(Object) ([]byte, error) { return p.data, nil }

// MergeFromOption is an option of MergeFromWithOptions.
type MergeFromOption interface {
	ApplyToMergeFrom(*MergeFromOptions)
}

// MergeFromOptions are the options of MergeFromWithOptions.
type MergeFromOptions struct {
	// OptimisticLock makes the patch fail with Conflict unless the object still has the version of the original.
	OptimisticLock bool
}

// MergeFromWithOptimisticLock sets MergeFromOptions.OptimisticLock.
type MergeFromWithOptimisticLock struct{}

// ApplyToMergeFrom sets the option.
func (MergeFromWithOptimisticLock) ApplyToMergeFrom(in *MergeFromOptions) { in.OptimisticLock = true }

// MergeFrom returns a merge patch (RFC 7386) from the original to the object that is patched. The original must be a
// copy: DeepCopy it before you change the object.
func MergeFrom(obj Object) Patch { return &difference{original: obj} }

// MergeFromWithOptions is MergeFrom with options.
func MergeFromWithOptions(obj Object, opts ...MergeFromOption) Patch {
	return &difference{original: obj, options: mergeFromOptions(opts)}
}

// StrategicMergeFrom returns a merge patch (RFC 7386), as MergeFrom does: the code that merges the lists of built-in
// types needs their OpenAPI models, which would double a component's size. The result is the same, except that a list
// that has changed is replaced as a whole. So such a patch has an optimistic lock, and fails with Conflict if another
// client has changed the object. Return the error, and the reconciler is called again with the newer object.
func StrategicMergeFrom(obj Object, opts ...MergeFromOption) Patch {
	return &difference{original: obj, options: mergeFromOptions(opts), lockLists: true}
}

func mergeFromOptions(opts []MergeFromOption) (options MergeFromOptions) {
	for _, opt := range opts {
		opt.ApplyToMergeFrom(&options)
	}
	return options
}

// difference is a merge patch from the original to another state.
type difference struct {
	original Object
	options  MergeFromOptions
	// lockLists adds an optimistic lock to a patch that replaces a list.
	lockLists bool
}

func (*difference) Type() types.PatchType { return types.MergePatchType }

func (d *difference) Data(obj Object) ([]byte, error) {
	before, err := tree(d.original)
	if err != nil {
		return nil, err
	}
	after, err := tree(obj)
	if err != nil {
		return nil, err
	}
	patch, replacesList := mergePatch(before, after)
	if d.options.OptimisticLock || d.lockLists && replacesList {
		version := d.original.GetResourceVersion()
		if version == "" {
			if d.options.OptimisticLock {
				return nil, fmt.Errorf("an optimistic lock needs a resourceVersion, and the original %s has none", d.original.GetName())
			}
			return json.Marshal(patch)
		}
		metadata, _ := patch["metadata"].(map[string]any)
		if metadata == nil {
			metadata = map[string]any{}
			patch["metadata"] = metadata
		}
		metadata["resourceVersion"] = version
	}
	return json.Marshal(patch)
}

// tree converts an object to maps, lists and scalars.
func tree(obj metav1.Object) (map[string]any, error) {
	document, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	err = utiljson.Unmarshal(document, &fields)
	return fields, err
}

// mergePatch returns the merge patch from one state to another, and whether it replaces a list.
func mergePatch(before, after map[string]any) (patch map[string]any, replacesList bool) {
	patch = map[string]any{}
	for key := range before {
		if _, stays := after[key]; !stays {
			patch[key] = nil
		}
	}
	for key, value := range after {
		old, had := before[key]
		if had && reflect.DeepEqual(old, value) {
			continue
		}
		fields, isObject := value.(map[string]any)
		oldFields, wasObject := old.(map[string]any)
		if isObject && wasObject {
			within, replaces := mergePatch(oldFields, fields)
			patch[key], replacesList = within, replacesList || replaces
			continue
		}
		_, isList := value.([]any)
		replacesList = replacesList || isList && had
		patch[key] = value
	}
	return patch, replacesList
}
