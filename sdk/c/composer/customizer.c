// The host's call of a customizer. In a plugin without a customizer nothing calls this code, so the linker drops it.

#ifdef __wasm__

#include "wire.h"

typedef exports_windlass_plugin_customize_related_rule_t wire_rule;

static wire_rule lower_rule(const windlass_related_rule *rule) {
    wire_text *names = windlass_alloc_array(rule->name_count, sizeof *names);
    for (size_t i = 0; i < rule->name_count; i++) {
        names[i] = lower(rule->names[i]);
    }
    return (wire_rule){
        .watch = lower(windlass_text(rule->watch)),
        .namespace_ = lower_option(rule->namespace),
        .names = {names, rule->name_count},
        .label_selector = lower_option(rule->label_selector),
    };
}

bool exports_windlass_plugin_customize_customize(exports_windlass_plugin_customize_request_t *wire,
    exports_windlass_plugin_customize_list_related_rule_t *answer, exports_windlass_plugin_customize_list_failure_t *failed) {
    windlass_call_begin();
    windlass_failures failures = {0};
    windlass_request request = lift_request(wire, &failures);
    windlass_related_rules rules = {0};
    if (failures.count == 0) {
        windlass_plugin_customize(&request, &rules, &failures);
    }
    wire_rule *lowered = windlass_alloc_array(rules.count, sizeof *lowered);
    for (size_t i = 0; i < rules.count; i++) {
        lowered[i] = lower_rule(&rules.items[i]);
    }
    *answer = (exports_windlass_plugin_customize_list_related_rule_t){lowered, rules.count};
    *failed = (exports_windlass_plugin_customize_list_failure_t){lower_failures(&failures), failures.count};
    windlass_call_end();
    return failures.count == 0;
}

// The host calls this once it has read the result. It replaces the bindings' function.
void __wasm_export_exports_windlass_plugin_customize_customize_post_return(uint8_t *answer) {
    (void)answer;
    windlass_memory_clear();
}

#else

typedef int windlass_no_customizer_natively;

#endif
