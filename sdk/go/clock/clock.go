// Package clock has the host's time. In a plugin, time.Now starts each call at the host's time too. It then advances
// independently, because a sleep takes no time.
package clock

import (
	"time"

	"windlass.dev/sdk/internal/guest"
)

// Now is the current time in UTC. It never goes back within a call; in a composer it does not advance.
func Now() time.Time { return guest.Host().Now() }
