// The bridge's names for the types of the generated bindings. Only the files of this folder include it.
#ifndef WINDLASS_RECONCILER_WIRE_H
#define WINDLASS_RECONCILER_WIRE_H

#include "generated/reconciler_plugin.h"

typedef reconciler_plugin_string_t wire_text;
typedef reconciler_plugin_option_string_t wire_option_text;
typedef reconciler_plugin_tuple2_string_string_t wire_field;
typedef reconciler_plugin_list_tuple2_string_string_t wire_fields;
typedef reconciler_plugin_list_u8_t wire_bytes;
typedef reconciler_plugin_list_string_t wire_texts;

#include "../windlass_bridge.h"

#endif
