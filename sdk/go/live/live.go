// Package live reads from the API server itself. Each read costs a request and counts against the plugin's budget.
// Where a watch can be declared, package cache is better.
package live

import (
	"iter"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Get reads one object into a new T, a struct or a map. Nil: it does not exist.
func Get[T any](target windlass.Ref) (*T, error) {
	return host.Object[T](guest.Host().LiveGet(target))
}

// Query says what to list. All conditions must hold; an empty field is no condition.
type Query struct {
	Kind windlass.Kind
	// Namespace is empty for all namespaces.
	Namespace string
	// LabelSelector is in Kubernetes' syntax, such as "app=web,tier in (front,back)".
	LabelSelector string
	// FieldSelector is in Kubernetes' syntax, such as "spec.nodeName=n1", as far as the API supports it for the kind.
	FieldSelector string
	// PageSize is how many objects are read at once; zero: 500.
	PageSize int
	// PageToken is where to begin: the token that Page returned, for the same conditions; empty: at the beginning.
	PageToken string
}

// List lists objects, a page at a time as the loop goes on. It ends after the first error. cache.All collects it.
func List[T any](query Query) iter.Seq2[*T, error] {
	return host.Pages[T](query.PageToken, query.read)
}

// Page reads one page of a list, and the token of the next one, with which to continue later, even in another call: the
// server keeps it for some minutes. Empty: it is the last one.
func Page[T any](query Query) (objects []*T, next string, err error) {
	return host.OnePage[T](query.PageToken, query.read)
}

func (query Query) read(token string) (host.Page, *host.APIError) {
	asked := host.LiveQuery{
		Kind: query.Kind, Namespace: query.Namespace, LabelSelector: query.LabelSelector, FieldSelector: query.FieldSelector, Limit: 500,
		PageToken: token,
	}
	if query.PageSize > 0 {
		asked.Limit = uint32(query.PageSize)
	}
	return guest.Host().LiveList(asked)
}
