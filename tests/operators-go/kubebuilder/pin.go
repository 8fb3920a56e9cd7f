// Package kubebuilder pins the version of kubebuilder that generates two of the operators. tools/build-operators builds
// kubebuilder from the Go module proxy.
package kubebuilder
