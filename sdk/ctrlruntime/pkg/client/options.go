package client

// The options of each kind of request. An option sets fields of the request's struct of options, such as CreateOptions.
// One value may be an option of several kinds of requests.
type (
	// CreateOption is an option of a Create.
	CreateOption interface{ ApplyToCreate(*CreateOptions) }
	// DeleteOption is an option of a Delete.
	DeleteOption interface{ ApplyToDelete(*DeleteOptions) }
	// GetOption is an option of a Get.
	GetOption interface{ ApplyToGet(*GetOptions) }
	// ListOption is an option of a List.
	ListOption interface{ ApplyToList(*ListOptions) }
	// UpdateOption is an option of an Update.
	UpdateOption interface{ ApplyToUpdate(*UpdateOptions) }
	// PatchOption is an option of a Patch.
	PatchOption interface{ ApplyToPatch(*PatchOptions) }
	// ApplyOption is an option of an Apply.
	ApplyOption interface{ ApplyToApply(*ApplyOptions) }
	// DeleteAllOfOption is an option of a DeleteAllOf.
	DeleteAllOfOption interface {
		ApplyToDeleteAllOf(*DeleteAllOfOptions)
	}
	// SubResourceGetOption is an option of a SubResourceReader's Get.
	SubResourceGetOption interface {
		ApplyToSubResourceGet(*SubResourceGetOptions)
	}
	// SubResourceCreateOption is an option of a SubResourceWriter's Create.
	SubResourceCreateOption interface {
		ApplyToSubResourceCreate(*SubResourceCreateOptions)
	}
	// SubResourceUpdateOption is an option of a SubResourceWriter's Update.
	SubResourceUpdateOption interface {
		ApplyToSubResourceUpdate(*SubResourceUpdateOptions)
	}
	// SubResourcePatchOption is an option of a SubResourceWriter's Patch.
	SubResourcePatchOption interface {
		ApplyToSubResourcePatch(*SubResourcePatchOptions)
	}
	// SubResourceApplyOption is an option of a SubResourceWriter's Apply.
	SubResourceApplyOption interface {
		ApplyToSubResourceApply(*SubResourceApplyOptions)
	}
	// SubResourceUpdateAndPatchOption is an option of both Update and Patch.
	SubResourceUpdateAndPatchOption interface {
		SubResourceUpdateOption
		SubResourcePatchOption
	}
)

// DryRunAll makes the server check a write and respond as if it had made it, without making it.
var DryRunAll = dryRunAll{}

type dryRunAll struct{}

// dryRun is the value of DryRun in the options of a request.
const dryRun = "All"

func (dryRunAll) ApplyToCreate(o *CreateOptions)                       { o.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToUpdate(o *UpdateOptions)                       { o.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToPatch(o *PatchOptions)                         { o.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToApply(o *ApplyOptions)                         { o.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToDelete(o *DeleteOptions)                       { o.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToDeleteAllOf(o *DeleteAllOfOptions)             { o.DeleteOptions.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToSubResourceCreate(o *SubResourceCreateOptions) { o.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToSubResourceUpdate(o *SubResourceUpdateOptions) { o.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToSubResourcePatch(o *SubResourcePatchOptions)   { o.DryRun = []string{dryRun} }
func (dryRunAll) ApplyToSubResourceApply(o *SubResourceApplyOptions)   { o.DryRun = []string{dryRun} }

// FieldOwner names the field manager of a write. The host's name of the plugin is put in front of it.
type FieldOwner string

func (f FieldOwner) ApplyToCreate(o *CreateOptions)                       { o.FieldManager = string(f) }
func (f FieldOwner) ApplyToUpdate(o *UpdateOptions)                       { o.FieldManager = string(f) }
func (f FieldOwner) ApplyToPatch(o *PatchOptions)                         { o.FieldManager = string(f) }
func (f FieldOwner) ApplyToApply(o *ApplyOptions)                         { o.FieldManager = string(f) }
func (f FieldOwner) ApplyToSubResourceCreate(o *SubResourceCreateOptions) { o.FieldManager = string(f) }
func (f FieldOwner) ApplyToSubResourceUpdate(o *SubResourceUpdateOptions) { o.FieldManager = string(f) }
func (f FieldOwner) ApplyToSubResourcePatch(o *SubResourcePatchOptions)   { o.FieldManager = string(f) }
func (f FieldOwner) ApplyToSubResourceApply(o *SubResourceApplyOptions)   { o.FieldManager = string(f) }

// FieldValidation is how the server treats unknown fields: "Strict", "Warn" or "Ignore".
type FieldValidation string

func (f FieldValidation) ApplyToCreate(o *CreateOptions) { o.FieldValidation = string(f) }
func (f FieldValidation) ApplyToUpdate(o *UpdateOptions) { o.FieldValidation = string(f) }
func (f FieldValidation) ApplyToPatch(o *PatchOptions)   { o.FieldValidation = string(f) }
func (f FieldValidation) ApplyToSubResourceCreate(o *SubResourceCreateOptions) {
	o.FieldValidation = string(f)
}
func (f FieldValidation) ApplyToSubResourceUpdate(o *SubResourceUpdateOptions) {
	o.FieldValidation = string(f)
}
func (f FieldValidation) ApplyToSubResourcePatch(o *SubResourcePatchOptions) {
	o.FieldValidation = string(f)
}

// ForceOwnership makes an apply take over fields that other managers own.
var ForceOwnership = forceOwnership{}

type forceOwnership struct{}

func (forceOwnership) ApplyToPatch(o *PatchOptions)                       { o.Force = new(true) }
func (forceOwnership) ApplyToApply(o *ApplyOptions)                       { o.Force = new(true) }
func (forceOwnership) ApplyToSubResourcePatch(o *SubResourcePatchOptions) { o.Force = new(true) }
func (forceOwnership) ApplyToSubResourceApply(o *SubResourceApplyOptions) { o.Force = new(true) }

// WithSubResourceBody sets the body of a write to a subresource whose body is not the object itself, such as
// "scale".
func WithSubResourceBody(body Object) SubResourceUpdateAndPatchOption { return subResourceBody{body} }

type subResourceBody struct{ body Object }

func (b subResourceBody) ApplyToSubResourceUpdate(o *SubResourceUpdateOptions) {
	o.SubResourceBody = b.body
}
func (b subResourceBody) ApplyToSubResourcePatch(o *SubResourcePatchOptions) {
	o.SubResourceBody = b.body
}
