// The prototype of the benchmark `languages`, on the bare bindings.
package main

import (
	"encoding/json"

	wt "go.bytecodealliance.org/pkg/wit/types"

	export "windlass.dev/sdk/internal/wit/exports/export_windlass_plugin_reconciler"
	_ "windlass.dev/sdk/internal/wit/exports/reconciler"
	cache "windlass.dev/sdk/internal/wit/imports/windlass_plugin_cache"
	reconciler "windlass.dev/sdk/internal/wit/imports/windlass_plugin_reconciler"
	types "windlass.dev/sdk/internal/wit/imports/windlass_plugin_types"
	writes "windlass.dev/sdk/internal/wit/imports/windlass_plugin_writes"
)

const manifest = `{"apiVersion":"windlass.dev/v1alpha1","kind":"PluginManifest","name":"prototype","version":"0.1.0","controllers":[{"name":"prototype","primary":{"apiVersion":"v1","kind":"ConfigMap"}}]}`

type object = map[string]any

func init() {
	export.Description = func() string { return manifest }
	export.Reconciler = reconcile
}

func reconcile(request types.Request) export.Result {
	target := types.ObjectRef{ApiVersion: "apps.kubedojo.io/v1beta1", Kind: "WebApp", Namespace: request.Namespace, Name: request.Name}
	found := cache.Get(target, wt.None[[]string]()).Ok()
	var app struct {
		Metadata struct{ Name, Namespace string }
		Spec     struct {
			Image          string
			Replicas, Port int
		}
	}
	if err := json.Unmarshal([]byte(found.Some()), &app); err != nil {
		panic(err)
	}
	labels := object{"app": app.Metadata.Name}
	container := object{"name": "web", "image": app.Spec.Image, "ports": []object{{"containerPort": app.Spec.Port}}}
	deployment, err := json.Marshal(object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": object{"name": app.Metadata.Name, "namespace": app.Metadata.Namespace, "labels": labels},
		"spec": object{
			"replicas": app.Spec.Replicas, "selector": object{"matchLabels": labels},
			"template": object{"metadata": object{"labels": labels}, "spec": object{"containers": []object{container}}},
		},
	})
	if err != nil {
		panic(err)
	}
	writes.Apply(string(deployment), writes.WriteOptions{Owned: true, Force: true})
	return wt.Ok[reconciler.Outcome, []types.Failure](reconciler.Outcome{})
}

func main() {}
