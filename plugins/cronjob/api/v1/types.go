// Package v1 has the kind CronJob of batch.tutorial.kubebuilder.io/v1.
package v1

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the kind.
var GroupVersion = schema.GroupVersion{Group: "batch.tutorial.kubebuilder.io", Version: "v1"}

// ScheduledAt is the annotation of a Job with the time that it was due, in RFC 3339.
const ScheduledAt = "batch.tutorial.kubebuilder.io/scheduled-at"

// AddToScheme adds the kind to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &CronJob{}, &CronJobList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// CronJob starts a Job at each time of a schedule.
type CronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   CronJobSpec   `json:"spec"`
	Status CronJobStatus `json:"status,omitzero"`
}

// CronJobList is a list of CronJobs.
type CronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []CronJob `json:"items"`
}

// CronJobSpec is the desired state.
type CronJobSpec struct {
	// Schedule is in the format of cron, such as "*/5 * * * *", in UTC unless it begins with CRON_TZ=ZONE.
	Schedule string `json:"schedule"`
	// StartingDeadlineSeconds is how long after its time a run may start. Nil: at any time before the next one.
	StartingDeadlineSeconds *int64            `json:"startingDeadlineSeconds,omitempty"`
	ConcurrencyPolicy       ConcurrencyPolicy `json:"concurrencyPolicy,omitempty"`
	// Suspend keeps further runs from starting.
	Suspend     *bool                   `json:"suspend,omitempty"`
	JobTemplate batchv1.JobTemplateSpec `json:"jobTemplate"`
	// SuccessfulJobsHistoryLimit is the number of completed Jobs that are kept. Nil: 3.
	SuccessfulJobsHistoryLimit *int32 `json:"successfulJobsHistoryLimit,omitempty"`
	// FailedJobsHistoryLimit is the number of failed Jobs that are kept. Nil: 1.
	FailedJobsHistoryLimit *int32 `json:"failedJobsHistoryLimit,omitempty"`
}

// ConcurrencyPolicy decides about a run that is due while an earlier one is active.
type ConcurrencyPolicy string

const (
	// Allow starts it beside the earlier one. This is the default.
	Allow ConcurrencyPolicy = "Allow"
	// Forbid starts it when the earlier one has ended, unless its deadline has passed by then.
	Forbid ConcurrencyPolicy = "Forbid"
	// Replace deletes the earlier one.
	Replace ConcurrencyPolicy = "Replace"
)

// CronJobStatus is the observed state.
type CronJobStatus struct {
	// Active has the active Jobs, at most ActiveMax.
	Active []corev1.ObjectReference `json:"active,omitempty"`
	// LastScheduleTime is the due time of the last Job that was started.
	LastScheduleTime *metav1.Time       `json:"lastScheduleTime,omitempty"`
	Conditions       []metav1.Condition `json:"conditions,omitempty"`
}

// ActiveMax is the number of active Jobs that the definition allows in a status.
const ActiveMax = 10
