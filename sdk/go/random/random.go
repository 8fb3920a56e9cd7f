// Package random has the host's randomness: cryptographically secure in a reconciler, repeatable in a composer.
// math/rand and crypto/rand are seeded from it at the start of each call, and are repeatable from then on. So use
// Bytes for keys and tokens.
package random

import "windlass.dev/sdk/internal/guest"

// Uint32 is four random bytes as a number.
func Uint32() uint32 { return guest.Host().RandomUint32() }

// Bytes returns this many random bytes.
func Bytes(length int) []byte { return guest.Host().RandomBytes(length) }
