// The Reloader: it replaces the Pods of workloads when their ConfigMaps and Secrets change.
//
// This file reads and writes. watches.go has the manifest, choice.go and decision.go decide, and patch.go computes the
// patch.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/clock"
	"windlass.dev/sdk/events"
	"windlass.dev/sdk/reconciler"
	"windlass.dev/sdk/writes"
)

func init() { reconciler.Register(plugin, reconcile, reconciler.Mapper(toWorkloads)) }

func main() {}

func reconcile(_ context.Context, request windlass.Request) (windlass.Outcome, error) {
	var workload Workload
	is, err := request.Object(&workload)
	if err != nil || !is || request.Deleting {
		return windlass.Done, err
	}
	settings, err := settings()
	if err != nil {
		return windlass.Done, err
	}
	isSelected, err := isSelected(request.Namespace, settings)
	if err != nil {
		return windlass.Done, err
	}
	var rules Rules
	var period time.Duration
	if isSelected {
		rules = rulesOf(&workload, settings)
		if period, err = pausePeriodOf(&workload); err != nil {
			rules.mistakes = append(rules.mistakes, err.Error())
		}
	}
	for _, mistake := range rules.mistakes {
		events.Warning("InvalidAnnotation", "Reload", mistake+": it has no effect")
	}
	states, err := statesOf(&workload, &rules, settings)
	if err != nil {
		return windlass.Done, err
	}
	if removed := states.limit(workload.Spec.Template.Spec.references()); removed > 0 {
		text := fmt.Sprintf("%d sources are not followed: there is no room for more than %d; use a narrower pattern",
			removed, len(states))
		events.Warning("TooManySources", "Reload", text)
	}
	now := clock.Now()
	plan := decide(&workload, states, settings, period, now)
	if err := carryOut(&plan, &workload, settings, now); err != nil || plan.again == 0 {
		return windlass.Done, err
	}
	return windlass.RequeueAfter(plan.again), nil
}

// isSelected reports whether the workloads of a namespace reload.
func isSelected(namespace string, settings *Settings) (bool, error) {
	if slices.Contains(settings.IgnoreNamespaces, namespace) {
		return false, nil
	}
	if settings.NamespaceSelector == "" {
		return true, nil
	}
	found, err := list(cache.Query{
		Kind: windlass.Kind{APIVersion: "v1", Kind: "Namespace"}, Index: byName, Value: namespace,
		LabelSelector: settings.NamespaceSelector,
	})
	return found[namespace], err
}

// list returns the names of the objects that a query finds.
func list(query cache.Query) (map[string]bool, error) {
	found := map[string]bool{}
	query.Fields = []string{"/metadata/name"}
	for object, err := range cache.List[struct{ Metadata windlass.Metadata }](query) {
		if err != nil {
			return nil, err
		}
		found[object.Metadata.Name] = true
	}
	return found, nil
}

// statesOf reads the sources that concern a workload.
func statesOf(workload *Workload, rules *Rules, settings *Settings) (States, error) {
	states := States{}
	if rules.isEmpty() {
		return states, nil
	}
	used, before := workload.Spec.Template.Spec.references(), seenBy(workload, settings)
	for _, kind := range kinds {
		if settings.ignores(kind) {
			continue
		}
		query := cache.Query{
			Kind: windlass.Kind{APIVersion: "v1", Kind: string(kind)}, Namespace: workload.Metadata.Namespace,
			LabelSelector: settings.ResourceLabelSelector,
		}
		names := rules.candidates(kind, used, before)
		var selected map[string]bool
		if query.LabelSelector != "" || rules.reload[kind].hasPattern() {
			var err error
			if selected, err = list(query); err != nil {
				return nil, err
			}
			for name := range selected {
				if rules.reload[kind].fit(name) {
					names[name] = true
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			ref := Ref{kind, name}
			source, err := cache.Get[Source](ref.in(workload.Metadata.Namespace))
			if err != nil {
				return nil, err
			}
			isSelected := source == nil || selected == nil || selected[name]
			_, wasSeen := before[ref.String()]
			if isSelected && rules.concern(ref, source, used[ref], wasSeen) {
				states[ref] = settings.stateOf(ref, workload.Metadata.Namespace, source)
			}
		}
	}
	return states, nil
}

// carryOut sends the patch of a plan, if there is something to do, and reports it.
func carryOut(plan *Plan, workload *Workload, settings *Settings, now time.Time) error {
	steps := plan.patch(workload, settings, now)
	if len(steps) == 0 {
		return nil
	}
	target := workload.Metadata.Beside(workload.APIVersion, workload.Kind)
	target.UID = workload.Metadata.UID
	version := writes.IfVersion(workload.Metadata.ResourceVersion)
	if _, err := writes.JSONPatch[windlass.Object](target, steps, version, writes.Fields()); err != nil {
		return err
	}
	if plan.resumes {
		events.Normal("Resumed", "Resume", "resumed: the pause by Stakater's Reloader is over")
	}
	if len(plan.reloads) == 0 {
		return nil
	}
	var changed []string
	for _, change := range plan.reloads {
		changed = append(changed, change.ref.String())
	}
	text := strings.Join(changed, ", ")
	slog.Info("reloads a workload", "kind", workload.Kind, "changed", text)
	events.Normal("Reloaded", "Reload", "the Pods are replaced, because these changed: "+text)
	return nil
}
