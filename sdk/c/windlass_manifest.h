// The manifest: what a plugin watches, and which other rights it needs. Write it as a constant with initialisers:
//
//     static const windlass_manifest manifest = {
//         .name = "shop",
//         .version = "0.1.0",
//         .controllers = WINDLASS_CONTROLLERS({
//             .name = "shops",
//             .primary = {.api_version = "example.com/v1", .kind = "Shop"},
//             .owns = WINDLASS_WATCHES({.api_version = "v1", .kind = "ConfigMap"}),
//         }),
//     };
//
// A field that is left out has the host's default. The host checks the manifest, and `windlass inspect` shows its
// errors.
#ifndef WINDLASS_MANIFEST_H
#define WINDLASS_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// These lists end with an empty element, which the macros add.
#define WINDLASS_TEXTS(...) ((const char *const[]){__VA_ARGS__, NULL})
// A list without texts, where NULL has another meaning.
#define WINDLASS_NO_TEXTS ((const char *const[]){NULL})
#define WINDLASS_NUMBERS(...) \
    {.values = (const double[]){__VA_ARGS__}, .count = sizeof((const double[]){__VA_ARGS__}) / sizeof(double)}
#define WINDLASS_CONTROLLERS(...) ((const windlass_controller[]){__VA_ARGS__, {0}})
#define WINDLASS_WATCHES(...) ((const windlass_watch[]){__VA_ARGS__, {0}})
#define WINDLASS_MAPPED_WATCHES(...) ((const windlass_mapped_watch[]){__VA_ARGS__, {{0}, {0}}})
#define WINDLASS_HOOKS(...) ((const windlass_hook[]){__VA_ARGS__, {0, {0}}})
#define WINDLASS_INDEXES(...) ((const windlass_index[]){__VA_ARGS__, {0}})
#define WINDLASS_WHERE(...) ((const windlass_where[]){__VA_ARGS__, {0}})
#define WINDLASS_PREDICATES(...) ((const windlass_predicate[]){__VA_ARGS__, {0}})
#define WINDLASS_PERMISSIONS(...) ((const windlass_permission[]){__VA_ARGS__, {0}})
#define WINDLASS_METRICS(...) ((const windlass_metric *const[]){__VA_ARGS__, NULL})
#define WINDLASS_HTTP_HOSTS(...) ((const windlass_http_access[]){__VA_ARGS__, {0}})
// A JSON document, verbatim: `WINDLASS_JSON({"type": "object"})`.
#define WINDLASS_JSON(...) #__VA_ARGS__

// A condition on an annotation or a field, which the host evaluates. Set exactly one of `annotation`, `field` and
// `any`. With `annotation` or `field`, also set one of the fields after `any`.
typedef struct windlass_where {
    // The annotation's key. Annotations are texts.
    const char *annotation;
    // A JSON pointer. If it contains a `*`, which stands for each element of a list, one matching value is enough.
    const char *field;
    // At least one of these conditions holds: `.any = WINDLASS_WHERE({.annotation = "a", .exists = true}, {.annotation
    // = "b", .is = "c"})`.
    const struct windlass_where *any;
    // The value is this text.
    const char *is;
    // The value is one of these texts.
    const char *const *in;
    // The value is absent, or differs from each of these texts.
    const char *const *not_in;
    // The value is this number or boolean, written as in JSON. Not for annotations.
    const char *is_json;
    bool exists;
    // There is no value, or it is null.
    bool absent;
} windlass_where;

// The part of an object that the cache keeps.
typedef struct windlass_projection {
    enum { WINDLASS_PROJECTION_FULL, WINDLASS_PROJECTION_METADATA, WINDLASS_PROJECTION_FIELDS, WINDLASS_PROJECTION_DIGEST } type;
    const char *const *pointers;
} windlass_projection;
// The object's identity and its metadata.
#define WINDLASS_KEEP_METADATA {.type = WINDLASS_PROJECTION_METADATA}
// The metadata, and the values at JSON pointers. A segment `*` stands for each element of a list.
#define WINDLASS_KEEP_FIELDS(...) {.type = WINDLASS_PROJECTION_FIELDS, .pointers = WINDLASS_TEXTS(__VA_ARGS__)}
// The metadata, and in the field `digest` a digest of the values at JSON pointers, which are not kept themselves. With
// WINDLASS_WHEN_FIELDS("/digest"), only a change of these values runs primaries.
#define WINDLASS_KEEP_DIGEST(...) {.type = WINDLASS_PROJECTION_DIGEST, .pointers = WINDLASS_TEXTS(__VA_ARGS__)}

