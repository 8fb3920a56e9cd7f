package client

import (
	"encoding/json"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	windlass "windlass.dev/sdk"
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

// StrategicMergeFrom returns a merge patch (RFC 7386), as MergeFrom does. A strategic patch would need the OpenAPI
// models of the built-in types, which would double a component's size. The result is the same, except that a list that
// has changed is replaced as a whole. So such a patch has an optimistic lock, and fails with Conflict if another client
// has changed the object. Return the error, and the reconciler is called again with the newer object. The original of
// such a patch must have a resourceVersion.
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
	// lockLists adds an optimistic lock to a patch that sets or removes a list.
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
	patch, changesList := mergePatch(before, after)
	if d.options.OptimisticLock || d.lockLists && changesList {
		version := d.original.GetResourceVersion()
		if version == "" {
			return nil, d.withoutVersion()
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

func (d *difference) withoutVersion() error {
	if d.options.OptimisticLock {
		return fmt.Errorf("an optimistic lock needs a resourceVersion, and the original %s has none", d.original.GetName())
	}
	return windlass.Terminal(fmt.Errorf("StrategicMergeFrom cannot merge the lists of %s: a plugin replaces them as a whole, which needs the "+
		"original's resourceVersion, and the original has none. Read the object first, or use Client.Apply", d.original.GetName()))
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

// mergePatch returns the merge patch from one state to another, and whether it sets or removes a list.
func mergePatch(before, after map[string]any) (patch map[string]any, changesList bool) {
	patch = map[string]any{}
	for key, old := range before {
		if _, stays := after[key]; !stays {
			patch[key] = nil
			changesList = changesList || hasList(old)
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
			within, changes := mergePatch(oldFields, fields)
			patch[key], changesList = within, changesList || changes
			continue
		}
		changesList = changesList || hasList(old) || hasList(value)
		patch[key] = value
	}
	return patch, changesList
}

// hasList reports whether a value is a list or contains one.
func hasList(value any) bool {
	switch value := value.(type) {
	case []any:
		return true
	case map[string]any:
		for _, field := range value {
			if hasList(field) {
				return true
			}
		}
	}
	return false
}
