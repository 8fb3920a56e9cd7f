// The desired children of a `WebApp`, and how the existing ones differ. Pure: nothing here calls the host.
#ifndef CHILDREN_H
#define CHILDREN_H

#include "app.h"

// The decision about a child, from its cached state.
typedef enum decision {
    // The child is as desired. Or it is being deleted, and the end of its deletion will run the key again.
    LEAVE,
    // It never existed.
    CREATE,
    // The spec of the `WebApp` has changed.
    UPDATE,
    // Someone deleted or edited the child.
    HEAL,
    // The name belongs to an object that is not ours.
    NAME_TAKEN
} decision;

// A desired child.
struct child {
    windlass_ref target;
    // The fields to apply.
    windlass_json *wanted;
};

struct child deployment_of(const web_app *app);
struct child service_of(const web_app *app);
// Decides about a child. `cached` is its current state, or NULL.
decision decide(const web_app *app, const struct child *child, const windlass_json *cached);
// The JSON patch that removes entries which break the child and which an apply would leave: ports that are not ours,
// and additional labels in a selector. If a port was renumbered by hand, an apply would add ours beside it, and the
// server would refuse both because they have the same name.
windlass_json *surplus(const windlass_json *actual, const windlass_json *wanted);

#endif