// Where to find references with the namespace and the name in two fields: JSON pointers, relative to `base`.
typedef struct windlass_reference {
    // The pointer to the references, such as `/spec/refs/*` for each element of a list. NULL if the object itself is
    // the reference.
    const char *base;
    // If this is NULL, or the field is missing, the reference is to the object's own namespace.
    const char *namespace_at;
    const char *name_at;
} windlass_reference;

// The value that an index contains.
typedef struct windlass_index {
    const char *name;
    // Indexes a text, or each element of a list of texts. If the pointer contains a `*`, as in `/spec/sources/*/name`,
    // it indexes every value that matches.
    const char *pointer;
    // Indexes a label.
    const char *label;
    // Indexes references: each value is `namespace/name`.
    windlass_reference reference;
    // Indexes LabelSelectors, for WINDLASS_MAP_SELECTED_BY. An empty selector selects everything. A list finds an
    // object by labels that its selector matches, such as `app=web,tier=front`.
    const char *selector;
    // Indexes maps of labels, as in a Service, like selectors. An empty map selects nothing.
    const char *selected_labels;
    // Indexes selectors that are texts, such as `app in (web,api)`. An empty text selects everything.
    const char *selector_text;
    // Indexes an annotation.
    const char *annotation;
    // The separator, if the annotation is a list: a text of one character. Each part is a value. If this is NULL, the
    // whole annotation is one value.
    const char *split;
} windlass_index;
#define WINDLASS_INDEX_FIELD(index, json_pointer) {.name = index, .pointer = json_pointer}
#define WINDLASS_INDEX_LABEL(index, key) {.name = index, .label = key}
#define WINDLASS_INDEX_REFERENCE(index, base_pointer, namespace_pointer, name_pointer) \
    {.name = index, .reference = {base_pointer, namespace_pointer, name_pointer}}
#define WINDLASS_INDEX_SELECTOR(index, json_pointer) {.name = index, .selector = json_pointer}
#define WINDLASS_INDEX_SELECTED_LABELS(index, json_pointer) {.name = index, .selected_labels = json_pointer}
#define WINDLASS_INDEX_SELECTOR_TEXT(index, json_pointer) {.name = index, .selector_text = json_pointer}
#define WINDLASS_INDEX_ANNOTATION(index, key) {.name = index, .annotation = key}
// Indexes each part of an annotation such as `a, b`, without the space around it. The separator in this example is ",".
#define WINDLASS_INDEX_ANNOTATION_LIST(index, key, separator) {.name = index, .annotation = key, .split = separator}

// Selects the updates of an object that run primaries. If there are several predicates, it is enough that one of them
// accepts the update. Creations, deletions, and the beginning of a deletion always run primaries.
typedef struct windlass_predicate {
    enum {
        WINDLASS_PREDICATE_UNSET,
        WINDLASS_PREDICATE_GENERATION,
        WINDLASS_PREDICATE_LABELS,
        WINDLASS_PREDICATE_ANNOTATIONS,
        WINDLASS_PREDICATE_FIELDS,
        WINDLASS_PREDICATE_NOT,
        WINDLASS_PREDICATE_AND
    } type;
    const char *const *pointers;
    // The inner predicates.
    const struct windlass_predicate *predicates;
} windlass_predicate;
// Accepts a change of the desired state, if the kind has a generation.
#define WINDLASS_WHEN_GENERATION {.type = WINDLASS_PREDICATE_GENERATION}
#define WINDLASS_WHEN_LABELS {.type = WINDLASS_PREDICATE_LABELS}
#define WINDLASS_WHEN_ANNOTATIONS {.type = WINDLASS_PREDICATE_ANNOTATIONS}
// Accepts a change of the values at JSON pointers. A segment `*` stands for each element of a list.
#define WINDLASS_WHEN_FIELDS(...) {.type = WINDLASS_PREDICATE_FIELDS, .pointers = WINDLASS_TEXTS(__VA_ARGS__)}
// Accepts the updates that the inner predicate rejects: `WINDLASS_WHEN_NOT(WINDLASS_WHEN_LABELS)`.
#define WINDLASS_WHEN_NOT(...) {.type = WINDLASS_PREDICATE_NOT, .predicates = WINDLASS_PREDICATES(__VA_ARGS__)}
// Accepts the updates that all inner predicates accept.
#define WINDLASS_WHEN_AND(...) {.type = WINDLASS_PREDICATE_AND, .predicates = WINDLASS_PREDICATES(__VA_ARGS__)}

