package main

import (
	"slices"
	"time"
)

// The status of a Bucket. Pure: nothing here calls the host or S3.

// The types of the conditions of the ACK controllers.
const (
	synced      = "ACK.ResourceSynced"
	terminal    = "ACK.Terminal"
	recoverable = "ACK.Recoverable"
)

// Problem is the reason why a bucket is not as it should be.
type Problem struct {
	// kind is the type of the condition: terminal if only a change of the Bucket helps, else recoverable.
	kind string
	// reason is in CamelCase, such as S3's error code, for the condition and the Event.
	reason, message string
}

func (problem *Problem) Error() string { return problem.message }

// withConditions returns a status with conditions about a problem, or about its absence. It equals the old status if
// nothing has changed.
func withConditions(old Status, problem *Problem, now time.Time) Status {
	next := old
	if problem == nil {
		next.Conditions = []Condition{{Type: synced, Status: "True", Reason: "InSync", Message: "the bucket is as desired"}}
	} else {
		next.Conditions = []Condition{
			{Type: synced, Status: "False", Reason: problem.reason, Message: problem.message},
			{Type: problem.kind, Status: "True", Reason: problem.reason, Message: problem.message},
		}
	}
	for place := range next.Conditions {
		condition := &next.Conditions[place]
		condition.LastTransitionTime = now.UTC().Format(time.RFC3339)
		if known := find(old.Conditions, condition.Type); known != nil && known.Status == condition.Status {
			condition.LastTransitionTime = known.LastTransitionTime
		}
	}
	return next
}

func find(conditions []Condition, kind string) *Condition {
	if place := slices.IndexFunc(conditions, func(it Condition) bool { return it.Type == kind }); place >= 0 {
		return &conditions[place]
	}
	return nil
}

// isNews reports whether the status does not show the problem yet, so that it is worth an Event.
func (problem *Problem) isNews(old Status) bool {
	known := find(old.Conditions, problem.kind)
	return known == nil || known.Reason != problem.reason || known.Message != problem.message
}

func (status Status) equals(other Status) bool {
	sameResource := status.Resource == other.Resource
	if status.Resource != nil && other.Resource != nil {
		sameResource = *status.Resource == *other.Resource
	}
	return sameResource && status.Location == other.Location && slices.Equal(status.Conditions, other.Conditions)
}
