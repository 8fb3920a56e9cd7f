package manifest

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func document(t *testing.T, value any) any {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, string(text))
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestAManifestHasOnlyTheSetFields(t *testing.T) {
	manifest := Manifest{
		Name: "shop", Version: "0.1.0", Controllers: []Controller{{Name: "shop", Primary: Watch{APIVersion: "example.com/v1", Kind: "Shop"}}},
	}
	wanted := parsed(t, `{
		"apiVersion": "windlass.dev/v1alpha1", "kind": "PluginManifest", "name": "shop", "version": "0.1.0",
		"controllers": [{"name": "shop", "primary": {"apiVersion": "example.com/v1", "kind": "Shop"}}]
	}`)
	if got := document(t, manifest); !reflect.DeepEqual(got, wanted) {
		t.Errorf("%v", got)
	}
}

func TestEachPartHasTheFormOfTheSchema(t *testing.T) {
	for _, each := range []struct {
		part   any
		wanted string
	}{
		{MetadataOnly(), `{"type": "metadata"}`},
		{Fields("/spec"), `{"type": "fields", "pointers": ["/spec"]}`},
		{Digest("/data"), `{"type": "digest", "pointers": ["/data"]}`},
		{ByField("a", "/spec/a"), `{"name": "a", "source": {"type": "field", "pointer": "/spec/a"}}`},
		{ByLabel("a", "l"), `{"name": "a", "source": {"type": "label", "key": "l"}}`},
		{ByAnnotation("a", "k"), `{"name": "a", "source": {"type": "annotation", "key": "k"}}`},
		{ByAnnotationList("a", "k", ','), `{"name": "a", "source": {"type": "annotation", "key": "k", "split": ","}}`},
		{ByReference("a", ReferencePath{Base: "/r/*", Namespace: "/ns", Name: "/n"}), `{"name": "a", "source": {"type": "reference", "base": "/r/*", "namespace": "/ns", "name": "/n"}}`},
		{BySelector("a", "/s"), `{"name": "a", "source": {"type": "selector", "pointer": "/s"}}`},
		{BySelectedLabels("a", "/s"), `{"name": "a", "source": {"type": "selector", "pointer": "/s", "form": "labels"}}`},
		{BySelectorText("a", "/s"), `{"name": "a", "source": {"type": "selector", "pointer": "/s", "form": "text"}}`},
		{ToOwner(), `{"type": "owner"}`},
		{ToAnyOwner(), `{"type": "anyOwner"}`},
		{ToLabel("k"), `{"type": "label", "key": "k"}`},
		{ToAnnotation("k"), `{"type": "annotation", "key": "k"}`},
		{ToField("/a"), `{"type": "field", "pointer": "/a"}`},
		{ToReferrers("i"), `{"type": "referencedBy", "index": "i"}`},
		{ToReferences(ReferencePath{Name: "/n"}), `{"type": "reference", "name": "/n"}`},
		{ToSelecting("i"), `{"type": "selectedBy", "index": "i"}`},
		{ToSameName(), `{"type": "sameName"}`},
		{ToAll(), `{"type": "all"}`},
		{ToMapped(), `{"type": "mapper"}`},
		{ToRelated(), `{"type": "customize"}`},
		{[]Predicate{GenerationChanged, LabelsChanged, AnnotationsChanged}, `[{"type": "generation"}, {"type": "labels"}, {"type": "annotations"}]`},
		{FieldsChanged("/a"), `{"type": "fields", "pointers": ["/a"]}`},
		{
			And(Not(LabelsChanged), FieldsChanged("/a/*")),
			`{"type": "and", "predicates": [{"type": "not", "predicate": {"type": "labels"}}, {"type": "fields", "pointers": ["/a/*"]}]}`,
		},
		{
			Watch{Name: "pods", APIVersion: "v1", Kind: "Pod", Deleted: new(false), NoOpSkip: new(false)},
			`{"name": "pods", "apiVersion": "v1", "kind": "Pod", "deleted": false, "noOpSkip": false}`,
		},
		{
			[]Where{Annotation("a").Is("true"), Field("/b").In(1, true), Field("/c").NotIn("d"), Annotation("e").Exists(), Field("/f").Absent()},
			`[
				{"annotation": "a", "is": "true"}, {"field": "/b", "in": [1, true]}, {"field": "/c", "notIn": ["d"]},
				{"annotation": "e", "exists": true}, {"field": "/f", "exists": false}
			]`,
		},
		{
			Watch{Name: "pods", APIVersion: "v1", Kind: "Pod", CodePredicate: true, CallFields: []string{"/spec"}},
			`{"name": "pods", "apiVersion": "v1", "kind": "Pod", "codePredicate": true, "callFields": ["/spec"]}`,
		},
		{Watch{APIVersion: "v1", Kind: "Pod", CallFields: []string{}}, `{"apiVersion": "v1", "kind": "Pod", "callFields": []}`},
		{
			Watch{APIVersion: "v1", Kind: "Pod", ManagedFields: true},
			`{"apiVersion": "v1", "kind": "Pod", "managedFields": true}`,
		},
		{
			Watch{APIVersion: "v1", Kind: "Pod", Where: []Where{AnyOf(Annotation("a").Is(""), Annotation("b").Exists())}},
			`{"apiVersion": "v1", "kind": "Pod", "where": [{"any": [{"annotation": "a", "is": ""}, {"annotation": "b", "exists": true}]}]}`,
		},
		{
			Watch{KindsFrom: "/kinds", Verbs: []Verb{VerbDelete}, Projection: MetadataOnly()},
			`{"kindsFrom": "/kinds", "verbs": ["delete"], "projection": {"type": "metadata"}}`,
		},
		{
			Watch{Timer: &Timer{Cron: "0 3 * * *", TimeZone: "Europe/Berlin", JitterMs: 60000, Missed: MissedSkip}},
			`{"timer": {"cron": "0 3 * * *", "timeZone": "Europe/Berlin", "jitterMs": 60000, "missed": "skip"}}`,
		},
		{Watch{Timer: &Timer{IntervalMs: 1000}}, `{"timer": {"intervalMs": 1000}}`},
		{
			Watch{APIVersion: "v1", Kind: "Pod", Mapping: ToNone()},
			`{"apiVersion": "v1", "kind": "Pod", "mapping": {"type": "none"}}`,
		},
		{Index{Name: "a"}, `{"name": "a", "source": {}}`},
		{Watch{APIVersion: "v1", Kind: "Pod", UpdateStrategy: OnDelete}, `{"apiVersion": "v1", "kind": "Pod", "updateStrategy": "onDelete"}`},
		{Metric{Name: "m", Type: Histogram, Help: "h", Buckets: []float64{1}}, `{"name": "m", "type": "histogram", "help": "h", "buckets": [1]}`},
		{HTTPAccess{Scheme: HTTPS, Host: "a", Methods: []string{"GET"}}, `{"scheme": "https", "host": "a", "methods": ["GET"]}`},
		{Options{}, `{}`},
		{Options{WithoutStatus: true}, `{"status": false}`},
		{Options{WithoutSavedCalls: true}, `{"savedCalls": false}`},
		{
			Options{MaxRetries: new(0), BackoffMax: time.Second, Resync: time.Hour, Deadline: time.Minute, Finalizer: true, RunUnseen: true, Workers: 2},
			`{"workers": 2, "maxRetries": 0, "backoff": {"maxMs": 1000}, "resyncMs": 3600000, "deadlineMs": 60000, "finalizer": true, "expectationTimeout": "run"}`,
		},
		{
			Options{RetryLimiter: MaxOf, RetriesPerSecond: 5, RetriesBurst: 50},
			`{"backoff": {"limiter": "maxOf", "perSecond": 5, "burst": 50}}`,
		},
	} {
		if got := document(t, each.part); !reflect.DeepEqual(got, parsed(t, each.wanted)) {
			t.Errorf("%T: %v, wanted %s", each.part, got, each.wanted)
		}
	}
}
