package main

import (
	"slices"
	"strings"

	"windlass.dev/sdk/config"
)

// Settings is the configuration, in place of the original's flags.
type Settings struct {
	ReloadStrategy        string
	AutoReloadAll         bool
	ReloadOnCreate        bool
	ReloadOnDelete        bool
	ResourcesToIgnore     []string
	IgnoreNamespaces      []string
	NamespaceSelector     string
	ResourceLabelSelector string
}

// settingsSchema describes Settings.
const settingsSchema = `{
	"type": "object",
	"additionalProperties": false,
	"properties": {
		"reloadStrategy": {
			"type": "string", "enum": ["default", "env-vars", "annotations"],
			"description": "What changes in the Pod template: an environment variable (env-vars, the default) or an annotation."
		},
		"autoReloadAll": {
			"type": "boolean",
			"description": "Workloads reload as with reloader.stakater.com/auto: true, unless that or an auto annotation of the kind is set."
		},
		"reloadOnCreate": {"type": "boolean", "description": "Workloads also reload when a source appears that was missing."},
		"reloadOnDelete": {"type": "boolean", "description": "Workloads also reload when a source is deleted."},
		"resourcesToIgnore": {
			"type": "array", "items": {"type": "string", "enum": ["configMaps", "ConfigMaps", "configmaps", "secrets", "Secrets"]},
			"description": "Kinds whose changes reload nothing."
		},
		"ignoreNamespaces": {
			"type": "array", "items": {"type": "string"}, "description": "Names of namespaces whose workloads are left alone."
		},
		"namespaceSelector": {
			"type": "string", "description": "A label selector: only workloads in namespaces that it selects reload."
		},
		"resourceLabelSelector": {
			"type": "string", "description": "A label selector: only ConfigMaps and Secrets that it selects reload workloads."
		}
	}
}`

func settings() (*Settings, error) {
	settings, err := config.Get[Settings]()
	return &settings, err
}

func (settings *Settings) ignores(kind Kind) bool {
	return slices.ContainsFunc(settings.ResourcesToIgnore, func(name string) bool {
		return strings.EqualFold(name, string(kind)+"s")
	})
}
