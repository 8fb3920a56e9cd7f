// Package triggers says why a call is made now, for a line of the log and for people:
//
//	slog.Info("reconciling", "because", triggers.List())
//
// A key is queued once, however much happens. So this is not all that has happened, and what a plugin does must not depend
// on it. Only a reconciler has it.
package triggers

import (
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Trigger is one thing that has queued the key.
type Trigger = host.Trigger

// List returns what has queued the key since the call before, the oldest first, and at most eight. In a unit test that is
// what windlasstest.Host.Triggers holds.
func List() []Trigger { return guest.Host().Triggers() }
