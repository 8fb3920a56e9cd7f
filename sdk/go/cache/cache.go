// Package cache reads from the caches of the declared watches. Reads send no request, and include the writes of this
// call. A read that no declared watch covers fails with windlass.NotWatched.
package cache

import (
	"iter"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Get reads one object into a new T, a struct or a map. It returns nil if the object is not in the cache. With fields
// it reads only the object's identity and the values at these JSON pointers.
func Get[T any](target windlass.Ref, fields ...string) (*T, error) {
	return host.Object[T](guest.Host().CacheGet(target, fields))
}

// Read is one result of GetMany.
type Read[T any] struct {
	// Object is nil if it is not in the cache.
	Object *T
	Err    error
}

// GetMany reads several objects, in the order of the targets.
func GetMany[T any](targets []windlass.Ref, fields ...string) []Read[T] {
	results := make([]Read[T], len(targets))
	for place, read := range guest.Host().CacheGetMany(targets, fields) {
		results[place].Object, results[place].Err = host.Object[T](read)
	}
	return results
}

// Query selects the objects to list. All conditions must hold; an empty field is no condition.
type Query struct {
	Kind windlass.Kind
	// Namespace is empty for all namespaces of the watch.
	Namespace string
	// LabelSelector is in Kubernetes' syntax, such as "app=web,tier in (front,back)".
	LabelSelector string
	// Index is the name of a declared index, which must hold Value.
	Index, Value string
	// Owned selects only objects whose controller is the primary.
	Owned bool
	// Fields are JSON pointers: only the object's identity and these values are read.
	Fields []string
	// PageSize is the number of objects that the host reads at once; zero means 500.
	PageSize int
	// PageBytes is the maximum size of a page in bytes; zero means the host's limit.
	PageBytes int
	// PageToken is the token of an earlier Page in this call, for the same conditions. An empty token starts at the
	// beginning.
	PageToken string
}

// List lists objects, one page at a time as the loop continues. It ends after the first error.
func List[T any](query Query) iter.Seq2[*T, error] {
	return host.Pages[T](query.PageToken, query.read)
}

// Page reads one page of a list, and returns the token of the next page, to continue later in the call. The token of
// the last page is empty.
func Page[T any](query Query) (objects []*T, next string, err error) {
	return host.OnePage[T](query.PageToken, query.read)
}

func (query Query) read(token string) (host.Page, *host.APIError) {
	asked := host.CacheQuery{
		Kind: query.Kind, Namespace: query.Namespace, LabelSelector: query.LabelSelector, Index: query.Index, Value: query.Value,
		Owned: query.Owned, Fields: query.Fields, Limit: 500, MaxBytes: uint32(max(query.PageBytes, 0)), PageToken: token,
	}
	if query.PageSize > 0 {
		asked.Limit = uint32(query.PageSize)
	}
	return guest.Host().CacheList(asked)
}

// All collects the objects of a list.
func All[T any](objects iter.Seq2[*T, error]) ([]*T, error) {
	var all []*T
	for object, err := range objects {
		if err != nil {
			return nil, err
		}
		all = append(all, object)
	}
	return all, nil
}
