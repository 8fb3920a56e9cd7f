package predicate

import (
	"sigs.k8s.io/controller-runtime/internal/declared"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// And accepts the events that all predicates accept.
func And[object any](predicates ...TypedPredicate[object]) TypedPredicate[object] {
	return and[object](predicates)
}

type and[object any] []TypedPredicate[object]

func (all and[object]) each(accepts func(TypedPredicate[object]) bool) bool {
	for _, predicate := range all {
		if !accepts(predicate) {
			return false
		}
	}
	return true
}

func (all and[object]) Create(e event.TypedCreateEvent[object]) bool {
	return all.each(func(predicate TypedPredicate[object]) bool { return predicate.Create(e) })
}

func (all and[object]) Delete(e event.TypedDeleteEvent[object]) bool {
	return all.each(func(predicate TypedPredicate[object]) bool { return predicate.Delete(e) })
}

func (all and[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return all.each(func(predicate TypedPredicate[object]) bool { return predicate.Update(e) })
}

func (all and[object]) Generic(e event.TypedGenericEvent[object]) bool {
	return all.each(func(predicate TypedPredicate[object]) bool { return predicate.Generic(e) })
}

// DeclaredUpdates is for the manifest.
func (all and[object]) DeclaredUpdates() *declared.Updates {
	updates := declared.Predicates()
	for _, predicate := range all {
		part := declared.OfPredicate(predicate)
		if part == nil {
			return nil
		}
		updates = updates.And(part)
	}
	return updates
}

// Or accepts the events that at least one of the predicates accepts.
func Or[object any](predicates ...TypedPredicate[object]) TypedPredicate[object] {
	return or[object](predicates)
}

type or[object any] []TypedPredicate[object]

func (or or[object]) some(accepts func(TypedPredicate[object]) bool) bool {
	for _, predicate := range or {
		if accepts(predicate) {
			return true
		}
	}
	return false
}

func (or or[object]) Create(e event.TypedCreateEvent[object]) bool {
	return or.some(func(predicate TypedPredicate[object]) bool { return predicate.Create(e) })
}

func (or or[object]) Delete(e event.TypedDeleteEvent[object]) bool {
	return or.some(func(predicate TypedPredicate[object]) bool { return predicate.Delete(e) })
}

func (or or[object]) Update(e event.TypedUpdateEvent[object]) bool {
	return or.some(func(predicate TypedPredicate[object]) bool { return predicate.Update(e) })
}

func (or or[object]) Generic(e event.TypedGenericEvent[object]) bool {
	return or.some(func(predicate TypedPredicate[object]) bool { return predicate.Generic(e) })
}

// DeclaredUpdates is for the manifest.
func (or or[object]) DeclaredUpdates() (updates *declared.Updates) {
	for _, predicate := range or {
		part := declared.OfPredicate(predicate)
		switch {
		case part == nil:
			return nil
		case updates == nil:
			updates = part
		default:
			updates = updates.Or(part)
		}
	}
	return updates
}

// Not accepts the events that the predicate rejects.
func Not[object any](predicate TypedPredicate[object]) TypedPredicate[object] {
	return not[object]{predicate}
}

type not[object any] struct{ predicate TypedPredicate[object] }

func (n not[object]) Create(e event.TypedCreateEvent[object]) bool   { return !n.predicate.Create(e) }
func (n not[object]) Delete(e event.TypedDeleteEvent[object]) bool   { return !n.predicate.Delete(e) }
func (n not[object]) Update(e event.TypedUpdateEvent[object]) bool   { return !n.predicate.Update(e) }
func (n not[object]) Generic(e event.TypedGenericEvent[object]) bool { return !n.predicate.Generic(e) }
