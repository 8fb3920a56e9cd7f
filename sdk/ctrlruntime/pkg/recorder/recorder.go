// Package recorder has the interface for making recorders of events.
package recorder

import (
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
)

// Provider makes recorders of events.
type Provider interface {
	// GetEventRecorderFor returns a recorder.
	//
	// Deprecated: use GetEventRecorder.
	GetEventRecorderFor(name string) record.EventRecorder
	// GetEventRecorder returns a recorder. The name has no effect: the host names the plugin as the source of its
	// events.
	GetEventRecorder(name string) events.EventRecorder
}
