// Package clock has the host's time. In a plugin, time.Now also starts a call at this time, but then advances on its
// own: a sleep takes no time.
package clock

import (
	"time"

	"windlass.dev/sdk/internal/guest"
)

// Now is the current time in UTC. It never goes back within a call; in a composer it does not advance.
func Now() time.Time { return guest.Host().Now() }
