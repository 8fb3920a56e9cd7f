package v1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopy copies a CronJob.
func (in *CronJob) DeepCopy() *CronJob {
	out := &CronJob{TypeMeta: in.TypeMeta, Spec: in.Spec, Status: in.Status}
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.StartingDeadlineSeconds = copied(in.Spec.StartingDeadlineSeconds)
	out.Spec.Suspend = copied(in.Spec.Suspend)
	out.Spec.SuccessfulJobsHistoryLimit = copied(in.Spec.SuccessfulJobsHistoryLimit)
	out.Spec.FailedJobsHistoryLimit = copied(in.Spec.FailedJobsHistoryLimit)
	in.Spec.JobTemplate.DeepCopyInto(&out.Spec.JobTemplate)
	in.Status.DeepCopyInto(&out.Status)
	return out
}

// DeepCopyInto copies a status.
func (in *CronJobStatus) DeepCopyInto(out *CronJobStatus) {
	out.Active = slices.Clone(in.Active)
	out.LastScheduleTime = in.LastScheduleTime.DeepCopy()
	out.Conditions = make([]metav1.Condition, len(in.Conditions))
	for place := range in.Conditions {
		in.Conditions[place].DeepCopyInto(&out.Conditions[place])
	}
}

// DeepCopyObject copies a CronJob.
func (in *CronJob) DeepCopyObject() runtime.Object { return in.DeepCopy() }

// DeepCopyObject copies a list.
func (in *CronJobList) DeepCopyObject() runtime.Object {
	out := &CronJobList{TypeMeta: in.TypeMeta, Items: make([]CronJob, len(in.Items))}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	for place := range in.Items {
		out.Items[place] = *in.Items[place].DeepCopy()
	}
	return out
}

func copied[T any](value *T) *T {
	if value == nil {
		return nil
	}
	return new(*value)
}
