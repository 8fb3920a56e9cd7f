package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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
	// DigestKey is a secret without which no value can be guessed from its digest; empty if there is none.
	DigestKey string
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
		},
		"digestKey": {
			"type": "string", "minLength": 32,
			"description": "A random text, from a Secret. Without it, short values can be guessed from digests in annotations."
		}
	}
}`

func settings() (*Settings, error) {
	settings, err := config.Get[Settings]()
	return &settings, err
}

// keyID names the digest key in the annotation seen; "" if there is no key.
func (settings *Settings) keyID() string {
	if settings.DigestKey == "" {
		return ""
	}
	return settings.hashed("seen")[:8]
}

// stateOf returns the state of a source of a namespace; "" if it does not exist. It depends on the place of the source,
// so that equal values in two places have different states.
func (settings *Settings) stateOf(ref Ref, namespace string, source *Source) string {
	if source == nil {
		return ""
	}
	return settings.hashed(namespace + "/" + ref.String() + "/" + source.Digest)[:digestDigits]
}

func (settings *Settings) hashed(text string) string {
	hash := hmac.New(sha256.New, []byte(settings.DigestKey))
	hash.Write([]byte(text))
	return hex.EncodeToString(hash.Sum(nil))
}

func (settings *Settings) ignores(kind Kind) bool {
	return slices.ContainsFunc(settings.ResourcesToIgnore, func(name string) bool {
		return strings.EqualFold(name, string(kind)+"s")
	})
}
