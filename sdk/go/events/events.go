// Package events sends Kubernetes Events. One may be merged with others or dropped, and none fails a call.
package events

import (
	"windlass.dev/sdk"
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Option says more of an event.
type Option func(*host.Event)

// About names the object that the event is about. The primary if nothing is said.
func About(object windlass.Ref) Option { return func(event *host.Event) { event.Regarding = &object } }

// With names another object that has to do with it.
func With(object windlass.Ref) Option { return func(event *host.Event) { event.Related = &object } }

// Normal says what was done: why and what in CamelCase for machines, and a note for people.
func Normal(reason, action, note string, options ...Option) {
	emit(host.Event{Reason: reason, Action: action, Note: note}, options)
}

// Warning says what went wrong, or may go wrong.
func Warning(reason, action, note string, options ...Option) {
	emit(host.Event{Warning: true, Reason: reason, Action: action, Note: note}, options)
}

func emit(event host.Event, options []Option) {
	for _, option := range options {
		option(&event)
	}
	guest.Host().Emit(event)
}
