// The `WebApp` kind, as far as the plugin reads and writes it. The CRD is in examples/webapp/crd.yaml.
#ifndef APP_H
#define APP_H

#include <windlass.h>

#define API_VERSION "apps.kubedojo.io/v1beta1"
#define KIND "WebApp"

// An application that answers HTTP.
typedef struct web_app {
    // The whole, as the cache has it.
    const windlass_json *object;
    windlass_text name;
    // 0: none.
    int64_t generation;
    // What is asked for; the defaults are the CRD's.
    windlass_text image;
    int64_t replicas;
    int64_t port;
    // What is, as this plugin wrote it last: `status` with the fields that the plugin knows, all of them.
    windlass_json *status;
    // The generation that it is about; 0: it was never written.
    int64_t observed_generation;
} web_app;

const windlass_error *read_app(const windlass_json *object, web_app *app);
// Whether the spec is another than the one that the status is about.
bool is_changed(const web_app *app);

#endif
