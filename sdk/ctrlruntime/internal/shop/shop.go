// Package shop has the types of the tests: an API as kubebuilder makes one.
package shop

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/scheme"
)

// GroupVersion is the version of the API.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// AddToScheme adds the types to a scheme.
var AddToScheme = (&scheme.Builder{GroupVersion: GroupVersion}).Register(
	&Shop{}, &ShopList{}, &Item{}, &ItemList{}, &City{}, &CityList{},
).AddToScheme

// Shop is the primary.
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ShopSpec   `json:"spec,omitempty"`
	Status            ShopStatus `json:"status,omitempty"`
}

// ShopSpec is the desired state.
type ShopSpec struct {
	Items int64    `json:"items,omitempty"`
	City  string   `json:"city,omitempty"`
	Doors []string `json:"doors,omitempty"`
}

// ShopStatus is the actual state.
type ShopStatus struct {
	Items int64 `json:"items,omitempty"`
}

// ShopList is a list of shops.
type ShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Shop `json:"items"`
}

// Item is owned by a shop.
type Item struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Price             int64 `json:"price,omitempty"`
}

// ItemList is a list of items, by pointers.
type ItemList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []*Item `json:"items"`
}

// City has no namespace.
type City struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// CityList is a list of cities.
type CityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []City `json:"items"`
}

// DeepCopyObject copies the object.
func (shop *Shop) DeepCopyObject() runtime.Object { return copied(shop) }

// DeepCopy copies the object.
func (shop *Shop) DeepCopy() *Shop { return copied(shop) }

// DeepCopyObject copies the list.
func (list *ShopList) DeepCopyObject() runtime.Object { return copied(list) }

// DeepCopyObject copies the object.
func (item *Item) DeepCopyObject() runtime.Object { return copied(item) }

// DeepCopyObject copies the list.
func (list *ItemList) DeepCopyObject() runtime.Object { return copied(list) }

// DeepCopyObject copies the object.
func (city *City) DeepCopyObject() runtime.Object { return copied(city) }

// DeepCopyObject copies the list.
func (list *CityList) DeepCopyObject() runtime.Object { return copied(list) }

func copied[T any](from *T) *T {
	document, err := json.Marshal(from)
	if err != nil {
		panic(err)
	}
	to := new(T)
	if err := json.Unmarshal(document, to); err != nil {
		panic(err)
	}
	return to
}
