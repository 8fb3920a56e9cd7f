// Package cache replaces the part of k8s.io/client-go/tools/cache that KubeRay uses: a store in memory with indexes. The
// real package is not for plugins, because it also has the informers.
package cache

import "sync"

// KeyFunc returns the key of an object.
type KeyFunc func(object any) (string, error)

// IndexFunc returns the values by which an object is found.
type IndexFunc func(object any) ([]string, error)

// Indexers are the index functions by name.
type Indexers map[string]IndexFunc

// Indexer is the store. KubeRay has few objects in it, so a lookup reads all of them.
type Indexer interface {
	Add(object any) error
	Delete(object any) error
	ByIndex(name, value string) ([]any, error)
}

type indexer struct {
	mutex    sync.Mutex
	key      KeyFunc
	indexers Indexers
	objects  map[string]any
}

// NewIndexer returns an empty store.
func NewIndexer(key KeyFunc, indexers Indexers) Indexer {
	return &indexer{key: key, indexers: indexers, objects: map[string]any{}}
}

func (i *indexer) Add(object any) error {
	key, err := i.key(object)
	if err != nil {
		return err
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.objects[key] = object
	return nil
}

func (i *indexer) Delete(object any) error {
	key, err := i.key(object)
	if err != nil {
		return err
	}
	i.mutex.Lock()
	defer i.mutex.Unlock()
	delete(i.objects, key)
	return nil
}

func (i *indexer) ByIndex(name, value string) ([]any, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	var found []any
	for _, object := range i.objects {
		values, err := i.indexers[name](object)
		if err != nil {
			return nil, err
		}
		for _, own := range values {
			if own == value {
				found = append(found, object)
				break
			}
		}
	}
	return found, nil
}
