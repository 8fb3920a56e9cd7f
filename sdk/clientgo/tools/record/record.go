// Package record has the interface through which reconcilers record events, and a recorder for their tests. A plugin
// takes its recorder from the manager; the host collects and sends the events.
package record

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// EventRecorder records events about objects.
type EventRecorder interface {
	// Event records an event about the object. The type is Normal or Warning, and the reason is in UpperCamelCase.
	Event(object runtime.Object, eventtype, reason, message string)
	// Eventf is Event with a format.
	Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any)
	// AnnotatedEventf is Eventf with annotations for the event.
	AnnotatedEventf(
		object runtime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any)
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
	// IncludeObject adds the kind and version of the object to the text.
	IncludeObject bool
}

var _ EventRecorderLogger = (*FakeRecorder)(nil)

// NewFakeRecorder returns a recorder with a channel of this size.
func NewFakeRecorder(bufferSize int) *FakeRecorder {
	return &FakeRecorder{Events: make(chan string, bufferSize)}
}

// Event sends "TYPE REASON MESSAGE".
func (f *FakeRecorder) Event(object runtime.Object, eventtype, reason, message string) {
	f.send(object, nil, eventtype, reason, message)
}

// Eventf sends "TYPE REASON MESSAGE".
func (f *FakeRecorder) Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any) {
	f.send(object, nil, eventtype, reason, fmt.Sprintf(messageFmt, args...))
}

// AnnotatedEventf sends "TYPE REASON MESSAGE map[ANNOTATIONS]".
func (f *FakeRecorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any,
) {
	f.send(object, annotations, eventtype, reason, fmt.Sprintf(messageFmt, args...))
}

// WithLogger returns the same recorder, because it does not log.
func (f *FakeRecorder) WithLogger(klog.Logger) EventRecorderLogger { return f }

func (f *FakeRecorder) send(
	object runtime.Object, annotations map[string]string, eventtype, reason, message string,
) {
	if f.Events == nil {
		return
	}
	text := eventtype + " " + reason + " " + message
	if f.IncludeObject {
		kind := object.GetObjectKind().GroupVersionKind()
		text += fmt.Sprintf(" involvedObject{kind=%s,apiVersion=%s}", kind.Kind, kind.GroupVersion())
	}
	if len(annotations) > 0 {
		text += fmt.Sprint(" ", annotations)
	}
	f.Events <- text
}
