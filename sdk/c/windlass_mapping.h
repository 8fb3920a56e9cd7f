// Mappings and predicates as code, for relations and conditions that the manifest cannot express. A reconciler may have a
// mapper, and a composer a customizer: further functions, named in a macro beside WINDLASS_RECONCILER or
// WINDLASS_COMPOSER. The host calls them for the watches that the manifest maps by WINDLASS_MAP_MAPPER or
// WINDLASS_MAP_CUSTOMIZE, or that have a `code_predicate`. Such a watch needs a name. windlass.h includes this file.
//
// All may use the log, the clock, random numbers and the configuration. A mapper may also read the cache. Changes of the
// objects that it reads must be mapped too, because the host asks about each change only once. Plugins without a mapper
// or customizer neither export nor contain this code.
#ifndef WINDLASS_MAPPING_H
#define WINDLASS_MAPPING_H

#include "windlass.h"

// --- A mapper: which changes count, and which primaries they concern ---

// A change of one object of a watch. Consider both states: the change also concerns the primaries that only the old
// state concerned.
typedef struct windlass_change {
    // The controller's name in the manifest.
    windlass_text controller;
    // The name of the watch in the manifest.
    windlass_text watch;
    // The state before the change. NULL if the object is new, or part of the watch's first list.
    windlass_json *old;
    // The state after the change. NULL if the object was deleted; then `old` is its last known state.
    windlass_json *new;
} windlass_change;

// Selects primaries that a change concerns: one primary by its key, or all that have a value in an index.
typedef struct windlass_target {
    // None for a cluster-scoped primary.
    windlass_text namespace;
    windlass_text name;
    // If `index` is empty, the key above selects the primary.
    windlass_text index;
    windlass_text value;
} windlass_target;

typedef struct windlass_targets {
    windlass_target *items;
    size_t count;
    size_t capacity;
} windlass_targets;

// Adds the primary with this key, which need not exist.
void windlass_map_primary(windlass_targets *targets, windlass_text namespace, windlass_text name);
// Adds all primaries with this value in an index that the manifest declares for the primary, in any namespace. The
// value for an index of selectors is a set of labels, such as `app=web,tier=front`. It selects the primaries whose
// selector matches these labels.
void windlass_map_indexed(windlass_targets *targets, const char *index, windlass_text value);

// After an error, which is logged, every primary runs at low priority.
typedef void windlass_map(const windlass_change *change, windlass_targets *targets, windlass_failures *failures);

// Whether a change counts. The host calls it for the watches with a `code_predicate`: for new objects, for the objects
// of first lists (without `old`), and for updates that pass the watch's predicates. Deletions always count. A change
// that does not count is not mapped and runs nothing. After an error, which is logged, the change counts.
typedef bool windlass_matches(const windlass_change *change, windlass_failures *failures);

typedef struct windlass_mapper {
    // For the watches that the manifest maps by WINDLASS_MAP_MAPPER. NULL if there are none.
    windlass_map *map;
    // For the watches with a `code_predicate`. NULL if all changes count.
    windlass_matches *matches;
    // Always 0. It prevents a compiler warning if the macro is used with only one of the functions.
    int unused;
} windlass_mapper;

// Adds a mapper to a reconciler, with one or both functions:
//
//     WINDLASS_MAPPER(.map = to_services, .matches = is_watched);
//
// At most once in a plugin, at file scope.
#define WINDLASS_MAPPER(...)                                                                                                  \
    const windlass_mapper windlass_plugin_mapper = {__VA_ARGS__, .unused = 0};                                                \
    WINDLASS_EXPORT_MAPPER                                                                                                    \
    typedef int windlass_there_is_one_mapper

// Defined by the macro.
extern const windlass_mapper windlass_plugin_mapper;

// --- A customizer: which objects are related to a parent ---

// Selects the objects of one watch that meet all conditions.
typedef struct windlass_related_rule {
    // The name of the watch in the manifest.
    const char *watch;
    // If it is empty, objects in the parent's namespace and cluster-scoped objects match. For a cluster-scoped parent,
    // objects in any namespace then match.
    windlass_text namespace;
    // Their names; empty for any names. Add no rule for a parent that names no object.
    const windlass_text *names;
    size_t name_count;
    // In Kubernetes' syntax, such as `app=web,tier in (front,back)`. Without a selector, any labels match.
    windlass_text label_selector;
} windlass_related_rule;

