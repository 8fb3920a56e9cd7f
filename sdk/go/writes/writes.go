// Package writes changes the API. The host resolves the outcome of each write, and holds the key until its caches show
// it.
package writes

import (
	"encoding/json"
	"fmt"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Operation is one write, for Batch. Create it with a function such as Creation, which takes the options of the write.
type Operation struct {
	host.Operation
	err error
}

// Option sets an option of a write.
type Option func(*host.Operation)

// Owned makes the primary the controller of the object. It is not for subresources.
func Owned() Option { return func(it *host.Operation) { it.Options.Owned = true } }

// Force takes over fields that other managers own. Apply only.
func Force() Option { return func(it *host.Operation) { it.Options.Force = true } }

// DryRun makes the server check the change and respond as if it had made it, without making it.
func DryRun() Option {
	return func(it *host.Operation) { it.Options.DryRun, it.Delete.DryRun = true, true }
}

// IfVersion makes the write fail with windlass.Conflict unless the object still has this resourceVersion.
func IfVersion(version string) Option {
	return func(it *host.Operation) { it.Options.ResourceVersion, it.Delete.ResourceVersion = version, version }
}

// Subresource makes the write change a subresource, such as "status", "scale" or "eviction".
func Subresource(name string) Option {
	return func(it *host.Operation) { it.Options.Subresource = name }
}

// Of names the object whose subresource is written, if the body has another kind, as for "scale" and "eviction".
func Of(parent windlass.Ref) Option {
	return func(it *host.Operation) { it.Options.Parent = &parent }
}

// ManagerSuffix uses another field manager. Its name is that of the plugin's field manager, followed by "/" and this
// suffix of at most 32 lower-case letters, digits and dashes. This way two controllers can apply two parts of one
// object, and neither drops the fields that the other has applied.
func ManagerSuffix(suffix string) Option {
	return func(it *host.Operation) { it.Options.ManagerSuffix = suffix }
}

// Fields makes the write return only the object's identity and the values at these JSON pointers. Without it, the write
// returns the whole object. It is not for deletions.
func Fields(pointers ...string) Option {
	return func(it *host.Operation) { it.Options.Fields = append([]string{}, pointers...) }
}

// These options set how the server treats unknown fields. By default, it refuses an object with unknown fields.
var (
	// Warn makes the server drop unknown fields. The host logs its warning.
	Warn Option = func(it *host.Operation) { it.Options.FieldValidation = host.Warn }
	// Ignore makes the server drop unknown fields.
	Ignore Option = func(it *host.Operation) { it.Options.FieldValidation = host.Ignore }
)

// These options set what happens to the dependents of a deleted object. By default the dependents are deleted after the
// object.
var (
	// Foreground deletes the dependents first.
	Foreground Option = func(it *host.Operation) { it.Delete.Propagation = host.Foreground }
	// Orphan keeps the dependents, and removes the owner from them.
	Orphan Option = func(it *host.Operation) { it.Delete.Propagation = host.Orphan }
)

// GracePeriod sets the grace period of a deletion, rounded up to whole seconds. By default the kind's grace period
// applies.
func GracePeriod(period time.Duration) Option {
	return func(it *host.Operation) { it.Delete.GracePeriod = period }
}

// Create creates an object, a struct or a map, and returns its new state. generateName is allowed. A kind that is not
// stored, such as a SubjectAccessReview, needs no name, and the server's response is returned.
func Create[T any](object T, options ...Option) (T, error) {
	return returned[T](operation(host.Create, object, options), guest.Imports.Create)
}

// Update replaces an object and returns its new state.
func Update[T any](object T, options ...Option) (T, error) {
	return returned[T](operation(host.Update, object, options), guest.Imports.Update)
}

// Apply applies a set of fields, server-side and as the plugin's field manager, and returns the object. Include only fields that should be set: a field with a zero value is sent too (use `omitempty`, `omitzero`, or a map).
func Apply[T any](fields T, options ...Option) (T, error) {
	return returned[T](operation(host.Apply, fields, options), guest.Imports.Apply)
}

// ApplyStatus applies the status of an object, with force, because no other client writes it.
func ApplyStatus(target windlass.Ref, status any, options ...Option) error {
	return send(Status(target, status, options...), guest.Imports.Apply).Err
}

// Scale sets the number of replicas of an object of any kind that has a scale subresource.
func Scale(target windlass.Ref, replicas int32, options ...Option) error {
	patch := map[string]any{"spec": map[string]any{"replicas": replicas}}
	return send(patched(target, host.Merge, patch, append([]Option{Subresource("scale")}, options...)), guest.Imports.Patch).Err
}

// Evict deletes a Pod unless a disruption budget forbids it now, which is an error of the class
// windlass.TooManyRequests. Evicting a deleted Pod succeeds.
func Evict(pod windlass.Ref, options ...Option) error {
	eviction := map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction", "metadata": named(pod),
	}
	if pod.UID != "" {
		eviction["deleteOptions"] = map[string]any{"preconditions": map[string]any{"uid": pod.UID}}
	}
	pod.UID = ""
	options = append([]Option{Subresource("eviction"), Of(pod)}, options...)
	err := send(operation(host.Create, eviction, options), guest.Imports.Create).Err
	// If the Pod is gone, the error names it. If the server does not serve evictions, the error names no object.
	if failed, is := err.(*windlass.APIError); is && failed.Reason == windlass.NotFound && failed.Object != nil {
		return nil
	}
	return err
}

