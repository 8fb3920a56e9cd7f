// The fields of the `WebApp` kind that the plugin reads and writes. The CRD is in examples/webapp/crd.yaml.
#ifndef APP_H
#define APP_H

#include <windlass.h>

#define API_VERSION "apps.kubedojo.io/v1beta1"
#define KIND "WebApp"

// An application that answers HTTP.
typedef struct web_app {
    // The whole cached object.
    const windlass_json *object;
    windlass_text name;
    // 0: none.
    int64_t generation;
    // The desired state. The defaults are the CRD's.
    windlass_text image;
    int64_t replicas;
    int64_t port;
    // The status as this plugin last wrote it, with exactly the fields that the plugin knows.
    windlass_json *status;
    // The generation that the status is about; 0 if the status was never written.
    int64_t observed_generation;
} web_app;

const windlass_error *read_app(const windlass_json *object, web_app *app);
// Whether the spec is newer than the spec that the status is about.
bool is_changed(const web_app *app);

#endif
