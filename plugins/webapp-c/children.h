// The children of a `WebApp`, as they should be, and how they differ from what is. Pure: no call to the host.
#ifndef CHILDREN_H
#define CHILDREN_H

#include "app.h"

// What must be done about a child, by what the cache knows of it.
typedef enum decision {
    // It is as it should be, or is going away, and its end will run the key again.
    LEAVE,
    // It never existed.
    CREATE,
    // The `WebApp` asks for something else than before.
    UPDATE,
    // Someone deleted or edited it.
    HEAL,
    // The name belongs to an object that is not ours.
    NAME_TAKEN
} decision;

// A child as it should be.
struct child {
    windlass_ref target;
    // The fields to apply.
    windlass_json *wanted;
};

struct child deployment_of(const web_app *app);
struct child service_of(const web_app *app);
// Decides about a child; `cached` is what it is, or NULL.
decision decide(const web_app *app, const struct child *child, const windlass_json *cached);
// The JSON patch that takes away what an apply would leave and what breaks the child: ports that are not ours, and more labels in a
// selector. An apply adds our port beside one that was renumbered by hand, and the server refuses the pair, since both have one name.
windlass_json *surplus(const windlass_json *actual, const windlass_json *wanted);

#endif