// named returns the metadata of an object with only its name.
func named(object windlass.Ref) windlass.Object {
	metadata := windlass.Object{"name": object.Name}
	if object.Namespace != "" {
		metadata["namespace"] = object.Namespace
	}
	return metadata
}

// MergePatch changes an object by a JSON merge patch (RFC 7386) and returns it as T.
func MergePatch[T any](target windlass.Ref, patch any, options ...Option) (T, error) {
	return returned[T](patched(target, host.Merge, patch, options), guest.Imports.Patch)
}

// JSONPatch changes an object by a JSON patch (RFC 6902) and returns it as T.
func JSONPatch[T any](target windlass.Ref, patch []Step, options ...Option) (T, error) {
	return returned[T](patched(target, host.JSON, patch, options), guest.Imports.Patch)
}

// Step is one operation of a JSON patch.
type Step struct {
	// Op is "add", "remove", "replace", "move", "copy" or "test".
	Op   string `json:"op"`
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	// Value is left out if it is nil. To send a null, use json.RawMessage("null").
	Value any `json:"value,omitempty"`
}

// StrategicPatch changes an object of a built-in kind by a strategic merge patch and returns it as T.
func StrategicPatch[T any](target windlass.Ref, patch any, options ...Option) (T, error) {
	return returned[T](patched(target, host.Strategic, patch, options), guest.Imports.Patch)
}

// Delete deletes an object. If the object still exists, because it waits for finalizers or its grace period, Delete
// returns it; otherwise the result is empty.
func Delete(target windlass.Ref, options ...Option) (json.RawMessage, error) {
	result := send(Deletion(target, options...), guest.Imports.Delete)
	return result.Object, result.Err
}

// Collection selects the objects that DeleteCollection deletes. All conditions must hold; an empty field is no
// condition.
type Collection struct {
	Kind windlass.Kind
	// Namespace is empty for the primary's namespace, if the kind has namespaces.
	Namespace string
	// LabelSelector is in Kubernetes' syntax, such as "app=web,tier in (front,back)".
	LabelSelector string
	// FieldSelector is in Kubernetes' syntax, as far as the API supports it for the kind.
	FieldSelector string
	// All selects all objects of the kind and namespace. Without it, a selector is required.
	All bool
}

// DeleteCollection deletes the objects of a collection with one request, with the options of a deletion. It returns the
// objects: each is deleted, or waits for finalizers or its grace period. It returns nil if the server does not report
// them. After an error, some may be deleted.
func DeleteCollection(collection Collection, options ...Option) ([]windlass.Ref, error) {
	how := Deletion(windlass.Ref{}, options...).Delete
	deleted, failed := guest.Host().DeleteCollection(host.Collection(collection), how)
	if failed != nil {
		return nil, failed
	}
	return deleted, nil
}

