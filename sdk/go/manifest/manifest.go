// Package manifest says what a plugin watches, and what it may do. A Manifest becomes the document that
// manifest.schema.json describes, in which durations are in milliseconds.
package manifest

import (
	"encoding/json"
	"time"
)

// Manifest is the whole document. It must be constant: the host asks twice, with other clocks and seeds, and compares.
type Manifest struct {
	// Name is the stem of the file that the plugin is installed as.
	Name string `json:"name"`
	// Version is the plugin's own, by semver.org.
	Version string `json:"version"`
	// Description says in a sentence what the plugin is for.
	Description string `json:"description,omitempty"`
	// Controllers are the reconcile loops, at least one.
	Controllers []Controller `json:"controllers"`
	// CRDs are CustomResourceDefinitions that the plugin brings, whole.
	CRDs []json.RawMessage `json:"crds,omitempty"`
	// Permissions are access beyond what the watches imply. They imply the rights to read watched objects, to change owned
	// ones, and to write the status of primaries.
	Permissions []Permission `json:"permissions,omitempty"`
	// Finalizers that are not the plugin's own and that it adds and removes; "*" for any.
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

// Controller is one reconcile loop: a primary kind, and what else makes its objects run again.
type Controller struct {
	// Name is unique in the plugin. It is in requests, logs and metrics.
	Name string `json:"name"`
	// Primary is the objects that are reconciled.
	Primary Watch `json:"primary"`
	// Owns are children: a change of one runs the primary that controls it.
	Owns []Watch `json:"owns,omitempty"`
	// Watches are other objects: a change of one runs the primaries that its Mapping finds.
	Watches []Watch `json:"watches,omitempty"`
	// Options say how the loop runs.
	Options *Options `json:"options,omitempty"`
}

// Watch is objects of one kind that the host keeps in its cache for the plugin.
type Watch struct {
	// Name is a DNS label that no other watch of the controller has. Only ToMapped and ToRelated need it.
	Name       string `json:"name,omitempty"`
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
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
	// Predicates are the updates that count, any of them; none: all. Objects that appear or go, and the beginning of a
	// deletion, count whatever they say.
	Predicates []Predicate `json:"predicates,omitempty"`
	// Deleted is new(false) if neither the beginning of a deletion nor its end runs anybody. Not for a Primary.
	Deleted *bool `json:"deleted,omitempty"`
	// NoOpSkip is new(false) if even a write that would provably change nothing is sent, for webhooks that are to run at each.
	NoOpSkip *bool `json:"noOpSkip,omitempty"`
	// UpdateStrategy is only for kinds that a composer owns.
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`
	// Mapping is for Controller.Watches, where it is required.
	Mapping *Mapping `json:"mapping,omitempty"`
}

// UpdateStrategy is how a composer's children of a kind change.
type UpdateStrategy string

// The strategies.
const (
	// InPlace applies them: the default.
	InPlace UpdateStrategy = "inPlace"
	// Recreate deletes a child, and creates it anew when it has gone.
	Recreate UpdateStrategy = "recreate"
	// OnDelete leaves a child until somebody else deletes it.
	OnDelete UpdateStrategy = "onDelete"
)

// choice is one of a fixed set, with its arguments, as JSON: code outside this package cannot make another.
type choice struct{ document []byte }

// MarshalJSON writes it as an object.
func (choice choice) MarshalJSON() ([]byte, error) {
	if choice.document == nil {
		return []byte("{}"), nil
	}
	return choice.document, nil
}

// chosen is a choice with arguments. A member that is "" or nil is left out.
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

// IndexSource says which value.
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

// ByReference is an index over references that say namespace and name in two fields. It finds each as "namespace/name".
func ByReference(name string, path ReferencePath) Index {
	return Index{name, IndexSource{path.chosen()}}
}

// BySelector is an index over LabelSelectors, for ToSelecting. An empty one selects everything. cache.List finds an object
// by labels that it selects, such as "app=web,tier=front".
func BySelector(name, pointer string) Index {
	return Index{name, IndexSource{chosen("selector", map[string]any{"pointer": pointer})}}
}

// BySelectedLabels is the same over maps of labels, as a Service has one. An empty one selects nothing.
func BySelectedLabels(name, pointer string) Index {
	return Index{name, IndexSource{chosen("selector", map[string]any{"pointer": pointer, "form": "labels"})}}
}

// ReferencePath is where references are that say namespace and name in two fields.
type ReferencePath struct {
	// Base leads to the references, such as "/spec/refs/*" to a list of them; empty: to the object itself.
	Base string
	// Namespace and Name lead to the two fields, below Base. No Namespace, or nothing there: the object's own.
	Namespace, Name string
}

func (path ReferencePath) chosen() choice {
	return chosen("reference", map[string]any{"base": path.Base, "namespace": path.Namespace, "name": path.Name})
}

// Mapping says how a changed object leads to the primaries that run. On an update both the old and the new object count.
type Mapping struct{ choice }

// ToOwner runs the primary that controls the object.
func ToOwner() *Mapping { return &Mapping{choice{[]byte(`{"type":"owner"}`)}} }

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

// ToReferences runs the primaries that references name, each of which says namespace and name in two fields.
func ToReferences(path ReferencePath) *Mapping { return &Mapping{path.chosen()} }

// ToReferrers runs every primary whose index holds the object's name, or its namespace and name.
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

// Predicate is an update that counts.
type Predicate struct{ choice }

// The updates that count.
var (
	// GenerationChanged: the desired state has changed, where the kind counts generations.
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

// Not counts the updates that the predicate does not.
func Not(predicate Predicate) Predicate {
	return Predicate{chosen("not", map[string]any{"predicate": predicate})}
}

// And counts the updates that all of the predicates do.
func And(predicates ...Predicate) Predicate {
	return Predicate{chosen("and", map[string]any{"predicates": predicates})}
}

// Limiter is how the delay of a retry is found.
type Limiter string

const (
	// Exponential doubles the delay with each failure of the object.
	Exponential Limiter = "exponential"
	// TokenBucket has the retries of all objects share a rate.
	TokenBucket Limiter = "tokenBucket"
	// MaxOf is the longer of both.
	MaxOf Limiter = "maxOf"
)

// Options say how a loop runs. A zero field has the host's default.
type Options struct {
	// Workers is how many objects are reconciled at once, at most 64; zero: 16.
	Workers int
	// MaxRetries is how many counted retries an object gets before it is left to the slow lane; nil: 15, new(0): none.
	MaxRetries *int
	// BackoffBase, doubled n times and at most BackoffMax, is the delay before the n-th retry.
	BackoffBase, BackoffMax time.Duration
	// RetryLimiter is how the delay is found; zero: Exponential.
	RetryLimiter Limiter
	// RetriesPerSecond and RetriesBurst are of all objects together, for TokenBucket and MaxOf.
	RetriesPerSecond, RetriesBurst int
	// Resync is how often every object runs again although nothing changed.
	Resync time.Duration
	// Deadline is how long a call may take.
	Deadline time.Duration
	// Finalizer gives objects the finalizer windlass.dev/NAME, so that the plugin can clean up before they go.
	Finalizer bool
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
		ExpectationTimeout string  `json:"expectationTimeout,omitempty"`
	}{
		Workers: options.Workers, MaxRetries: options.MaxRetries, Resync: options.Resync.Milliseconds(),
		Deadline: options.Deadline.Milliseconds(), Finalizer: options.Finalizer,
	}
	document.Backoff = backoff{
		Limiter: string(options.RetryLimiter), Base: options.BackoffBase.Milliseconds(), Max: options.BackoffMax.Milliseconds(),
		PerSecond: options.RetriesPerSecond, Burst: options.RetriesBurst,
	}
	if options.RunUnseen {
		document.ExpectationTimeout = "run"
	}
	return json.Marshal(document)
}

// Permission is access to resources of the API, as a rule in a Kubernetes Role.
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
	// Buckets are a histogram's upper bounds, in rising order.
	Buckets []float64 `json:"buckets,omitempty"`
}

// MetricType says what the values of a metric are.
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

// Scheme is how a host is reached.
type Scheme string

// The schemes.
const (
	// HTTPS is HTTP over TLS.
	HTTPS Scheme = "https"
	// HTTP is HTTP in the clear.
	HTTP Scheme = "http"
)
