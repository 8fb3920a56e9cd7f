// This plugin keeps a bucket in S3 for each Bucket of the ACK controller for S3.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"windlass.dev/sdk"
	"windlass.dev/sdk/cache"
	"windlass.dev/sdk/clock"
	"windlass.dev/sdk/config"
	"windlass.dev/sdk/events"
	"windlass.dev/sdk/manifest"
	"windlass.dev/sdk/reconciler"
	"windlass.dev/sdk/writes"
)

const (
	version = "0.1.0"
	// resyncDefault is the time after which a bucket is compared again.
	resyncDefault = 10 * time.Hour
	// callDeadline is the longest time of a call, which sends up to ten requests.
	callDeadline = 2 * time.Minute
	// nameIndex finds the Buckets that name a bucket.
	nameIndex = "name"
)

// methods are the HTTP methods of the requests.
var methods = []string{"GET", "HEAD", "PUT", "DELETE"}

// stores are the hosts of S3. A manifest cannot depend on the configuration, so a store elsewhere needs a line here and a
// build of your own.
var stores = []manifest.HTTPAccess{
	{Scheme: manifest.HTTPS, Host: "s3.*.amazonaws.com", Methods: methods},
	{Scheme: manifest.HTTPS, Host: "s3.*.amazonaws.com.cn", Methods: methods},
	{Scheme: manifest.HTTP, Host: "127.0.0.1", Port: 9000, Methods: methods},
}

func init() {
	reconciler.Register(manifest.Manifest{
		Name: "s3-bucket", Version: version, Description: "Keeps a bucket in S3 for each Bucket of s3.services.k8s.aws",
		Controllers: []manifest.Controller{{
			Name: "bucket",
			Primary: manifest.Watch{
				APIVersion: apiVersion, Kind: kind,
				Predicates: []manifest.Predicate{manifest.GenerationChanged, manifest.AnnotationsChanged},
				Indexes:    []manifest.Index{manifest.ByField(nameIndex, "/spec/name")},
			},
			Watches: []manifest.Watch{{
				APIVersion: "v1", Kind: "Namespace", Projection: manifest.MetadataOnly(), Mapping: manifest.ToNone(),
			}},
			Options: &manifest.Options{Deadline: callDeadline, Workers: 4},
		}},
		Permissions: []manifest.Permission{
			{APIGroups: []string{"s3.services.k8s.aws"}, Resources: []string{"buckets"}, Verbs: []string{"patch"}},
		},
		Finalizers: []string{finalizer},
		Config:     &manifest.Config{Schema: json.RawMessage(configSchema)},
		HTTP:       stores,
	}, reconcile)
}

func main() {}

func reconcile(ctx context.Context, request windlass.Request) (windlass.Outcome, error) {
	var bucket Bucket
	if exists, err := request.Object(&bucket); err != nil || !exists {
		return windlass.Done, err
	}
	if request.Deleting && !bucket.isManaged() {
		return windlass.Done, nil
	}
	settings, err := config.Get[Settings]()
	if err != nil {
		return windlass.Done, err
	}
	namespace, isKnown, err := namespaceOf(request.Namespace)
	if err != nil {
		return windlass.Done, err
	}
	if !isKnown {
		// Its annotations decide about the region, which cannot be changed later, and about the deletion.
		slog.Info("waits for the Namespace, which the cache does not have yet")
		return windlass.RequeueWithBackoff(), nil
	}
	call := &Call{bucket: &bucket, settings: &settings}
	policy, policyErr := policyOf(&bucket, namespace, &settings)
	place, placeErr := placeOf(&bucket, namespace, &settings)
	call.policy, call.store = policy, newStore(place, &settings)
	switch {
	case policyErr != nil:
		return call.reported(&Problem{terminal, "UnknownPolicy", policyErr.Error()})
	case request.Deleting:
		// A bucket that could not be renamed or moved is deleted where it is.
		return call.reported(call.remove(ctx))
	case place.name == "":
		return call.reported(&Problem{terminal, "InvalidSpec", "spec.name is empty: correct the spec"})
	case placeErr != nil:
		return call.reported(&Problem{terminal, "Immutable", placeErr.Error()})
	}
	return call.reported(call.bring(ctx))
}

