// Package clock has the host's time. In a plugin time.Now begins a call with it too, but then goes on by itself: a sleep takes
// no time.
package clock

import (
	"time"

	"windlass.dev/sdk/internal/guest"
)

// Now is the time, in UTC. It never goes back within a call; in a composer it stands still.
func Now() time.Time { return guest.Host().Now() }
