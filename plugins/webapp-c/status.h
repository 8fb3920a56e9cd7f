// The status of a `WebApp`, computed from its Deployment and from what failed. Pure: no call to the host.
#ifndef STATUS_H
#define STATUS_H

#include "app.h"

// Whether all replicas of the present spec are ready, and whether it is still being brought about.
#define READY "Ready"
#define PROGRESSING "Progressing"

// Why a `WebApp` cannot become what it asks for, until someone does something.
struct problem {
    // In CamelCase, for conditions and events: `Invalid`, `NameTaken` or `ApplyFailed`. NULL: there is no problem.
    const char *reason;
    windlass_text message;
};

// What is wrong with a spec that the CRD's schema lets pass.
struct problem problem_of_spec(const web_app *app);
// The name of a child belongs to someone else.
struct problem problem_of_name(const windlass_ref *child);
// A refusal that stays until someone does something. What passes by itself is retried, and is no problem.
struct problem problem_of_error(const windlass_error *error);
// Whether it is worth an event: each is reported once, not at every reconcile that meets it.
bool is_news(const struct problem *problem, const web_app *app);

// The new status. It equals the old one if nothing has changed, so that it need not be written.
windlass_json *status_of(const web_app *app, const windlass_json *deployment, const struct problem *problem, windlass_instant now);

#endif
