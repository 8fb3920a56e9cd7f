//go:build wasip1

package guest

import "unsafe"

// Go seeds the generator behind math/rand, map iteration and map hashes once, when an instance starts, and all
// instances of a plugin start with the same seed. A call must depend only on the host's input, so the generator is
// seeded again for each call. The runtime has no function for this. Its internal names are linked with
// -checklinkname=0, which the bindings need as well.

//go:linkname acquirem runtime.acquirem
func acquirem() unsafe.Pointer

//go:linkname releasem runtime.releasem
func releasem(unsafe.Pointer)

//go:linkname random runtime.rand
func random() uint64

//go:linkname initialize internal/chacha8rand.(*State).Init64
func initialize(state unsafe.Pointer, seed [4]uint64)

// state is the generator's state, with the layout of internal/chacha8rand.
type state struct {
	buffer  [32]uint64
	seed    [4]uint64
	next    uint32
	filled  uint32
	counter uint32
}

// generator is the generator of the only thread; nil if this Go release stores it elsewhere.
var generator = find()

// find looks for the generator in the runtime's thread, at an offset that differs between releases of Go. The
// generator is found if both the last and the next random number come from it.
func find() *state {
	thread := acquirem()
	releasem(thread)
	for range 4 {
		number := random()
		for offset := uintptr(0); offset < 8192; offset += 8 {
			if *(*uint64)(unsafe.Add(thread, offset)) != number {
				continue
			}
			if found := containing(thread, offset); found != nil {
				return found
			}
		}
	}
	return nil
}

// containing returns the state whose buffer contains the last number at an offset.
func containing(thread unsafe.Pointer, offset uintptr) *state {
	for place := uintptr(0); place < 32 && 8*place <= offset; place++ {
		found := (*state)(unsafe.Add(thread, offset-8*place))
		if found.next != uint32(place)+1 || found.filled > 32 || found.next >= found.filled {
			continue
		}
		if expected := found.buffer[found.next]; random() == expected && found.next == uint32(place)+2 {
			return found
		}
	}
	return nil
}

// reseed starts Go's generator at the host's seed.
func reseed(seed uint64) {
	if generator != nil {
		initialize(unsafe.Pointer(generator), [4]uint64{seed, 1, 2, 3})
	}
}
