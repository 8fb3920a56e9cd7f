// The generated bindings of the world, as they are but for two things. What the host passed is not freed piece by piece, since it lies in
// the memory of the call (arena.c). And they export nothing but what each plugin of the world has.

#ifdef __wasm__

#include <stdint.h>
#include <stdlib.h>

static inline void leave_alone(void *piece) { (void)piece; }
#define free leave_alone

__attribute__((__export_name__("windlass:plugin/composer@0.2.0#describe"))) uint8_t *
__wasm_export_exports_windlass_plugin_composer_describe(void);
__attribute__((__export_name__("windlass:plugin/composer@0.2.0#compose"))) uint8_t *
__wasm_export_exports_windlass_plugin_composer_compose(uint8_t *request);
// A plugin without a customizer does not export one: where WINDLASS_CUSTOMIZER does not, nothing calls it, and the linker leaves it out.
#define __export_name__(name) __unused__

// How the generator writes is its business.
#pragma GCC diagnostic ignored "-Wpedantic"
#include "generated/composer_plugin.c"

// It would pull in the world's description, which the componentizer adds.
void __component_type_object_force_link_composer_plugin(void) {}

#else

typedef int windlass_no_bindings_natively;

#endif
