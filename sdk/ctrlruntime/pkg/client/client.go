package client

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/internal/call"
	"sigs.k8s.io/controller-runtime/internal/codec"
	"sigs.k8s.io/controller-runtime/internal/mapper"
	"sigs.k8s.io/controller-runtime/internal/refused"
	"sigs.k8s.io/controller-runtime/internal/setup"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/writes"
)

// Options are the options of New.
type Options struct {
	// Scheme knows the types of objects; nil means client-go's scheme.Scheme.
	Scheme *runtime.Scheme
	// Mapper is returned by RESTMapper; nil means a mapper that asks the API server.
	Mapper meta.RESTMapper
	// Cache determines which reads come from caches; nil means that none do.
	Cache *CacheOptions
	// DryRun makes all writes dry runs.
	DryRun *bool
	// FieldOwner is the field manager of writes that name none.
	FieldOwner string
	// FieldValidation is how the server treats unknown fields in writes without their own setting.
	FieldValidation string
}

// CacheOptions determine which reads come from caches.
type CacheOptions struct {
	// Reader must be set, or all reads are live. The manager sets it. Reads do not use it, because the host serves
	// them.
	Reader Reader
	// DisableFor are objects of kinds whose reads are live.
	DisableFor []Object
	// Unstructured makes reads of unstructured objects come from caches too.
	Unstructured bool
}

// NewClientFunc creates a client.
type NewClientFunc func(config *rest.Config, options Options) (Client, error)

// New returns a client of the host. The configuration is ignored. Like the client of controller-runtime's New, it reads
// live unless options.Cache has a Reader. The options that a manager passes to its NewClient have one.
func New(config *rest.Config, options Options) (Client, error) {
	made, err := newClient(options)
	if err != nil {
		return nil, err
	}
	return made.withDefaults(options), nil
}

// NewCached returns a client that reads all watched kinds from the host's caches, as a manager's cache does.
func NewCached(options Options) (Client, error) {
	options.Cache = &CacheOptions{Reader: &hostClient{}, Unstructured: true}
	return New(nil, options)
}

func newClient(options Options) (*hostClient, error) {
	made := &hostClient{
		scheme: options.Scheme, mapper: options.Mapper, live: options.Cache == nil || options.Cache.Reader == nil,
		uncached: map[schema.GroupVersionKind]bool{},
	}
	if made.scheme == nil {
		made.scheme = scheme.Scheme
	}
	if made.mapper == nil {
		made.mapper = &mapper.Mapper{}
	}
	if made.live {
		return made, nil
	}
	made.unstructured = options.Cache.Unstructured
	for _, object := range options.Cache.DisableFor {
		kind, err := apiutil.GVKForObject(object, made.scheme)
		if err != nil {
			return nil, err
		}
		made.uncached[kind] = true
	}
	return made, nil
}

func (c *hostClient) withDefaults(options Options) (client Client) {
	client = c
	if options.FieldValidation != "" {
		client = WithFieldValidation(client, FieldValidation(options.FieldValidation))
	}
	if options.FieldOwner != "" {
		client = WithFieldOwner(client, options.FieldOwner)
	}
	if options.DryRun != nil && *options.DryRun {
		client = NewDryRunClient(client)
	}
	return client
}

// hostClient is the client of the host.
type hostClient struct {
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	// live makes all reads live.
	live bool
	// uncached are the kinds whose reads are live.
	uncached map[schema.GroupVersionKind]bool
	// unstructured makes reads of unstructured objects come from caches too.
	unstructured bool
}

func (c *hostClient) Scheme() *runtime.Scheme { return c.scheme }

func (c *hostClient) RESTMapper() meta.RESTMapper { return c.mapper }

func (c *hostClient) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(obj, c.scheme)
}

// kindFor returns the kind of an object for a request, which the set-up may not send.
func (c *hostClient) kindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	if err := closed(); err != nil {
		return schema.GroupVersionKind{}, err
	}
	return c.GroupVersionKindFor(obj)
}

func closed() error {
	if !setup.IsRunning() {
		return nil
	}
	return refused.Call("reading or writing objects during the set-up", "the set-up runs in each instance, and when the plugin is built",
		"read and write in a reconciler")
}

