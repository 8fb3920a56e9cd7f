// Package triggers reports why the host makes this call now, for the log and for people:
//
//	slog.Info("reconciling", "because", triggers.List())
//
// A key is queued only once, even if many events occur. So the list may be incomplete, and a plugin's actions must not
// depend on it. Only reconcilers can use this package.
package triggers

import (
	"windlass.dev/sdk/internal/guest"
	"windlass.dev/sdk/internal/host"
)

// Trigger is one event that has queued the key.
type Trigger = host.Trigger

// List returns the events that have queued the key since its previous call, oldest first, and at most eight. In a unit
// test it returns windlasstest.Host.Triggers.
func List() []Trigger { return guest.Host().Triggers() }
