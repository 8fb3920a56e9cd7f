// Package v1 has the kind of the greeter.
// +kubebuilder:object:generate=true
// +groupName=hello.example.com
package v1

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

var (
	GroupVersion  = schema.GroupVersion{Group: "hello.example.com", Version: "v1"}
	SchemeBuilder = &scheme.Builder{GroupVersion: GroupVersion}
	AddToScheme   = SchemeBuilder.AddToScheme
)

func init() { SchemeBuilder.Register(&Greeting{}, &GreetingList{}) }

type GreetingSpec struct {
	Message string `json:"message"`
}

type GreetingStatus struct {
	Greeted bool `json:"greeted,omitempty"`
}

type Greeting struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GreetingSpec   `json:"spec"`
	Status            GreetingStatus `json:"status,omitempty"`
}

type GreetingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Greeting `json:"items"`
}

func (in *Greeting) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

func (in *GreetingList) DeepCopyObject() runtime.Object {
	out := &GreetingList{TypeMeta: in.TypeMeta, ListMeta: in.ListMeta}
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].DeepCopyObject().(*Greeting))
	}
	return out
}

// SetupWebhookWithManager is in the package of the types, as projects of older versions of kubebuilder have it.
func (in *Greeting) SetupWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr).For(in).WithDefaulter(&defaulter{}).Complete()
}

type defaulter struct{}

func (*defaulter) Default(_ context.Context, object runtime.Object) error {
	if _, is := object.(*Greeting); !is {
		return fmt.Errorf("%T is no Greeting", object)
	}
	return nil
}
