// Package manifest describes a plugin's watches and rights. A Manifest is encoded as the document that
// manifest.schema.json describes, in which durations are in milliseconds.
package manifest

import (
	"encoding/json"
	"time"
)

// Manifest is the whole document. It must not change: the host asks for it twice, with different clocks and seeds, and
// compares the answers.
type Manifest struct {
	// Name is the stem of the file that the plugin is installed as.
	Name string `json:"name"`
	// Version is the version of the plugin, by semver.org.
	Version string `json:"version"`
	// Description is the plugin's purpose in a sentence.
	Description string `json:"description,omitempty"`
	// Controllers are the reconcile loops, at least one.
	Controllers []Controller `json:"controllers"`
	// CRDs are the complete CustomResourceDefinitions that the plugin installs.
	CRDs []json.RawMessage `json:"crds,omitempty"`
	// Permissions are rights beyond those that the watches imply. Watches imply the rights to read watched objects, to
	// change owned ones, and to write the status of primaries.
	Permissions []Permission `json:"permissions,omitempty"`
	// Finalizers are the finalizers, other than its own, that the plugin adds and removes; "*" for any.
	Finalizers []string `json:"finalizers,omitempty"`
	// Metrics are the metrics that the plugin may set.
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

// Controller is one reconcile loop: a primary kind, and the other objects whose changes run primaries again.
type Controller struct {
	// Name is unique in the plugin. It is in requests, logs and metrics.
	Name string `json:"name"`
	// Primary selects the objects that are reconciled, or has a Timer instead.
	Primary Watch `json:"primary"`
	// Owns are children: a change of a child runs the primary that controls it.
	Owns []Watch `json:"owns,omitempty"`
	// Watches are other objects: a change of such an object runs the primaries that its watch's Mapping finds.
	Watches []Watch `json:"watches,omitempty"`
	// Hooks are web addresses at which other systems name objects that are to run.
	Hooks []Hook `json:"hooks,omitempty"`
	// Options set how the loop runs.
	Options *Options `json:"options,omitempty"`
}

// Hook is a web address at which other systems name objects that are to run: POST /hooks/PLUGIN/NAME. It is open only if
// the operator's policy names its secret. A delivery maps as an object of kind HookDelivery does that has the JSON of the
// request in /payload. Only objects that exist run.
type Hook struct {
	// Name is unique in the plugin, and among the watches of the controller.
	Name string `json:"name"`
	// Mapping is one of ToField, ToReference, ToMapped and ToAll. A mapper gets the hook's name as the change's Watch.
	Mapping *Mapping `json:"mapping"`
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
	// Name is a DNS label that no other watch of the controller has. Only ToMapped, ToRelated and CodePredicate need it.
	Name       string `json:"name,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	// KindsFrom is a JSON pointer to a list of kinds in the configuration, each with apiVersion and kind. It takes the place
	// of APIVersion and Kind, and needs the Projection MetadataOnly(). Not for Controller.Owns, nor for composers.
	KindsFrom string `json:"kindsFrom,omitempty"`
	// Verbs ask for the rights to change objects of the kinds in KindsFrom. Without KindsFrom, use
	// Manifest.Permissions.
	Verbs []Verb `json:"verbs,omitempty"`
	// Timer calls the plugin at certain times, in place of objects. Only for a Primary, without other fields.
	Timer *Timer `json:"timer,omitempty"`
	// Namespaces restricts the objects to these namespaces; empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// LabelSelector and FieldSelector are in Kubernetes' syntax.
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	// Where are conditions that the host evaluates. An object must meet all of them. The server still sends all
	// objects. An object that no longer meets them counts as deleted.
	Where []Where `json:"where,omitempty"`
	// Projection is the part of an object that the cache keeps; nil means everything except managedFields.
	Projection *Projection `json:"projection,omitempty"`
	// ManagedFields keeps metadata.managedFields, which are left out otherwise.
	ManagedFields bool `json:"managedFields,omitempty"`
	// Indexes let cache.List find objects quickly.
	Indexes []Index `json:"indexes,omitempty"`
	// Predicates select the updates that run primaries. One predicate that accepts the update is enough. Without
	// predicates, all updates run primaries. Creations, deletions, and the beginning of a deletion always run
	// primaries.
	Predicates []Predicate `json:"predicates,omitempty"`
	// CodePredicate lets the plugin's own code (reconciler.Predicate) decide too which new objects and updates count.
	// Deletions always count. Only for a reconciler's watch with a Name.
	CodePredicate bool `json:"codePredicate,omitempty"`
	// CallFields are the JSON pointers of the fields of an object that a call receives in addition to its identity: of
	// the primary in a request, and of a composer's parent, children and related objects. Nil means all that the cache
	// keeps, and an empty list only the identity. A reconciler can set them only for its Primary, because it names the
	// fields of other objects in each read.
	CallFields []string `json:"callFields,omitzero"`
	// Deleted is new(false) to ignore the beginning and the end of an object's deletion. Not for a Primary.
	Deleted *bool `json:"deleted,omitempty"`
	// NoOpSkip is new(false) to send even a write that would provably change nothing, for webhooks that must run at
	// each write.
	NoOpSkip *bool `json:"noOpSkip,omitempty"`
	// UpdateStrategy is only for kinds that a composer owns.
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`
	// Mapping is for Controller.Watches, where it is required.
	Mapping *Mapping `json:"mapping,omitempty"`
}

// Timer calls the plugin at certain times. It has either a Cron expression or an IntervalMs.
type Timer struct {
	// Cron is due when the local time matches, as in Kubernetes' CronJob: minute, hour, day of the month, month, and day
	// of the week.
	Cron string `json:"cron,omitempty"`
	// TimeZone is the IANA name of the time zone of Cron, such as Europe/Berlin; empty: UTC.
	TimeZone string `json:"timeZone,omitempty"`
	// IntervalMs is due once in each interval of so many milliseconds, at least 1000. The first call comes at once.
	IntervalMs int `json:"intervalMs,omitempty"`
	// JitterMs makes each call at a random time up to so many milliseconds after its due time.
	JitterMs int `json:"jitterMs,omitempty"`
	// Missed says what happens to due times at which no call could be made, such as while the host was down; empty:
	// MissedOnce.
	Missed MissedTimes `json:"missed,omitempty"`
}

// MissedTimes is what a Timer does about due times at which no call could be made.
type MissedTimes string

// What a Timer does about them.
const (
	// MissedOnce makes one call as soon as it can be made, for the last of these times.
	MissedOnce MissedTimes = "once"
	// MissedSkip makes no call, if it could begin only a minute late or later.
	MissedSkip MissedTimes = "skip"
)

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

// choice is one of a fixed set of options, with its arguments, as JSON. Code outside this package cannot create any
// other.
type choice struct{ document []byte }

// MarshalJSON writes the choice as an object.
func (choice choice) MarshalJSON() ([]byte, error) {
	if choice.document == nil {
		return []byte("{}"), nil
	}
	return choice.document, nil
}

// chosen is a choice with arguments. Members that are "" or nil are left out.
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

// Projection is the part of an object that the cache keeps.
type Projection struct{ choice }

// MetadataOnly keeps only the object's identity and metadata.
func MetadataOnly() *Projection { return &Projection{choice{[]byte(`{"type":"metadata"}`)}} }

// Fields keeps the metadata and the values at these JSON pointers, in which "*" stands for each element of a list.
func Fields(pointers ...string) *Projection {
	return &Projection{chosen("fields", map[string]any{"pointers": pointers})}
}

// Digest keeps the metadata, and in the field "digest" a digest of the values at these JSON pointers, which are not
// kept themselves. With the predicate FieldsChanged("/digest"), only a change of these values runs primaries.
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

// ByAnnotationList is an index over each part of an annotation, without the space around it. With the separator ',',
// the annotation "a, b" has the values "a" and "b".
func ByAnnotationList(name, key string, separator rune) Index {
	return Index{name, IndexSource{chosen("annotation", map[string]any{"key": key, "split": string(separator)})}}
}

// ByReference is an index over references with the namespace and the name in two fields. Each value is
// "namespace/name".
func ByReference(name string, path ReferencePath) Index {
	return Index{name, IndexSource{path.chosen()}}
}

// BySelector is an index over LabelSelectors, for ToSelecting. An empty selector selects everything. cache.List finds
// an object by labels that its selector matches, such as "app=web,tier=front".
func BySelector(name, pointer string) Index {
	return Index{name, IndexSource{chosen("selector", map[string]any{"pointer": pointer})}}
}

// BySelectedLabels is like BySelector, for maps of labels, as in a Service. An empty map selects nothing.
func BySelectedLabels(name, pointer string) Index {
	return Index{name, IndexSource{chosen("selector", map[string]any{"pointer": pointer, "form": "labels"})}}
}

// BySelectorText is like BySelector, for selectors that are texts, such as "app in (web,api)". An empty text selects
// everything.
func BySelectorText(name, pointer string) Index {
	return Index{name, IndexSource{chosen("selector", map[string]any{"pointer": pointer, "form": "text"})}}
}

// ReferencePath is where to find references with the namespace and the name in two fields.
type ReferencePath struct {
	// Base leads to the references, such as "/spec/refs/*" for a list of them. It is empty if the object itself has the
	// two fields.
	Base string
	// Namespace and Name lead to the two fields, below Base. If Namespace is empty, or the field is missing, the
	// reference is to the object's own namespace.
	Namespace, Name string
}

func (path ReferencePath) chosen() choice {
	return chosen("reference", map[string]any{"base": path.Base, "namespace": path.Namespace, "name": path.Name})
}

// Mapping selects the primaries to reconcile when an object changes. An update reconciles the primaries of both the old
// and the new object.
type Mapping struct{ choice }

// ToOwner reconciles the primary that controls the object.
func ToOwner() *Mapping { return &Mapping{choice{[]byte(`{"type":"owner"}`)}} }

// ToAnyOwner runs each primary that owns the object, as its controller or not.
func ToAnyOwner() *Mapping { return &Mapping{choice{[]byte(`{"type":"anyOwner"}`)}} }

// ToLabel runs the primary that a label names.
func ToLabel(key string) *Mapping { return &Mapping{chosen("label", map[string]any{"key": key})} }

// ToAnnotation runs the primary that an annotation names.
func ToAnnotation(key string) *Mapping {
	return &Mapping{chosen("annotation", map[string]any{"key": key})}
}

// ToField runs the primary that a field names. If the pointer contains "*", it runs every primary that the matching
// fields name.
func ToField(pointer string) *Mapping {
	return &Mapping{chosen("field", map[string]any{"pointer": pointer})}
}

// ToReferences runs the primaries that references name, with the namespace and the name in two fields.
func ToReferences(path ReferencePath) *Mapping { return &Mapping{path.chosen()} }

// ToReferrers runs every primary whose index contains the object's name, or its namespace and name.
func ToReferrers(index string) *Mapping {
	return &Mapping{chosen("referencedBy", map[string]any{"index": index})}
}

// ToSelecting runs every primary whose selector in this index matches the object's labels.
func ToSelecting(index string) *Mapping {
	return &Mapping{chosen("selectedBy", map[string]any{"index": index})}
}

// ToSameName runs the primary with the object's own name.
func ToSameName() *Mapping { return &Mapping{choice{[]byte(`{"type":"sameName"}`)}} }

// ToNone runs no primary: the plugin only reads the objects.
func ToNone() *Mapping { return &Mapping{choice{[]byte(`{"type":"none"}`)}} }

// ToAll runs every primary, at low priority.
func ToAll() *Mapping { return &Mapping{choice{[]byte(`{"type":"all"}`)}} }

// ToMapped runs the primaries that the reconciler's own mapper names (reconciler.Mapper). The watch needs a name.
func ToMapped() *Mapping { return &Mapping{choice{[]byte(`{"type":"mapper"}`)}} }

// ToRelated runs the parents to which the composer's own customizer relates the object (composer.Customizer). The watch needs a
// name.
func ToRelated() *Mapping { return &Mapping{choice{[]byte(`{"type":"customize"}`)}} }

// Predicate selects updates that count.
type Predicate struct{ choice }

// These predicates need no arguments.
var (
	// GenerationChanged accepts a change of the desired state, if the kind has a generation.
	GenerationChanged = Predicate{choice{[]byte(`{"type":"generation"}`)}}
	// LabelsChanged accepts a change of a label.
	LabelsChanged = Predicate{choice{[]byte(`{"type":"labels"}`)}}
	// AnnotationsChanged accepts a change of an annotation.
	AnnotationsChanged = Predicate{choice{[]byte(`{"type":"annotations"}`)}}
)

// FieldsChanged accepts a change of a value at one of these JSON pointers, in which "*" stands for each element of a
// list.
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

// Limiter determines how the delay of a retry is computed.
type Limiter string

const (
	// Exponential doubles the delay with each failure of the object.
	Exponential Limiter = "exponential"
	// TokenBucket makes the retries of all objects share a rate.
	TokenBucket Limiter = "tokenBucket"
	// MaxOf takes the longer of both delays.
	MaxOf Limiter = "maxOf"
)

// Options set how a loop runs. A zero field has the host's default.
type Options struct {
	notCompared
	// Workers is the number of objects that are reconciled at once, at most 64; zero means 16.
	Workers int
	// MaxRetries is the number of counted retries of an object before it runs only in the slow lane. Nil means 15, and
	// new(0) means none.
	MaxRetries *int
	// BackoffBase, doubled n times, is the delay before the n-th retry. BackoffMax limits it.
	BackoffBase, BackoffMax time.Duration
	// RetryLimiter determines how the delay is computed; zero means Exponential.
	RetryLimiter Limiter
	// RetriesPerSecond and RetriesBurst are the rate that the retries of all objects share, for TokenBucket and MaxOf.
	RetriesPerSecond, RetriesBurst int
	// Resync is the interval at which every object runs again even if nothing has changed.
	Resync time.Duration
	// Deadline is the time limit of a call.
	Deadline time.Duration
	// Finalizer gives objects the finalizer windlass.dev/NAME, so that the plugin can clean up before they are deleted.
	Finalizer bool
	// WithoutStatus is true if the controller does not write the status of its primaries. The manifest then does not
	// ask for that right.
	WithoutStatus bool
	// RunUnseen runs an object again even if its own writes have not appeared in the caches for too long.
	RunUnseen bool
	// WithoutSavedCalls makes the host make each call, even one that would read the same as the last call about its
	// object, which changed nothing. It is for a plugin that depends on something that the host cannot see.
	WithoutSavedCalls bool
}

// notCompared, in a struct, keeps the compiler from adding code that compares its values, and so makes a smaller
// component.
type notCompared [0]func()

// MarshalJSON leaves out zero fields, and writes durations in milliseconds.
func (options Options) MarshalJSON() ([]byte, error) {
	type backoff struct {
		Limiter   string `json:"limiter,omitempty"`
		Base      int64  `json:"baseMs,omitempty"`
		Max       int64  `json:"maxMs,omitempty"`
		PerSecond int    `json:"perSecond,omitempty"`
		Burst     int    `json:"burst,omitempty"`
		notCompared
	}
	document := struct {
		notCompared
		Workers            int     `json:"workers,omitempty"`
		MaxRetries         *int    `json:"maxRetries,omitempty"`
		Backoff            backoff `json:"backoff,omitzero"`
		Resync             int64   `json:"resyncMs,omitempty"`
		Deadline           int64   `json:"deadlineMs,omitempty"`
		Finalizer          bool    `json:"finalizer,omitempty"`
		Status             *bool   `json:"status,omitempty"`
		ExpectationTimeout string  `json:"expectationTimeout,omitempty"`
		SavedCalls         *bool   `json:"savedCalls,omitempty"`
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
	if options.WithoutSavedCalls {
		document.SavedCalls = new(false)
	}
	return json.Marshal(document)
}

// Permission grants rights to resources of the API, as a rule of a Kubernetes Role does.
type Permission struct {
	// APIGroups are the API groups; the core group is "".
	APIGroups []string `json:"apiGroups"`
	// Resources are resources and subresources, such as "deployments" and "deployments/scale".
	Resources []string `json:"resources"`
	Verbs     []string `json:"verbs"`
	// Namespaces restricts the rights to these namespaces; empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Names restricts the rights to objects with these names; empty means all.
	Names []string `json:"names,omitempty"`
}

// Metric is a metric that the plugin may set.
type Metric struct {
	// Name is unique in the plugin. The host adds a prefix.
	Name string `json:"name"`
	// Type is Counter, Gauge or Histogram.
	Type MetricType `json:"type"`
	// Help describes the metric and its unit, for people.
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
