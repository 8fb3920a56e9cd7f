package writes

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Effect is the kind of write that Ensure has sent, if any.
type Effect string

// The effects of Ensure.
const (
	// Unchanged: the cache shows the object with all desired fields, and nothing was sent.
	Unchanged Effect = "unchanged"
	// Created: the object did not exist.
	Created Effect = "created"
	// Patched: the object lacked some of the desired fields.
	Patched Effect = "patched"
)

// Ensured is the effect of Ensure, with the object as it is now.
type Ensured struct {
	Effect Effect
	// Object is the object's state. Into decodes it.
	Object json.RawMessage
}

// Into decodes the object into a struct or a map.
func (ensured Ensured) Into(object any) error {
	return host.Expect("an ensured object", string(ensured.Object), object)
}

// Ensure creates the object, a struct or a map, if it is not in the cache. Otherwise it sends the smallest merge patch
// that gives the object the desired fields, or nothing if it has them already. The kind must be watched.
//
// Prefer Apply: it also removes fields that the plugin applied before and no longer wants, and it detects another
// writer of the same field. Ensure does neither. Its advantage is that a create costs the server less than an apply.
// Its rules:
//
//   - A field that the object leaves out stays as it is. Null removes a field. A zero value is a field too, as in
//     Apply.
//   - A list belongs to the plugin as a whole. It is as desired if it has as many elements, and each has the desired
//     fields. When a list is written, an element keeps its other fields if the element at the same position has the
//     same "name".
//   - A patch that writes a list or removes a field fails with windlass.Conflict if the object has changed since the
//     cache showed it. Return the error, and the host runs the key again on a newer cache.
//   - The desired owners and finalizers are added to the existing ones; null instead of a list removes all of them. To
//     own the object, give it a reference to the controller (owners.Reference): if the object has another controller,
//     Ensure then fails with windlass.AlreadyExists. Without such a reference the object is patched, whichever owner it
//     has.
//   - The status is not compared: write it with ApplyStatus. The fields of metadata that the server sets are not
//     compared either. So a "resourceVersion" is no lock, and an object with a "resourceVersion" cannot be created.
//   - Write values as the server stores them; any other value is sent again at each call. For example, the server
//     stores a quantity of "0.5" as "500m", and drops empty and zero values of built-in kinds such as an empty
//     nodeSelector or "paused": false. Webhooks may add elements to lists.
func Ensure(object any) (Ensured, error) {
	creation := operation(host.Create, object, nil)
	if creation.err != nil {
		return Ensured{}, creation.err
	}
	var desired windlass.Object
	if err := host.Decode(creation.Body, &desired); err != nil {
		return Ensured{}, windlass.Terminal(fmt.Errorf("the value to ensure is not an object: %w", err))
	}
	target, err := targetOf(desired)
	if err != nil {
		return Ensured{}, err
	}
	read := guest.Host().CacheGet(target, nil)
	cached, err := host.Object[windlass.Object](read)
	if err != nil {
		return Ensured{}, err
	}
	if cached == nil {
		return ensured(Created, send(creation, guest.Imports.Create))
	}
	if controller := otherController(*cached, desired); controller != "" {
		return Ensured{}, taken(target, controller)
	}
	patch := patchOf(*cached, desired)
	if patch == nil {
		return Ensured{Effect: Unchanged, Object: json.RawMessage(read.Object)}, nil
	}
	// The patch must not reach a later object of this name, which may have another controller.
	target.UID = textAt(objectAt(*cached, "metadata"), "uid")
	change := patched(target, host.Merge, patch, []Option{IfVersion(versionOf(*cached, patch))})
	return ensured(Patched, send(change, guest.Imports.Patch))
}

func ensured(effect Effect, written Result) (Ensured, error) {
	if written.Err != nil {
		return Ensured{}, written.Err
	}
	return Ensured{Effect: effect, Object: written.Object}, nil
}

