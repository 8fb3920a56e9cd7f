package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// GetOptions are the options of a Get.
type GetOptions struct {
	// Raw is ignored.
	Raw *metav1.GetOptions
	// UnsafeDisableDeepCopy is ignored: each read decodes its own object.
	UnsafeDisableDeepCopy *bool
}

// ApplyOptions applies options to these.
func (o *GetOptions) ApplyOptions(opts []GetOption) *GetOptions {
	for _, opt := range opts {
		opt.ApplyToGet(o)
	}
	return o
}

// ApplyToGet copies the fields that are set.
func (o *GetOptions) ApplyToGet(to *GetOptions) {
	set(&to.Raw, o.Raw, o.Raw != nil)
	set(&to.UnsafeDisableDeepCopy, o.UnsafeDisableDeepCopy, o.UnsafeDisableDeepCopy != nil)
}

// AsGetOptions returns the options in the API's form.
func (o *GetOptions) AsGetOptions() *metav1.GetOptions { return &metav1.GetOptions{} }

// ListOptions are the options of a List. All conditions must hold.
type ListOptions struct {
	LabelSelector labels.Selector
	// FieldSelector selects by fields that IndexField has added, or, in a live list, by fields that the API server
	// knows.
	FieldSelector fields.Selector
	// Namespace is empty for all namespaces.
	Namespace string
	// Limit is the maximum number of objects in the answer. A cached list ends there. A live list can go on
	// with Continue.
	Limit int64
	// Continue is the token of an earlier live list.
	Continue string
	// UnsafeDisableDeepCopy is ignored: each read decodes its own objects.
	UnsafeDisableDeepCopy *bool
	// Raw is ignored.
	Raw *metav1.ListOptions
}

// ApplyOptions applies options to these.
func (o *ListOptions) ApplyOptions(opts []ListOption) *ListOptions {
	for _, opt := range opts {
		opt.ApplyToList(o)
	}
	return o
}

// ApplyToList copies the fields that are set.
func (o *ListOptions) ApplyToList(to *ListOptions) {
	set(&to.LabelSelector, o.LabelSelector, o.LabelSelector != nil)
	set(&to.FieldSelector, o.FieldSelector, o.FieldSelector != nil)
	set(&to.Namespace, o.Namespace, o.Namespace != "")
	set(&to.Limit, o.Limit, o.Limit > 0)
	set(&to.Continue, o.Continue, o.Continue != "")
	set(&to.UnsafeDisableDeepCopy, o.UnsafeDisableDeepCopy, o.UnsafeDisableDeepCopy != nil)
	set(&to.Raw, o.Raw, o.Raw != nil)
}

// AsListOptions returns the options in the API's form.
func (o *ListOptions) AsListOptions() *metav1.ListOptions {
	options := &metav1.ListOptions{Limit: o.Limit, Continue: o.Continue}
	if o.LabelSelector != nil {
		options.LabelSelector = o.LabelSelector.String()
	}
	if o.FieldSelector != nil {
		options.FieldSelector = o.FieldSelector.String()
	}
	return options
}

// MatchingLabels selects objects that have all of these labels.
type MatchingLabels map[string]string

func (m MatchingLabels) ApplyToList(o *ListOptions) {
	for key, value := range m {
		o.require(key, selection.Equals, []string{value})
	}
	if o.LabelSelector == nil {
		o.LabelSelector = labels.Everything()
	}
}
func (m MatchingLabels) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { m.ApplyToList(&o.ListOptions) }

// HasLabels selects objects that have all of these labels, whatever their values.
type HasLabels []string

func (m HasLabels) ApplyToList(o *ListOptions) {
	for _, key := range m {
		o.require(key, selection.Exists, nil)
	}
	if o.LabelSelector == nil {
		o.LabelSelector = labels.Everything()
	}
}
func (m HasLabels) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { m.ApplyToList(&o.ListOptions) }

// require adds a condition on labels. Conditions that cannot be written select nothing.
func (o *ListOptions) require(key string, operator selection.Operator, values []string) {
	requirement, err := labels.NewRequirement(key, operator, values)
	if err != nil {
		o.LabelSelector = labels.Nothing()
		return
	}
	if o.LabelSelector == nil {
		o.LabelSelector = labels.NewSelector()
	}
	o.LabelSelector = o.LabelSelector.Add(*requirement)
}

// MatchingLabelsSelector selects objects by a selector. A nil selector selects nothing.
type MatchingLabelsSelector struct {
	labels.Selector
}

func (m MatchingLabelsSelector) ApplyToList(o *ListOptions) {
	o.LabelSelector = m.Selector
	if m.Selector == nil {
		o.LabelSelector = labels.Nothing()
	}
}
func (m MatchingLabelsSelector) ApplyToDeleteAllOf(o *DeleteAllOfOptions) {
	m.ApplyToList(&o.ListOptions)
}

// MatchingFields selects objects by fields: see ListOptions.FieldSelector.
type MatchingFields fields.Set

func (m MatchingFields) ApplyToList(o *ListOptions)               { o.FieldSelector = fields.Set(m).AsSelector() }
func (m MatchingFields) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { m.ApplyToList(&o.ListOptions) }

// MatchingFieldsSelector selects objects by a selector of fields. A nil selector selects nothing.
type MatchingFieldsSelector struct {
	fields.Selector
}

func (m MatchingFieldsSelector) ApplyToList(o *ListOptions) {
	o.FieldSelector = m.Selector
	if m.Selector == nil {
		o.FieldSelector = fields.Nothing()
	}
}
func (m MatchingFieldsSelector) ApplyToDeleteAllOf(o *DeleteAllOfOptions) {
	m.ApplyToList(&o.ListOptions)
}

// InNamespace selects objects of one namespace.
type InNamespace string

func (n InNamespace) ApplyToList(o *ListOptions)               { o.Namespace = string(n) }
func (n InNamespace) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { n.ApplyToList(&o.ListOptions) }

// AsSelector returns the namespace as a selector of fields.
func (n InNamespace) AsSelector() fields.Selector {
	return fields.SelectorFromSet(fields.Set{"metadata.namespace": string(n)})
}

// Limit is the maximum number of objects in a list: see ListOptions.
type Limit int64

func (l Limit) ApplyToList(o *ListOptions) { o.Limit = int64(l) }

// Continue is the token of an earlier live list: see ListOptions.
type Continue string

func (c Continue) ApplyToList(o *ListOptions) { o.Continue = string(c) }

// UnsafeDisableDeepCopyOption is accepted and has no effect: each read decodes its own objects.
type UnsafeDisableDeepCopyOption bool

func (d UnsafeDisableDeepCopyOption) ApplyToGet(o *GetOptions) {
	o.UnsafeDisableDeepCopy = new(bool(d))
}
func (d UnsafeDisableDeepCopyOption) ApplyToList(o *ListOptions) {
	o.UnsafeDisableDeepCopy = new(bool(d))
}

// UnsafeDisableDeepCopy is accepted and has no effect.
const UnsafeDisableDeepCopy = UnsafeDisableDeepCopyOption(true)
