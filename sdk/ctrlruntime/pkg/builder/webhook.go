package builder

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// WebhookBuilder collects the webhooks of a type. Complete is refused. Its methods take any webhook: controller-runtime
// 0.22 and older name the object in For, and newer ones in WebhookManagedBy, with typed webhooks.
type WebhookBuilder struct{ object runtime.Object }

// WebhookManagedBy begins the webhooks of a type, which the object or For names.
func WebhookManagedBy(_ manager.Manager, object ...runtime.Object) *WebhookBuilder {
	blder := &WebhookBuilder{}
	for _, object := range object {
		blder.object = object
	}
	return blder
}

// For names the type.
func (blder *WebhookBuilder) For(object runtime.Object) *WebhookBuilder {
	blder.object = object
	return blder
}

// WithDefaulter has no effect.
func (blder *WebhookBuilder) WithDefaulter(any, ...admission.DefaulterOption) *WebhookBuilder {
	return blder
}

// WithCustomDefaulter has no effect.
func (blder *WebhookBuilder) WithCustomDefaulter(admission.CustomDefaulter, ...admission.DefaulterOption) *WebhookBuilder {
	return blder
}

// WithValidator has no effect.
func (blder *WebhookBuilder) WithValidator(any) *WebhookBuilder { return blder }

// WithCustomValidator has no effect.
func (blder *WebhookBuilder) WithCustomValidator(admission.CustomValidator) *WebhookBuilder {
	return blder
}

// WithConverter has no effect.
func (blder *WebhookBuilder) WithConverter(any) *WebhookBuilder { return blder }

// WithLogConstructor has no effect.
func (blder *WebhookBuilder) WithLogConstructor(any) *WebhookBuilder { return blder }

// WithContextFunc has no effect.
func (blder *WebhookBuilder) WithContextFunc(any) *WebhookBuilder { return blder }

// RecoverPanic has no effect.
func (blder *WebhookBuilder) RecoverPanic(bool) *WebhookBuilder { return blder }

// WithCustomPath has no effect.
func (blder *WebhookBuilder) WithCustomPath(string) *WebhookBuilder { return blder }

// WithValidatorCustomPath has no effect.
func (blder *WebhookBuilder) WithValidatorCustomPath(string) *WebhookBuilder { return blder }

// WithDefaulterCustomPath has no effect.
func (blder *WebhookBuilder) WithDefaulterCustomPath(string) *WebhookBuilder { return blder }

// Complete is refused: the host serves no webhooks.
func (blder *WebhookBuilder) Complete() error {
	return webhook.Refuse(fmt.Sprintf("a webhook of %T", blder.object))
}
