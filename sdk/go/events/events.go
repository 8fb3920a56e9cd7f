// Package events sends Kubernetes Events. The host may merge or drop them; they never make a call fail.
package events

import (
	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Option adds to an event.
type Option func(*host.Event)

// About sets the object that the event is about. By default it is the primary.
func About(object windlass.Ref) Option { return func(event *host.Event) { event.Regarding = &object } }

// With adds a second, related object.
func With(object windlass.Ref) Option { return func(event *host.Event) { event.Related = &object } }

// Normal reports an action: reason and action in CamelCase for machines, and a note for people.
func Normal(reason, action, note string, options ...Option) {
	emit(host.Event{Reason: reason, Action: action, Note: note}, options)
}

// Warning reports something that went wrong, or may go wrong.
func Warning(reason, action, note string, options ...Option) {
	emit(host.Event{Warning: true, Reason: reason, Action: action, Note: note}, options)
}

func emit(event host.Event, options []Option) {
	for _, option := range options {
		option(&event)
	}
	guest.Host().Emit(event)
}
