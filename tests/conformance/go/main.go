// The conformance probe of the Go SDK. It carries out the steps in its primary.
package main

import (
	"context"
	"encoding/json"
	"time"

	"windlass.dev/conformance/pure"
	"windlass.dev/sdk"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/reconciler"
	"windlass.dev/sdk/writes"
)

const group = "conformance.windlass.dev"

var plugin = manifest.Manifest{
	Name:        "conformance",
	Version:     "0.1.0",
	Description: "Does what its primary says, in every language alike.",
	Controllers: []manifest.Controller{{
		Name: "conformance",
		Primary: manifest.Watch{
			APIVersion: group + "/v1", Kind: "Conformance", CallFields: []string{"/spec"},
			Predicates: []manifest.Predicate{
				manifest.GenerationChanged, manifest.LabelsChanged, manifest.FieldsChanged("/spec/steps"),
			},
			Indexes: []manifest.Index{manifest.ByField("secrets", "/spec/secrets")},
		},
		Owns: []manifest.Watch{
			{
				APIVersion: "v1", Kind: "ConfigMap", LabelSelector: "conformance=yes", Namespaces: []string{"prod", "test"},
				Projection: manifest.Fields("/data"),
				Indexes:    []manifest.Index{manifest.ByLabel("tier", "tier")},
			},
			{APIVersion: "apps/v1", Kind: "Deployment", Projection: manifest.MetadataOnly()},
		},
		Watches: []manifest.Watch{
			{APIVersion: "v1", Kind: "Secret", FieldSelector: "type=Opaque", Mapping: manifest.ToReferrers("secrets")},
			{APIVersion: "v1", Kind: "Service", Mapping: manifest.ToLabel(group + "/for")},
			{APIVersion: "v1", Kind: "Pod", Mapping: manifest.ToAnnotation(group + "/for")},
			{APIVersion: "v1", Kind: "PersistentVolumeClaim", Mapping: manifest.ToField("/spec/volumeName")},
			{APIVersion: "v1", Kind: "ServiceAccount", Mapping: manifest.ToSameName()},
			{APIVersion: "v1", Kind: "Namespace", Mapping: manifest.ToAll()},
			{Name: "mapped", APIVersion: "v1", Kind: "Endpoints", CodePredicate: true, Mapping: manifest.ToMapped()},
		},
		Options: &manifest.Options{
			Workers: 2, MaxRetries: new(5), BackoffBase: 10 * time.Millisecond, BackoffMax: time.Minute, Resync: time.Hour,
			Deadline: 20 * time.Second, Finalizer: true, RunUnseen: true, WithoutSavedCalls: true,
		},
	}},
	Permissions: []manifest.Permission{
		{
			APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "create", "patch", "delete"},
			Namespaces: []string{"prod"},
		},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments/scale"}, Verbs: []string{"patch"}, Names: []string{"web"}},
	},
	Metrics: []manifest.Metric{
		{Name: "counted_total", Type: manifest.Counter, Help: "What was counted.", Labels: []string{"color"}},
		{Name: "level", Type: manifest.Gauge, Help: "What was found last."},
		{Name: "sizes", Type: manifest.Histogram, Help: "What was measured.", Buckets: []float64{1.5, 10}},
	},
	HTTP: []manifest.HTTPAccess{
		{Scheme: manifest.HTTPS, Host: "api.example.com", Port: 8443, Methods: []string{"GET", "POST"}},
	},
	Config:     &manifest.Config{Schema: json.RawMessage(`{"type": "object", "properties": {"greeting": {"type": "string"}}}`)},
	Finalizers: []string{group + "/old"},
}

func init() {
	reconciler.Register(plugin, reconcile, reconciler.Mapper(mapped), reconciler.Predicate(matched))
}

func main() {}

func reconcile(_ context.Context, request windlass.Request) (windlass.Outcome, error) {
	var primary struct {
		Spec struct{ Steps []step }
	}
	if has, err := request.Object(&primary); err != nil || !has {
		return windlass.Done, err
	}
	results := []pure.Result{}
	for _, step := range primary.Spec.Steps {
		result, end := do(request, step)
		if end != nil && end.Err != nil {
			return windlass.Done, end.Err
		}
		if end != nil && end.Backoff {
			return windlass.RequeueWithBackoff(), nil
		}
		if end != nil {
			return windlass.RequeueAfter(end.After), nil
		}
		results = append(results, result)
	}
	_, err := writes.Create(windlass.Object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": windlass.Object{"name": "report"}, "results": results,
	})
	return windlass.Done, err
}
