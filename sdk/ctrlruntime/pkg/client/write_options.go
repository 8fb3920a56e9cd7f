package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CreateOptions are the options of a Create.
type CreateOptions struct {
	DryRun          []string
	FieldManager    string
	FieldValidation string
	// Raw is ignored.
	Raw *metav1.CreateOptions
}

// ApplyOptions applies options to these.
func (o *CreateOptions) ApplyOptions(opts []CreateOption) *CreateOptions {
	for _, opt := range opts {
		opt.ApplyToCreate(o)
	}
	return o
}

// ApplyToCreate copies the fields that are set.
func (o *CreateOptions) ApplyToCreate(to *CreateOptions) {
	set(&to.DryRun, o.DryRun, o.DryRun != nil)
	set(&to.FieldManager, o.FieldManager, o.FieldManager != "")
	set(&to.FieldValidation, o.FieldValidation, o.FieldValidation != "")
	set(&to.Raw, o.Raw, o.Raw != nil)
}

// AsCreateOptions returns the options in the API's form.
func (o *CreateOptions) AsCreateOptions() *metav1.CreateOptions {
	return &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// UpdateOptions are the options of an Update.
type UpdateOptions struct {
	DryRun          []string
	FieldManager    string
	FieldValidation string
	// Raw is ignored.
	Raw *metav1.UpdateOptions
}

// ApplyOptions applies options to these.
func (o *UpdateOptions) ApplyOptions(opts []UpdateOption) *UpdateOptions {
	for _, opt := range opts {
		opt.ApplyToUpdate(o)
	}
	return o
}

// ApplyToUpdate copies the fields that are set.
func (o *UpdateOptions) ApplyToUpdate(to *UpdateOptions) {
	set(&to.DryRun, o.DryRun, o.DryRun != nil)
	set(&to.FieldManager, o.FieldManager, o.FieldManager != "")
	set(&to.FieldValidation, o.FieldValidation, o.FieldValidation != "")
	set(&to.Raw, o.Raw, o.Raw != nil)
}

// AsUpdateOptions returns the options in the API's form.
func (o *UpdateOptions) AsUpdateOptions() *metav1.UpdateOptions {
	return &metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// PatchOptions are the options of a Patch.
type PatchOptions struct {
	DryRun []string
	// Force is for apply patches only.
	Force           *bool
	FieldManager    string
	FieldValidation string
	// Raw is ignored.
	Raw *metav1.PatchOptions
}

// ApplyOptions applies options to these.
func (o *PatchOptions) ApplyOptions(opts []PatchOption) *PatchOptions {
	for _, opt := range opts {
		opt.ApplyToPatch(o)
	}
	return o
}

// ApplyToPatch copies the fields that are set.
func (o *PatchOptions) ApplyToPatch(to *PatchOptions) {
	set(&to.DryRun, o.DryRun, o.DryRun != nil)
	set(&to.Force, o.Force, o.Force != nil)
	set(&to.FieldManager, o.FieldManager, o.FieldManager != "")
	set(&to.FieldValidation, o.FieldValidation, o.FieldValidation != "")
	set(&to.Raw, o.Raw, o.Raw != nil)
}

// AsPatchOptions returns the options in the API's form.
func (o *PatchOptions) AsPatchOptions() *metav1.PatchOptions {
	return &metav1.PatchOptions{
		DryRun: o.DryRun, Force: o.Force, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation,
	}
}

// ApplyOptions are the options of an Apply.
type ApplyOptions struct {
	DryRun       []string
	Force        *bool
	FieldManager string
}

// ApplyOptions applies options to these.
func (o *ApplyOptions) ApplyOptions(opts []ApplyOption) *ApplyOptions {
	for _, opt := range opts {
		opt.ApplyToApply(o)
	}
	return o
}

// ApplyToApply copies the fields that are set.
func (o *ApplyOptions) ApplyToApply(to *ApplyOptions) {
	set(&to.DryRun, o.DryRun, o.DryRun != nil)
	set(&to.Force, o.Force, o.Force != nil)
	set(&to.FieldManager, o.FieldManager, o.FieldManager != "")
}

// AsPatchOptions returns the options in the API's form.
func (o *ApplyOptions) AsPatchOptions() *metav1.PatchOptions {
	return &metav1.PatchOptions{DryRun: o.DryRun, Force: o.Force, FieldManager: o.FieldManager}
}

// DeleteOptions are the options of a Delete.
type DeleteOptions struct {
	GracePeriodSeconds *int64
	Preconditions      *metav1.Preconditions
	PropagationPolicy  *metav1.DeletionPropagation
	// Raw is ignored.
	Raw    *metav1.DeleteOptions
	DryRun []string
}

// ApplyOptions applies options to these.
func (o *DeleteOptions) ApplyOptions(opts []DeleteOption) *DeleteOptions {
	for _, opt := range opts {
		opt.ApplyToDelete(o)
	}
	return o
}

// ApplyToDelete copies the fields that are set.
func (o *DeleteOptions) ApplyToDelete(to *DeleteOptions) {
	set(&to.GracePeriodSeconds, o.GracePeriodSeconds, o.GracePeriodSeconds != nil)
	set(&to.Preconditions, o.Preconditions, o.Preconditions != nil)
	set(&to.PropagationPolicy, o.PropagationPolicy, o.PropagationPolicy != nil)
	set(&to.Raw, o.Raw, o.Raw != nil)
	set(&to.DryRun, o.DryRun, o.DryRun != nil)
}

// AsDeleteOptions returns the options in the API's form.
func (o *DeleteOptions) AsDeleteOptions() *metav1.DeleteOptions {
	return &metav1.DeleteOptions{
		GracePeriodSeconds: o.GracePeriodSeconds, Preconditions: o.Preconditions, PropagationPolicy: o.PropagationPolicy,
		DryRun: o.DryRun,
	}
}

// GracePeriodSeconds is the grace period of a deletion.
type GracePeriodSeconds int64

func (s GracePeriodSeconds) ApplyToDelete(o *DeleteOptions) { o.GracePeriodSeconds = new(int64(s)) }
func (s GracePeriodSeconds) ApplyToDeleteAllOf(o *DeleteAllOfOptions) {
	s.ApplyToDelete(&o.DeleteOptions)
}

// Preconditions are the UID and the version that the object must have to be
// deleted.
type Preconditions metav1.Preconditions

func (p Preconditions) ApplyToDelete(o *DeleteOptions) {
	o.Preconditions = new(metav1.Preconditions(p))
}
func (p Preconditions) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { p.ApplyToDelete(&o.DeleteOptions) }

// PropagationPolicy determines what happens to the dependents of a deleted
// object.
type PropagationPolicy metav1.DeletionPropagation

func (p PropagationPolicy) ApplyToDelete(o *DeleteOptions) {
	o.PropagationPolicy = new(metav1.DeletionPropagation(p))
}
func (p PropagationPolicy) ApplyToDeleteAllOf(o *DeleteAllOfOptions) {
	p.ApplyToDelete(&o.DeleteOptions)
}

// DeleteAllOfOptions are the options of a DeleteAllOf.
type DeleteAllOfOptions struct {
	ListOptions
	DeleteOptions
}

// ApplyOptions applies options to these.
func (o *DeleteAllOfOptions) ApplyOptions(opts []DeleteAllOfOption) *DeleteAllOfOptions {
	for _, opt := range opts {
		opt.ApplyToDeleteAllOf(o)
	}
	return o
}

// ApplyToDeleteAllOf copies the fields that are set.
func (o *DeleteAllOfOptions) ApplyToDeleteAllOf(to *DeleteAllOfOptions) {
	o.ApplyToList(&to.ListOptions)
	o.ApplyToDelete(&to.DeleteOptions)
}

// SubResourceGetOptions are the options of a SubResourceReader's Get.
type SubResourceGetOptions struct {
	// Raw is ignored.
	Raw *metav1.GetOptions
}

// ApplyOptions applies options to these.
func (o *SubResourceGetOptions) ApplyOptions(opts []SubResourceGetOption) *SubResourceGetOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourceGet(o)
	}
	return o
}

