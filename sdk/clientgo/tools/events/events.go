// Package events has the interface of recorders for events.k8s.io/v1, and a recorder for tests. A plugin takes its
// recorder from the manager; the host collects and sends the events.
package events

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// EventRecorder records events about objects.
type EventRecorder interface {
	// Eventf records an event about an object, and a related one if it is not nil. The type is Normal or Warning; the
	// reason and the action are in UpperCamelCase.
	Eventf(regarding runtime.Object, related runtime.Object, eventtype, reason, action, note string, args ...any)
}

// EventRecorderLogger is a recorder that can log to another logger.
type EventRecorderLogger interface {
	EventRecorder
	WithLogger(logger klog.Logger) EventRecorderLogger
}

// FakeRecorder sends the text of each event to a channel. Recording waits while the channel is full. Without a channel
// it drops all events.
type FakeRecorder struct {
	Events chan string
}

var _ EventRecorderLogger = (*FakeRecorder)(nil)

// NewFakeRecorder returns a recorder with a channel of this size.
func NewFakeRecorder(bufferSize int) *FakeRecorder {
	return &FakeRecorder{Events: make(chan string, bufferSize)}
}

// Eventf sends "TYPE REASON NOTE".
func (f *FakeRecorder) Eventf(_ runtime.Object, _ runtime.Object, eventtype, reason, _, note string, args ...any) {
	if f.Events != nil {
		f.Events <- eventtype + " " + reason + " " + fmt.Sprintf(note, args...)
	}
}

// WithLogger returns the same recorder, because it does not log.
func (f *FakeRecorder) WithLogger(klog.Logger) EventRecorderLogger { return f }
