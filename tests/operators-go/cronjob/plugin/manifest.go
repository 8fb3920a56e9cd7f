package main

import (
	"sigs.k8s.io/controller-runtime/pkg/windlass"
	"windlass.dev/sdk/manifest"
)

// The permissions are those of the project's +kubebuilder:rbac markers.
func init() {
	windlass.Describe(manifest.Manifest{
		Name:        "cronjob",
		Version:     "0.1.0",
		Description: "The CronJob operator of kubebuilder's book",
		Permissions: []manifest.Permission{
			{
				APIGroups: []string{"batch.tutorial.kubebuilder.io"}, Resources: []string{"cronjobs"},
				Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
			},
			{
				APIGroups: []string{"batch.tutorial.kubebuilder.io"}, Resources: []string{"cronjobs/status"},
				Verbs: []string{"get", "update", "patch"},
			},
			{
				APIGroups: []string{"batch"}, Resources: []string{"jobs"},
				Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"},
			},
			{APIGroups: []string{"batch"}, Resources: []string{"jobs/status"}, Verbs: []string{"get"}},
		},
	})
}
