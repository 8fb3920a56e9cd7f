// Package scheme collects the Go types of an API group's version.
package scheme

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Builder collects the Go types of a version.
type Builder struct {
	GroupVersion schema.GroupVersion
	runtime.SchemeBuilder
}

// Register adds types.
func (bld *Builder) Register(object ...runtime.Object) *Builder {
	bld.SchemeBuilder.Register(func(scheme *runtime.Scheme) error {
		scheme.AddKnownTypes(bld.GroupVersion, object...)
		metav1.AddToGroupVersion(scheme, bld.GroupVersion)
		return nil
	})
	return bld
}

// RegisterAll adds the types of another builder.
func (bld *Builder) RegisterAll(b *Builder) *Builder {
	bld.SchemeBuilder = append(bld.SchemeBuilder, b.SchemeBuilder...)
	return bld
}

// AddToScheme adds the types to a scheme.
func (bld *Builder) AddToScheme(s *runtime.Scheme) error { return bld.SchemeBuilder.AddToScheme(s) }

// Build returns a scheme with the types.
func (bld *Builder) Build() (*runtime.Scheme, error) {
	made := runtime.NewScheme()
	return made, bld.AddToScheme(made)
}