// How a composer's children of a kind are updated.
typedef enum windlass_update_strategy {
    WINDLASS_UPDATE_DEFAULT,
    // By applying, which is the default.
    WINDLASS_UPDATE_IN_PLACE,
    // By deleting the child, and creating it again once it is gone. A change that affects only metadata is applied.
    WINDLASS_UPDATE_RECREATE,
    // Not at all, until someone else deletes the child.
    WINDLASS_UPDATE_ON_DELETE
} windlass_update_strategy;

// A timer that calls the plugin at certain times, in place of objects: the primary of a controller.
typedef struct windlass_timer {
    // Due when the local time matches, as in Kubernetes' CronJob: minute, hour, day of the month, month, and day of the
    // week. Either this or `interval_ms`.
    const char *cron;
    // The IANA name of the time zone of `cron`, such as `Europe/Berlin`. NULL: UTC.
    const char *time_zone;
    // Due once in each interval, at least 1000. The first call comes at once.
    uint32_t interval_ms;
    // Each call comes at a random time up to this long after its due time.
    uint32_t jitter_ms;
    // What happens to due times at which no call could be made, such as while the host was down. Default: one call for
    // the last of them, as soon as it can be made. SKIP: none, if it could begin only a minute late or later.
    enum { WINDLASS_MISSED_DEFAULT, WINDLASS_MISSED_ONCE, WINDLASS_MISSED_SKIP } missed;
} windlass_timer;

// Objects of one kind that the host keeps in its cache for the plugin.
typedef struct windlass_watch {
    // Such as `apps/v1`.
    const char *api_version;
    const char *kind;
    // Only objects in these namespaces; NULL for all namespaces.
    const char *const *namespaces;
    // In Kubernetes' syntax.
    const char *label_selector;
    // In Kubernetes' syntax, where the API supports it.
    const char *field_selector;
    // Only objects that meet all of these conditions. The server still sends all objects. An object that no longer
    // meets them counts as deleted.
    const windlass_where *where;
    windlass_projection projection;
    // Whether the cache keeps `metadata.managedFields`, which are left out otherwise.
    bool managed_fields;
    const windlass_index *indexes;
    const windlass_predicate *predicates;
    // Only for kinds that a composer owns.
    windlass_update_strategy update_strategy;
    // A DNS label that no other watch of the controller has. Only WINDLASS_MAP_MAPPER, WINDLASS_MAP_CUSTOMIZE and
    // `code_predicate` need it.
    const char *name;
    // Whether to ignore the beginning and the end of an object's deletion. Not for a primary.
    bool ignore_deletions;
    // Whether to send even a write that would provably change nothing, for webhooks that must run at each write.
    bool without_no_op_skip;
    // Whether the plugin's own code (`matches` of WINDLASS_MAPPER) decides too which new objects and updates count.
    // Deletions always count. Only for a reconciler's watch with a name.
    bool code_predicate;
    // The JSON pointers of the fields of an object that a call receives in addition to its identity: of the primary in
    // a request, and of a composer's parent, children and related objects. NULL for all that the cache keeps, and
    // WINDLASS_NO_TEXTS for only the identity. A reconciler can set them only for its primary, because it names the
    // fields of other objects in each read.
    const char *const *call_fields;
    // A JSON pointer to a list of kinds in the configuration, each with `apiVersion` and `kind`. It takes the place of `api_version` and
    // `kind`, and needs WINDLASS_KEEP_METADATA. Not for kinds that a controller owns, nor for composers.
    const char *kinds_from;
    // The rights to change objects of these kinds: `create`, `update`, `patch`, `delete`, `deletecollection`. Only with `kinds_from`.
    const char *const *verbs;
    // A timer in place of a kind, only for a primary, without other fields. NULL: none.
    const windlass_timer *timer;
} windlass_watch;

