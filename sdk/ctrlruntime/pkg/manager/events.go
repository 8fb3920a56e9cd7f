package manager

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/internal/call"
	"sigs.k8s.io/controller-runtime/internal/codec"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	windlass "windlass.dev/sdk"
	"windlass.dev/sdk/events"
	"windlass.dev/sdk/log"
)

// recorder sends events through the host.
type recorder struct{ scheme *runtime.Scheme }

// refTo names an object of an event.
func (r recorder) refTo(object runtime.Object) (ref windlass.Ref, err error) {
	kind, err := apiutil.GVKForObject(object, r.scheme)
	if err != nil {
		return ref, err
	}
	named, err := meta.Accessor(object)
	if err != nil {
		return ref, err
	}
	ref = codec.Ref(named, kind)
	ref.UID = string(named.GetUID())
	return ref, nil
}

func (r recorder) send(regarding, related runtime.Object, eventType, reason, action, note string) {
	about, err := r.refTo(regarding)
	if err != nil {
		// Events never make a call fail.
		log.Write(log.Warn, "an event was not sent", log.Field{Name: "reason", Value: reason}, log.Field{Name: "error", Value: err.Error()})
		return
	}
	if namespace := call.Namespace(); namespace != "" && about.Namespace != namespace {
		log.Write(log.Warn, "an event was not sent: a plugin reports events only about objects in the namespace of the object that is "+
			"reconciled", log.Field{Name: "reason", Value: reason}, log.Field{Name: "object", Value: about.String()})
		return
	}
	options := []events.Option{events.About(about)}
	if related != nil {
		if other, err := r.refTo(related); err == nil {
			options = append(options, events.With(other))
		}
	}
	if eventType == "Warning" {
		events.Warning(reason, action, note, options...)
	} else {
		events.Normal(reason, action, note, options...)
	}
}

// oldRecorder is the recorder of package tools/record. Its events have no action, so the reason is also the action.
type oldRecorder struct{ recorder }

func (r *oldRecorder) Event(object runtime.Object, eventType, reason, message string) {
	r.send(object, nil, eventType, reason, reason, message)
}

func (r *oldRecorder) Eventf(object runtime.Object, eventType, reason, messageFmt string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(messageFmt, args...))
}

var warnOfAnnotations sync.Once

func (r *oldRecorder) AnnotatedEventf(
	object runtime.Object, annotations map[string]string, eventType, reason, messageFmt string, args ...any,
) {
	if len(annotations) > 0 {
		warnOfAnnotations.Do(func() {
			log.Write(log.Warn, "events are sent without their annotations: put their content into the message")
		})
	}
	r.Eventf(object, eventType, reason, messageFmt, args...)
}

// newRecorder is the recorder of package tools/events.
type newRecorder struct{ recorder }

func (r *newRecorder) Eventf(
	regarding, related runtime.Object, eventType, reason, action, note string, args ...any,
) {
	r.send(regarding, related, eventType, reason, action, fmt.Sprintf(note, args...))
}
