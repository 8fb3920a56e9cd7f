package webhook

import "sigs.k8s.io/controller-runtime/internal/refused"

// Refuse returns the error for a webhook.
func Refuse(what string) error {
	return refused.Call(what, "a plugin serves no requests", "leave the call out of the plugin's main, and put what the webhook "+
		"checks into the definition: defaults, formats, and x-kubernetes-validations (CEL), or a ValidatingAdmissionPolicy")
}
