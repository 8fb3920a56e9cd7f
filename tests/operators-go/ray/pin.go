// Package ray pins the version of KubeRay that tools/build-operators fetches from the Go module proxy.
package ray
