// Package host has the host's interface as Go types.
package host

import (
	"strings"
	"time"
	"unicode/utf8"
)

// notCompared, in a struct, keeps the compiler from adding code that compares its values, and so makes a smaller
// component.
type notCompared [0]func()

// Ref names one object.
type Ref struct {
	// APIVersion is group and version, such as "apps/v1".
	APIVersion string
	Kind       string
	// Namespace is empty for a cluster-scoped object.
	Namespace string
	Name      string
	// UID restricts the reference to the object with this UID. Without it, the reference is to the object that has the
	// name now.
	UID string
}

func (ref Ref) String() string {
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + name
	}
	return ref.Kind + " " + name
}

// Kind names a kind of object.
type Kind struct {
	APIVersion string
	Kind       string
}

// Reason is the class of an APIError, in the order of the interface.
type Reason uint8

// The classes of API errors. `types.wit` describes each.
const (
	NotFound Reason = iota
	AlreadyExists
	Conflict
	Invalid
	Forbidden
	NotGranted
	NotWatched
	NamespaceTerminating
	TooManyRequests
	Expired
	Timeout
	UnknownOutcome
	LeaseLost
	ReadOnly
	ServerError
	TooLarge
	Other
)

var reasons = [...]string{
	"not-found", "already-exists", "conflict", "invalid", "forbidden", "not-granted", "not-watched",
	"namespace-terminating", "too-many-requests", "expired", "timeout", "unknown-outcome", "lease-lost", "read-only",
	"server-error", "too-large", "other",
}

func (reason Reason) String() string {
	if int(reason) < len(reasons) {
		return reasons[reason]
	}
	return "other"
}

// APIError is a failed request to the API server, or to the host's cache.
type APIError struct {
	notCompared
	// Code is the HTTP status, or the closest one if the request never reached the server.
	Code   int
	Reason Reason
	// StatusReason is the reason as in Kubernetes' Status.reason, even if Reason is Other.
	StatusReason string
	Message      string
	// RetryAfter is zero if the server did not set it.
	RetryAfter time.Duration
	// Verb is the API verb, such as "get" or "patch".
	Verb string
	// Resource is resource, group and subresource, such as "deployments.apps/scale".
	Resource string
	// Object is nil if the request was not about a single object. An error of the class NotFound names it only if the
	// object itself does not exist, not if its kind, its namespace or a subresource is missing.
	Object *Ref
}

func (err *APIError) Error() string {
	asked := err.Verb
	if err.Resource != "" {
		asked += " " + err.Resource
	}
	if err.Object != nil {
		asked += " " + err.Object.String()
	}
	return asked + ": " + err.StatusReason + ": " + err.Message
}

// Failure is one failure in a call.
type Failure struct {
	// API is the API error, and its message is the failure's text. It is nil if there is no API error.
	API *APIError
	// Message is the failure's text if API is nil.
	Message string
	// Terminal means no retry until something changes.
	Terminal bool
	// RetryAfter is the earliest retry; zero means after the backoff.
	RetryAfter time.Duration
}

// CacheQuery is `cache.list-query`. Empty strings and nil mean none.
type CacheQuery struct {
	Kind          Kind
	Namespace     string
	LabelSelector string
	Index, Value  string
	Owned         bool
	Fields        []string
	Limit         uint32
	MaxBytes      uint32
	PageToken     string
}

// View is `live.view`: only the metadata, these fields, or the whole object.
type View struct {
	Metadata bool
	Fields   []string
}

// LiveQuery is `live.list-query`. Empty strings mean none.
type LiveQuery struct {
	Kind          Kind
	Namespace     string
	LabelSelector string
	FieldSelector string
	View          View
	Limit         uint32
	PageToken     string
}

// LogQuery is `live.log-query`. Empty strings and zeros mean none.
type LogQuery struct {
	Target     Ref
	Container  string
	Previous   bool
	TailLines  uint32
	Since      time.Duration
	LimitBytes uint32
}

