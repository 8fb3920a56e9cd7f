package controller

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cronv1 "windlass.dev/plugins/cronjob/api/v1"
)

// The status of a CronJob. Pure: nothing here calls the API server.

// The types of the conditions.
const (
	available   = "Available"
	progressing = "Progressing"
	degraded    = "Degraded"
)

// The reasons of the condition Degraded, which are also those of Events.
const (
	reasonInvalidSchedule = "InvalidSchedule"
	reasonInvalidName     = "InvalidName"
	reasonMissedSchedule  = "MissedSchedule"
	reasonCreationFailed  = "JobCreationFailed"
	reasonNameTaken       = "NameTaken"
	reasonLastRunAhead    = "LastRunAhead"
	reasonJobMisdated     = "JobMisdated"
	reasonJobFailed       = "JobsFailed"
)

// problem is a reason why runs do not start, or do not succeed; nil if there is none.
type problem struct{ reason, message string }

// stopsRuns reports whether no run starts until the problem is solved.
func (p *problem) stopsRuns() bool {
	return p != nil && p.reason != reasonMissedSchedule && p.reason != reasonJobMisdated
}

// isNews reports whether the status does not show the problem yet, so that it is worth an Event.
func (p *problem) isNews(status *cronv1.CronJobStatus) bool {
	known := meta.FindStatusCondition(status.Conditions, degraded)
	return known == nil || known.Reason != p.reason || known.Message != p.message
}

// timeProblem returns the problem that the time of a run is too far ahead to be true; nil if there is none.
func timeProblem(cronJob *cronv1.CronJob, jobs ownJobs, now time.Time) *problem {
	if last := cronJob.Status.LastScheduleTime; last != nil && isAhead(last.Time, now) {
		message := "nothing starts before status.lastScheduleTime, " + last.UTC().Format(time.RFC3339) +
			": if a clock was wrong, set it to the time of the last run (kubectl patch --subresource=status)"
		return &problem{reasonLastRunAhead, message}
	}
	if jobs.misdated != nil {
		message := fmt.Sprintf("the annotation %s of the Job %s is more than an hour ahead: it does not count; remove it, or the Job",
			cronv1.ScheduledAt, jobs.misdated.Name)
		return &problem{reasonJobMisdated, message}
	}
	return nil
}

// setStatus updates the status of a CronJob.
func setStatus(cronJob *cronv1.CronJob, jobs ownJobs, last *time.Time, found *problem, now time.Time) {
	status := &cronJob.Status
	// Times in objects are whole seconds.
	if last != nil {
		status.LastScheduleTime = &metav1.Time{Time: last.UTC().Truncate(time.Second)}
	}
	status.Active = references(jobs.active)
	if found == nil && jobs.lastFailed {
		found = &problem{reasonJobFailed, "the last Job that ended has failed"}
	}
	for _, condition := range conditionsOf(cronJob, len(jobs.active), found) {
		condition.ObservedGeneration = cronJob.Generation
		condition.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&status.Conditions, condition)
	}
}

// references returns the references to the Jobs that started last, as many as the definition allows.
func references(jobs []*batchv1.Job) []corev1.ObjectReference {
	var references []corev1.ObjectReference
	for _, job := range jobs[max(len(jobs)-cronv1.ActiveMax, 0):] {
		references = append(references, corev1.ObjectReference{
			APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID,
		})
	}
	return references
}

func conditionsOf(cronJob *cronv1.CronJob, active int, found *problem) []metav1.Condition {
	condition := func(name string, holds bool, reason, message string) metav1.Condition {
		status := metav1.ConditionFalse
		if holds {
			status = metav1.ConditionTrue
		}
		return metav1.Condition{Type: name, Status: status, Reason: reason, Message: message}
	}
	running := condition(progressing, false, "NoJobsActive", "no Job is active")
	ready := condition(available, true, "AllJobsCompleted", "no Job is active")
	if active > 0 {
		message := fmt.Sprintf("%d Jobs are active", active)
		if active == 1 {
			message = "1 Job is active"
		}
		running = condition(progressing, true, "JobsActive", message)
		ready = condition(available, true, "JobsActive", message)
	}
	failing := condition(degraded, false, "NoProblem", "")
	if found != nil {
		failing = condition(degraded, true, found.reason, found.message)
	}
	switch {
	case isSuspended(cronJob):
		ready = condition(available, false, "Suspended", "no run starts while spec.suspend is true")
	case found.stopsRuns():
		ready = condition(available, false, found.reason, found.message)
	}
	return []metav1.Condition{ready, running, failing}
}

func isSuspended(cronJob *cronv1.CronJob) bool {
	return cronJob.Spec.Suspend != nil && *cronJob.Spec.Suspend
}
