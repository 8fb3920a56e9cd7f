package predicate_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/internal/declared"
	"sigs.k8s.io/controller-runtime/internal/shop"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// embedding inherits the description of the predicate that it embeds, but has
// another Create.
type embedding struct {
	predicate.GenerationChangedPredicate
}

func (embedding) Create(event.CreateEvent) bool { return false }

var (
	generation = predicate.GenerationChangedPredicate{}
	labels     = predicate.LabelChangedPredicate{}
	annotation = predicate.AnnotationChangedPredicate{}
	byCode     = predicate.NewPredicateFuncs(func(object client.Object) bool { return object.GetName() == "a" })
)

func TestThePredicatesOfTheManifestAreDeclared(t *testing.T) {
	for name, test := range map[string]struct {
		predicate any
		wanted    string
	}{
		"one":      {generation, `[{"type":"generation"}]`},
		"pointer":  {&labels, `[{"type":"labels"}]`},
		"any":      {predicate.ResourceVersionChangedPredicate{}, `null`},
		"or":       {predicate.Or[client.Object](generation, labels), `[{"type":"generation"},{"type":"labels"}]`},
		"and":      {predicate.And[client.Object](generation, labels), `[{"predicates":[{"type":"generation"},{"type":"labels"}],"type":"and"}]`},
		"deletion": {predicate.Funcs{DeleteFunc: func(event.DeleteEvent) bool { return false }}, `null`},
		"nested": {
			predicate.And[client.Object](annotation, predicate.Or[client.Object](generation, labels)),
			`[{"predicates":[{"type":"annotations"},{"type":"generation"}],"type":"and"},` +
				`{"predicates":[{"type":"annotations"},{"type":"labels"}],"type":"and"}]`,
		},
	} {
		updates := declared.OfPredicate(test.predicate)
		if updates == nil {
			t.Errorf("%s: only code can evaluate it", name)
			continue
		}
		if document, err := json.Marshal(updates.Watch()); err != nil || string(document) != test.wanted {
			t.Errorf("%s: %s, %v", name, document, err)
		}
	}
}

func TestOnlyCodeEvaluatesOtherPredicates(t *testing.T) {
	creating := predicate.GenerationChangedPredicate{TypedFuncs: predicate.Funcs{CreateFunc: func(event.CreateEvent) bool { return false }}}
	for name, one := range map[string]any{
		"functions": byCode, "not": predicate.Not[client.Object](generation), "embedding": embedding{}, "creating": creating,
		"and": predicate.And[client.Object](generation, byCode), "or": predicate.Or[client.Object](generation, byCode), "nil": nil,
	} {
		if declared.OfPredicate(one) != nil {
			t.Errorf("%s is declared", name)
		}
	}
}

func TestPredicatesEvaluateEvents(t *testing.T) {
	object := func(generation int64, labels map[string]string) client.Object {
		return &shop.Shop{ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: generation, Labels: labels, ResourceVersion: "1"}}
	}
	update := event.UpdateEvent{ObjectOld: object(1, nil), ObjectNew: object(2, nil)}
	selecting, err := predicate.LabelSelectorPredicate(metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		predicate predicate.Predicate
		wanted    bool
	}{
		"generation": {generation, true}, "labels": {labels, false}, "annotations": {annotation, false}, "code": {byCode, true},
		"not": {predicate.Not[client.Object](generation), false}, "selector": {selecting, false},
		"version": {predicate.ResourceVersionChangedPredicate{}, false},
		"or":      {predicate.Or[client.Object](labels, generation), true}, "and": {predicate.And[client.Object](labels, generation), false},
	} {
		if test.predicate.Update(update) != test.wanted {
			t.Errorf("%s: not %v", name, test.wanted)
		}
	}
	if !selecting.Create(event.CreateEvent{Object: object(1, map[string]string{"app": "web"})}) || !generation.Create(event.CreateEvent{}) {
		t.Error("a creation does not count")
	}
}
