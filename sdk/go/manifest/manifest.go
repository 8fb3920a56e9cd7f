// Package manifest describes a plugin's watches and rights. A Manifest becomes the document that manifest.schema.json
// describes, in which durations are in milliseconds.
package manifest

import (
	"encoding/json"
	"time"
)

// Manifest is the whole document. It must be constant: the host asks twice, with different clocks and seeds, and
// compares.
type Manifest struct {
	// Name is the stem of the file that the plugin is installed as.
	Name string `json:"name"`
	// Version is the plugin's own, by semver.org.
	Version string `json:"version"`
	// Description is the plugin's purpose in a sentence.
	Description string `json:"description,omitempty"`
	// Controllers are the reconcile loops, at least one.
	Controllers []Controller `json:"controllers"`
	// CRDs are CustomResourceDefinitions that the plugin brings, whole.
	CRDs []json.RawMessage `json:"crds,omitempty"`
	// Permissions are rights beyond those that the watches imply. Watches imply the rights to read watched objects, to
	// change owned ones, and to write the status of primaries.
	Permissions []Permission `json:"permissions,omitempty"`
	// Finalizers are those, other than the plugin's, that it adds and removes; "*" for any.
	Finalizers []string `json:"finalizers,omitempty"`
	// Metrics that the plugin may set.
	Metrics []Metric `json:"metrics,omitempty"`
	// Config is the configuration that an operator may give.
	Config *Config `json:"config,omitempty"`
	// HTTP lists the hosts that the plugin may call.
	HTTP []HTTPAccess `json:"http,omitempty"`
}

// MarshalJSON adds the fields that every manifest begins with.
func (manifest Manifest) MarshalJSON() ([]byte, error) {
	type plain Manifest
	return json.Marshal(struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		plain
	}{"windlass.dev/v1alpha1", "PluginManifest", plain(manifest)})
}

// Controller is one reconcile loop: a primary kind, and the other objects that make its objects run again.
type Controller struct {
	// Name is unique in the plugin. It is in requests, logs and metrics.
	Name string `json:"name"`
	// Primary selects the objects that are reconciled.
	Primary Watch `json:"primary"`
	// Owns are children: a change of one runs the primary that controls it.
	Owns []Watch `json:"owns,omitempty"`
	// Watches are other objects: a change of one runs the primaries that its Mapping finds.
	Watches []Watch `json:"watches,omitempty"`
	// Options set how the loop runs.
	Options *Options `json:"options,omitempty"`
}

// Verb is a way to change objects of kinds that the configuration names: see Watch.Verbs.
type Verb string

// The verbs.
const (
	VerbCreate           Verb = "create"
	VerbUpdate           Verb = "update"
	VerbPatch            Verb = "patch"
	VerbDelete           Verb = "delete"
	VerbDeleteCollection Verb = "deletecollection"
)

// Watch selects objects of one kind that the host keeps in its cache for the plugin.
type Watch struct {
	// Name is a DNS label that no other watch of the controller has. Only ToMapped and ToRelated need it.
	Name       string `json:"name,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// KindsFrom is a JSON pointer to a list of kinds in the configuration, each with apiVersion and kind. It takes the place
	// of APIVersion and Kind, and needs the Projection MetadataOnly(). Not for Controller.Owns, nor for composers.
	KindsFrom string `json:"kindsFrom,omitempty"`
	// Verbs ask for the rights to change objects of these kinds. Only with KindsFrom: see Manifest.Permissions.
	Verbs []Verb `json:"verbs,omitempty"`
	// Namespaces: only objects in these; none: all.
	Namespaces []string `json:"namespaces,omitempty"`
	// LabelSelector and FieldSelector are in Kubernetes' syntax.
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// Where are conditions that the host evaluates; all must hold. The server still sends all objects. An object for which
	// they stop holding counts as gone.
	Where []Where `json:"where,omitempty"`
	// Projection is how much of an object the cache keeps; nil: all but managedFields.
	Projection *Projection `json:"projection,omitempty"`
	// ManagedFields keeps metadata.managedFields, which are left out otherwise.
	ManagedFields bool `json:"managedFields,omitempty"`
	// Indexes let cache.List find objects quickly.
	Indexes []Index `json:"indexes,omitempty"`
	// Predicates are the updates that count, any of them; empty: all updates. Creations, deletions, and the beginning of a
	// deletion always count.
	Predicates []Predicate `json:"predicates,omitempty"`
	// Deleted is new(false) to ignore the deletion of an object and its beginning. Not for a Primary.
	Deleted *bool `json:"deleted,omitempty"`
	// NoOpSkip is new(false) to send even a write that would provably change nothing, for webhooks that must run at each
	// write.
	NoOpSkip *bool `json:"noOpSkip,omitempty"`
	// UpdateStrategy is only for kinds that a composer owns.
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`
	// Mapping is for Controller.Watches, where it is required.
	Mapping *Mapping `json:"mapping,omitempty"`
}