// ApplyToSubResourceGet copies the fields that are set.
func (o *SubResourceGetOptions) ApplyToSubResourceGet(to *SubResourceGetOptions) {
	set(&to.Raw, o.Raw, o.Raw != nil)
}

// AsGetOptions returns the options in the API's form.
func (o *SubResourceGetOptions) AsGetOptions() *metav1.GetOptions { return &metav1.GetOptions{} }

// SubResourceCreateOptions are the options of a SubResourceWriter's Create.
type SubResourceCreateOptions struct {
	CreateOptions
}

// ApplyOptions applies options to these.
func (o *SubResourceCreateOptions) ApplyOptions(opts []SubResourceCreateOption) *SubResourceCreateOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourceCreate(o)
	}
	return o
}

// ApplyToSubResourceCreate copies the fields that are set.
func (o *SubResourceCreateOptions) ApplyToSubResourceCreate(to *SubResourceCreateOptions) {
	o.ApplyToCreate(&to.CreateOptions)
}

// SubResourceUpdateOptions are the options of a SubResourceWriter's Update.
type SubResourceUpdateOptions struct {
	UpdateOptions
	// SubResourceBody is the body of the write, if it is not the object itself.
	SubResourceBody Object
}

// ApplyOptions applies options to these.
func (o *SubResourceUpdateOptions) ApplyOptions(opts []SubResourceUpdateOption) *SubResourceUpdateOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourceUpdate(o)
	}
	return o
}

