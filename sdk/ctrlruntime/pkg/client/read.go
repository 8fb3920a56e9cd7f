package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/internal/call"
	"sigs.k8s.io/controller-runtime/internal/codec"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	"sigs.k8s.io/controller-runtime/internal/status"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/live"
)

func (c *hostClient) Get(ctx context.Context, key ObjectKey, obj Object, _ ...GetOption) error {
	err := c.read(ctx, key, obj)
	if !apierrors.IsNotFound(err) {
		call.ReadFailed(err)
	}
	return err
}

// read reads an object into obj.
func (c *hostClient) read(ctx context.Context, key ObjectKey, obj Object) error {
	kind, err := c.kindFor(obj)
	if err != nil {
		return err
	}
	target := windlass.Ref{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: key.Namespace, Name: key.Name,
	}
	_, isMetadata := obj.(*metav1.PartialObjectMetadata)
	if target.Namespace == "" && call.Namespace() != "" {
		// Without a namespace, the host would use the primary's namespace.
		if isNamespaced, isKnown := isNamespaced(kind); isKnown && isNamespaced {
			return status.NotFound(kind, target)
		}
	}
	isCached := c.getIsCached(ctx, obj, kind, target)
	document, err := get(target, isCached, isMetadata)
	if hasNeedlessNamespace(kind, target.Namespace, document == nil, err) {
		target.Namespace = ""
		document, err = get(target, isCached, isMetadata)
	}
	switch {
	case err != nil:
		return failure(kind, err)
	case document == nil:
		return status.NotFound(kind, target)
	}
	return codec.Decode(*document, obj)
}

// getIsCached reports whether a Get comes from the cache.
func (c *hostClient) getIsCached(ctx context.Context, obj Object, kind schema.GroupVersionKind, target windlass.Ref) bool {
	return c.isCached(obj, kind) && !call.IsOutdated(ctx, target)
}

// listIsCached reports whether a List comes from the cache.
func (c *hostClient) listIsCached(ctx context.Context, list ObjectList, kind schema.GroupVersionKind) bool {
	return c.isCached(list, kind) && !call.IsAnyOutdated(ctx, codec.Kind(kind))
}

// isCached reports whether the cache may serve reads of a kind into an object or a list.
func (c *hostClient) isCached(into runtime.Object, kind schema.GroupVersionKind) bool {
	amount := kinds.Whole
	switch into.(type) {
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		amount = kinds.Metadata
	}
	_, isUnstructured := into.(runtime.Unstructured)
	return !c.live && !c.uncached[kind] && (c.unstructured || !isUnstructured) && kinds.IsCached(kind, amount)
}

// metadataFields are the fields that a read of partial objects needs.
var metadataFields = []string{"/metadata"}

func get(target windlass.Ref, isCached, isMetadata bool) (*json.RawMessage, error) {
	var wanted []string
	if isMetadata {
		wanted = metadataFields
	}
	if isCached {
		document, err := cache.Get[json.RawMessage](target, wanted...)
		if !windlass.Is(err, windlass.NotWatched) {
			return document, err
		}
		// The watch covers only other namespaces.
	}
	if isMetadata {
		return live.GetMetadata[json.RawMessage](target)
	}
	return live.Get[json.RawMessage](target)
}

func (c *hostClient) List(ctx context.Context, list ObjectList, opts ...ListOption) error {
	err := c.list(ctx, list, (&ListOptions{}).ApplyOptions(opts))
	call.ReadFailed(err)
	return err
}

// list reads the objects of a list.
func (c *hostClient) list(ctx context.Context, list ObjectList, options *ListOptions) error {
	listKind, err := c.kindFor(list)
	if err != nil {
		return err
	}
	kind := listKind
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	into, err := itemsOf(list)
	if err != nil {
		return err
	}
	labelText, any := labelText(options.LabelSelector)
	if any && selectsAny(options.FieldSelector) {
		err := c.fill(ctx, into, kind, labelText, options, list)
		if hasNeedlessNamespace(kind, options.Namespace, into.objects.Len() == 0, err) {
			options.Namespace = ""
			err = c.fill(ctx, into, kind, labelText, options, list)
		}
		if err != nil {
			return failure(kind, err)
		}
	}
	into.store()
	list.GetObjectKind().SetGroupVersionKind(listKind)
	return nil
}

