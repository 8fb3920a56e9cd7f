// Package host has what the SDK and the host say to each other, in the types of Go.
package host

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Ref names one object.
type Ref struct {
	// APIVersion is group and version, such as "apps/v1".
	APIVersion string
	Kind       string
	// Namespace is empty for a cluster-scoped object.
	Namespace string
	Name      string
	// UID narrows the name to one incarnation; empty: whichever has the name now.
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

// The classes of API errors, each as `types.wit` says.
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

// APIError is a failed request to the API, or to the host's cache of it.
type APIError struct {
	// Code is the HTTP status, or the one that fits best if the request never reached the server.
	Code   int
	Reason Reason
	// StatusReason is the reason in the form of Kubernetes' Status.reason, also where Reason is Other.
	StatusReason string
	Message      string
	// RetryAfter is zero if the server did not say.
	RetryAfter time.Duration
	// Verb is the API verb, such as "get" or "patch".
	Verb string
	// Resource is resource, group and subresource, such as "deployments.apps/scale".
	Resource string
	// Object is nil if the request was not about a single one. An error of the class NotFound names it only if this object is what
	// does not exist, and not its kind, its namespace or a subresource of it.
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

// Failure is one thing that went wrong in a call.
type Failure struct {
	// API is the API error behind it, with the text; nil: there is none.
	API *APIError
	// Message is the text where there is no API.
	Message string
	// Terminal says that no attempt is worth it until something changes.
	Terminal bool
	// RetryAfter is when another attempt is worth it at the earliest; zero: after the backoff.
	RetryAfter time.Duration
}

// CacheQuery is `cache.list-query`. Empty strings and nil are none.
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

// View is `live.view`: the metadata alone, these fields, or all of an object.
type View struct {
	Metadata bool
	Fields   []string
}

// LiveQuery is `live.list-query`. Empty strings are none.
type LiveQuery struct {
	Kind          Kind
	Namespace     string
	LabelSelector string
	FieldSelector string
	View          View
	Limit         uint32
	PageToken     string
}

// LogQuery is `live.log-query`. Empty strings and zeros are none.
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
	// Resource is the plural by which paths and permissions name the kind, such as "deployments".
	Resource string
	// Namespaced says that its objects are in namespaces.
	Namespaced bool
	// Verbs are those that the API server has for it, such as "get" and "watch".
	Verbs []string
	// Subresources are such as "status" and "scale".
	Subresources []string
}

// Collection is `writes.collection`. Empty strings are none.
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

// Read is the result of reading one object; an empty Object: there is none.
type Read struct {
	Object string
	Err    *APIError
}

// FieldValidation says what the server does with unknown fields.
type FieldValidation uint8

// In the order of the interface.
const (
	Strict FieldValidation = iota
	Warn
	Ignore
)

// PatchType says how a patch is written.
type PatchType uint8

// In the order of the interface.
const (
	Merge PatchType = iota
	JSON
	Strategic
)

// Propagation says what happens to the objects that a deleted one owns.
type Propagation uint8

// In the order of the interface.
const (
	Background Propagation = iota
	Foreground
	Orphan
)

// WriteOptions is `writes.write-options`; an empty Subresource: none.
type WriteOptions struct {
	Subresource     string
	Parent          *Ref
	ResourceVersion string
	Owned           bool
	Force           bool
	DryRun          bool
	FieldValidation FieldValidation
	ManagerSuffix   string
}

// DeleteOptions is `writes.delete-options`; a negative GracePeriod: the kind's default.
type DeleteOptions struct {
	ResourceVersion string
	Propagation     Propagation
	GracePeriod     time.Duration
	DryRun          bool
}

// Verb says what an operation does, in the order of the interface.
type Verb uint8

// In the order of the interface.
const (
	Create Verb = iota
	Update
	Patch
	Apply
	Delete
)

// Operation is one write. Which fields it has follows from its verb.
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
	// Body is nil for none. IsText says that it is UTF-8, and goes as text.
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

// HTTPError is a request that brought no response.
type HTTPError struct {
	// Reason is one of http.wit's, such as "dns" or "not-granted".
	Reason  string
	Message string
}

func (err *HTTPError) Error() string {
	if err.Reason == "not-granted" {
		return err.denial().Error()
	}
	return err.Message + " (" + err.Reason + ")"
}

// As says that a malformed request is terminal, as another attempt would be as malformed, and that one which is not granted is a
// denial as any other: the host runs the key again when the policy changes.
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

// Trigger is one thing that has queued the key of a call. As text it is its reason and its object, as in "Changed ConfigMap
// prod/shop".
type Trigger struct {
	// Reason is what happened, in CamelCase. Later hosts may tell others.
	//
	//   - "Changed": the object is new or has changed; "Deleted": it has gone.
	//   - "Start": the controller has begun, or the first list of a watch has come.
	//   - "Resync": its time has come round.
	//   - "RequeueAfter": the call before has asked for it; "Retry": it has failed.
	//   - "Swap": this is another build of the plugin; "Configuration": its configuration or its grants have changed.
	Reason string
	// Watch is the name of the watch; empty: the manifest gives it none.
	Watch string
	// Object is nil if it was not about one.
	Object *Ref
}

func (trigger Trigger) String() string {
	if trigger.Object == nil {
		return trigger.Reason
	}
	return trigger.Reason + " " + trigger.Object.String()
}

// Host is all that a plugin may call.
type Host interface {
	CacheGet(target Ref, fields []string) Read
	CacheGetMany(targets []Ref, fields []string) []Read
	CacheList(query CacheQuery) (Page, *APIError)
	LiveGet(target Ref, subresource string, view View) Read
	LiveList(query LiveQuery) (Page, *APIError)
	LiveLog(query LogQuery) (string, *APIError)
	// LiveServed is nil for a kind that is not served.
	LiveServed(kind Kind) (*Served, *APIError)
	// One function for each verb, so that a component holds only what it uses.
	Create(operation Operation) Read
	Update(operation Operation) Read
	Patch(operation Operation) Read
	Apply(operation Operation) Read
	Delete(operation Operation) Read
	// DeleteCollection is nil if the server does not say what it has deleted.
	DeleteCollection(collection Collection, options DeleteOptions) ([]Ref, *APIError)
	// Batch carries several out, concurrently.
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

// Clean makes texts such as the interface can take: one that is not UTF-8 would end the call, and the instance with it. It takes
// them where they are, and does without strings.ToValidUTF8, which nothing else here uses: both make a smaller component.
//
//go:noinline
func Clean(texts ...*string) {
	for _, text := range texts {
		if !utf8.ValidString(*text) {
			// What is no letter is U+FFFD for Map.
			*text = strings.Map(func(letter rune) rune { return letter }, *text)
		}
	}
}

// Cleaned is a list after Clean. It is the same list: nobody misses what is changed, and a copy makes a larger component.
func Cleaned(texts []string) []string {
	for place := range texts {
		Clean(&texts[place])
	}
	return texts
}
