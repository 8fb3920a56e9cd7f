package client

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	windlass "windlass.dev/sdk"
)

// ApplyConfigurationFromUnstructured returns an unstructured object as the fields of an Apply. The object must have
// only the fields to set. After the apply, it has the state that the server returned.
func ApplyConfigurationFromUnstructured(u *unstructured.Unstructured) runtime.ApplyConfiguration {
	return &unstructuredConfiguration{u}
}

type unstructuredConfiguration struct{ *unstructured.Unstructured }

// IsApplyConfiguration marks the type.
func (*unstructuredConfiguration) IsApplyConfiguration() {}

// MarshalJSON writes the fields.
func (configuration *unstructuredConfiguration) MarshalJSON() ([]byte, error) {
	return json.Marshal(configuration.Object)
}

// refOf returns the object that an apply configuration names.
func refOf(configuration json.RawMessage) (ref windlass.Ref, err error) {
	var header struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name string }
	}
	err = json.Unmarshal(configuration, &header)
	return windlass.Ref{
		APIVersion: header.APIVersion, Kind: header.Kind, Namespace: header.Metadata.Namespace, Name: header.Metadata.Name,
	}, err
}
