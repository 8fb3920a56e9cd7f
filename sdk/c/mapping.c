// The calls of a mapper's functions, and the results of mappers and customizers. The results outlive a release of
// memory within the call, so that the objects of one change can be freed before the next change.

#include "windlass_internal.h"

// Makes room for one more item in a list of items of this size.
static void *room(void *items, size_t count, size_t *capacity, size_t each) {
    if (count < *capacity) {
        return items;
    }
    size_t before = *capacity;
    *capacity = before ? before * 2 : 4;
    return windlass_regrow(items, before * each, *capacity * each);
}

static void add_target(windlass_targets *targets, windlass_target target) {
    bool before = windlass_memory_keep(true);
    windlass_text *const texts[] = {&target.namespace, &target.name, &target.index, &target.value};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        *texts[i] = windlass_text_copy(*texts[i]);
    }
    targets->items = room(targets->items, targets->count, &targets->capacity, sizeof target);
    targets->items[targets->count++] = target;
    windlass_memory_keep(before);
}

void windlass_map_primary(windlass_targets *targets, windlass_text namespace, windlass_text name) {
    add_target(targets, (windlass_target){.namespace = namespace, .name = name});
}

void windlass_map_indexed(windlass_targets *targets, const char *index, windlass_text value) {
    add_target(targets, (windlass_target){.index = windlass_text(index), .value = value});
}

windlass_targets windlass_map_change(const windlass_mapper *mapper, const windlass_change *change, windlass_failures *failures) {
    windlass_targets targets = {0};
    if (mapper->map == NULL) {
        const char *watch = windlass_text_copy(change->watch).data;
        const char *message =
            windlass_concat("the manifest maps the watch ", watch, " by WINDLASS_MAP_MAPPER, and WINDLASS_MAPPER has no `.map`");
        windlass_fail(failures, windlass_terminal_text(windlass_text_of(message)));
    } else {
        mapper->map(change, &targets, failures);
    }
    return targets;
}

bool windlass_match_change(const windlass_mapper *mapper, const windlass_change *change, windlass_failures *failures) {
    return mapper->matches == NULL || mapper->matches(change, failures);
}

void windlass_relate(windlass_related_rules *rules, const windlass_related_rule *rule) {
    bool before = windlass_memory_keep(true);
    windlass_text *names = windlass_alloc_array(rule->name_count, sizeof *names);
    for (size_t i = 0; i < rule->name_count; i++) {
        names[i] = windlass_text_copy(rule->names[i]);
    }
    rules->items = room(rules->items, rules->count, &rules->capacity, sizeof *rule);
    rules->items[rules->count++] = (windlass_related_rule){
        .watch = windlass_concat(rule->watch),
        .namespace = windlass_text_copy(rule->namespace),
        .names = names,
        .name_count = rule->name_count,
        .label_selector = windlass_text_copy(rule->label_selector),
    };
    windlass_memory_keep(before);
}
