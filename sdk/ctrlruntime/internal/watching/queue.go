package watching

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// requests is the queue that a handler fills. It keeps each request once. The host has the real queue, so delays and
// rate limits have no effect here.
type requests struct{ found []reconcile.Request }

func (q *requests) Add(request reconcile.Request) {
	for _, known := range q.found {
		if known == request {
			return
		}
	}
	q.found = append(q.found, request)
}

func (q *requests) AddAfter(request reconcile.Request, _ time.Duration) { q.Add(request) }

func (q *requests) AddRateLimited(request reconcile.Request) { q.Add(request) }

func (q *requests) Len() int { return len(q.found) }

// Get is for workers, of which this queue has none.
func (q *requests) Get() (request reconcile.Request, shutdown bool) { return request, true }

func (*requests) Done(reconcile.Request)            {}
func (*requests) Forget(reconcile.Request)          {}
func (*requests) NumRequeues(reconcile.Request) int { return 0 }
func (*requests) ShutDown()                         {}
func (*requests) ShutDownWithDrain()                {}
func (*requests) ShuttingDown() bool                { return false }