// UpdateStrategy is how a composer's children of a kind are updated.
type UpdateStrategy string

// The strategies.
const (
	// InPlace applies changes: the default.
	InPlace UpdateStrategy = "inPlace"
	// Recreate deletes a child, and creates it again once it is gone.
	Recreate UpdateStrategy = "recreate"
	// OnDelete leaves a child until someone else deletes it.
	OnDelete UpdateStrategy = "onDelete"
)

// choice is one of a fixed set, with its arguments, as JSON: code outside this package cannot create others.
type choice struct{ document []byte }

// MarshalJSON writes it as an object.
func (choice choice) MarshalJSON() ([]byte, error) {
	if choice.document == nil {
		return []byte("{}"), nil
	}
	return choice.document, nil
}

// chosen is a choice with arguments. It leaves out members that are "" or nil.
func chosen(kind string, members map[string]any) choice {
	for name, value := range members {
		if value == "" || value == nil {
			delete(members, name)
		}
	}
	members["type"] = kind
	document, err := json.Marshal(members)
	if err != nil {
		panic(err) // Texts, and choices, can be written.
	}
	return choice{document}
}

// Projection is how much of an object the cache keeps.
type Projection struct{ choice }

// MetadataOnly keeps only the object's identity and metadata.
func MetadataOnly() *Projection { return &Projection{choice{[]byte(`{"type":"metadata"}`)}} }

// Fields keeps the metadata and the values at these JSON pointers, in which "*" stands for each element of a list.
func Fields(pointers ...string) *Projection {
	return &Projection{chosen("fields", map[string]any{"pointers": pointers})}
}

// Digest keeps the metadata, and in the field "digest" a digest of the values at these JSON pointers, which are not kept
// themselves. With the predicate FieldsChanged("/digest"), only a change of the values counts.
func Digest(pointers ...string) *Projection {
	return &Projection{chosen("digest", map[string]any{"pointers": pointers})}
}

// Index is a way to find objects by a value in them.
type Index struct {
	Name   string      `json:"name"`
	Source IndexSource `json:"source"`
}

// IndexSource is the value that an index contains.
type IndexSource struct{ choice }

// ByField is an index over a text, or each element of a list of texts. In the pointer, "*" stands for each element of a
// list, as in "/spec/sources/*/name".
func ByField(name, pointer string) Index {
	return Index{name, IndexSource{chosen("field", map[string]any{"pointer": pointer})}}
}

// ByLabel is an index over a label.
func ByLabel(name, key string) Index {
	return Index{name, IndexSource{chosen("label", map[string]any{"key": key})}}
}

// ByAnnotation is an index over an annotation.
func ByAnnotation(name, key string) Index {
	return Index{name, IndexSource{chosen("annotation", map[string]any{"key": key})}}
}

// ByAnnotationList is an index over each part of an annotation, without the space around it: of "a, b", with the
// separator ',', over "a" and "b".
func ByAnnotationList(name, key string, separator rune) Index {
	return Index{name, IndexSource{chosen("annotation", map[string]any{"key": key, "split": string(separator)})}}
}

// ByReference is an index over references with the namespace and the name in two fields. Each value is
// "namespace/name".
func ByReference(name string, path ReferencePath) Index {
	return Index{name, IndexSource{path.chosen()}}
}

// BySelector is an index over LabelSelectors, for ToSelecting. An empty selector selects everything. cache.List finds
// an object by labels that it selects, such as "app=web,tier=front".
func BySelector(name, pointer string) Index {
	return Index{name, IndexSource{chosen("selector", map[string]any{"pointer": pointer})}}
}

// BySelectedLabels is the same for maps of labels, as in a Service. An empty one selects nothing.
func BySelectedLabels(name, pointer string) Index {
	return Index{name, IndexSource{chosen("selector", map[string]any{"pointer": pointer, "form": "labels"})}}
}

// BySelectorText is the same over selectors as texts, such as "app in (web,api)". An empty one selects everything.
func BySelectorText(name, pointer string) Index {
	return Index{name, IndexSource{chosen("selector", map[string]any{"pointer": pointer, "form": "text"})}}
}

