// Package live reads from the API server itself. Each read sends a request and counts against the plugin's budget, and
// needs a right in the manifest. If a watch can be declared, prefer package cache.
package live

import (
	"iter"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Get reads one object into a new T, a struct or a map. It returns nil if the object does not exist. With fields it
// reads only the object's identity and the values at these JSON pointers.
func Get[T any](target windlass.Ref, fields ...string) (*T, error) {
	return get[T](target, "", host.View{Fields: fields})
}

// GetMetadata reads only the apiVersion, kind and metadata of an object. The server sends no more.
func GetMetadata[T any](target windlass.Ref) (*T, error) {
	return get[T](target, "", host.View{Metadata: true})
}

// GetSubresource reads a subresource of an object, such as "scale" or "status". It returns nil if the object does not
// exist. It needs its own right, such as to get deployments/scale.
func GetSubresource[T any](target windlass.Ref, name string) (*T, error) {
	return get[T](target, name, host.View{})
}

func get[T any](target windlass.Ref, subresource string, view host.View) (*T, error) {
	return host.Object[T](guest.Host().LiveGet(target, subresource, view))
}

// Query selects the objects to list. All conditions must hold; an empty field is no condition.
type Query struct {
	Kind windlass.Kind
	// Namespace is empty for all namespaces.
	Namespace string
	// LabelSelector is in Kubernetes' syntax, such as "app=web,tier in (front,back)".
	LabelSelector string
	// FieldSelector is in Kubernetes' syntax, such as "spec.nodeName=n1", as far as the API supports it for the kind.
	FieldSelector string
	// Metadata reads only the apiVersion, kind and metadata of each object. The server sends no more.
	Metadata bool
	// Fields are JSON pointers: only each object's identity and these values are read.
	Fields []string
	// PageSize is the number of objects that are read at once; zero means 500.
	PageSize int
	// PageToken is the token that Page returned, for the same conditions. An empty token starts at the beginning.
	PageToken string
}

// List lists objects, one page at a time as the loop continues. It ends after the first error. cache.All collects the
// objects.
func List[T any](query Query) iter.Seq2[*T, error] {
	return host.Pages[T](query.PageToken, query.read)
}

// Page reads one page of a list, and returns the token of the next page. The server keeps that page for some minutes,
// so even another call can continue. The token of the last page is empty.
func Page[T any](query Query) (objects []*T, next string, err error) {
	return host.OnePage[T](query.PageToken, query.read)
}

func (query Query) read(token string) (host.Page, *host.APIError) {
	asked := host.LiveQuery{
		Kind: query.Kind, Namespace: query.Namespace, LabelSelector: query.LabelSelector, FieldSelector: query.FieldSelector,
		View: host.View{Metadata: query.Metadata, Fields: query.Fields}, Limit: 500, PageToken: token,
	}
	if query.PageSize > 0 {
		asked.Limit = uint32(query.PageSize)
	}
	return guest.Host().LiveList(asked)
}

// LogQuery selects the part of a log to read; a zero field is no condition.
type LogQuery struct {
	// Container may be empty if the Pod has only one.
	Container string
	// Previous reads the log of the container's previous, terminated run.
	Previous bool
	// TailLines is the number of last lines to read.
	TailLines int
	// Since is the maximum age of a line, rounded up to whole seconds.
	Since time.Duration
	// LimitBytes is the number of bytes to read; zero means as many as the host returns at once.
	LimitBytes int
}

// Log reads the log of a Pod's container. Bytes that are not UTF-8 become U+FFFD. It needs the right to get pods/log.
func Log(pod windlass.Ref, query LogQuery) (string, error) {
	pod.UID = ""
	asked := host.LogQuery{
		Target: pod, Container: query.Container, Previous: query.Previous, TailLines: uint32(max(query.TailLines, 0)),
		Since: query.Since, LimitBytes: uint32(max(query.LimitBytes, 0)),
	}
	log, failed := guest.Host().LiveLog(asked)
	if failed != nil {
		return "", failed
	}
	return log, nil
}

// ServedKind describes how the API server serves a kind.
type ServedKind = host.Served

// ListedKind is a kind that the API server serves.
type ListedKind = host.Listed

// Served returns how the API server serves a kind, for plugins that adapt to the cluster. It returns nil if the server
// does not serve the kind. It needs no right, and counts as a read.
func Served(kind windlass.Kind) (*ServedKind, error) {
	served, failed := guest.Host().LiveServed(kind)
	if failed != nil {
		return nil, failed
	}
	return served, nil
}

// Kinds returns all kinds that the API server serves, each once, ordered by group and kind. It needs no right, and counts
// as a read. A kind that was just installed may be missing for some seconds.
func Kinds() ([]ListedKind, error) {
	kinds, failed := guest.Host().LiveKinds()
	if failed != nil {
		return nil, failed
	}
	return kinds, nil
}
