package main

import (
	"sigs.k8s.io/controller-runtime/pkg/windlass"
	"windlass.dev/sdk/manifest"
)

// The permissions are those of KubeRay's +kubebuilder:rbac markers, except those for OpenShift, the Gateway API, and the
// API server's proxy.
func init() {
	all := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	allow := func(group string, verbs []string, resources ...string) manifest.Permission {
		return manifest.Permission{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	windlass.Describe(manifest.Manifest{
		Name:        "ray",
		Version:     "0.1.0",
		Description: "KubeRay",
		Permissions: []manifest.Permission{
			allow("ray.io", all, "rayclusters", "rayjobs", "rayservices"),
			allow("ray.io", []string{"get", "update", "patch"}, "rayclusters/status", "rayjobs/status", "rayservices/status"),
			allow("", append([]string{"deletecollection"}, all...), "pods"),
			allow("", all, "services", "serviceaccounts", "secrets"),
			allow("", []string{"get", "list", "watch"}, "endpoints"),
			allow("batch", all, "jobs"),
			allow("rbac.authorization.k8s.io", all, "roles", "rolebindings"),
			allow("networking.k8s.io", all, "ingresses"),
		},
	})
}