// ReferencePath is where to find references with the namespace and the name in two fields.
type ReferencePath struct {
	// Base leads to the references, such as "/spec/refs/*" to a list of them; empty: to the object itself.
	Base string
	// Namespace and Name lead to the two fields, below Base. If Namespace is empty, or the field is missing, it is the
	// object's namespace.
	Namespace, Name string
}

func (path ReferencePath) chosen() choice {
	return chosen("reference", map[string]any{"base": path.Base, "namespace": path.Namespace, "name": path.Name})
}

// Mapping is how a changed object maps to the primaries that run. On an update both the old and the new object count.
type Mapping struct{ choice }

// ToOwner runs the primary that controls the object.
func ToOwner() *Mapping { return &Mapping{choice{[]byte(`{"type":"owner"}`)}} }

// ToAnyOwner runs each primary that owns the object, whether it is its controller or not.
func ToAnyOwner() *Mapping { return &Mapping{choice{[]byte(`{"type":"anyOwner"}`)}} }

// ToLabel runs the primary that a label names.
func ToLabel(key string) *Mapping { return &Mapping{chosen("label", map[string]any{"key": key})} }

// ToAnnotation runs the primary that an annotation names.
func ToAnnotation(key string) *Mapping {
	return &Mapping{chosen("annotation", map[string]any{"key": key})}
}

// ToField runs the primary that a field names; with a "*" in the pointer, each that it leads to.
func ToField(pointer string) *Mapping {
	return &Mapping{chosen("field", map[string]any{"pointer": pointer})}
}

// ToReferences runs the primaries that references name, with the namespace and the name in two fields.
func ToReferences(path ReferencePath) *Mapping { return &Mapping{path.chosen()} }

// ToReferrers runs every primary whose index contains the object's name, or its namespace and name.
func ToReferrers(index string) *Mapping {
	return &Mapping{chosen("referencedBy", map[string]any{"index": index})}
}

// ToSelecting runs every primary with a selector, in this index, that selects the object's labels.
func ToSelecting(index string) *Mapping {
	return &Mapping{chosen("selectedBy", map[string]any{"index": index})}
}

// ToSameName runs the primary with the object's own name.
func ToSameName() *Mapping { return &Mapping{choice{[]byte(`{"type":"sameName"}`)}} }

// ToAll runs every primary, at low priority.
func ToAll() *Mapping { return &Mapping{choice{[]byte(`{"type":"all"}`)}} }

// ToMapped runs the primaries that the reconciler's own mapper names (reconciler.Mapper). The watch needs a name.
func ToMapped() *Mapping { return &Mapping{choice{[]byte(`{"type":"mapper"}`)}} }

// ToRelated runs the parents to which the composer's own customizer relates the object (composer.Customizer). The watch needs a
// name.
func ToRelated() *Mapping { return &Mapping{choice{[]byte(`{"type":"customize"}`)}} }

// Predicate selects updates that count.
type Predicate struct{ choice }

// The updates that count.
var (
	// GenerationChanged: the desired state has changed, if the kind has a generation.
	GenerationChanged = Predicate{choice{[]byte(`{"type":"generation"}`)}}
	// LabelsChanged: a label has changed.
	LabelsChanged = Predicate{choice{[]byte(`{"type":"labels"}`)}}
	// AnnotationsChanged: an annotation has changed.
	AnnotationsChanged = Predicate{choice{[]byte(`{"type":"annotations"}`)}}
)

// FieldsChanged counts a change of a value at one of these JSON pointers, in which "*" stands for each element of a list.
func FieldsChanged(pointers ...string) Predicate {
	return Predicate{chosen("fields", map[string]any{"pointers": pointers})}
}

// Not accepts the updates that the predicate rejects.
func Not(predicate Predicate) Predicate {
	return Predicate{chosen("not", map[string]any{"predicate": predicate})}
}

// And accepts the updates that all of the predicates accept.
func And(predicates ...Predicate) Predicate {
	return Predicate{chosen("and", map[string]any{"predicates": predicates})}
}

// Limiter is how the delay of a retry is computed.
type Limiter string

const (
	// Exponential doubles the delay with each failure of the object.
	Exponential Limiter = "exponential"
	// TokenBucket makes the retries of all objects share a rate.
	TokenBucket Limiter = "tokenBucket"
	// MaxOf is the longer of both delays.
	MaxOf Limiter = "maxOf"
)

