// Does the same as the prototype of the benchmark `languages`, with the SDK.
#include <windlass.h>

static const windlass_manifest manifest = {
    .name = "by-sdk",
    .version = "0.1.0",
    .controllers = WINDLASS_CONTROLLERS({
        .name = "by-sdk",
        .primary = {.api_version = "apps.kubedojo.io/v1beta1", .kind = "WebApp"},
        .owns = WINDLASS_WATCHES({.api_version = "apps/v1", .kind = "Deployment"}),
    }),
};

static windlass_json *labels_of(const windlass_json *app) {
    return windlass_object({"app", windlass_string(windlass_json_text_at(app, "/metadata/name"))});
}

static windlass_json *deployment_of(const windlass_json *app) {
    windlass_json *port = windlass_object({"containerPort", windlass_int(windlass_json_int_at(app, "/spec/port", 0))});
    windlass_json *container = windlass_object(
        {"name", windlass_string("web")},
        {"image", windlass_string(windlass_json_text_at(app, "/spec/image"))},
        {"ports", windlass_array(port)});
    windlass_json *template = windlass_object(
        {"metadata", windlass_object({"labels", labels_of(app)})},
        {"spec", windlass_object({"containers", windlass_array(container)})});
    return windlass_object(
        {"apiVersion", windlass_string("apps/v1")},
        {"kind", windlass_string("Deployment")},
        {"metadata", windlass_object(
            {"name", windlass_string(windlass_json_text_at(app, "/metadata/name"))},
            {"namespace", windlass_string(windlass_json_text_at(app, "/metadata/namespace"))},
            {"labels", labels_of(app)})},
        {"spec", windlass_object(
            {"replicas", windlass_int(windlass_json_int_at(app, "/spec/replicas", 0))},
            {"selector", windlass_object({"matchLabels", labels_of(app)})},
            {"template", template})});
}

static windlass_outcome reconcile(const windlass_request *request, windlass_failures *failures) {
    windlass_ref target = {
        .api_version = windlass_text("apps.kubedojo.io/v1beta1"),
        .kind = windlass_text("WebApp"),
        .namespace = request->namespace,
        .name = request->name,
    };
    windlass_json *app;
    const windlass_error *error = windlass_cache_get(&target, NULL, &app);
    if (error == NULL) {
        error = windlass_writes_apply(deployment_of(app), &(windlass_write_options){.owned = true, .force = true}, NULL);
    }
    return windlass_fail(failures, error);
}

WINDLASS_RECONCILER(manifest, reconcile);