func targetOf(object windlass.Object) (windlass.Ref, error) {
	metadata := objectAt(object, "metadata")
	target := windlass.Ref{
		APIVersion: textAt(object, "apiVersion"), Kind: textAt(object, "kind"),
		Namespace: textAt(metadata, "namespace"), Name: textAt(metadata, "name"),
	}
	switch "" {
	case target.APIVersion:
		return target, windlass.Terminal(errors.New("an object to write: apiVersion is missing"))
	case target.Kind:
		return target, windlass.Terminal(errors.New("an object to write: kind is missing"))
	case target.Name:
		return target, windlass.Terminal(errors.New("an object to write: metadata.name is missing"))
	}
	return target, nil
}

func objectAt(object windlass.Object, field string) windlass.Object {
	value, _ := object[field].(windlass.Object)
	return value
}

func textAt(object windlass.Object, field string) string {
	value, _ := object[field].(string)
	return value
}

// otherController returns the name of cached's controller if desired has a different one, and otherwise an empty text.
func otherController(cached, desired windlass.Object) string {
	has, wants := controllerOf(cached), controllerOf(desired)
	if has == nil || wants == nil || has["uid"] == wants["uid"] {
		return ""
	}
	return textAt(has, "kind") + " " + textAt(has, "name")
}

func controllerOf(object windlass.Object) windlass.Object {
	owners, _ := objectAt(object, "metadata")["ownerReferences"].([]any)
	for _, owner := range owners {
		if owner, is := owner.(windlass.Object); is && owner["controller"] == true {
			return owner
		}
	}
	return nil
}

func taken(target windlass.Ref, controller string) error {
	return &windlass.APIError{
		Code: 409, Reason: windlass.AlreadyExists, StatusReason: "AlreadyExists",
		Message: "it exists, and " + controller + " controls it", Verb: "ensure", Resource: target.Kind, Object: &target,
	}
}

// versionOf returns the resourceVersion of cached if the patch must not be applied to a later version of the object,
// and otherwise an empty text.
func versionOf(cached, patch windlass.Object) string {
	if patch == nil || !mayUndo(patch) {
		return ""
	}
	return textAt(objectAt(cached, "metadata"), "resourceVersion")
}

// mayUndo reports whether a merge patch may undo newer writes of other clients, because it replaces whole lists, or
// removes a whole field by a null.
func mayUndo(patch any) bool {
	switch patch := patch.(type) {
	case windlass.Object:
		for _, value := range patch {
			if mayUndo(value) {
				return true
			}
		}
	case []any, nil:
		return true
	}
	return false
}

// setByServer are the fields of metadata that only the server sets.
var setByServer = []string{
	"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields",
	"selfLink",
}

// patchOf returns the merge patch that gives cached the fields of desired. It returns nil if cached has them.
func patchOf(cached, desired windlass.Object) windlass.Object {
	wanted := maps.Clone(desired)
	for _, field := range []string{"apiVersion", "kind", "status"} {
		delete(wanted, field)
	}
	if metadata := objectAt(desired, "metadata"); metadata != nil {
		wanted["metadata"] = metadataOf(objectAt(cached, "metadata"), metadata)
	}
	return differingFields(cached, wanted)
}