// Served is `live.served-kind`.
type Served struct {
	// Resource is the plural name of the kind in paths and rules, such as "deployments".
	Resource string
	// Namespaced is true if its objects are in namespaces.
	Namespaced bool
	// Verbs are the verbs that the API server supports for the kind, such as "get" and "watch".
	Verbs []string
	// Subresources are its subresources, such as "status" and "scale".
	Subresources []string
}

// Listed is `live.listed-kind`.
type Listed struct {
	// Kind is the kind, at the version of its group that the server prefers.
	Kind Kind
	// Served describes how it is served.
	Served Served
}

// Collection is `writes.collection`. Empty strings mean none.
type Collection struct {
	Kind          Kind
	Namespace     string
	LabelSelector string
	FieldSelector string
	All           bool
}

// Page is a part of a list.
type Page struct {
	Items []string
	// Next is empty on the last page.
	Next string
}

// Read is the result of reading one object; Object is empty if it does not exist.
type Read struct {
	Object string
	Err    *APIError
}

// FieldValidation is how the server treats unknown fields.
type FieldValidation uint8

// The values are in the order of the interface.
const (
	Strict FieldValidation = iota
	Warn
	Ignore
)

// PatchType is the form of a patch.
type PatchType uint8

// The values are in the order of the interface.
const (
	Merge PatchType = iota
	JSON
	Strategic
)

// Propagation is how the dependents of a deleted object are treated.
type Propagation uint8

// The values are in the order of the interface.
const (
	Background Propagation = iota
	Foreground
	Orphan
)

// WriteOptions is `writes.write-options`. An empty Subresource means none, and nil Fields mean the whole object.
type WriteOptions struct {
	Subresource     string
	Parent          *Ref
	ResourceVersion string
	Owned           bool
	Force           bool
	DryRun          bool
	FieldValidation FieldValidation
	ManagerSuffix   string
	Fields          []string
}

// DeleteOptions is `writes.delete-options`. A negative GracePeriod means the kind's default.
type DeleteOptions struct {
	notCompared
	ResourceVersion string
	Propagation     Propagation
	GracePeriod     time.Duration
	DryRun          bool
}

// Verb is the verb of an operation, in the order of the interface.
type Verb uint8

// The values are in the order of the interface.
const (
	Create Verb = iota
	Update
	Patch
	Apply
	Delete
)

// Operation is one write. Its verb determines which fields it has.
type Operation struct {
	Verb      Verb
	Target    Ref
	PatchType PatchType
	// Body is the object, the fields or the patch.
	Body    string
	Options WriteOptions
	Delete  DeleteOptions
}

// Event is an event about an object.
type Event struct {
	notCompared
	// Regarding is nil for the primary.
	Regarding, Related *Ref
	Warning            bool
	Reason             string
	Action             string
	Note               string
}

// Pair is a name and a value.
type Pair struct{ Name, Value string }

// Request is an HTTP request.
type Request struct {
	Method  string
	URL     string
	Headers []Pair
	// Body is nil if there is none. IsText means that it is UTF-8 and sent as text.
	Body   []byte
	IsText bool
	// Timeout is zero for the host's limit.
	Timeout time.Duration
}

// Response is an HTTP response.
type Response struct {
	Status  int
	Headers []Pair
	Body    []byte
}

// HTTPError is a request that got no response.
type HTTPError struct {
	// Reason is a reason of http.wit, such as "dns" or "not-granted".
	Reason  string
	Message string
}

func (err *HTTPError) Error() string {
	if err.Reason == "not-granted" {
		return err.denial().Error()
	}
	return err.Message + " (" + err.Reason + ")"
}

