// The generated bindings of the world, as they are but for one thing: what the host passed is not freed piece by piece, since it lies in
// the memory of the call (arena.c).

#ifdef __wasm__

#include <stdlib.h>

static inline void leave_alone(void *piece) { (void)piece; }
#define free leave_alone

// How the generator writes is its business.
#pragma GCC diagnostic ignored "-Wpedantic"
#include "generated/composer_plugin.c"

// It would pull in the world's description, which the componentizer adds.
void __component_type_object_force_link_composer_plugin(void) {}

#else

typedef int windlass_no_bindings_natively;

#endif
