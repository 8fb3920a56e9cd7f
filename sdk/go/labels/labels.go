// Package labels turns the LabelSelectors in objects into the text form for lists.
package labels

import (
	"slices"
	"strings"
)

// Selector is a LabelSelector, such as the spec.selector of a Deployment. It is metav1.LabelSelector without the
// dependencies. An empty selector selects everything. If an object has no selector at all, it selects nothing, so do
// not list.
type Selector struct {
	// MatchLabels are labels that an object must have, with their values.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// MatchExpressions are requirements that the object must also meet.
	MatchExpressions []Requirement `json:"matchExpressions,omitempty"`
}

// Requirement is one requirement of a Selector.
type Requirement struct {
	Key string `json:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist.
	Operator Operator `json:"operator"`
	// Values are the operands of In and NotIn, at least one.
	Values []string `json:"values,omitempty"`
}

// Operator is an operator on a label.
type Operator string

const (
	// In requires one of the values.
	In Operator = "In"
	// NotIn requires another value, or no such label.
	NotIn Operator = "NotIn"
	// Exists requires the label.
	Exists Operator = "Exists"
	// DoesNotExist requires that the label is missing.
	DoesNotExist Operator = "DoesNotExist"
)

// String returns the selector in the form for cache.Query and live.Query, such as "app=web,tier in (a,b)".
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

// String returns the requirement as a part of a selector's text. The host refuses unknown operators by name.
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
