package builder

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// WebhookBuilder collects the webhooks of a type. Complete is refused.
type WebhookBuilder[T runtime.Object] struct{ object T }

// WebhookManagedBy begins the webhooks of a type.
func WebhookManagedBy[T runtime.Object](_ manager.Manager, object T) *WebhookBuilder[T] {
	return &WebhookBuilder[T]{object}
}

// WithDefaulter has no effect.
func (blder *WebhookBuilder[T]) WithDefaulter(admission.Defaulter[T], ...admission.DefaulterOption) *WebhookBuilder[T] {
	return blder
}

// WithCustomDefaulter has no effect.
func (blder *WebhookBuilder[T]) WithCustomDefaulter(admission.CustomDefaulter, ...admission.DefaulterOption) *WebhookBuilder[T] {
	return blder
}

// WithValidator has no effect.
func (blder *WebhookBuilder[T]) WithValidator(admission.Validator[T]) *WebhookBuilder[T] {
	return blder
}

// WithCustomValidator has no effect.
func (blder *WebhookBuilder[T]) WithCustomValidator(admission.CustomValidator) *WebhookBuilder[T] {
	return blder
}

// RecoverPanic has no effect.
func (blder *WebhookBuilder[T]) RecoverPanic(bool) *WebhookBuilder[T] { return blder }

// WithValidatorCustomPath has no effect.
func (blder *WebhookBuilder[T]) WithValidatorCustomPath(string) *WebhookBuilder[T] { return blder }

// WithDefaulterCustomPath has no effect.
func (blder *WebhookBuilder[T]) WithDefaulterCustomPath(string) *WebhookBuilder[T] { return blder }

// Complete is refused: the host serves no webhooks.
func (blder *WebhookBuilder[T]) Complete() error {
	return webhook.Refuse(fmt.Sprintf("a webhook of %T", blder.object))
}