// Creation is a Create for Batch.
func Creation(object any, options ...Option) Operation {
	return operation(host.Create, object, options)
}

// Replacement is an Update for Batch.
func Replacement(object any, options ...Option) Operation {
	return operation(host.Update, object, options)
}

// Application is an Apply for Batch.
func Application(fields any, options ...Option) Operation {
	return operation(host.Apply, fields, options)
}

// Status is an ApplyStatus for Batch.
func Status(target windlass.Ref, status any, options ...Option) Operation {
	fields := windlass.Object{"apiVersion": target.APIVersion, "kind": target.Kind, "metadata": named(target), "status": status}
	return operation(host.Apply, fields, append([]Option{Subresource("status"), Force()}, options...))
}

// Merging is a MergePatch for Batch.
func Merging(target windlass.Ref, patch any, options ...Option) Operation {
	return patched(target, host.Merge, patch, options)
}

// Stepping is a JSONPatch for Batch.
func Stepping(target windlass.Ref, patch []Step, options ...Option) Operation {
	return patched(target, host.JSON, patch, options)
}

// Strategy is a StrategicPatch for Batch.
func Strategy(target windlass.Ref, patch any, options ...Option) Operation {
	return patched(target, host.Strategic, patch, options)
}

// Deletion is a Delete for Batch.
func Deletion(target windlass.Ref, options ...Option) Operation {
	it := host.Operation{Verb: host.Delete, Target: target, Delete: host.DeleteOptions{GracePeriod: -1}}
	return with(it, options)
}

// Result is the outcome of an operation of a Batch.
type Result struct {
	// Object is the object's new state. It is empty after a deletion that has removed the object. Into decodes it.
	Object json.RawMessage
	Err    error
}

// Into decodes the object into a struct or a map.
func (result Result) Into(object any) error {
	return host.Expect("a written object", string(result.Object), object)
}

// Batch runs operations concurrently, in no order, and returns their results in the given order. It starts slowly, and
// speeds up while they succeed.
func Batch(operations ...Operation) []Result {
	results := make([]Result, len(operations))
	var sent []host.Operation
	var places []int
	for place, operation := range operations {
		if operation.err != nil {
			results[place].Err = operation.err
			continue
		}
		sent, places = append(sent, operation.Operation), append(places, place)
	}
	for at, read := range guest.Host().Batch(sent) {
		results[places[at]] = result(read)
	}
	return results
}

func operation(verb host.Verb, object any, options []Option) Operation {
	body, err := json.Marshal(object)
	if err != nil {
		return Operation{err: windlass.Terminal(fmt.Errorf("the object to write is not JSON: %w", err))}
	}
	return with(host.Operation{Verb: verb, Body: string(body)}, options)
}

func patched(target windlass.Ref, patchType host.PatchType, patch any, options []Option) Operation {
	it := operation(host.Patch, patch, options)
	it.Target, it.PatchType = target, patchType
	return it
}

func with(it host.Operation, options []Option) Operation {
	for _, option := range options {
		option(&it)
	}
	return Operation{Operation: it}
}

// send sends an operation through the host function of its verb.
func send(operation Operation, by func(guest.Imports, host.Operation) host.Read) Result {
	if operation.err != nil {
		return Result{Err: operation.err}
	}
	return result(by(guest.Host(), operation.Operation))
}

func result(read host.Read) Result {
	if read.Err != nil {
		return Result{Err: read.Err}
	}
	return Result{Object: json.RawMessage(read.Object)}
}

// returned decodes an object's state after an operation.
func returned[T any](operation Operation, by func(guest.Imports, host.Operation) host.Read) (object T, err error) {
	result := send(operation, by)
	if result.Err == nil {
		result.Err = result.Into(&object)
	}
	return object, result.Err
}
