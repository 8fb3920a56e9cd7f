// The world's generated bindings, with two changes. They do not free the host's data piece by piece, because it is in
// the memory of the call (arena.c). And they export only the functions that every plugin of the world has.

#ifdef __wasm__

#include <stdint.h>
#include <stdlib.h>

static inline void leave_alone(void *piece) { (void)piece; }
#define free leave_alone

__attribute__((__export_name__("windlass:plugin/reconciler@0.3.0#describe"))) uint8_t *
__wasm_export_exports_windlass_plugin_reconciler_describe(void);
__attribute__((__export_name__("windlass:plugin/reconciler@0.3.0#reconcile"))) uint8_t *
__wasm_export_exports_windlass_plugin_reconciler_reconcile(uint8_t *request);
// Does not export a mapper here: only WINDLASS_MAPPER does. In other plugins nothing calls the mapper's functions, so
// the linker drops them.
#define __export_name__(name) __unused__

// The style of generated code is not checked.
#pragma GCC diagnostic ignored "-Wpedantic"
#include "generated/reconciler_plugin.c"

// The generated function would link the world's description, but the componentizer adds that.
void __component_type_object_force_link_reconciler_plugin(void) {}

#else

typedef int windlass_no_bindings_natively;

#endif