// As makes a malformed request terminal, because a retry would be malformed too. A request that is not granted becomes
// an API error: the host runs the key again when the policy changes.
func (err *HTTPError) As(target any) bool {
	if err == nil {
		return false
	}
	switch target := target.(type) {
	case **Marked:
		if err.Reason == "invalid-request" {
			*target = &Marked{Cause: err, Terminal: true}
			return true
		}
	case **APIError:
		if err.Reason == "not-granted" {
			*target = err.denial()
			return true
		}
	}
	return false
}

func (err *HTTPError) denial() *APIError {
	return &APIError{
		Code: 403, Reason: NotGranted, StatusReason: "NotGranted", Message: err.Message, Verb: "fetch", Resource: "http",
	}
}

// Trigger is one event that has queued the key of a call. Its String method returns the reason and the object, as in
// "Changed ConfigMap prod/shop".
type Trigger struct {
	// Reason is the kind of event, in CamelCase. Later hosts may have other ones.
	//
	//   - "Changed": the object is new or has changed; "Deleted": it was deleted.
	//   - "Start": the controller has started, or the first list of a watch has arrived.
	//   - "Resync": the resync interval has passed.
	//   - "RequeueAfter": the previous call has asked for it; "Retry": the previous call has failed.
	//   - "Swap": a new build has replaced the plugin; "Configuration": its configuration or its grants have changed.
	Reason string
	// Watch is the name of the watch; empty if the manifest does not name it.
	Watch string
	// Object is nil if the event was not about an object.
	Object *Ref
}

func (trigger Trigger) String() string {
	if trigger.Object == nil {
		return trigger.Reason
	}
	return trigger.Reason + " " + trigger.Object.String()
}

// Host has all functions that a plugin may call.
type Host interface {
	CacheGet(target Ref, fields []string) Read
	CacheGetMany(targets []Ref, fields []string) []Read
	CacheList(query CacheQuery) (Page, *APIError)
	LiveGet(target Ref, subresource string, view View) Read
	LiveList(query LiveQuery) (Page, *APIError)
	LiveLog(query LogQuery) (string, *APIError)
	// LiveServed returns nil for a kind that is not served.
	LiveServed(kind Kind) (*Served, *APIError)
	LiveKinds() ([]Listed, *APIError)
	// One function for each verb, so that a component contains only the functions that it uses.
	Create(operation Operation) Read
	Update(operation Operation) Read
	Patch(operation Operation) Read
	Apply(operation Operation) Read
	Delete(operation Operation) Read
	// DeleteCollection returns nil if the server does not report what it has deleted.
	DeleteCollection(collection Collection, options DeleteOptions) ([]Ref, *APIError)
	// Batch carries out several operations concurrently.
	Batch(operations []Operation) []Read
	Claim(kind Kind, labelSelector string) (adopted, released []Ref, errs []*APIError)
	Emit(event Event)
	// Log takes levels from 0 (trace) to 4 (error).
	Log(level int, message string, fields []Pair)
	MetricAdd(name string, value float64, labels []Pair)
	MetricSet(name string, value float64, labels []Pair)
	MetricObserve(name string, value float64, labels []Pair)
	Config() string
	Now() time.Time
	RandomUint32() uint32
	RandomBytes(length int) []byte
	Fetch(request Request) (Response, *HTTPError)
	Triggers() []Trigger
}

// Clean makes texts valid UTF-8 in place: any other text would end the call, and the instance with it. It does not use
// strings.ToValidUTF8, which no other code of the SDK uses, because this makes a smaller component.
//
//go:noinline
func Clean(texts ...*string) {
	for _, text := range texts {
		if !utf8.ValidString(*text) {
			// Map passes U+FFFD for invalid bytes.
			*text = strings.Map(func(letter rune) rune { return letter }, *text)
		}
	}
}

// Cleaned cleans a list in place and returns it. A copy would make a larger component, and no caller needs the
// original.
func Cleaned(texts []string) []string {
	for place := range texts {
		Clean(&texts[place])
	}
	return texts
}
