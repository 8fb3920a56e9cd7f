package record

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEventsAreSentAsText(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	fake := NewFakeRecorder(4)
	fake.Event(pod, "Normal", "Made", "100% done")
	fake.Eventf(pod, "Warning", "Failed", "%d times", 3)
	fake.AnnotatedEventf(pod, map[string]string{"a": "b"}, "Normal", "Made", "it")
	fake.IncludeObject = true
	fake.Event(pod, "Normal", "Made", "it")
	for _, expected := range []string{
		"Normal Made 100% done",
		"Warning Failed 3 times",
		"Normal Made it map[a:b]",
		"Normal Made it involvedObject{kind=Pod,apiVersion=v1}",
	} {
		if text := <-fake.Events; text != expected {
			t.Errorf("%q instead of %q", text, expected)
		}
	}
	new(FakeRecorder).Event(pod, "Normal", "Made", "nobody waits for it")
}
