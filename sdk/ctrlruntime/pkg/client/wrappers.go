package client

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// NewDryRunClient returns a client whose writes are dry runs.
func NewDryRunClient(c Client) Client {
	return &defaulting{
		Client: c, create: DryRunAll, update: DryRunAll, patch: DryRunAll, apply: DryRunAll, remove: DryRunAll,
		removeAll: DryRunAll, sub: DryRunAll, subApply: DryRunAll,
	}
}

// WithFieldOwner returns a client whose writes have this field manager, unless they name another manager.
func WithFieldOwner(c Client, fieldOwner string) Client {
	owner := FieldOwner(fieldOwner)
	return &defaulting{
		Client: c, create: owner, update: owner, patch: owner, apply: owner, remove: nothing{}, removeAll: nothing{},
		sub: owner, subApply: owner,
	}
}

// WithFieldValidation returns a client whose writes treat unknown fields in this way, unless a write has its own
// setting.
func WithFieldValidation(c Client, validation FieldValidation) Client {
	return &defaulting{
		Client: c, create: validation, update: validation, patch: validation, apply: nothing{}, remove: nothing{},
		removeAll: nothing{}, sub: validation, subApply: nothing{},
	}
}

// nothing is an option that changes nothing.
type nothing struct{}

func (nothing) ApplyToApply(*ApplyOptions)                       {}
func (nothing) ApplyToDelete(*DeleteOptions)                     {}
func (nothing) ApplyToDeleteAllOf(*DeleteAllOfOptions)           {}
func (nothing) ApplyToSubResourceApply(*SubResourceApplyOptions) {}

type subResourceWriteOption interface {
	SubResourceCreateOption
	SubResourceUpdateOption
	SubResourcePatchOption
}

// defaulting is a client that puts an option before the options of each write.
type defaulting struct {
	Client
	create    CreateOption
	update    UpdateOption
	patch     PatchOption
	apply     ApplyOption
	remove    DeleteOption
	removeAll DeleteAllOfOption
	sub       subResourceWriteOption
	subApply  SubResourceApplyOption
}

func before[T any](option T, options []T) []T { return append([]T{option}, options...) }

func (c *defaulting) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	return c.Client.Create(ctx, obj, before(c.create, opts)...)
}

func (c *defaulting) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	return c.Client.Update(ctx, obj, before(c.update, opts)...)
}

func (c *defaulting) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	return c.Client.Patch(ctx, obj, patch, before(c.patch, opts)...)
}

func (c *defaulting) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	return c.Client.Apply(ctx, obj, before(c.apply, opts)...)
}

func (c *defaulting) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	return c.Client.Delete(ctx, obj, before(c.remove, opts)...)
}

func (c *defaulting) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	return c.Client.DeleteAllOf(ctx, obj, before(c.removeAll, opts)...)
}

func (c *defaulting) Status() SubResourceWriter { return c.SubResource("status") }

func (c *defaulting) SubResource(subResource string) SubResourceClient {
	return &defaultingSubResource{c.Client.SubResource(subResource), c}
}

type defaultingSubResource struct {
	SubResourceClient
	defaults *defaulting
}

func (c *defaultingSubResource) Create(ctx context.Context, obj, subResource Object, opts ...SubResourceCreateOption) error {
	return c.SubResourceClient.Create(ctx, obj, subResource, before[SubResourceCreateOption](c.defaults.sub, opts)...)
}

func (c *defaultingSubResource) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	return c.SubResourceClient.Update(ctx, obj, before[SubResourceUpdateOption](c.defaults.sub, opts)...)
}

func (c *defaultingSubResource) Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error {
	return c.SubResourceClient.Patch(ctx, obj, patch, before[SubResourcePatchOption](c.defaults.sub, opts)...)
}

func (c *defaultingSubResource) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error {
	return c.SubResourceClient.Apply(ctx, obj, before(c.defaults.subApply, opts)...)
}