func metadataOf(cached, desired windlass.Object) windlass.Object {
	wanted := maps.Clone(desired)
	// The server drops empty maps and lists in metadata.
	maps.DeleteFunc(wanted, func(field string, value any) bool { return slices.Contains(setByServer, field) || isEmpty(value) })
	for _, list := range []string{"ownerReferences", "finalizers"} {
		has, areThere := cached[list].([]any)
		wants, areWanted := wanted[list].([]any)
		if areThere && areWanted {
			wanted[list] = joined(has, wants)
		}
	}
	return wanted
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case windlass.Object:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// areSame reports whether two entries are the same owner, or the same finalizer.
func areSame(one, other any) bool {
	owner, is := one.(windlass.Object)
	if !is {
		return one == other
	}
	wanted, is := other.(windlass.Object)
	return is && owner["uid"] == wanted["uid"]
}

// joined returns has with the owners or finalizers of wanted. A wanted entry replaces the entry of the same owner or
// finalizer, or is appended.
func joined(has, wanted []any) []any {
	all := slices.Clone(has)
	for _, wanted := range wanted {
		place := slices.IndexFunc(all, func(element any) bool { return areSame(element, wanted) })
		if place < 0 {
			all = append(all, wanted)
		} else {
			all[place] = overlaid(all[place], wanted)
		}
	}
	return all
}

// difference returns the merge patch that changes the value has into wanted, and whether they differ. A missing value
// is nil.
func difference(has, wanted any) (any, bool) {
	fields, are := wanted.(windlass.Object)
	if known, is := has.(windlass.Object); is && are {
		differing := differingFields(known, fields)
		return differing, differing != nil
	}
	if shows(has, wanted) {
		return nil, false
	}
	if has == nil {
		return withoutNulls(wanted), true
	}
	wants, areWanted := wanted.([]any)
	elements, areThere := has.([]any)
	if areWanted && areThere {
		return listOf(elements, wants), true
	}
	// Nulls may stay in this value: a merge patch drops them when it replaces a value of another type.
	return wanted, true
}

// differingFields returns the difference of two objects; nil if there is none.
func differingFields(has, wanted windlass.Object) windlass.Object {
	var differing windlass.Object
	for field, wanted := range wanted {
		change, differs := difference(has[field], wanted)
		if !differs {
			continue
		}
		if differing == nil {
			differing = windlass.Object{}
		}
		differing[field] = change
	}
	return differing
}

// listOf returns the wanted elements. Each keeps its other fields if the element at the same position of has has the
// same name.
func listOf(has, wanted []any) []any {
	elements := make([]any, len(wanted))
	for place, wanted := range wanted {
		if place < len(has) && areNamedAlike(has[place], wanted) {
			elements[place] = overlaid(has[place], wanted)
		} else {
			elements[place] = withoutNulls(wanted)
		}
	}
	return elements
}

func areNamedAlike(has, wanted any) bool {
	one, _ := has.(windlass.Object)
	other, _ := wanted.(windlass.Object)
	name, is := one["name"].(string)
	return is && other["name"] == name
}

// shows reports whether a value, which is nil if it is missing, has all wanted fields. A missing value is enough for a
// wanted null, and for a wanted object that contains only nulls. It is not enough for an empty object or list, such as
// "emptyDir": {}.
func shows(has, wanted any) bool {
	switch wanted := wanted.(type) {
	case windlass.Object:
		fields, is := has.(windlass.Object)
		is = is || has == nil && len(wanted) > 0
		for field, wanted := range wanted {
			is = is && shows(fields[field], wanted)
		}
		return is
	case []any:
		elements, is := has.([]any)
		is = is && len(elements) == len(wanted)
		for place := range wanted {
			is = is && shows(elements[place], wanted[place])
		}
		return is
	}
	return windlass.HasFields(has, wanted)
}

// overlaid returns has with the wanted fields, as a merge patch would leave it.
func overlaid(has, wanted any) any {
	fields, is := wanted.(windlass.Object)
	known, areThere := has.(windlass.Object)
	if !is || !areThere {
		return withoutNulls(wanted)
	}
	all := maps.Clone(known)
	for field, wanted := range fields {
		switch {
		case wanted == nil:
			delete(all, field)
		case !shows(known[field], wanted):
			all[field] = overlaid(known[field], wanted)
		}
	}
	return all
}

// withoutNulls returns a value without the nulls in its objects; nil if the value itself is null.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case windlass.Object:
		kept := windlass.Object{}
		for field, value := range value {
			if value = withoutNulls(value); value != nil {
				kept[field] = value
			}
		}
		return kept
	case []any:
		elements := make([]any, len(value))
		for place, element := range value {
			elements[place] = withoutNulls(element)
		}
		return elements
	}
	return value
}
