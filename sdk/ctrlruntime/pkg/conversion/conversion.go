// Package conversion has the interfaces of types that convert to each other's versions. The host does not convert.
package conversion

import "k8s.io/apimachinery/pkg/runtime"

// Hub is the version to which all other versions convert.
type Hub interface {
	runtime.Object
	Hub()
}

// Convertible is a version that converts to and from the hub.
type Convertible interface {
	runtime.Object
	ConvertTo(dst Hub) error
	ConvertFrom(src Hub) error
}
