package events

import "testing"

func TestEventsAreSentAsText(t *testing.T) {
	fake := NewFakeRecorder(1)
	fake.Eventf(nil, nil, "Normal", "Made", "Create", "%d of %d", 1, 2)
	if text := <-fake.Events; text != "Normal Made 1 of 2" {
		t.Error(text)
	}
	new(FakeRecorder).Eventf(nil, nil, "Normal", "Made", "Create", "nobody waits for it")
}