// namespaceOf returns the annotations of a namespace, and whether it is known.
func namespaceOf(name string) (annotations map[string]string, isKnown bool, err error) {
	found, err := cache.Get[struct{ Metadata windlass.Metadata }](windlass.Ref{APIVersion: "v1", Kind: "Namespace", Name: name})
	if err != nil || found == nil {
		return nil, false, err
	}
	return found.Metadata.Annotations, true, nil
}

// isManaged reports whether the bucket is, or may be, the plugin's.
func (bucket *Bucket) isManaged() bool { return slices.Contains(bucket.Metadata.Finalizers, finalizer) }

// Call is a call about a Bucket.
type Call struct {
	bucket   *Bucket
	settings *Settings
	policy   Policy
	store    *Store
	// resource and location are what S3 has confirmed in this call.
	resource *Resource
	location string
	// released is true when the finalizer is gone, and so perhaps the Bucket.
	released bool
}

// bucketsNamed lists the Buckets that name a bucket. Tests replace it, because the host in memory has no indexes.
var bucketsNamed = func(name string) cache.Query {
	return cache.Query{Index: nameIndex, Value: name}
}

// rival returns another Bucket that names the same bucket and comes first, or nil. A Bucket that is only read has none.
func (call *Call) rival() (*Bucket, error) {
	if call.policy.readOnly {
		return nil, nil
	}
	name := call.store.place.name
	named := bucketsNamed(name)
	named.Kind = windlass.Kind{APIVersion: apiVersion, Kind: kind}
	named.Fields = []string{"/metadata/annotations", "/metadata/finalizers", "/metadata/creationTimestamp", "/spec/name"}
	for other, err := range cache.List[Bucket](named) {
		if err != nil {
			return nil, inContext(err, "list the Buckets of this name")
		}
		if other.Spec.Name == name && other.comesBefore(call.bucket) {
			return other, nil
		}
	}
	return nil, nil
}

// bring makes the bucket as desired.
func (call *Call) bring(ctx context.Context) error {
	rival, err := call.rival()
	if err != nil {
		return err
	}
	if rival != nil {
		return &Problem{recoverable, "NameTaken", fmt.Sprintf("the bucket %s is managed by the Bucket %s/%s",
			call.store.place.name, rival.Metadata.Namespace, rival.Metadata.Name)}
	}
	exists, err := call.store.exists(ctx)
	if err != nil {
		return err
	}
	name := call.store.place.name
	switch {
	case exists && !call.bucket.isManaged() && !call.policy.adopts:
		return alreadyExists(name)
	case !exists && !call.policy.creates:
		return &Problem{terminal, "NotFound", fmt.Sprintf("the bucket %s does not exist, and the annotations do not allow to create it", name)}
	case call.policy.readOnly:
		call.confirm()
		return nil
	}
	// The finalizer comes before the bucket. It also says, after a crash, that an existing bucket is the plugin's.
	mayHaveCreated := call.bucket.isManaged()
	if err := call.manage(); err != nil {
		return err
	}
	if !exists {
		if err := call.create(ctx, mayHaveCreated); err != nil {
			return err
		}
	}
	call.confirm()
	changed, err := call.store.differences(ctx, call.bucket, call.settings)
	if len(changed) > 0 {
		events.Normal("Updated", "Update", "set "+strings.Join(changed, ", ")+" of the bucket "+name)
	}
	return err
}

// create creates the bucket. mayHaveCreated is true if an earlier call may have done so already.
func (call *Call) create(ctx context.Context, mayHaveCreated bool) (err error) {
	name, isNew := call.store.place.name, false
	call.location, isNew, err = call.store.create(ctx)
	if err == nil && !isNew && !mayHaveCreated && !call.policy.adopts {
		err = alreadyExists(name) // Another client has created it since the look.
	}
	if problem, _ := problemOf(err); problem != nil {
		if failure := call.disown(); failure != nil {
			return failure
		}
	}
	if isNew {
		events.Normal("Created", "Create", "created the bucket "+name)
	}
	return err
}

