package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"windlass.dev/sdk/writes"
)

// The JSON patch that carries out a plan. Pure: nothing here calls the host.

const (
	// The path of a workload's Pod template.
	template = "/spec/template"
	// deleted is the value of an environment variable whose source is gone.
	deleted = "deleted"
)

// patch returns the steps; none if there is nothing to do. They fit only the version of the workload from which they
// were computed, since they name containers by their places.
func (plan *Plan) patch(workload *Workload, settings *Settings, now time.Time) []writes.Step {
	steps := annotate("/metadata", workload.Metadata.Annotations, plan.annotations)
	if plan.resumes {
		steps = append(steps, writes.Step{Op: "add", Path: "/spec/paused", Value: false})
	}
	switch {
	case len(plan.reloads) == 0:
	case settings.ReloadStrategy == "annotations":
		origin := map[string]string{lastReloadedFrom: originOf(workload, plan.reloads[0], now)}
		steps = append(steps, annotate(template+"/metadata", workload.Spec.Template.Metadata.Annotations, origin)...)
	default:
		for _, change := range plan.reloads {
			steps = append(steps, mark(&workload.Spec.Template.Spec, change))
		}
	}
	return steps
}

// annotate returns the steps that give the metadata at a path the new values.
func annotate(path string, before, after map[string]string) []writes.Step {
	var steps []writes.Step
	for _, key := range slices.Sorted(maps.Keys(after)) {
		was, has := before[key]
		place := path + "/annotations/" + escaped(key)
		switch value := after[key]; {
		case value == "" && has:
			steps = append(steps, writes.Step{Op: "remove", Path: place})
		case value != was:
			if len(before) == 0 && len(steps) == 0 {
				steps = append(steps, writes.Step{Op: "add", Path: path + "/annotations", Value: map[string]string{}})
			}
			steps = append(steps, writes.Step{Op: "add", Path: place, Value: value})
		}
	}
	return steps
}

// escaped returns a key as a segment of a JSON pointer.
func escaped(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// mark returns the step that sets the environment variable of a change: where it is, or in the first container that
// uses the source, or else in the first one. It notes a new variable in the template, for the next mark.
func mark(spec *PodSpec, change Change) writes.Step {
	name, value := variable(change.ref), change.digest
	if value == "" {
		value = deleted
	}
	for place, container := range spec.Containers {
		for entry, it := range container.Env {
			if it.Name == name {
				return writes.Step{Op: "add", Path: fmt.Sprintf("%s/%d/value", environmentOf(place), entry), Value: value}
			}
		}
	}
	place := append(spec.users(change.ref), 0)[0]
	container := &spec.Containers[place]
	entry := map[string]string{"name": name, "value": value}
	step := writes.Step{Op: "add", Path: environmentOf(place) + "/-", Value: entry}
	if len(container.Env) == 0 {
		step = writes.Step{Op: "add", Path: environmentOf(place), Value: []any{entry}}
	}
	container.Env = append(container.Env, Variable{Name: name})
	return step
}

func environmentOf(place int) string {
	return template + "/spec/containers/" + strconv.Itoa(place) + "/env"
}

// variable returns the name of a source's environment variable, such as STAKATER_MY_APP_CONFIGMAP. Characters that are
// neither letters nor digits become one underscore.
func variable(ref Ref) string {
	parts := strings.FieldsFunc(ref.name, func(letter rune) bool { return letter == '-' || letter == '.' })
	return "STAKATER_" + strings.ToUpper(strings.Join(parts, "_")) + "_" + ref.kind.suffix()
}

// originOf returns the annotation of the Pod template, with the fields of the original's.
func originOf(workload *Workload, change Change, now time.Time) string {
	spec := &workload.Spec.Template.Spec
	var containers []string
	for _, place := range spec.users(change.ref) {
		containers = append(containers, spec.Containers[place].Name)
	}
	text, err := json.Marshal(struct {
		Type       string   `json:"type"`
		Name       string   `json:"name"`
		Namespace  string   `json:"namespace"`
		Hash       string   `json:"hash"`
		Containers []string `json:"containerRefs"`
		ObservedAt int64    `json:"observedAt"`
	}{
		change.ref.kind.suffix(), change.ref.name, workload.Metadata.Namespace, change.digest, containers, now.Unix(),
	})
	if err != nil {
		panic(fmt.Sprint("texts and numbers can be written: ", err))
	}
	return string(text)
}
