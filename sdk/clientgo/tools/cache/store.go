package cache

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/sets"
)

// NamespaceIndex is the usual name of an index by namespace.
const NamespaceIndex = "namespace"

// IndexFunc returns the values under which an index has an object.
type IndexFunc func(obj any) ([]string, error)

// Indexers are the functions of all indexes, by name.
type Indexers map[string]IndexFunc

// Index has the keys of the objects with a value.
type Index map[string]sets.Set[string]

// Indices are indexes by name.
type Indices map[string]Index

// MetaNamespaceIndexFunc indexes objects by their namespace.
func MetaNamespaceIndexFunc(obj any) ([]string, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("the object has no metadata: %w", err)
	}
	return []string{object.GetNamespace()}, nil
}

// Store has objects by their keys. It lives as long as the instance of the plugin, which may serve one call only.
type Store interface {
	Add(obj any) error
	Update(obj any) error
	Delete(obj any) error
	List() []any
	ListKeys() []string
	Get(obj any) (item any, exists bool, err error)
	GetByKey(key string) (item any, exists bool, err error)
	// Replace deletes all objects and adds these. The resource version has no effect.
	Replace(list []any, resourceVersion string) error
	// Resync does nothing.
	Resync() error
}

// Indexer is a Store with indexes.
type Indexer interface {
	Store
	// Index returns the objects that share a value of the index with obj.
	Index(indexName string, obj any) ([]any, error)
	IndexKeys(indexName, indexedValue string) ([]string, error)
	ListIndexFuncValues(indexName string) []string
	ByIndex(indexName, indexedValue string) ([]any, error)
	GetIndexers() Indexers
	AddIndexers(newIndexers Indexers) error
}

// NewStore returns an empty store.
func NewStore(keyFunc KeyFunc) Store { return NewIndexer(keyFunc, Indexers{}) }

// NewIndexer returns an empty store with indexes.
func NewIndexer(keyFunc KeyFunc, indexers Indexers) Indexer {
	return &store{key: keyFunc, objects: map[string]any{}, indexers: maps.Clone(indexers)}
}

// store computes indexes when they are asked for. Stores of plugins are small, because they are empty at the beginning
// of each instance.
type store struct {
	key      KeyFunc
	lock     sync.RWMutex
	objects  map[string]any
	indexers Indexers
}

func (s *store) Add(obj any) error {
	key, err := s.key(obj)
	if err != nil {
		return KeyError{obj, err}
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.objects[key] = obj
	return nil
}

func (s *store) Update(obj any) error { return s.Add(obj) }

func (s *store) Delete(obj any) error {
	key, err := s.key(obj)
	if err != nil {
		return KeyError{obj, err}
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	delete(s.objects, key)
	return nil
}

func (s *store) List() []any {
	s.lock.RLock()
	defer s.lock.RUnlock()
	objects := make([]any, 0, len(s.objects))
	for _, key := range s.keys() {
		objects = append(objects, s.objects[key])
	}
	return objects
}

func (s *store) ListKeys() []string {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return s.keys()
}

// keys are sorted, so that calls with the same input have the same result.
func (s *store) keys() []string { return slices.Sorted(maps.Keys(s.objects)) }

func (s *store) Get(obj any) (item any, exists bool, err error) {
	key, err := s.key(obj)
	if err != nil {
		return nil, false, KeyError{obj, err}
	}
	return s.GetByKey(key)
}

func (s *store) GetByKey(key string) (item any, exists bool, err error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	item, exists = s.objects[key]
	return item, exists, nil
}

func (s *store) Replace(list []any, _ string) error {
	objects := make(map[string]any, len(list))
	for _, obj := range list {
		key, err := s.key(obj)
		if err != nil {
			return KeyError{obj, err}
		}
		objects[key] = obj
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.objects = objects
	return nil
}

func (s *store) Resync() error { return nil }

func (s *store) Index(indexName string, obj any) ([]any, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	index, err := s.index(indexName)
	if err != nil {
		return nil, err
	}
	values, err := s.indexers[indexName](obj)
	if err != nil {
		return nil, err
	}
	keys := sets.New[string]()
	for _, value := range values {
		keys = keys.Union(index[value])
	}
	return s.objectsOf(keys), nil
}

func (s *store) ByIndex(indexName, indexedValue string) ([]any, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	index, err := s.index(indexName)
	return s.objectsOf(index[indexedValue]), err
}

func (s *store) IndexKeys(indexName, indexedValue string) ([]string, error) {
	s.lock.RLock()
	defer s.lock.RUnlock()
	index, err := s.index(indexName)
	return sets.List(index[indexedValue]), err
}

func (s *store) ListIndexFuncValues(indexName string) []string {
	s.lock.RLock()
	defer s.lock.RUnlock()
	index, err := s.index(indexName)
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(index))
}

func (s *store) GetIndexers() Indexers {
	s.lock.RLock()
	defer s.lock.RUnlock()
	return maps.Clone(s.indexers)
}

func (s *store) AddIndexers(newIndexers Indexers) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	for name := range newIndexers {
		if _, exists := s.indexers[name]; exists {
			return fmt.Errorf("there is an index %q already", name)
		}
	}
	if s.indexers == nil {
		s.indexers = Indexers{}
	}
	maps.Copy(s.indexers, newIndexers)
	return nil
}

// index computes an index.
func (s *store) index(name string) (Index, error) {
	function, exists := s.indexers[name]
	if !exists {
		return nil, fmt.Errorf("there is no index %q", name)
	}
	index := Index{}
	for key, obj := range s.objects {
		values, err := function(obj)
		if err != nil {
			return nil, fmt.Errorf("index %q of object %q: %w", name, key, err)
		}
		for _, value := range values {
			if index[value] == nil {
				index[value] = sets.New[string]()
			}
			index[value].Insert(key)
		}
	}
	return index, nil
}

func (s *store) objectsOf(keys sets.Set[string]) []any {
	objects := make([]any, 0, len(keys))
	for _, key := range sets.List(keys) {
		objects = append(objects, s.objects[key])
	}
	return objects
}