// Options set how a loop runs. A zero field has the host's default.
type Options struct {
	// Workers is how many objects are reconciled at once, at most 64; zero: 16.
	Workers int
	// MaxRetries is how many counted retries an object gets before it is left to the slow lane; nil: 15, new(0): none.
	MaxRetries *int
	// BackoffBase, doubled n times and at most BackoffMax, is the delay before the n-th retry.
	BackoffBase, BackoffMax time.Duration
	// RetryLimiter is how the delay is computed; zero: Exponential.
	RetryLimiter Limiter
	// RetriesPerSecond and RetriesBurst apply to all objects together, for TokenBucket and MaxOf.
	RetriesPerSecond, RetriesBurst int
	// Resync is how often every object runs again even if nothing changed.
	Resync time.Duration
	// Deadline is how long a call may take.
	Deadline time.Duration
	// Finalizer gives objects the finalizer windlass.dev/NAME, so that the plugin can clean up before they are deleted.
	Finalizer bool
	// WithoutStatus says that the controller does not write the status of its primaries: the manifest asks for no right to.
	WithoutStatus bool
	// RunUnseen runs an object even if its own writes do not appear in the caches for too long.
	RunUnseen bool
}

// MarshalJSON leaves out zero fields, and counts in milliseconds.
func (options Options) MarshalJSON() ([]byte, error) {
	type backoff struct {
		Limiter   string `json:"limiter,omitempty"`
		Base      int64  `json:"baseMs,omitempty"`
		Max       int64  `json:"maxMs,omitempty"`
		PerSecond int    `json:"perSecond,omitempty"`
		Burst     int    `json:"burst,omitempty"`
	}
	document := struct {
		Workers            int     `json:"workers,omitempty"`
		MaxRetries         *int    `json:"maxRetries,omitempty"`
		Backoff            backoff `json:"backoff,omitzero"`
		Resync             int64   `json:"resyncMs,omitempty"`
		Deadline           int64   `json:"deadlineMs,omitempty"`
		Finalizer          bool    `json:"finalizer,omitempty"`
		Status             *bool   `json:"status,omitempty"`
		ExpectationTimeout string  `json:"expectationTimeout,omitempty"`
	}{
		Workers: options.Workers, MaxRetries: options.MaxRetries, Resync: options.Resync.Milliseconds(),
		Deadline: options.Deadline.Milliseconds(), Finalizer: options.Finalizer,
	}
	document.Backoff = backoff{
		Limiter: string(options.RetryLimiter), Base: options.BackoffBase.Milliseconds(), Max: options.BackoffMax.Milliseconds(),
		PerSecond: options.RetriesPerSecond, Burst: options.RetriesBurst,
	}
	if options.WithoutStatus {
		document.Status = new(false)
	}
	if options.RunUnseen {
		document.ExpectationTimeout = "run"
	}
	return json.Marshal(document)
}

// Permission is rights to resources of the API, as in a rule of a Kubernetes Role.
type Permission struct {
	// APIGroups: the core group is the empty text.
	APIGroups []string `json:"apiGroups"`
	// Resources are resources and subresources, such as "deployments" and "deployments/scale".
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
	// Namespaces: only in these; none: in all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Names: only objects with these; none: all.
	Names []string `json:"names,omitempty"`
}

// Metric is a metric that the plugin may set.
type Metric struct {
	// Name is unique in the plugin. The host adds a prefix.
	Name string `json:"name"`
	// Type is Counter, Gauge or Histogram.
	Type MetricType `json:"type"`
	// Help says what it counts, in which unit, for people.
	Help   string   `json:"help"`
	Labels []string `json:"labels,omitempty"`
	// Buckets are a histogram's upper bounds, in ascending order.
	Buckets []float64 `json:"buckets,omitempty"`
}

// MetricType is the kind of a metric.
type MetricType string

// The types of metrics.
const (
	// Counter only grows.
	Counter MetricType = "counter"
	// Gauge goes up and down.
	Gauge MetricType = "gauge"
	// Histogram counts values by size.
	Histogram MetricType = "histogram"
)

// Config is the configuration that an operator may give.
type Config struct {
	// Schema is a JSON schema.
	Schema json.RawMessage `json:"schema"`
}

// HTTPAccess is an HTTP host that the plugin may call.
type HTTPAccess struct {
	// Scheme is HTTPS or HTTP.
	Scheme Scheme `json:"scheme"`
	// Host is a name, in which "*" stands for one label, or an address.
	Host string `json:"host"`
	// Port is zero for the scheme's default.
	Port int `json:"port,omitempty"`
	// Methods are names such as "GET"; "*" for all.
	Methods []string `json:"methods"`
}

// Scheme is the protocol for a host.
type Scheme string

// The schemes.
const (
	// HTTPS is HTTP over TLS.
	HTTPS Scheme = "https"
	// HTTP is unencrypted HTTP.
	HTTP Scheme = "http"
)
