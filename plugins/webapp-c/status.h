// The status of a `WebApp`, computed from its Deployment and from the failures. Pure: nothing here calls the host.
#ifndef STATUS_H
#define STATUS_H

#include "app.h"

// READY: all replicas of the current spec are ready. PROGRESSING: the current spec is being rolled out.
#define READY "Ready"
#define PROGRESSING "Progressing"

// Why a `WebApp` cannot reach its desired state until someone acts.
struct problem {
    // The reason in CamelCase, for conditions and events: `Invalid`, `NameTaken` or `ApplyFailed`. NULL if there is
    // no problem.
    const char *reason;
    windlass_text message;
};

// The problem of a spec that the CRD's schema accepts.
struct problem problem_of_spec(const web_app *app);
// The name of a child belongs to another object.
struct problem problem_of_name(const windlass_ref *child);
// A refusal that lasts until someone acts. A failure that may pass by itself is retried, and is not a problem.
struct problem problem_of_error(const windlass_error *error);
// Whether the problem is new and so worth an event. A known problem is not reported again at each reconcile.
bool is_news(const struct problem *problem, const web_app *app);

// The new status. It equals the old one if nothing has changed, so that it need not be written.
windlass_json *status_of(const web_app *app, const windlass_json *deployment, const struct problem *problem, windlass_instant (*now)(void));

#endif
