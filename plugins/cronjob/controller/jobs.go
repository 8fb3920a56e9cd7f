package controller

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cronv1 "windlass.dev/plugins/cronjob/api/v1"
)

// The Jobs of a CronJob. Pure: nothing here calls the API server.

const (
	// The numbers of finished Jobs that are kept if the spec does not say it.
	successfulDefault, failedDefault = 3, 1
	// nameMax is the longest name of a CronJob: its Jobs get a hyphen and ten digits more, and the names of Jobs are
	// values of labels.
	nameMax = 63 - 11
	// aheadMax is how far the time of a run may lie ahead of the clock, which may have been set back.
	aheadMax = time.Hour
)

// ownJobs are the Jobs that a CronJob controls, each list in the order of their due times. Jobs that have finished and
// are being deleted are in none of them.
type ownJobs struct {
	active, successful, failed []*batchv1.Job
	// lastDue is the latest due time of all Jobs; nil if none has one.
	lastDue *time.Time
	// misdated is a Job whose due time is too far ahead to be true, so that it does not count; nil if there is none.
	misdated *batchv1.Job
	// lastFailed is true if the latest of the finished Jobs has failed.
	lastFailed bool
}

func sortedJobs(items []batchv1.Job, now time.Time) ownJobs {
	var jobs ownJobs
	var lastFinished *batchv1.Job
	slices.SortFunc(items, func(a, b batchv1.Job) int {
		return cmp.Or(startOf(&a, now).Compare(startOf(&b, now)), cmp.Compare(a.Name, b.Name))
	})
	for place := range items {
		job := &items[place]
		switch due := dueTimeOf(job); {
		case due == nil:
		case isAhead(*due, now):
			jobs.misdated = job
		case jobs.lastDue == nil || due.After(*jobs.lastDue):
			jobs.lastDue = due
		}
		end := endOf(job)
		if end != "" {
			lastFinished = job
		}
		switch {
		case end == "":
			jobs.active = append(jobs.active, job)
		case job.DeletionTimestamp != nil:
		case end == batchv1.JobFailed:
			jobs.failed = append(jobs.failed, job)
		default:
			jobs.successful = append(jobs.successful, job)
		}
	}
	jobs.lastFailed = lastFinished != nil && endOf(lastFinished) == batchv1.JobFailed
	return jobs
}

// endOf returns how a Job has ended, or "" if it has not.
func endOf(job *batchv1.Job) batchv1.JobConditionType {
	for _, condition := range job.Status.Conditions {
		isEnd := condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed
		if isEnd && condition.Status == corev1.ConditionTrue {
			return condition.Type
		}
	}
	return ""
}

// dueTimeOf returns the time at which a Job was due; nil if its annotation was removed or changed to something else.
func dueTimeOf(job *batchv1.Job) *time.Time {
	if due, err := time.Parse(time.RFC3339, job.Annotations[cronv1.ScheduledAt]); err == nil {
		return &due
	}
	return nil
}

// isAhead reports whether the time of a run is too far ahead of the clock to be true.
func isAhead(due, now time.Time) bool { return due.After(now.Add(aheadMax)) }

// startOf returns the time by which Jobs are ordered.
func startOf(job *batchv1.Job, now time.Time) time.Time {
	if due := dueTimeOf(job); due != nil && !isAhead(*due, now) {
		return *due
	}
	return job.CreationTimestamp.Time
}

// surplus returns the finished Jobs beyond the limits, the oldest first.
func (jobs ownJobs) surplus(spec *cronv1.CronJobSpec) []*batchv1.Job {
	beyond := func(jobs []*batchv1.Job, limit *int32, otherwise int32) []*batchv1.Job {
		if limit == nil {
			limit = &otherwise
		}
		return jobs[:max(len(jobs)-int(*limit), 0)]
	}
	return slices.Concat(
		beyond(jobs.successful, spec.SuccessfulJobsHistoryLimit, successfulDefault),
		beyond(jobs.failed, spec.FailedJobsHistoryLimit, failedDefault),
	)
}

// jobFor returns the Job for a due time, without its owner. Its name follows from the time, so no time has two Jobs.
func jobFor(cronJob *cronv1.CronJob, due time.Time) *batchv1.Job {
	template := cronJob.Spec.JobTemplate.DeepCopy()
	annotations := maps.Clone(template.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[cronv1.ScheduledAt] = due.UTC().Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", cronJob.Name, due.Unix()), Namespace: cronJob.Namespace,
			Labels: template.Labels, Annotations: annotations,
		},
		Spec: template.Spec,
	}
}