// How a changed object maps to the primaries that run.
typedef struct windlass_mapping {
    enum {
        WINDLASS_MAPPING_UNSET,
        WINDLASS_MAPPING_OWNER,
        WINDLASS_MAPPING_LABEL,
        WINDLASS_MAPPING_ANNOTATION,
        WINDLASS_MAPPING_FIELD,
        WINDLASS_MAPPING_REFERENCED_BY,
        WINDLASS_MAPPING_SAME_NAME,
        WINDLASS_MAPPING_ALL,
        WINDLASS_MAPPING_REFERENCE,
        WINDLASS_MAPPING_SELECTED_BY,
        WINDLASS_MAPPING_MAPPER,
        WINDLASS_MAPPING_CUSTOMIZE,
        WINDLASS_MAPPING_ANY_OWNER,
        WINDLASS_MAPPING_NONE
    } type;
    const char *value;
    windlass_reference reference;
} windlass_mapping;
// The primary that controls the object.
#define WINDLASS_MAP_OWNER {.type = WINDLASS_MAPPING_OWNER}
// Each primary that owns the object, as its controller or not.
#define WINDLASS_MAP_ANY_OWNER {.type = WINDLASS_MAPPING_ANY_OWNER}
// The primary that a label, an annotation or a field names. If the field's pointer contains a `*`, every primary that a
// matching field names.
#define WINDLASS_MAP_LABEL(key) {.type = WINDLASS_MAPPING_LABEL, .value = key}
#define WINDLASS_MAP_ANNOTATION(key) {.type = WINDLASS_MAPPING_ANNOTATION, .value = key}
#define WINDLASS_MAP_FIELD(pointer) {.type = WINDLASS_MAPPING_FIELD, .value = pointer}
// The primaries that references name, with the namespace and the name in two fields.
#define WINDLASS_MAP_REFERENCE(base_pointer, namespace_pointer, name_pointer) \
    {.type = WINDLASS_MAPPING_REFERENCE, .reference = {base_pointer, namespace_pointer, name_pointer}}
// Every primary whose selector in this index matches the object's labels.
#define WINDLASS_MAP_SELECTED_BY(index) {.type = WINDLASS_MAPPING_SELECTED_BY, .value = index}
// Every primary whose index contains the object's name, or its namespace and name.
#define WINDLASS_MAP_REFERENCED_BY(index) {.type = WINDLASS_MAPPING_REFERENCED_BY, .value = index}
// The primary with the object's own name.
#define WINDLASS_MAP_SAME_NAME {.type = WINDLASS_MAPPING_SAME_NAME}
// No primary: the plugin only reads the objects.
#define WINDLASS_MAP_NONE {.type = WINDLASS_MAPPING_NONE}
// Every primary.
#define WINDLASS_MAP_ALL {.type = WINDLASS_MAPPING_ALL}
// The primaries that the reconciler's own mapper names (WINDLASS_MAPPER). The watch needs a name.
#define WINDLASS_MAP_MAPPER {.type = WINDLASS_MAPPING_MAPPER}
// The parents to which the composer's own customizer relates the object (WINDLASS_CUSTOMIZER). The watch needs a name.
#define WINDLASS_MAP_CUSTOMIZE {.type = WINDLASS_MAPPING_CUSTOMIZE}

typedef struct windlass_mapped_watch {
    windlass_watch watch;
    // Required.
    windlass_mapping mapping;
} windlass_mapped_watch;

