package client

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/internal/codec"
	"sigs.k8s.io/controller-runtime/internal/kinds"
	"sigs.k8s.io/controller-runtime/internal/status"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/live"
)

// isNamespaced reports whether objects of a kind have a namespace. The host is asked once in an instance. The second
// result is false if the host cannot answer: the kind is not served, or a map function runs, which may read only
// caches.
func isNamespaced(kind schema.GroupVersionKind) (isNamespaced, isKnown bool) {
	if isNamespaced, isKnown = kinds.IsNamespaced(kind); isKnown {
		return isNamespaced, true
	}
	served, err := live.Served(codec.Kind(kind))
	if err != nil || served == nil {
		return false, false
	}
	kinds.SetNamespaced(kind, served.Namespaced)
	return served.Namespaced, true
}

// hasNeedlessNamespace reports whether a read has found nothing, or has been refused, because it names a namespace
// although its kind is cluster-scoped. controller-runtime ignores such a namespace.
func hasNeedlessNamespace(kind schema.GroupVersionKind, namespace string, isEmpty bool, err error) bool {
	if namespace == "" || !isEmpty || err != nil && !windlass.Is(err, windlass.Invalid) {
		return false
	}
	isNamespaced, isKnown := isNamespaced(kind)
	return isKnown && !isNamespaced
}

// failure converts an error of a request about a kind. If the API server does not serve the kind, the error is NoMatch
// instead of NotFound.
func failure(kind schema.GroupVersionKind, err error) error {
	var api *windlass.APIError
	// NotFound without an object means that the kind, the subresource or the namespace does not exist.
	if errors.As(err, &api) && api.Reason == windlass.NotFound && api.Object == nil {
		if served, failed := live.Served(codec.Kind(kind)); failed == nil && served == nil {
			return status.NotServed(kind, err)
		}
	}
	return status.Of(err)
}
