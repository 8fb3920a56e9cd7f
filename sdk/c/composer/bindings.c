// The generated bindings of the world, with two changes. The host's data is not freed piece by piece, since it is in the memory of the call
// (arena.c). And they only export the functions that every plugin of the world has.

#ifdef __wasm__

#include <stdint.h>
#include <stdlib.h>

static inline void leave_alone(void *piece) { (void)piece; }
#define free leave_alone

__attribute__((__export_name__("windlass:plugin/composer@0.2.0#describe"))) uint8_t *
__wasm_export_exports_windlass_plugin_composer_describe(void);
__attribute__((__export_name__("windlass:plugin/composer@0.2.0#compose"))) uint8_t *
__wasm_export_exports_windlass_plugin_composer_compose(uint8_t *request);
// A plugin without a customizer does not export one: without WINDLASS_CUSTOMIZER nothing calls it, and the linker leaves it out.
#define __export_name__(name) __unused__

// The style of generated code is not checked.
#pragma GCC diagnostic ignored "-Wpedantic"
#include "generated/composer_plugin.c"

// This would link the world's description, which the componentizer adds.
void __component_type_object_force_link_composer_plugin(void) {}

#else

typedef int windlass_no_bindings_natively;

#endif