// How a controller's loop runs. 0 is the host's default.
typedef struct windlass_options {
    // The number of objects that are reconciled at once, at most 64. Default: 16.
    uint32_t workers;
    // The number of counted retries of an object before it runs only in the slow lane; WINDLASS_NO_RETRIES for none.
    // Default: 15.
    int32_t max_retries;
    // The delay before the n-th retry: `base_ms` doubled n times, at most `max_ms`. With a token bucket, the retries of
    // all objects share a rate: `per_second` of them on average, and up to `burst` at once. With `MAX_OF`, the longer
    // of both delays applies. Default: exponential.
    struct {
        uint32_t base_ms;
        uint32_t max_ms;
        enum {
            WINDLASS_LIMITER_DEFAULT,
            WINDLASS_LIMITER_EXPONENTIAL,
            WINDLASS_LIMITER_TOKEN_BUCKET,
            WINDLASS_LIMITER_MAX_OF,
        } limiter;
        uint32_t per_second;
        uint32_t burst;
    } backoff;
    // The interval at which every object runs again even if nothing has changed. Default: ten hours.
    uint32_t resync_ms;
    // The time limit of a call. Default: 30 seconds.
    uint32_t deadline_ms;
    // Whether objects get the plugin's finalizer, so that the plugin can clean up before they are deleted. The
    // finalizer stays until a call with `deleting` succeeds and does not ask for another call.
    bool finalizer;
    // The controller does not write the status of its primaries, so the manifest does not ask for that right.
    bool without_status;
    // How to treat an object whose writes do not appear in the caches for too long. Default: probe.
    enum { WINDLASS_EXPECTATION_DEFAULT, WINDLASS_EXPECTATION_PROBE, WINDLASS_EXPECTATION_RUN } expectation_timeout;
    // The host makes each call, even one that would read the same as the last call about its object, which changed
    // nothing. For a plugin that depends on something that the host cannot see.
    bool without_saved_calls;
} windlass_options;
#define WINDLASS_NO_RETRIES (-1)

// A web address at which other systems name objects that are to run: POST /hooks/PLUGIN/NAME. It is open only if the
// operator's policy names its secret. A delivery maps as an object of kind HookDelivery does that has the JSON of the
// request in /payload: by WINDLASS_MAP_FIELD, WINDLASS_MAP_REFERENCE, WINDLASS_MAP_MAPPER or WINDLASS_MAP_ALL. Only
// objects that exist run.
typedef struct windlass_hook {
    // Unique in the plugin, and among the watches of the controller. A mapper gets it as the name of the watch.
    const char *name;
    windlass_mapping mapping;
} windlass_hook;

// One reconcile loop: a primary kind, and the other objects whose changes run primaries again.
typedef struct windlass_controller {
    // A DNS label, unique in the plugin.
    const char *name;
    windlass_watch primary;
    // Children: a change of a child runs the primary that controls it.
    const windlass_watch *owns;
    // Other objects: a change of such an object runs the primaries that its mapping finds.
    const windlass_mapped_watch *watches;
    // Web addresses at which other systems name objects that are to run.
    const windlass_hook *hooks;
    windlass_options options;
} windlass_controller;

// Rights to resources of the API, as in a rule of a Kubernetes Role.
typedef struct windlass_permission {
    const char *const *api_groups;
    const char *const *resources;
    const char *const *verbs;
    const char *const *namespaces;
    const char *const *names;
} windlass_permission;

// A metric that the plugin may set. Define it as a constant that both the manifest and the code use, so that the two
// cannot differ.
typedef struct windlass_metric {
    const char *name;
    enum { WINDLASS_COUNTER, WINDLASS_GAUGE, WINDLASS_HISTOGRAM } type;
    const char *help;
    const char *const *labels;
    // A histogram's upper bounds, ascending: `.buckets = WINDLASS_NUMBERS(1.5, 10)`.
    struct {
        const double *values;
        size_t count;
    } buckets;
} windlass_metric;

// An HTTP host that the plugin may call.
typedef struct windlass_http_access {
    enum { WINDLASS_HTTPS, WINDLASS_HTTP } scheme;
    // `*` stands for one label, as in `*.example.com`.
    const char *host;
    // 0: the scheme's default.
    uint16_t port;
    const char *const *methods;
} windlass_http_access;

typedef struct windlass_manifest {
    // The plugin's name: the stem of the file that it is installed as.
    const char *name;
    // By semver.org.
    const char *version;
    // The plugin's purpose in a sentence.
    const char *description;
    const windlass_controller *controllers;
    // CustomResourceDefinitions, as JSON texts.
    const char *const *crds;
    // Rights beyond those that the watches imply: to read watched objects, to change owned ones, and to write the status of primaries.
    const windlass_permission *permissions;
    // Finalizers, other than its own, that the plugin adds or removes; `*` for any.
    const char *const *finalizers;
    const windlass_metric *const *metrics;
    const windlass_http_access *http;
    // The configuration that an operator may give, as the text of a JSON schema.
    const char *config_schema;
} windlass_manifest;

#endif