func (c *hostClient) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	return apiutil.IsObjectNamespaced(obj, c.scheme, c.mapper)
}

func (c *hostClient) Status() SubResourceWriter { return c.SubResource("status") }

func (c *hostClient) SubResource(subResource string) SubResourceClient {
	return &subResourceClient{c, subResource}
}

func (c *hostClient) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	options := (&CreateOptions{}).ApplyOptions(opts)
	if err := refusePartial("create", obj); err != nil {
		return err
	}
	kind, body, err := c.encoded(obj)
	if err != nil {
		return err
	}
	written, err := writes.Create(body, writeOptions(options.DryRun, options.FieldManager, options.FieldValidation)...)
	return c.returned(ctx, obj, kind, written, err)
}

func (c *hostClient) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	options := (&UpdateOptions{}).ApplyOptions(opts)
	if err := refusePartial("update", obj); err != nil {
		return err
	}
	kind, body, err := c.encoded(obj)
	if err != nil {
		return err
	}
	written, err := writes.Update(body, writeOptions(options.DryRun, options.FieldManager, options.FieldValidation)...)
	return c.returned(ctx, obj, kind, written, err)
}

func (c *hostClient) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	return c.patch(ctx, obj, obj, patch, (&PatchOptions{}).ApplyOptions(opts))
}

// patch patches an object. The state that the server returns replaces result.
func (c *hostClient) patch(
	ctx context.Context, obj, result Object, patch Patch, options *PatchOptions, further ...writes.Option,
) error {
	kind, err := c.kindFor(obj)
	if err != nil {
		return err
	}
	data, err := patch.Data(result)
	if err != nil {
		return err
	}
	how := append(writeOptions(options.DryRun, options.FieldManager, options.FieldValidation), further...)
	target, document := codec.Ref(obj, kind), json.RawMessage(data)
	var written json.RawMessage
	switch patch.Type() {
	case types.MergePatchType:
		written, err = writes.MergePatch[json.RawMessage](target, document, how...)
	case types.StrategicMergePatchType:
		written, err = writes.StrategicPatch[json.RawMessage](target, document, how...)
	case types.JSONPatchType:
		steps, err := stepsOf(data)
		if err != nil {
			return err
		}
		written, err = writes.JSONPatch[json.RawMessage](target, steps, how...)
		return c.returned(ctx, result, kind, written, err)
	case types.ApplyPatchType:
		if document, err = headed(data, obj, kind); err != nil {
			return err
		}
		if options.Force != nil && *options.Force {
			how = append(how, writes.Force())
		}
		written, err = writes.Apply(document, how...)
	default:
		return fmt.Errorf("patches of the type %q are unknown", patch.Type())
	}
	return c.returned(ctx, result, kind, written, err)
}

// stepsOf returns the steps of a JSON patch. Their values stay as they are: a null, and numbers of any size.
func stepsOf(data []byte) ([]writes.Step, error) {
	var raw []struct {
		writes.Step
		Value json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("the JSON patch cannot be read: %w", err)
	}
	steps := make([]writes.Step, len(raw))
	for place, step := range raw {
		steps[place] = step.Step
		if step.Value != nil {
			steps[place].Value = step.Value
		}
	}
	return steps, nil
}

// headed returns the fields of an apply with the kind and the name of the object, and without managedFields.
func headed(data []byte, obj Object, kind schema.GroupVersionKind) (json.RawMessage, error) {
	fields := &unstructured.Unstructured{}
	if err := codec.Decode(data, fields); err != nil {
		return nil, err
	}
	fields.SetGroupVersionKind(kind)
	fields.SetName(obj.GetName())
	if obj.GetNamespace() != "" {
		fields.SetNamespace(obj.GetNamespace())
	}
	fields.SetManagedFields(nil)
	return json.Marshal(fields.Object)
}

func (c *hostClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	return c.apply(ctx, obj, obj, (&ApplyOptions{}).ApplyOptions(opts))
}

