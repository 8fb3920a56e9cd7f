// Package kinds records facts from the plugin's set-up about kinds: which are cached, which have indexes, and which
// have namespaces.
package kinds

import (
	"reflect"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Cached is the part of a kind's objects that the plugin's caches have.
type Cached int

// The amounts.
const (
	// Nothing means that nothing is cached, so reads are live.
	Nothing Cached = iota
	// Metadata means that only the metadata is cached.
	Metadata
	// Whole objects are cached.
	Whole
)

// index names an index. Indexes of typed, unstructured and partial objects of one kind are different indexes, because
// their functions expect objects of that Go type.
type index struct {
	kind   schema.GroupVersionKind
	goType reflect.Type
	field  string
}

var (
	cached  = map[schema.GroupVersionKind]Cached{}
	indexes = map[index]func(object any) []string{}
	scopes  = map[schema.GroupVersionKind]bool{}
)

// Cache records that a watch shows objects of a kind.
func Cache(kind schema.GroupVersionKind, amount Cached) { cached[kind] = max(cached[kind], amount) }

// IsCached reports whether a read that needs this much of an object can come from a cache.
func IsCached(kind schema.GroupVersionKind, amount Cached) bool {
	return cached[kind] >= amount
}

// IsNamespaced reports whether objects of a kind have a namespace, as recorded by SetNamespaced. The second result is
// false if this is not known.
func IsNamespaced(kind schema.GroupVersionKind) (isNamespaced, isKnown bool) {
	isNamespaced, isKnown = scopes[kind]
	return isNamespaced, isKnown
}

// SetNamespaced records whether objects of a kind have a namespace. This cannot change while the kind is served.
func SetNamespaced(kind schema.GroupVersionKind, isNamespaced bool) { scopes[kind] = isNamespaced }

// Index adds an index over objects of a kind and a Go type. It returns false if there is one with this name.
func Index(kind schema.GroupVersionKind, goType reflect.Type, field string, values func(object any) []string) bool {
	name := index{kind, goType, field}
	if indexes[name] != nil {
		return false
	}
	indexes[name] = values
	return true
}

// Indexed returns the function of an index, or nil.
func Indexed(kind schema.GroupVersionKind, goType reflect.Type, field string) func(object any) []string {
	return indexes[index{kind, goType, field}]
}

// Reset forgets everything, for tests.
func Reset() {
	clear(cached)
	clear(indexes)
	clear(scopes)
}
