package client

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"windlass.dev/sdk/writes"
)

func writeOptions(dry []string, manager, validation string) []writes.Option {
	options := []writes.Option{}
	if len(dry) > 0 {
		options = append(options, writes.DryRun())
	}
	if manager != "" {
		options = append(options, writes.ManagerSuffix(suffix(manager)))
	}
	switch validation {
	case metav1.FieldValidationStrict:
		// The host's default.
	case metav1.FieldValidationIgnore:
		options = append(options, writes.Ignore)
	default:
		// The API server's default.
		options = append(options, writes.Warn)
	}
	return options
}

// isAllowed reports whether a letter may be in the suffix of a field manager.
func isAllowed(letter rune) bool {
	return letter >= 'a' && letter <= 'z' || letter >= '0' && letter <= '9'
}

// suffixMax is the host's limit for the suffix of a field manager.
const suffixMax = 32

// suffix makes a field manager's name a DNS label, as the host requires. A name that is not a DNS label keeps its
// allowed letters and gets a hash, so that no two names have the same suffix.
func suffix(manager string) string {
	label := strings.Map(func(letter rune) rune {
		if !isAllowed(letter) {
			return '-'
		}
		return letter
	}, strings.ToLower(manager))
	label = strings.Trim(label, "-")
	if label == manager && len(label) <= suffixMax {
		return label
	}
	hash := fmt.Sprintf("%08x", hashOf(manager))
	label = strings.TrimRight(label[:min(len(label), suffixMax-len(hash)-1)], "-")
	return strings.TrimLeft(label+"-"+hash, "-")
}

func hashOf(text string) uint32 {
	hash := fnv.New32a()
	hash.Write([]byte(text))
	return hash.Sum32()
}

// orphaning are the kinds whose dependents the API server keeps if a deletion names no propagation policy. The host
// always names a policy, and by default deletes dependents.
var orphaning = map[schema.GroupVersionKind]bool{
	{Group: "batch", Version: "v1", Kind: "Job"}: true, {Version: "v1", Kind: "ReplicationController"}: true,
}

func deleteOptions(kind schema.GroupVersionKind, options *DeleteOptions) []writes.Option {
	var how []writes.Option
	if len(options.DryRun) > 0 {
		how = append(how, writes.DryRun())
	}
	if options.GracePeriodSeconds != nil {
		how = append(how, writes.GracePeriod(time.Duration(*options.GracePeriodSeconds)*time.Second))
	}
	if options.Preconditions != nil && options.Preconditions.ResourceVersion != nil {
		how = append(how, writes.IfVersion(*options.Preconditions.ResourceVersion))
	}
	switch {
	case options.PropagationPolicy == nil && orphaning[kind]:
		how = append(how, writes.Orphan)
	case options.PropagationPolicy != nil:
		switch *options.PropagationPolicy {
		case metav1.DeletePropagationForeground:
			how = append(how, writes.Foreground)
		case metav1.DeletePropagationOrphan:
			how = append(how, writes.Orphan)
		}
	}
	return how
}
