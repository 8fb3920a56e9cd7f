package main

import (
	"sigs.k8s.io/controller-runtime/pkg/windlass"
	"windlass.dev/sdk/manifest"
)

// The permissions are those of the project's +kubebuilder:rbac markers.
func init() {
	windlass.Describe(manifest.Manifest{
		Name:        "deploy-image",
		Version:     "0.1.0",
		Description: "The project that kubebuilder tests its plugin deploy-image with",
		Permissions: []manifest.Permission{
			{
				APIGroups: []string{"example.com.testproject.org"}, Resources: []string{"memcacheds", "busyboxes"},
				Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
			},
			{
				APIGroups: []string{"example.com.testproject.org"}, Resources: []string{"memcacheds/status", "busyboxes/status"},
				Verbs: []string{"get", "update", "patch"},
			},
			{
				APIGroups: []string{"apps"}, Resources: []string{"deployments"},
				Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
			},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch"}},
		},
	})
}