// apply applies the fields of obj. The state that the server returns replaces result.
func (c *hostClient) apply(
	ctx context.Context, obj, result runtime.ApplyConfiguration, options *ApplyOptions, further ...writes.Option,
) error {
	if err := closed(); err != nil {
		return err
	}
	body, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	target, err := refOf(body)
	if err != nil {
		return err
	}
	how := append(writeOptions(options.DryRun, options.FieldManager, ""), further...)
	if options.Force != nil && *options.Force {
		how = append(how, writes.Force())
	}
	written, err := writes.Apply(json.RawMessage(body), how...)
	if err != nil {
		return outdated(ctx, target, err)
	}
	if untyped, is := result.(*unstructuredConfiguration); is {
		return codec.Decode(written, untyped.Unstructured)
	}
	return codec.Decode(written, result)
}

func (c *hostClient) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	options := (&DeleteOptions{}).ApplyOptions(opts)
	kind, err := c.kindFor(obj)
	if err != nil {
		return err
	}
	target := codec.Ref(obj, kind)
	if options.Preconditions != nil && options.Preconditions.UID != nil {
		target.UID = string(*options.Preconditions.UID)
	}
	if _, err = writes.Delete(target, deleteOptions(kind, options)...); err != nil {
		return outdated(ctx, target, err)
	}
	return nil
}

func (c *hostClient) DeleteAllOf(_ context.Context, obj Object, opts ...DeleteAllOfOption) error {
	options := (&DeleteAllOfOptions{}).ApplyOptions(opts)
	kind, err := c.kindFor(obj)
	if err != nil {
		return err
	}
	labelText, any := labelText(options.LabelSelector)
	if !any || !selectsAny(options.FieldSelector) {
		return nil
	}
	if options.Namespace == "" {
		// Without a namespace, the host would use the primary's namespace.
		if isNamespaced, isKnown := isNamespaced(kind); isKnown && isNamespaced {
			resource, _ := meta.UnsafeGuessKindToResource(kind)
			return apierrors.NewMethodNotSupported(resource.GroupResource(), "deletecollection in all namespaces")
		}
	}
	collection := writes.Collection{Kind: codec.Kind(kind), Namespace: options.Namespace, LabelSelector: labelText}
	if options.FieldSelector != nil {
		collection.FieldSelector = options.FieldSelector.String()
	}
	collection.All = collection.LabelSelector == "" && collection.FieldSelector == ""
	_, err = writes.DeleteCollection(collection, deleteOptions(kind, &options.DeleteOptions)...)
	return failure(kind, err)
}

// refusePartial refuses a request that would replace whole objects by their metadata.
func refusePartial(verb string, objects ...Object) error {
	for _, object := range objects {
		if _, is := object.(*metav1.PartialObjectMetadata); is {
			return windlass.Terminal(fmt.Errorf("cannot %s %s by its metadata alone, as this would remove all other fields: patch it, or use its "+
				"own type", verb, object.GetName()))
		}
	}
	return nil
}

func (c *hostClient) encoded(obj Object) (kind schema.GroupVersionKind, body json.RawMessage, err error) {
	if kind, err = c.kindFor(obj); err == nil {
		body, err = codec.Encode(obj, kind)
	}
	return kind, body, err
}

// outdated converts the error of a write. If the server has refused the write because of an old state, the next read of the
// object in this call is live.
func outdated(ctx context.Context, target windlass.Ref, err error) error {
	if windlass.IsConflict(err) || windlass.IsAlreadyExists(err) {
		target.UID = ""
		call.Outdated(ctx, target)
	}
	return failure(schema.FromAPIVersionAndKind(target.APIVersion, target.Kind), err)
}

// returned replaces an object by the state that a write has returned.
func (c *hostClient) returned(
	ctx context.Context, obj Object, kind schema.GroupVersionKind, written json.RawMessage, err error,
) error {
	if err != nil {
		return outdated(ctx, codec.Ref(obj, kind), err)
	}
	if err := codec.Decode(written, obj); err != nil {
		return fmt.Errorf("the %s was written, but the server's answer cannot be used: %w", kind.Kind, err)
	}
	return nil
}

func isPartial(goType reflect.Type) bool {
	return goType == reflect.TypeFor[metav1.PartialObjectMetadata]()
}
