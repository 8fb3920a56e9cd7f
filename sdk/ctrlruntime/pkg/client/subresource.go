package client

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/internal/codec"
	"sigs.k8s.io/controller-runtime/internal/status"
	"windlass.dev/sdk/live"
	"windlass.dev/sdk/writes"
)

// subResourceClient reads and writes a subresource.
type subResourceClient struct {
	client *hostClient
	name   string
}

func (c *subResourceClient) Get(_ context.Context, obj, subResource Object, _ ...SubResourceGetOption) error {
	if err := refusePartial("read a subresource of", obj, subResource); err != nil {
		return err
	}
	kind, err := c.client.kindFor(obj)
	if err != nil {
		return err
	}
	target := codec.Ref(obj, kind)
	document, err := live.GetSubresource[json.RawMessage](target, c.name)
	switch {
	case err != nil:
		return failure(kind, err)
	case document == nil:
		return status.NotFound(kind, target)
	}
	return codec.Decode(*document, subResource)
}

func (c *subResourceClient) Create(ctx context.Context, obj, subResource Object, opts ...SubResourceCreateOption) error {
	options := (&SubResourceCreateOptions{}).ApplyOptions(opts)
	if err := refusePartial("create a subresource of", obj, subResource); err != nil {
		return err
	}
	parent, err := c.client.kindFor(obj)
	if err != nil {
		return err
	}
	kind, body, err := c.client.encoded(subResource)
	if err != nil {
		return err
	}
	how := writeOptions(options.DryRun, options.FieldManager, options.FieldValidation)
	how = append(how, writes.Subresource(c.name), writes.Of(codec.Ref(obj, parent)))
	written, err := writes.Create(body, how...)
	return c.client.returned(ctx, subResource, kind, written, err)
}

func (c *subResourceClient) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	options := (&SubResourceUpdateOptions{}).ApplyOptions(opts)
	if err := refusePartial("update a subresource of", obj, options.SubResourceBody); err != nil {
		return err
	}
	how := writeOptions(options.DryRun, options.FieldManager, options.FieldValidation)
	how = append(how, writes.Subresource(c.name))
	result := obj
	if options.SubResourceBody != nil {
		parent, err := c.client.kindFor(obj)
		if err != nil {
			return err
		}
		result, how = options.SubResourceBody, append(how, writes.Of(codec.Ref(obj, parent)))
	}
	kind, body, err := c.client.encoded(result)
	if err != nil {
		return err
	}
	written, err := writes.Update(body, how...)
	return c.client.returned(ctx, result, kind, written, err)
}

func (c *subResourceClient) Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error {
	options := (&SubResourcePatchOptions{}).ApplyOptions(opts)
	result := obj
	if options.SubResourceBody != nil {
		result = options.SubResourceBody
	}
	return c.client.patch(ctx, obj, result, patch, &options.PatchOptions, writes.Subresource(c.name))
}

func (c *subResourceClient) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error {
	options := (&SubResourceApplyOptions{}).ApplyOpts(opts)
	if options.SubResourceBody == nil {
		return c.client.apply(ctx, obj, obj, &options.ApplyOptions, writes.Subresource(c.name))
	}
	// The body has another kind than the object, whose name and kind are in obj.
	document, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	parent, err := refOf(document)
	if err != nil {
		return err
	}
	return c.client.apply(
		ctx, options.SubResourceBody, options.SubResourceBody, &options.ApplyOptions, writes.Subresource(c.name), writes.Of(parent),
	)
}
