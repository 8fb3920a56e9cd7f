// Package random has the host's randomness: cryptographically secure in a reconciler, repeatable in a composer. math/rand and
// crypto/rand are seeded from it at the start of each call, and are repeatable from there: keys and tokens are made of Bytes.
package random

import "windlass.dev/sdk/internal/guest"

// Uint32 is four random bytes as a number.
func Uint32() uint32 { return guest.Host().RandomUint32() }

// Bytes are as many random bytes as asked for.
func Bytes(length int) []byte { return guest.Host().RandomBytes(length) }