typedef struct windlass_related_rules {
    windlass_related_rule *items;
    size_t count;
    size_t capacity;
} windlass_related_rules;

// Adds the objects of a rule.
void windlass_relate(windlass_related_rules *rules, const windlass_related_rule *rule);

// Called before each composition, with the parent as the request's object. When one of the related objects is created, changed or deleted,
// the parent is composed again.
typedef void windlass_customize(const windlass_request *request, windlass_related_rules *rules, windlass_failures *failures);

// Adds a customizer to a composer. At most once in a plugin, at file scope.
#define WINDLASS_CUSTOMIZER(function)                                                                                         \
    void windlass_plugin_customize(                                                                                           \
        const windlass_request *request, windlass_related_rules *rules, windlass_failures *failures);                         \
    void windlass_plugin_customize(                                                                                           \
        const windlass_request *request, windlass_related_rules *rules, windlass_failures *failures) {                        \
        windlass_customize *checked = function;                                                                               \
        checked(request, rules, failures);                                                                                    \
    }                                                                                                                         \
    WINDLASS_EXPORT_CUSTOMIZER                                                                                                \
    typedef int windlass_there_is_one_customizer

// --- The exports of the two macros: the call, and the function that the host calls once it has read the answer ---

#ifdef __wasm__

uint8_t *__wasm_export_exports_windlass_plugin_mapper_map(
    uint8_t *controller, size_t controller_length, uint8_t *watch, size_t watch_length, uint8_t *changes, size_t count);
void __wasm_export_exports_windlass_plugin_mapper_map_post_return(uint8_t *answer);
uint8_t *__wasm_export_exports_windlass_plugin_mapper_matches(
    uint8_t *controller, size_t controller_length, uint8_t *watch, size_t watch_length, uint8_t *changes, size_t count);
void __wasm_export_exports_windlass_plugin_mapper_matches_post_return(uint8_t *answer);
uint8_t *__wasm_export_exports_windlass_plugin_customize_customize(uint8_t *request);
void __wasm_export_exports_windlass_plugin_customize_customize_post_return(uint8_t *answer);

#define WINDLASS_EXPORT_MAPPER                                                                                                \
    __attribute__((__export_name__("windlass:plugin/mapper@0.3.0#map"))) uint8_t *windlass_export_map(                        \
        uint8_t *controller, size_t controller_length, uint8_t *watch, size_t watch_length, uint8_t *changes, size_t count) { \
        return __wasm_export_exports_windlass_plugin_mapper_map(                                                              \
            controller, controller_length, watch, watch_length, changes, count);                                              \
    }                                                                                                                         \
    __attribute__((__export_name__("cabi_post_windlass:plugin/mapper@0.3.0#map"))) void windlass_export_map_post(             \
        uint8_t *answer) {                                                                                                    \
        __wasm_export_exports_windlass_plugin_mapper_map_post_return(answer);                                                 \
    }                                                                                                                         \
    __attribute__((__export_name__("windlass:plugin/mapper@0.3.0#matches"))) uint8_t *windlass_export_matches(                \
        uint8_t *controller, size_t controller_length, uint8_t *watch, size_t watch_length, uint8_t *changes, size_t count) { \
        return __wasm_export_exports_windlass_plugin_mapper_matches(                                                          \
            controller, controller_length, watch, watch_length, changes, count);                                              \
    }                                                                                                                         \
    __attribute__((__export_name__("cabi_post_windlass:plugin/mapper@0.3.0#matches"))) void                                   \
    windlass_export_matches_post(uint8_t *answer) {                                                                           \
        __wasm_export_exports_windlass_plugin_mapper_matches_post_return(answer);                                             \
    }

#define WINDLASS_EXPORT_CUSTOMIZER                                                                                            \
    __attribute__((__export_name__("windlass:plugin/customize@0.3.0#customize"))) uint8_t *windlass_export_customize(         \
        uint8_t *request) {                                                                                                   \
        return __wasm_export_exports_windlass_plugin_customize_customize(request);                                            \
    }                                                                                                                         \
    __attribute__((__export_name__("cabi_post_windlass:plugin/customize@0.3.0#customize"))) void                              \
    windlass_export_customize_post(uint8_t *answer) {                                                                         \
        __wasm_export_exports_windlass_plugin_customize_customize_post_return(answer);                                        \
    }

#else

#define WINDLASS_EXPORT_MAPPER
#define WINDLASS_EXPORT_CUSTOMIZER

#endif

#endif
