// The prototype of the benchmark `languages`, on the bare bindings.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reconciler_plugin.h"

// The bindings require this symbol. It is usually in an object together with the description of the world, which is not
// needed here because `windlass build` adds it.
void __component_type_object_force_link_reconciler_plugin(void) {}

typedef reconciler_plugin_string_t text;
#define TEXT(literal) ((text){(uint8_t *)(literal), sizeof(literal) - 1})

static const char MANIFEST[] =
    "{\"apiVersion\":\"windlass.dev/v1alpha1\",\"kind\":\"PluginManifest\",\"name\":\"prototype\",\"version\":\"0.1.0\",\"controllers\":[{\"name\":\"prototype\",\"primary\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\"}}]}";

void exports_windlass_plugin_reconciler_describe(exports_windlass_plugin_reconciler_json_t *ret) {
    reconciler_plugin_string_dup(ret, MANIFEST);
}

// The text from the name of a member to `end`.
static text member(text json, const char *name, const char *end) {
    uint8_t *from = memmem(json.ptr, json.len, name, strlen(name));
    if (from == NULL) abort();
    from += strlen(name);
    return (text){from, strcspn((const char *)from, end)};
}

bool exports_windlass_plugin_reconciler_reconcile(exports_windlass_plugin_reconciler_request_t *request,
                                                  exports_windlass_plugin_reconciler_outcome_t *ret,
                                                  exports_windlass_plugin_reconciler_list_failure_t *err) {
    (void)err;
    windlass_plugin_cache_object_ref_t target = {
        .api_version = TEXT("apps.kubedojo.io/v1beta1"), .kind = TEXT("WebApp"), .namespace_ = request->namespace_, .name = request->name};
    windlass_plugin_cache_option_json_t found;
    windlass_plugin_cache_api_error_t error;
    if (!windlass_plugin_cache_get(&target, NULL, &found, &error) || !found.is_some) abort();
    text json = found.val, name = member(json, "\"name\": \"", "\""), image = member(json, "\"image\": \"", "\"");
    text replicas = member(json, "\"replicas\": ", ",}"), port = member(json, "\"port\": ", ",}");
    char body[2048];
    int length = snprintf(
        body, sizeof body,
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"%1$.*2$s\",\"namespace\":\"prod\",\"labels\":{\"app\":\"%1$.*2$s\"}},"
        "\"spec\":{\"replicas\":%3$.*4$s,\"selector\":{\"matchLabels\":{\"app\":\"%1$.*2$s\"}},\"template\":{\"metadata\":{\"labels\":{\"app\":\"%1$.*2$s\"}},"
        "\"spec\":{\"containers\":[{\"name\":\"web\",\"image\":\"%5$.*6$s\",\"ports\":[{\"containerPort\":%7$.*8$s}]}]}}}}",
        name.ptr, (int)name.len, replicas.ptr, (int)replicas.len, image.ptr, (int)image.len, port.ptr, (int)port.len);
    text deployment = {(uint8_t *)body, (size_t)length}, applied;
    windlass_plugin_writes_write_options_t options = {.owned = true, .force = true};
    if (!windlass_plugin_writes_apply(&deployment, &options, &applied, &error)) abort();
    reconciler_plugin_string_free(&applied);
    windlass_plugin_cache_option_json_free(&found);
    windlass_plugin_types_request_free(request);
    ret->requeue_after_ms.is_some = false;
    return true;
}

// The generated bindings also export the mapper. The manifest does not use it.
bool exports_windlass_plugin_mapper_map(exports_windlass_plugin_mapper_change_batch_t *batch, exports_windlass_plugin_mapper_list_list_target_t *ret,
                                        reconciler_plugin_string_t *err) {
    (void)batch, (void)ret, (void)err;
    abort();
}
