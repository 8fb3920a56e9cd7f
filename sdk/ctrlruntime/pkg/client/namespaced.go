package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	windlass "windlass.dev/sdk"
)

// NewNamespacedClient returns a client for the objects of one namespace. It puts objects without a namespace there, and
// refuses those of other namespaces. Cluster-scoped objects are not affected.
func NewNamespacedClient(c Client, namespace string) Client { return &namespaced{c, namespace} }

// namespaced is a client for one namespace.
type namespaced struct {
	Client
	namespace string
}

// enter puts an object into the namespace.
func (c *namespaced) enter(obj Object) error {
	isNamespaced, err := c.IsObjectNamespaced(obj)
	if err != nil || !isNamespaced {
		return err
	}
	if err := c.refuseOther(obj.GetNamespace(), obj.GetName()); err != nil {
		return err
	}
	obj.SetNamespace(c.namespace)
	return nil
}

func (c *namespaced) refuseOther(namespace, name string) error {
	if namespace == "" || namespace == c.namespace {
		return nil
	}
	return windlass.Terminal(fmt.Errorf("%s/%s is not in the namespace %s of this client (NewNamespacedClient)", namespace, name, c.namespace))
}

// enterApplied puts the object of an apply configuration into the namespace.
func (c *namespaced) enterApplied(obj runtime.ApplyConfiguration) error {
	document, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	ref, err := refOf(document)
	if err != nil {
		return err
	}
	header := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: ref.APIVersion, Kind: ref.Kind}}
	isNamespaced, err := c.IsObjectNamespaced(header)
	if err != nil || !isNamespaced {
		return err
	}
	if err := c.refuseOther(ref.Namespace, ref.Name); err != nil {
		return err
	}
	if untyped, is := obj.(*unstructuredConfiguration); is {
		untyped.SetNamespace(c.namespace)
		return nil
	}
	// Only the types know their method WithNamespace, so decode the field over what is there.
	metadata, err := json.Marshal(map[string]any{"metadata": map[string]string{"namespace": c.namespace}})
	if err != nil {
		return err
	}
	return json.Unmarshal(metadata, obj)
}

func (c *namespaced) Get(ctx context.Context, key ObjectKey, obj Object, opts ...GetOption) error {
	isNamespaced, err := c.IsObjectNamespaced(obj)
	if err != nil {
		return err
	}
	if isNamespaced {
		if err := c.refuseOther(key.Namespace, key.Name); err != nil {
			return err
		}
		key.Namespace = c.namespace
	}
	return c.Client.Get(ctx, key, obj, opts...)
}

func (c *namespaced) List(ctx context.Context, list ObjectList, opts ...ListOption) error {
	kind, err := c.GroupVersionKindFor(list)
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	isNamespaced, err := apiutil.IsGVKNamespaced(kind, c.RESTMapper())
	if err != nil {
		return err
	}
	if isNamespaced {
		opts = append(opts[:len(opts):len(opts)], InNamespace(c.namespace))
	}
	return c.Client.List(ctx, list, opts...)
}

func (c *namespaced) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	if err := c.enter(obj); err != nil {
		return err
	}
	return c.Client.Create(ctx, obj, opts...)
}

func (c *namespaced) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	if err := c.enter(obj); err != nil {
		return err
	}
	return c.Client.Update(ctx, obj, opts...)
}

func (c *namespaced) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	if err := c.enter(obj); err != nil {
		return err
	}
	return c.Client.Patch(ctx, obj, patch, opts...)
}

func (c *namespaced) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	if err := c.enterApplied(obj); err != nil {
		return err
	}
	return c.Client.Apply(ctx, obj, opts...)
}

func (c *namespaced) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	if err := c.enter(obj); err != nil {
		return err
	}
	return c.Client.Delete(ctx, obj, opts...)
}

func (c *namespaced) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	isNamespaced, err := c.IsObjectNamespaced(obj)
	if err != nil {
		return err
	}
	if isNamespaced {
		opts = append(opts[:len(opts):len(opts)], InNamespace(c.namespace))
	}
	return c.Client.DeleteAllOf(ctx, obj, opts...)
}

func (c *namespaced) Status() SubResourceWriter { return c.SubResource("status") }

func (c *namespaced) SubResource(subResource string) SubResourceClient {
	return &namespacedSubResource{c.Client.SubResource(subResource), c}
}

type namespacedSubResource struct {
	SubResourceClient
	parent *namespaced
}

func (c *namespacedSubResource) Get(ctx context.Context, obj, subResource Object, opts ...SubResourceGetOption) error {
	if err := c.parent.enter(obj); err != nil {
		return err
	}
	return c.SubResourceClient.Get(ctx, obj, subResource, opts...)
}

func (c *namespacedSubResource) Create(ctx context.Context, obj, subResource Object, opts ...SubResourceCreateOption) error {
	if err := c.parent.enter(obj); err != nil {
		return err
	}
	return c.SubResourceClient.Create(ctx, obj, subResource, opts...)
}

func (c *namespacedSubResource) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	if err := c.parent.enter(obj); err != nil {
		return err
	}
	return c.SubResourceClient.Update(ctx, obj, opts...)
}

func (c *namespacedSubResource) Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error {
	if err := c.parent.enter(obj); err != nil {
		return err
	}
	return c.SubResourceClient.Patch(ctx, obj, patch, opts...)
}

func (c *namespacedSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error {
	if err := c.parent.enterApplied(obj); err != nil {
		return err
	}
	return c.SubResourceClient.Apply(ctx, obj, opts...)
}
