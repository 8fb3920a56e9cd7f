package cache

import (
	"errors"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node},
	}
}

func TestKeysAreTakenApartAgain(t *testing.T) {
	for _, object := range []*corev1.Pod{pod("shop", "a", ""), pod("", "a", "")} {
		key, err := MetaNamespaceKeyFunc(object)
		namespace, name, split := SplitMetaNamespaceKey(key)
		if err != nil || split != nil || namespace != object.Namespace || name != object.Name {
			t.Errorf("%q: %v %v", key, err, split)
		}
		if parsed, err := ParseObjectName(key); err != nil || parsed != MetaObjectToName(object) {
			t.Errorf("%q: %v %v", key, parsed, err)
		}
	}
	if key, err := DeletionHandlingMetaNamespaceKeyFunc(DeletedFinalStateUnknown{Key: "a/b"}); key != "a/b" || err != nil {
		t.Error(key, err)
	}
	if _, _, err := SplitMetaNamespaceKey("a/b/c"); err == nil {
		t.Error("a key with three parts is none")
	}
	if err := NewStore(MetaNamespaceKeyFunc).Add(1); !errors.As(err, &KeyError{}) {
		t.Errorf("%v", err)
	}
}

func TestAnIndexFollowsTheObjects(t *testing.T) {
	byNode := func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }
	store := NewIndexer(MetaNamespaceKeyFunc, Indexers{"node": byNode})
	first, second := pod("shop", "a", "one"), pod("shop", "b", "one")
	if err := errors.Join(store.Add(second), store.Add(first), store.Add(pod("shop", "c", "two"))); err != nil {
		t.Fatal(err)
	}
	if found, err := store.ByIndex("node", "one"); err != nil || !reflect.DeepEqual(found, []any{first, second}) {
		t.Error(found, err)
	}
	if found, err := store.Index("node", first); err != nil || len(found) != 2 {
		t.Error(found, err)
	}
	if err := errors.Join(store.Update(pod("shop", "a", "two")), store.Delete(second)); err != nil {
		t.Fatal(err)
	}
	if found, err := store.IndexKeys("node", "two"); err != nil || !reflect.DeepEqual(found, []string{"shop/a", "shop/c"}) {
		t.Error(found, err)
	}
	if values := store.ListIndexFuncValues("node"); !reflect.DeepEqual(values, []string{"two"}) {
		t.Error(values)
	}
	if _, err := store.ByIndex("unheard", "of"); err == nil {
		t.Error("there is no such index")
	}
	if err := store.AddIndexers(Indexers{NamespaceIndex: MetaNamespaceIndexFunc}); err != nil {
		t.Fatal(err)
	}
	if found, err := store.ByIndex(NamespaceIndex, "shop"); err != nil || len(found) != 2 {
		t.Error(found, err)
	}
	if err := store.AddIndexers(Indexers{"node": byNode}); err == nil {
		t.Error("an index cannot be added twice")
	}
	if err := store.Replace([]any{first}, ""); err != nil || !reflect.DeepEqual(store.ListKeys(), []string{"shop/a"}) {
		t.Error(store.ListKeys(), err)
	}
	if item, exists, err := store.Get(first); item != any(first) || !exists || err != nil {
		t.Error(item, exists, err)
	}
}
