#include "children.h"

// The Service's port. The container may have any port, so the Service finds it by name.
enum { SERVICE_PORT = 80 };
#define PORT_NAME "http"
#define CONTAINER "web"

static windlass_json *selector(const web_app *app) {
    return windlass_object(
        {"app.kubernetes.io/name", windlass_string("webapp")},
        {"app.kubernetes.io/instance", windlass_string(app->name)});
}

static windlass_json *labels(const web_app *app) {
    windlass_json *all = selector(app);
    windlass_json_set(all, "app.kubernetes.io/managed-by", windlass_string("windlass"));
    return all;
}

static struct child child_of(const web_app *app, const char *api_version, const char *kind, windlass_json *spec) {
    windlass_ref target = windlass_sibling(app->object, api_version, kind);
    windlass_json *metadata = windlass_object(
        {"name", windlass_string(target.name)},
        {"namespace", windlass_string(target.namespace)},
        {"labels", labels(app)});
    windlass_json *wanted = windlass_object(
        {"apiVersion", windlass_string(api_version)},
        {"kind", windlass_string(kind)},
        {"metadata", metadata},
        {"spec", spec});
    return (struct child){target, wanted};
}

struct child deployment_of(const web_app *app) {
    windlass_json *port = windlass_object(
        {"name", windlass_string(PORT_NAME)},
        {"containerPort", windlass_int(app->port)},
        {"protocol", windlass_string("TCP")});
    windlass_json *container = windlass_object(
        {"name", windlass_string(CONTAINER)},
        {"image", windlass_string(windlass_text_trimmed(app->image))},
        {"ports", windlass_array(port)});
    windlass_json *template = windlass_object(
        {"metadata", windlass_object({"labels", labels(app)})},
        {"spec", windlass_object({"containers", windlass_array(container)})});
    windlass_json *spec = windlass_object(
        {"replicas", windlass_int(app->replicas)},
        {"selector", windlass_object({"matchLabels", selector(app)})},
        {"template", template});
    return child_of(app, "apps/v1", "Deployment", spec);
}

struct child service_of(const web_app *app) {
    windlass_json *port = windlass_object(
        {"name", windlass_string(PORT_NAME)},
        {"port", windlass_int(SERVICE_PORT)},
        {"targetPort", windlass_string(PORT_NAME)},
        {"protocol", windlass_string("TCP")});
    windlass_json *spec = windlass_object({"selector", selector(app)}, {"ports", windlass_array(port)});
    return child_of(app, "v1", "Service", spec);
}

decision decide(const web_app *app, const struct child *child, const windlass_json *cached) {
    decision mend = is_changed(app) ? UPDATE : HEAL;
    if (cached == NULL) {
        return app->observed_generation == 0 ? CREATE : mend;
    }
    bool is_terminating = !windlass_json_is_null(windlass_json_at(cached, "/metadata/deletionTimestamp"));
    if (windlass_is_controlled_by(cached, app->object)) {
        bool is_right = windlass_has_fields(cached, child->wanted) && surplus(cached, child->wanted)->count == 0;
        return is_terminating || is_right ? LEAVE : mend;
    }
    // An orphan is adopted only if it has our labels, as after `kubectl delete --cascade=orphan`.
    bool is_our_orphan = windlass_controller_uid(cached).data == NULL
                         && windlass_has_fields(windlass_json_at(cached, "/metadata/labels"), labels(app));
    return is_our_orphan && !is_terminating ? mend : NAME_TAKEN;
}

// Whether only this plugin can change a field. A Deployment's selector is immutable, but a Service's is not.
static bool is_ours_alone(windlass_text pointer) {
    return windlass_text_ends_with(pointer, "/ports") || windlass_text_is(pointer, "/spec/selector");
}

static bool is_wanted(const windlass_json *element, const windlass_json *wanted) {
    windlass_json_each(one, wanted) {
        if (windlass_has_fields(element, one)) {
            return true;
        }
    }
    return false;
}

// Whether there is an entry that is not wanted.
static bool exceeds(const windlass_json *actual, const windlass_json *wanted) {
    bool are_arrays = windlass_json_is(actual, WINDLASS_JSON_ARRAY) && windlass_json_is(wanted, WINDLASS_JSON_ARRAY);
    bool are_objects = windlass_json_is(actual, WINDLASS_JSON_OBJECT) && windlass_json_is(wanted, WINDLASS_JSON_OBJECT);
    if (!are_arrays && !are_objects) {
        return false;
    }
    windlass_json_each(entry, actual) {
        if (are_arrays ? !is_wanted(entry, wanted) : windlass_json_get_text(wanted, entry->key) == NULL) {
            return true;
        }
    }
    return false;
}

// The element with the wanted element's name, and its index.
static const windlass_json *namesake(const windlass_json *list, const windlass_json *wanted, int64_t *place) {
    *place = 0;
    windlass_json_each(element, list) {
        if (windlass_json_equal(windlass_json_get(element, "name"), windlass_json_get(wanted, "name"))) {
            return element;
        }
        ++*place;
    }
    return NULL;
}

static void collect(const windlass_json *actual, const windlass_json *wanted, const char *pointer, windlass_json *operations) {
    if (is_ours_alone(windlass_text(pointer)) && exceeds(actual, wanted)) {
        windlass_json_add(operations, windlass_object(
            {"op", windlass_string("replace")},
            {"path", windlass_string(pointer)},
            {"value", windlass_json_copy(wanted)}));
        return;
    }
    bool are_objects = windlass_json_is(actual, WINDLASS_JSON_OBJECT) && windlass_json_is(wanted, WINDLASS_JSON_OBJECT);
    bool are_arrays = windlass_json_is(actual, WINDLASS_JSON_ARRAY) && windlass_json_is(wanted, WINDLASS_JSON_ARRAY);
    if (!are_objects && !are_arrays) {
        return;
    }
    windlass_json_each(part, wanted) {
        int64_t place = 0;
        // A key with a slash, which a pointer would have to escape, is a label. A label has nothing below it.
        const windlass_json *known = are_objects ? windlass_json_get_text(actual, part->key) : namesake(actual, part, &place);
        // A text or a number has nothing below it either.
        if (known != NULL && part->type >= WINDLASS_JSON_ARRAY) {
            const char *step = are_objects ? part->key.data : windlass_decimal(place);
            collect(known, part, windlass_concat(pointer, "/", step), operations);
        }
    }
}

windlass_json *surplus(const windlass_json *actual, const windlass_json *wanted) {
    windlass_json *operations = windlass_empty_array();
    collect(actual, wanted, "", operations);
    return operations;
}
