// Package conditions manages lists of status conditions in Kubernetes' form.
package conditions

import "time"

// Condition is one aspect of an object's state. A list of conditions contains each type once.
type Condition struct {
	// Type is the aspect, such as "Ready".
	Type string `json:"type"`
	// Status is "True", "False" or "Unknown".
	Status string `json:"status"`
	// Reason is the reason in CamelCase, for machines.
	Reason string `json:"reason"`
	// Message is the reason as text, for people.
	Message string `json:"message"`
	// ObservedGeneration is the generation of the object that the condition is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// LastTransitionTime is the time at which Status got its value. Set sets it.
	LastTransitionTime string `json:"lastTransitionTime"`
}

// Status is "True" or "False".
func Status(holds bool) string {
	if holds {
		return "True"
	}
	return "False"
}

// Find returns the condition of a type, or nil.
func Find(conditions []Condition, conditionType string) *Condition {
	for place := range conditions {
		if conditions[place].Type == conditionType {
			return &conditions[place]
		}
	}
	return nil
}

// IsTrue reports whether a condition exists and is true.
func IsTrue(conditions []Condition, conditionType string) bool {
	found := Find(conditions, conditionType)
	return found != nil && found.Status == "True"
}

// Set returns a list with these conditions set, all for this generation of the object. Each condition replaces the
// condition of its type or is appended. LastTransitionTime becomes now, usually clock.Now, if the status changed, and
// otherwise stays, so setting the same condition again changes nothing. The given list is not modified.
//
// now is called only if a status changed: a call that reads the time cannot be saved.
func Set(known []Condition, generation int64, now func() time.Time, entered ...Condition) []Condition {
	conditions := append([]Condition(nil), known...)
	for _, condition := range entered {
		condition.ObservedGeneration = generation
		found := Find(conditions, condition.Type)
		if found != nil && found.Status == condition.Status && found.LastTransitionTime != "" {
			condition.LastTransitionTime = found.LastTransitionTime
		} else {
			condition.LastTransitionTime = now().UTC().Format(time.RFC3339)
		}
		if found == nil {
			conditions = append(conditions, condition)
		} else {
			*found = condition
		}
	}
	return conditions
}

// Remove returns a list without the condition of a type. The other conditions keep their order.
func Remove(conditions []Condition, conditionType string) []Condition {
	var rest []Condition
	for _, condition := range conditions {
		if condition.Type != conditionType {
			rest = append(rest, condition)
		}
	}
	return rest
}
