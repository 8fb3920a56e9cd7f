// Package composer turns a function into a plugin. The function computes, from an object and the objects around it, the
// children that should exist. The host applies, owns, prunes and reports them.
//
// A composer may use log, clock, random and config, and no other package of the SDK that calls the host: its response
// depends only on its request. A composer that uses another package does not build.
package composer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/entry"
	"windlass.dev/sdk/internal/host"
	"windlass.dev/sdk/manifest"
)

// Func computes a composition. Its errors are reported like those of a reconciler.Func.
type Func func(ctx context.Context, request Request) (Composition, error)

// Request is a composer's request: an object, its children and its related objects. A test may create one, with any
// objects.
type Request struct {
	// Request names the object that the call is about. Its Raw is the parent.
	windlass.Request
	// RawChildren are the objects of the owned kinds whose controller is the parent.
	RawChildren []json.RawMessage
	// RawRelated are the objects of the other watches that map to the parent.
	RawRelated []json.RawMessage
	// RawConfig is the operator's configuration; empty if there is none.
	RawConfig json.RawMessage
}

// Parent decodes the object whose children are computed into value, a pointer to a struct or a map. An object that does
// not fit is a Terminal error.
func (request Request) Parent(value any) error {
	has, err := request.Object(value)
	if err == nil && !has {
		return windlass.Terminal(fmt.Errorf("the request has no parent"))
	}
	return err
}

// Config decodes the operator's configuration, as package config does.
func (request Request) Config(value any) error {
	document := request.RawConfig
	if len(document) == 0 {
		document = json.RawMessage("{}")
	}
	return host.Expect("the configuration", string(document), value)
}

// Children returns the children of a kind.
func Children[T any](request Request, apiVersion, kind string) ([]*T, error) {
	return all[T](request.RawChildren, windlass.Kind{APIVersion: apiVersion, Kind: kind})
}

// Child returns the child that a reference names. It returns nil if the object does not exist, or the parent does not
// control it.
func Child[T any](request Request, target windlass.Ref) (*T, error) {
	return one[T](request.RawChildren, target)
}

// Related returns the related objects of a kind.
func Related[T any](request Request, apiVersion, kind string) ([]*T, error) {
	return all[T](request.RawRelated, windlass.Kind{APIVersion: apiVersion, Kind: kind})
}

// RelatedObject returns the related object that a reference names. It returns nil if the object does not exist, or does
// not map to the parent.
func RelatedObject[T any](request Request, target windlass.Ref) (*T, error) {
	return one[T](request.RawRelated, target)
}

// head is the part of an object that identifies it in a reference.
type head struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   windlass.Metadata `json:"metadata"`
}

func all[T any](objects []json.RawMessage, kind windlass.Kind) ([]*T, error) {
	var found []*T
	for _, document := range objects {
		var head head
		if err := read(document, &head); err != nil {
			return nil, err
		}
		if head.APIVersion != kind.APIVersion || head.Kind != kind.Kind {
			continue
		}
		object := new(T)
		if err := read(document, object); err != nil {
			return nil, err
		}
		found = append(found, object)
	}
	return found, nil
}

func one[T any](objects []json.RawMessage, target windlass.Ref) (*T, error) {
	for _, document := range objects {
		var head head
		if err := read(document, &head); err != nil {
			return nil, err
		}
		found := head.Metadata.Beside(head.APIVersion, head.Kind)
		if target.UID != "" {
			found.UID = head.Metadata.UID
		}
		if found == target {
			object := new(T)
			return object, read(document, object)
		}
	}
	return nil, nil
}

func read(document json.RawMessage, into any) error {
	return host.Expect("an object", string(document), into)
}

// Composition is a composer's response.
type Composition struct {
	// Children are all objects that should exist, structs or maps, each as a set of fields to apply. Each has a name and
	// an owned kind. Existing children that are not in the list are pruned.
	Children []any
	// Status is the parent's new status; nil leaves it as it is.
	Status any
	// Events are sent each time they are returned, so only return events about something new.
	Events []Event
	// RequeueAfter asks for another call after this time, even if nothing changes; zero asks for none.
	RequeueAfter time.Duration
	// RequeueWithBackoff asks for another call after the parent's backoff, which grows with each such composition in a
	// row, even if nothing changes. This is not a failure. Set at most one of RequeueAfter and RequeueWithBackoff.
	RequeueWithBackoff bool
	// AllowEmpty declares that having no children is intended, so that existing children may be pruned.
	AllowEmpty bool
	// Finalized releases a parent that is being deleted. It needs the option Finalizer.
	Finalized bool
}

// Event is an event about an object: the primary, if Regarding is nil.
type Event = host.Event

// Normal is an event that reports an action: reason and action in CamelCase for machines, and a note for people.
func Normal(reason, action, note string) Event {
	return Event{Reason: reason, Action: action, Note: note}
}

// Warning is an event about something that went wrong, or may go wrong.
func Warning(reason, action, note string) Event {
	return Event{Warning: true, Reason: reason, Action: action, Note: note}
}

var (
	plugin  manifest.Manifest
	compose Func
)

// Register defines the plugin. Call it once, from an init function, because the host does not run main.
func Register(of manifest.Manifest, by Func, options ...Option) {
	if compose != nil {
		panic("composer.Register is called twice: a plugin has one function, and distinguishes its controllers by Request.Controller")
	}
	plugin, compose = of, by
	for _, option := range options {
		option()
	}
}

// needed panics if no plugin was registered.
func needed() {
	if compose == nil {
		panic("nothing is registered: call composer.Register from an init function")
	}
}

// answer is a composition, with its objects as documents.
type answer struct {
	children []string
	status   string
	Composition
}

// run runs one call of the plugin's function.
func run(request Request) (written answer, failures []host.Failure) {
	needed()
	failures = entry.Run(func(ctx context.Context) error {
		composition, err := compose(ctx, request)
		if err == nil {
			written, err = write(composition)
		}
		return err
	})
	return written, failures
}

func write(composition Composition) (answer, error) {
	written := answer{Composition: composition}
	if composition.RequeueAfter > 0 && composition.RequeueWithBackoff {
		return written, windlass.Terminal(errors.New("the composition has a RequeueAfter and RequeueWithBackoff: set one of them"))
	}
	for _, child := range composition.Children {
		document, err := json.Marshal(child)
		if err != nil {
			return written, windlass.Terminal(fmt.Errorf("a child is not JSON: %w", err))
		}
		written.children = append(written.children, string(document))
	}
	if composition.Status != nil {
		document, err := json.Marshal(composition.Status)
		if err != nil {
			return written, windlass.Terminal(fmt.Errorf("the status is not JSON: %w", err))
		}
		written.status = string(document)
	}
	return written, nil
}
