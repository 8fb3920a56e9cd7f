// Package admission has the interfaces of admission webhooks, so that packages with webhooks compile. The host serves
// no webhooks.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
)

// Warnings are shown to the client of a request.
type Warnings []string

// Validator validates objects.
type Validator[T runtime.Object] interface {
	ValidateCreate(ctx context.Context, obj T) (warnings Warnings, err error)
	ValidateUpdate(ctx context.Context, oldObj, newObj T) (warnings Warnings, err error)
	ValidateDelete(ctx context.Context, obj T) (warnings Warnings, err error)
}

// CustomValidator is a Validator of any object.
type CustomValidator = Validator[runtime.Object]

// Defaulter fills in defaults.
type Defaulter[T runtime.Object] interface {
	Default(ctx context.Context, obj T) error
}

// CustomDefaulter is a Defaulter of any object.
type CustomDefaulter = Defaulter[runtime.Object]

// DefaulterOption is an option of a defaulter.
type DefaulterOption func(*defaulterOptions)

type defaulterOptions struct{}

// DefaulterRemoveUnknownOrOmitableFields has no effect.
func DefaulterRemoveUnknownOrOmitableFields(*defaulterOptions) {}
