package main

import (
	"strconv"
	"strings"

	"windlass.dev/sdk"
	"windlass.dev/sdk/writes"
)

// The desired children of a WebApp, and how the existing ones differ. Pure: nothing here calls the host.

const (
	// The Service's port. The container may have any port, so the Service finds it by name.
	servicePort = 80
	// The name of the port, in the container and in the Service.
	portName = "http"
	// The name of the container.
	container = "web"
)

type (
	object = windlass.Object
	list   = []any
)

// Decision is the decision about a child, from its cached state.
type Decision int

const (
	// Leave means that the child is as desired. Or it is being deleted, and the end of its deletion will run the key
	// again.
	Leave Decision = iota
	// NameTaken means that the name belongs to an object that is not ours.
	NameTaken
	// Create means that the child never existed.
	Create
	// Update means that the spec of the WebApp has changed.
	Update
	// Heal means that someone deleted or edited the child.
	Heal
)

// Child is a desired child.
type Child struct {
	target windlass.Ref
	// The fields to apply.
	wanted object
}

func deploymentOf(app *WebApp) Child {
	port := object{"name": portName, "containerPort": app.Spec.Port, "protocol": "TCP"}
	web := object{"name": container, "image": strings.TrimSpace(app.Spec.Image), "ports": list{port}}
	template := object{"metadata": object{"labels": labels(app)}, "spec": object{"containers": list{web}}}
	return child(app, "apps/v1", "Deployment", object{
		"replicas": app.Spec.Replicas, "selector": object{"matchLabels": selector(app)}, "template": template,
	})
}

func serviceOf(app *WebApp) Child {
	port := object{"name": portName, "port": int64(servicePort), "targetPort": portName, "protocol": "TCP"}
	return child(app, "v1", "Service", object{"selector": selector(app), "ports": list{port}})
}

func child(app *WebApp, apiVersion, kind string, spec object) Child {
	target := app.beside(apiVersion, kind)
	metadata := object{"name": target.Name, "namespace": target.Namespace, "labels": labels(app)}
	return Child{target, object{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "spec": spec}}
}

// This function is not inlined, because each copy would add half a kilobyte to the component.
//
//go:noinline
func selector(app *WebApp) object {
	return object{"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.Metadata.Name}
}

func labels(app *WebApp) object {
	labels := selector(app)
	labels["app.kubernetes.io/managed-by"] = "windlass"
	return labels
}

// decide decides about a child. cached is its current state, or nil.
func decide(app *WebApp, child Child, cached object) Decision {
	mend := Heal
	if app.isChanged() {
		mend = Update
	}
	if cached == nil {
		if app.Status.ObservedGeneration == 0 {
			return Create
		}
		return mend
	}
	metadata, _ := cached["metadata"].(object)
	isTerminating := metadata["deletionTimestamp"] != nil
	switch {
	case isOurs(app, cached):
		isRight := windlass.HasFields(cached, child.wanted) && len(surplus(cached, child.wanted)) == 0
		if isTerminating || isRight {
			return Leave
		}
		return mend
	// An orphan is adopted only if it has our labels, as after `kubectl delete --cascade=orphan`.
	case controller(cached) == "" && windlass.HasFields(metadata["labels"], labels(app)) && !isTerminating:
		return mend
	default:
		return NameTaken
	}
}

// isOurs reports whether the WebApp controls an object.
func isOurs(app *WebApp, of object) bool {
	return app.Metadata.UID != "" && controller(of) == app.Metadata.UID
}

// controller returns the UID of the owner that controls an object; empty if it has none.
func controller(of object) string {
	metadata, _ := of["metadata"].(object)
	owners, _ := metadata["ownerReferences"].(list)
	for _, owner := range owners {
		if owner, is := owner.(object); is && owner["controller"] == true {
			uid, _ := owner["uid"].(string)
			return uid
		}
	}
	return ""
}

// surplus returns the JSON patch that removes entries which break the child and which an apply would leave: ports that
// are not ours, and additional labels in a selector. If a port was renumbered by hand, an apply would add ours beside
// it, and the server would refuse both because they have the same name.
func surplus(actual, wanted any) []writes.Step { return collectSurplus(actual, wanted, "", nil) }

func collectSurplus(actual, wanted any, pointer string, steps []writes.Step) []writes.Step {
	if isOursAlone(pointer) && exceeds(actual, wanted) {
		return append(steps, writes.Step{Op: "replace", Path: pointer, Value: wanted})
	}
	switch wanted := wanted.(type) {
	case object:
		actual, is := actual.(object)
		if !is {
			return steps
		}
		for _, key := range keysWithin {
			if actual, has := actual[key]; has {
				steps = collectSurplus(actual, wanted[key], pointer+"/"+key, steps)
			}
		}
	case list:
		actual, _ := actual.(list)
		for _, wanted := range wanted {
			if place := named(actual, name(wanted)); place >= 0 {
				steps = collectSurplus(actual[place], wanted, pointer+"/"+strconv.Itoa(place), steps)
			}
		}
	}
	return steps
}

// keysWithin are the keys that lead to entries which collectSurplus may remove, in order. A map has no order.
var keysWithin = []string{"containers", "ports", "selector", "spec", "template"}

// name returns the name of an element of a list; nil if it has none.
func name(element any) any {
	fields, _ := element.(object)
	return fields["name"]
}

func named(elements list, wanted any) int {
	for place, element := range elements {
		if name(element) == wanted {
			return place
		}
	}
	return -1
}

// isOursAlone reports whether only this plugin can change a field. A Deployment's selector is immutable, but a
// Service's is not.
func isOursAlone(pointer string) bool {
	return strings.HasSuffix(pointer, "/ports") || pointer == "/spec/selector"
}

// exceeds reports whether there is an entry that is not wanted.
func exceeds(actual, wanted any) bool {
	switch actual := actual.(type) {
	case list:
		wanted, is := wanted.(list)
		for _, element := range actual {
			if is && !isAmong(element, wanted) {
				return true
			}
		}
	case object:
		wanted, is := wanted.(object)
		for key := range actual {
			if _, has := wanted[key]; is && !has {
				return true
			}
		}
	}
	return false
}

func isAmong(element any, wanted list) bool {
	for _, wanted := range wanted {
		if windlass.HasFields(element, wanted) {
			return true
		}
	}
	return false
}