func alreadyExists(name string) *Problem {
	return &Problem{terminal, "AlreadyExists", fmt.Sprintf("the bucket %s exists and is not managed here: set the annotation %s: "+
		"adopt-or-create to take it over", name, annotationAdoption)}
}

// disown removes the finalizer after S3 has refused to create the bucket, unless S3 has confirmed it before. With the
// finalizer, a bucket that another client creates later would count as the plugin's, without an adoption.
func (call *Call) disown() error {
	if _, confirmed := call.bucket.place(); confirmed {
		return nil
	}
	return call.setFinalizers(call.withoutFinalizer())
}

// confirm notes that S3 has confirmed the bucket.
func (call *Call) confirm() {
	place := call.store.place
	call.resource = &Resource{ARN: place.arn(), OwnerAccountID: call.settings.AccountID, Region: place.region}
}

// manage adds the finalizer.
func (call *Call) manage() error {
	if call.bucket.isManaged() {
		return nil
	}
	return call.setFinalizers(append(slices.Clone(call.bucket.Metadata.Finalizers), finalizer))
}

func (call *Call) setFinalizers(finalizers []string) error {
	metadata := call.bucket.Metadata
	patch := windlass.Object{"metadata": windlass.Object{"finalizers": finalizers}}
	written, err := writes.MergePatch[Bucket](metadata.Beside(apiVersion, kind), patch, writes.IfVersion(metadata.ResourceVersion))
	if err == nil {
		call.bucket.Metadata.Finalizers, call.bucket.Metadata.ResourceVersion = finalizers, written.Metadata.ResourceVersion
	}
	return inContext(err, "set the finalizer")
}

func (call *Call) withoutFinalizer() []string {
	isOurs := func(name string) bool { return name == finalizer }
	return slices.DeleteFunc(slices.Clone(call.bucket.Metadata.Finalizers), isOurs)
}

// remove deletes the bucket, if the policy says so, and then lets the Bucket go.
func (call *Call) remove(ctx context.Context) error {
	rival, err := call.rival()
	if err != nil {
		return err
	}
	// Without a name, nothing was ever created.
	if !call.policy.retains && rival == nil && call.store.place.name != "" {
		err := call.store.delete(ctx)
		// S3 has never confirmed that the bucket is the owner's, and denies it now: the name is another account's.
		_, confirmed := call.bucket.place()
		isOthers := !confirmed && code(err) == "AccessDenied"
		if err != nil && !isOthers {
			return err
		}
	}
	if err := call.setFinalizers(call.withoutFinalizer()); err != nil {
		return err
	}
	call.released = true
	return nil
}

// reported writes the status, and returns the outcome of the call.
func (call *Call) reported(err error) (windlass.Outcome, error) {
	if call.released {
		return windlass.Done, nil
	}
	problem, passes := problemOf(err)
	if passes && problem == nil {
		// The host retries. What S3 has confirmed must not get lost meanwhile.
		return windlass.Done, errors.Join(err, call.writeStatus(call.confirmed(call.bucket.Status)))
	}
	old := call.bucket.Status
	status := withConditions(call.confirmed(old), problem, clock.Now())
	if problem != nil && problem.isNews(old) {
		events.Warning(problem.reason, "Reconcile", problem.message)
	}
	if failure := call.writeStatus(status); failure != nil || passes {
		return windlass.Done, errors.Join(err, failure)
	}
	if problem != nil && problem.kind == recoverable {
		return windlass.RequeueWithBackoff(), nil
	}
	return windlass.RequeueAfter(call.resync()), nil
}

func (call *Call) resync() time.Duration {
	if call.settings.ResyncSeconds > 0 {
		return time.Duration(call.settings.ResyncSeconds) * time.Second
	}
	return resyncDefault
}

// confirmed returns a status with what S3 has confirmed in this call.
func (call *Call) confirmed(status Status) Status {
	if call.resource != nil {
		status.Resource = call.resource
	}
	if call.location != "" {
		status.Location = call.location
	}
	return status
}

func (call *Call) writeStatus(status Status) error {
	if status.equals(call.bucket.Status) {
		return nil
	}
	return inContext(writes.ApplyStatus(call.bucket.Metadata.Beside(apiVersion, kind), status), "write the status")
}
