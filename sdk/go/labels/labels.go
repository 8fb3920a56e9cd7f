// Package labels turns the LabelSelectors that objects carry into the text that lists take.
package labels

import (
	"slices"
	"strings"
)

// Selector is a LabelSelector, such as the spec.selector of a Deployment: metav1.LabelSelector without its packages. An
// empty one selects everything. One that an object does not have selects nothing: make no list for it.
type Selector struct {
	// MatchLabels are labels that an object must have, with their values.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// MatchExpressions are requirements that it must meet, too.
	MatchExpressions []Requirement `json:"matchExpressions,omitempty"`
}

// Requirement is one requirement of a Selector.
type Requirement struct {
	Key string `json:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator Operator `json:"operator"`
	// Values are for In and NotIn, at least one.
	Values []string `json:"values,omitempty"`
}

// Operator is a question about a label.
type Operator string

const (
	// In wants one of the values.
	In Operator = "In"
	// NotIn wants none of the values, or no such label.
	NotIn Operator = "NotIn"
	// Exists wants the label.
	Exists Operator = "Exists"
	// DoesNotExist wants no such label.
	DoesNotExist Operator = "DoesNotExist"
)

// String is the selector as cache.Query and live.Query take it, such as "app=web,tier in (a,b)".
func (selector Selector) String() string {
	parts := make([]string, 0, len(selector.MatchLabels)+len(selector.MatchExpressions))
	for key, value := range selector.MatchLabels {
		parts = append(parts, key+"="+value)
	}
	slices.Sort(parts)
	for _, requirement := range selector.MatchExpressions {
		parts = append(parts, requirement.String())
	}
	return strings.Join(parts, ",")
}

// String is the requirement as a part of a selector's text. What Kubernetes does not have, the host refuses by name.
func (requirement Requirement) String() string {
	values := slices.Sorted(slices.Values(requirement.Values))
	set := " (" + strings.Join(slices.Compact(values), ",") + ")"
	switch requirement.Operator {
	case Exists:
		return requirement.Key
	case DoesNotExist:
		return "!" + requirement.Key
	case In:
		return requirement.Key + " in" + set
	case NotIn:
		return requirement.Key + " notin" + set
	}
	return requirement.Key + " " + string(requirement.Operator) + set
}