// fill reads the objects of a list, from the cache if there is one.
func (c *hostClient) fill(
	ctx context.Context, into *items, kind schema.GroupVersionKind, labelText string, options *ListOptions, list ObjectList,
) error {
	if options.Continue == "" && c.listIsCached(ctx, list, kind) {
		query := cache.Query{Kind: codec.Kind(kind), Namespace: options.Namespace, LabelSelector: labelText}
		if into.isMetadata {
			query.Fields = metadataFields
		}
		matches, err := fieldMatch(kind, into.element, options)
		if err != nil {
			return err
		}
		if matches == nil && options.Limit > 0 {
			query.PageSize = int(min(options.Limit, pageMax))
		}
		err = into.read(cache.List[json.RawMessage](query), matches, options.Limit)
		if !windlass.Is(err, windlass.NotWatched) {
			return err
		}
	}
	query := live.Query{
		Kind: codec.Kind(kind), Namespace: options.Namespace, LabelSelector: labelText, Metadata: into.isMetadata,
		PageToken: options.Continue,
	}
	if options.FieldSelector != nil {
		query.FieldSelector = options.FieldSelector.String()
	}
	if options.Limit == 0 {
		return into.read(live.List[json.RawMessage](query), nil, 0)
	}
	for left := options.Limit; left > 0; left = options.Limit - int64(into.objects.Len()) {
		query.PageSize = int(min(left, livePageMax))
		page, next, err := live.Page[json.RawMessage](query)
		if err != nil {
			return err
		}
		for _, document := range page {
			if err := into.add(*document, nil); err != nil {
				return err
			}
		}
		list.SetContinue(next)
		if query.PageToken = next; next == "" {
			break
		}
	}
	return nil
}

// pageMax is the host's limit for the objects of a page from a cache.
const pageMax = 1000

// livePageMax is the host's limit for the objects of a page from the API server.
const livePageMax = 500

// fieldMatch returns a function that tests an object by the selector of fields, or nil if there is no selector.
func fieldMatch(kind schema.GroupVersionKind, element reflect.Type, options *ListOptions) (func(Object) bool, error) {
	if options.FieldSelector == nil || options.FieldSelector.Empty() {
		return nil, nil
	}
	var tests []func(Object) bool
	for _, requirement := range options.FieldSelector.Requirements() {
		values := kinds.Indexed(kind, reflect.PointerTo(element), requirement.Field)
		switch {
		case requirement.Field == "metadata.name":
			values = func(object any) []string { return []string{object.(Object).GetName()} }
		case requirement.Field == "metadata.namespace":
			values = func(object any) []string { return []string{object.(Object).GetNamespace()} }
		case values == nil:
			return nil, windlass.Terminal(fmt.Errorf("there is no index %q over %s as %s: add it by "+
				"mgr.GetFieldIndexer().IndexField, or read live by mgr.GetAPIReader()", requirement.Field, kind.Kind, element))
		}
		isWanted := requirement.Operator != selection.NotEquals
		tests = append(tests, func(object Object) bool {
			return slices.Contains(values(object), requirement.Value) == isWanted
		})
	}
	return func(object Object) bool {
		for _, test := range tests {
			if !test(object) {
				return false
			}
		}
		return true
	}, nil
}

// labelText returns a selector in Kubernetes' syntax, and false if it selects nothing.
func labelText(selector labels.Selector) (text string, any bool) {
	if selector == nil {
		return "", true
	}
	if _, any = selector.Requirements(); !any {
		return "", false
	}
	return selector.String(), true
}

// selectsAny returns false for fields.Nothing, whose text is the same as that of fields.Everything.
func selectsAny(selector fields.Selector) bool {
	return selector == nil || selector.Empty() || len(selector.Requirements()) > 0
}

// items are the objects of a list while it is read.
type items struct {
	// field is the list's field Items.
	field reflect.Value
	// element is the struct of an object. The list has pointers to it if isPointer.
	element    reflect.Type
	isPointer  bool
	isMetadata bool
	objects    reflect.Value
}

func itemsOf(list ObjectList) (*items, error) {
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, windlass.Terminal(err)
	}
	field := reflect.ValueOf(pointer).Elem()
	made := &items{field: field, element: field.Type().Elem(), objects: reflect.MakeSlice(field.Type(), 0, 0)}
	if made.isPointer = made.element.Kind() == reflect.Pointer; made.isPointer {
		made.element = made.element.Elem()
	}
	if _, is := reflect.New(made.element).Interface().(Object); !is {
		return nil, windlass.Terminal(fmt.Errorf("the items of a %T are not objects", list))
	}
	made.isMetadata = isPartial(made.element)
	return made, nil
}

// read adds the objects that match, up to the limit. A limit of zero means no limit.
func (items *items) read(documents iter.Seq2[*json.RawMessage, error], matches func(Object) bool, limit int64) error {
	for document, err := range documents {
		if err != nil {
			return err
		}
		if err := items.add(*document, matches); err != nil {
			return err
		}
		if limit > 0 && int64(items.objects.Len()) >= limit {
			return nil
		}
	}
	return nil
}

func (items *items) add(document json.RawMessage, matches func(Object) bool) error {
	object := reflect.New(items.element)
	if err := codec.Decode(document, object.Interface()); err != nil {
		return err
	}
	if matches != nil && !matches(object.Interface().(Object)) {
		return nil
	}
	if !items.isPointer {
		object = object.Elem()
	}
	items.objects = reflect.Append(items.objects, object)
	return nil
}

// store puts the objects into the list.
func (items *items) store() { items.field.Set(items.objects) }
