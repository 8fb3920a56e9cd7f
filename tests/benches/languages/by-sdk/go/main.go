// Does the same as the prototype of the benchmark `languages`, with the SDK.
package main

import (
	"context"

	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/reconciler"
	"windlass.dev/sdk/writes"
)

type webApp struct {
	Metadata windlass.Metadata
	Spec     struct {
		Image          string
		Replicas, Port int
	}
}

func init() {
	reconciler.Register(manifest.Manifest{
		Name: "by-sdk", Version: "0.1.0",
		Controllers: []manifest.Controller{{
			Name:    "by-sdk",
			Primary: manifest.Watch{APIVersion: "apps.kubedojo.io/v1beta1", Kind: "WebApp"},
			Owns:    []manifest.Watch{{APIVersion: "apps/v1", Kind: "Deployment"}},
		}},
	}, reconcile)
}

func reconcile(_ context.Context, request windlass.Request) (windlass.Outcome, error) {
	target := windlass.Ref{APIVersion: "apps.kubedojo.io/v1beta1", Kind: "WebApp", Namespace: request.Namespace, Name: request.Name}
	app, err := cache.Get[webApp](target)
	if err != nil {
		return windlass.Done, err
	}
	labels := windlass.Object{"app": app.Metadata.Name}
	container := windlass.Object{
		"name": "web", "image": app.Spec.Image, "ports": []windlass.Object{{"containerPort": app.Spec.Port}},
	}
	_, err = writes.Apply(windlass.Object{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": windlass.Object{"name": app.Metadata.Name, "namespace": app.Metadata.Namespace, "labels": labels},
		"spec": windlass.Object{
			"replicas": app.Spec.Replicas, "selector": windlass.Object{"matchLabels": labels},
			"template": windlass.Object{
				"metadata": windlass.Object{"labels": labels},
				"spec":     windlass.Object{"containers": []windlass.Object{container}},
			},
		},
	}, writes.Owned(), writes.Force())
	return windlass.Done, err
}

func main() {}
