package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var groupVersion = schema.GroupVersion{Group: "apps.kubedojo.io", Version: "v1beta1"}

// WebApp is an application that serves HTTP. The CRD is in examples/webapp/crd.yaml.
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec,omitempty"`
	Status Status `json:"status,omitempty"`
}

// Spec is the desired state.
type Spec struct {
	Image    string `json:"image"`
	Replicas int32  `json:"replicas,omitempty"`
	Port     int32  `json:"port,omitempty"`
}

// Status is the observed state.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas"`
	Phase              string             `json:"phase,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// WebAppList is a list of WebApps.
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebApp `json:"items"`
}

// DeepCopyObject returns a deep copy.
func (app *WebApp) DeepCopyObject() runtime.Object {
	copied := *app
	app.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Conditions = append([]metav1.Condition(nil), app.Status.Conditions...)
	return &copied
}

// DeepCopyObject returns a deep copy.
func (list *WebAppList) DeepCopyObject() runtime.Object {
	copied := *list
	copied.Items = make([]WebApp, len(list.Items))
	for i := range list.Items {
		copied.Items[i] = *list.Items[i].DeepCopyObject().(*WebApp)
	}
	return &copied
}

func addToScheme(scheme *runtime.Scheme) {
	scheme.AddKnownTypes(groupVersion, &WebApp{}, &WebAppList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
}
