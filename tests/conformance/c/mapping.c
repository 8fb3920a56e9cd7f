// The probe's own mapper: each state of a changed object lists the primaries that the change concerns, and says whether
// the change counts.

#include "probe.h"

static void add_target(windlass_targets *targets, const windlass_json *target) {
    const char *index = text_in(target, "index").data;
    if (index != NULL) {
        windlass_map_indexed(targets, index, text_in(target, "value"));
    } else {
        windlass_map_primary(targets, text_in(target, "namespace"), text_in(target, "name"));
    }
}

// Adds the primary that a cached object names, if the object exists.
static void add_read(windlass_targets *targets, const windlass_json *target, windlass_failures *failures) {
    windlass_ref ref = ref_in(target);
    windlass_json *object = NULL;
    const windlass_error *error = windlass_cache_get(&ref, NULL, &object);
    if (error != NULL) {
        windlass_fail(failures, error);
    } else if (object != NULL) {
        windlass_map_primary(targets, windlass_text_of("prod"), text_in(windlass_json_get(object, "data"), "primary"));
    }
}

static void map(const windlass_change *change, windlass_targets *targets, windlass_failures *failures) {
    windlass_json *states[] = {change->old, change->new};
    for (int i = 0; i < 2; i++) {
        const windlass_json *spec = windlass_json_get(states[i], "spec");
        windlass_text fail = text_in(spec, "fail");
        windlass_text raise = text_in(spec, "raise");
        if (fail.data != NULL) {
            windlass_fail(failures, windlass_transient_text(fail));
        }
        if (raise.data != NULL) {
            raise_with(raise);
        }
        windlass_json_each(target, windlass_json_get(spec, "targets")) {
            add_target(targets, target);
        }
        if (windlass_json_get(spec, "target") != NULL) {
            add_read(targets, windlass_json_get(spec, "target"), failures);
        }
        if (truth_in(spec, "tellWatch")) {
            windlass_map_indexed(targets, "watch", change->watch);
        }
    }
}

// The last state of a changed object says whether the change counts.
static bool matches(const windlass_change *change, windlass_failures *failures) {
    windlass_json *states[] = {change->old, change->new};
    bool counts = true;
    for (int i = 0; i < 2; i++) {
        const windlass_json *spec = windlass_json_get(states[i], "spec");
        windlass_text fail = text_in(spec, "failMatches");
        windlass_text raise = text_in(spec, "raiseMatches");
        windlass_text watch = text_in(spec, "matches");
        if (fail.data != NULL) {
            windlass_fail(failures, windlass_transient_text(fail));
        }
        if (raise.data != NULL) {
            raise_with(raise);
        }
        if (states[i] != NULL) {
            counts = watch.data == NULL || windlass_text_equal(watch, change->watch);
        }
    }
    return counts;
}

WINDLASS_MAPPER(.map = map, .matches = matches);
