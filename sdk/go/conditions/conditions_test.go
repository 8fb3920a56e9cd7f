package conditions

import (
	"reflect"
	"testing"
	"time"
)

func noon() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

// after returns a clock that is ahead of noon.
func after(later time.Duration) func() time.Time {
	return func() time.Time { return noon().Add(later) }
}

func TestTheTransitionTimeChangesOnlyWithTheStatus(t *testing.T) {
	first := Set(nil, 1, noon, Condition{Type: "Ready", Status: "False", Reason: "A"}, Condition{Type: "Other", Status: "True"})
	later := Set(first, 2, after(time.Hour), Condition{Type: "Ready", Status: "False", Reason: "B"})
	if got := *Find(later, "Ready"); got.LastTransitionTime != "2026-11-21T12:00:00Z" || got.Reason != "B" || got.ObservedGeneration != 2 {
		t.Errorf("%+v", got)
	}
	if first[0].Reason != "A" {
		t.Error("the given list is left as it is")
	}
	turned := Set(later, 2, after(time.Hour), Condition{Type: "Ready", Status: "True"})
	if got := turned[0]; got.LastTransitionTime != "2026-11-21T13:00:00Z" || !IsTrue(turned, "Ready") {
		t.Errorf("%+v", got)
	}
	unread := func() time.Time {
		t.Error("a call that reads the time cannot be saved")
		return noon()
	}
	if again := Set(turned, 2, unread, Condition{Type: "Ready", Status: "True"}); !reflect.DeepEqual(again, turned) {
		t.Errorf("setting the same again changes %+v", again)
	}
}

func TestAConditionIsFoundAndRemovedByItsType(t *testing.T) {
	known := Set(nil, 1, noon, Condition{Type: "A", Status: Status(true)}, Condition{Type: "B", Status: Status(false)})
	if Find(known, "C") != nil || IsTrue(known, "B") || IsTrue(known, "C") || !IsTrue(known, "A") {
		t.Errorf("%+v", known)
	}
	if rest := Remove(known, "A"); len(rest) != 1 || rest[0].Type != "B" {
		t.Errorf("%+v", rest)
	}
}