// ApplyToSubResourceUpdate copies the fields that are set.
func (o *SubResourceUpdateOptions) ApplyToSubResourceUpdate(to *SubResourceUpdateOptions) {
	o.ApplyToUpdate(&to.UpdateOptions)
	set(&to.SubResourceBody, o.SubResourceBody, o.SubResourceBody != nil)
}

// SubResourcePatchOptions are the options of a SubResourceWriter's Patch.
type SubResourcePatchOptions struct {
	PatchOptions
	// SubResourceBody is the body of the write, if it is not the object itself.
	SubResourceBody Object
}

// ApplyOptions applies options to these.
func (o *SubResourcePatchOptions) ApplyOptions(opts []SubResourcePatchOption) *SubResourcePatchOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourcePatch(o)
	}
	return o
}

// ApplyToSubResourcePatch copies the fields that are set.
func (o *SubResourcePatchOptions) ApplyToSubResourcePatch(to *SubResourcePatchOptions) {
	o.ApplyToPatch(&to.PatchOptions)
	set(&to.SubResourceBody, o.SubResourceBody, o.SubResourceBody != nil)
}

// SubResourceApplyOptions are the options of a SubResourceWriter's Apply.
type SubResourceApplyOptions struct {
	ApplyOptions
	// SubResourceBody is the body of the write, if it is not the object itself.
	SubResourceBody runtime.ApplyConfiguration
}

// ApplyOpts applies options to these.
func (o *SubResourceApplyOptions) ApplyOpts(opts []SubResourceApplyOption) *SubResourceApplyOptions {
	for _, opt := range opts {
		opt.ApplyToSubResourceApply(o)
	}
	return o
}

// ApplyToSubResourceApply copies the fields that are set.
func (o *SubResourceApplyOptions) ApplyToSubResourceApply(to *SubResourceApplyOptions) {
	o.ApplyToApply(&to.ApplyOptions)
	set(&to.SubResourceBody, o.SubResourceBody, o.SubResourceBody != nil)
}

// set copies an option that is set.
func set[T any](to *T, value T, isSet bool) {
	if isSet {
		*to = value
	}
}
