// Package controller reconciles CronJobs. It is written for controller-runtime and knows nothing of Windlass: the main
// program of this plugin is the only file that differs from that of an operator in a Pod.
package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	cronv1 "windlass.dev/plugins/cronjob/api/v1"
)

const (
	// ownerIndex finds the Jobs of a CronJob by its UID.
	ownerIndex = ".metadata.controller"
	// requeueMax is the longest wait for the next run.
	requeueMax = 24 * time.Hour
	// statusRecheck is the interval for reading a status again that a user has to mend: such a change runs nothing.
	statusRecheck = 10 * time.Minute
	// workers is the number of CronJobs that are reconciled at once.
	workers = 8
)

// CronJobReconciler starts the Jobs of CronJobs.
type CronJobReconciler struct {
	client.Client
	Scheme   *runtime.Scheme
	Recorder events.EventRecorder
	// Now is the clock.
	Now func() time.Time
}

// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch.tutorial.kubebuilder.io,resources=cronjobs/status,verbs=get;update;patch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete

// SetupWithManager adds the controller to a manager.
func (r *CronJobReconciler) SetupWithManager(mgr ctrl.Manager) error {
	byOwner := func(object client.Object) []string {
		if owner := metav1.GetControllerOf(object); owner != nil {
			return []string{string(owner.UID)}
		}
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &batchv1.Job{}, ownerIndex, byOwner); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		// The own writes of the status run nothing.
		For(&cronv1.CronJob{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Owns(&batchv1.Job{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile starts the Job that is due, reports the status, and deletes finished Jobs beyond the limits. The status
// comes before the deletions, because afterwards only the status has the due times of the deleted Jobs.
func (r *CronJobReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cronJob cronv1.CronJob
	if err := r.Get(ctx, request.NamespacedName, &cronJob); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !cronJob.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil // The garbage collector deletes the Jobs.
	}
	now := r.Now()
	jobs, err := r.jobsOf(ctx, &cronJob, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	run := planned(&cronJob, jobs, now)
	failure := r.start(ctx, &cronJob, &jobs, &run)
	if isLasting(failure) {
		run.problem = &problem{reasonCreationFailed, failure.Error()}
	}
	if err := r.report(ctx, &cronJob, jobs, run, now); err != nil {
		return ctrl.Result{}, errors.Join(failure, err)
	}
	if err := errors.Join(failure, r.tidy(ctx, &cronJob, jobs)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: run.wait(now)}, nil
}

func (r *CronJobReconciler) jobsOf(ctx context.Context, cronJob *cronv1.CronJob, now time.Time) (ownJobs, error) {
	var list batchv1.JobList
	own := client.MatchingFields{ownerIndex: string(cronJob.UID)}
	if err := r.List(ctx, &list, client.InNamespace(cronJob.Namespace), own); err != nil {
		return ownJobs{}, fmt.Errorf("list the Jobs: %w", err)
	}
	return sortedJobs(list.Items, now), nil
}

// plan is the decision about the runs of a CronJob.
type plan struct {
	// last is the time of the last run; nil before the first one.
	last *time.Time
	// due is the time of the run that is to start now; nil if there is none.
	due *time.Time
	// next is the time of the next run; nil if there is none.
	next *time.Time
	// expiry is the time at which the deadline of due has passed; nil if there is none, or if the run has started.
	expiry  *time.Time
	problem *problem
}

// started notes that the run that was due has a Job.
func (p *plan) started() { p.last, p.expiry = p.due, nil }

// wait returns the time until something is to be decided again; zero if nothing is.
func (p plan) wait(now time.Time) time.Duration {
	if p.next == nil {
		return 0
	}
	wait := p.next.Sub(now)
	if p.expiry != nil {
		wait = min(wait, p.expiry.Sub(now))
	}
	if p.problem != nil && p.problem.reason == reasonLastRunAhead {
		wait = min(wait, statusRecheck)
	}
	return min(max(wait, time.Millisecond), requeueMax)
}

// planned decides about the runs of a CronJob.
func planned(cronJob *cronv1.CronJob, jobs ownJobs, now time.Time) plan {
	run := plan{last: jobs.lastDue, problem: timeProblem(cronJob, jobs, now)}
	if known := cronJob.Status.LastScheduleTime; known != nil && (run.last == nil || known.After(*run.last)) {
		run.last = &known.Time
	}
	if len(cronJob.Name) > nameMax {
		run.problem = &problem{reasonInvalidName, fmt.Sprintf("the name is longer than %d characters", nameMax)}
		return run
	}
	parsed, err := parseSchedule(cronJob.Spec.Schedule)
	if err != nil {
		run.problem = &problem{reasonInvalidSchedule, err.Error()}
		return run
	}
	base := cronJob.CreationTimestamp.Time
	if run.last != nil {
		base = *run.last
	}
	var deadline *time.Duration
	if seconds := cronJob.Spec.StartingDeadlineSeconds; seconds != nil {
		deadline = new(time.Duration(*seconds) * time.Second)
	}
	times := timesAt(parsed, base, now, deadline)
	if times.next == nil {
		run.problem = &problem{reasonInvalidSchedule, "the schedule has no time in the next five years"}
	}
	if isSuspended(cronJob) {
		return run
	}
	run.due, run.next = times.due, times.next
	if run.due != nil && deadline != nil {
		run.expiry = new(run.due.Add(*deadline + time.Second))
	}
	if times.missed != nil {
		missed := times.missed.UTC().Format(time.RFC3339)
		run.problem = &problem{reasonMissedSchedule, "no Job could start before the deadline of the run at " + missed}
	}
	if cronJob.Spec.ConcurrencyPolicy == cronv1.Forbid && len(jobs.active) > 0 {
		run.due = nil // The end of the active Job runs this again.
	}
	return run
}

// start starts the Job that is due, and enters it into jobs and run.
func (r *CronJobReconciler) start(ctx context.Context, cronJob *cronv1.CronJob, jobs *ownJobs, run *plan) error {
	if run.due == nil {
		return nil
	}
	job := jobFor(cronJob, *run.due)
	var existing batchv1.Job
	switch err := r.Get(ctx, client.ObjectKeyFromObject(job), &existing); {
	case err == nil && metav1.IsControlledBy(&existing, cronJob):
		// It has lost the annotation with its time.
		run.started()
		return nil
	case err == nil:
		message := fmt.Sprintf("the Job %s exists and is not of this CronJob", job.Name)
		run.problem = &problem{reasonNameTaken, message}
		return nil
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("read the Job %s: %w", job.Name, err)
	}
	if cronJob.Spec.ConcurrencyPolicy == cronv1.Replace {
		if err := r.deleteAll(ctx, jobs.active); err != nil {
			return err
		}
		for _, replaced := range jobs.active {
			r.Recorder.Eventf(cronJob, nil, corev1.EventTypeNormal, "JobReplaced", "Replace", "deleted the active Job %s", replaced.Name)
		}
		jobs.active = nil
	}
	if err := ctrl.SetControllerReference(cronJob, job, r.Scheme); err != nil {
		return err
	}
	if err := r.Create(ctx, job); err != nil {
		return fmt.Errorf("create the Job %s: %w", job.Name, err)
	}
	r.Recorder.Eventf(cronJob, job, corev1.EventTypeNormal, "JobCreated", "Create", "created the Job %s", job.Name)
	jobs.active = append(jobs.active, job)
	run.started()
	return nil
}

// isLasting reports whether the failure to start a Job lasts until a user acts. Others pass with a retry, so they are
// not worth a condition.
func isLasting(err error) bool {
	isRefused := apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsRequestEntityTooLargeError(err)
	return isRefused && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// report writes the status if it has changed, and an Event about a problem that the status did not show.
func (r *CronJobReconciler) report(ctx context.Context, cronJob *cronv1.CronJob, jobs ownJobs, run plan, now time.Time) error {
	before := cronJob.DeepCopy()
	setStatus(cronJob, jobs, run.last, run.problem, now)
	if equality.Semantic.DeepEqual(before.Status, cronJob.Status) {
		return nil
	}
	if err := r.Status().Update(ctx, cronJob); err != nil {
		return fmt.Errorf("write the status: %w", err)
	}
	if run.problem != nil && run.problem.isNews(&before.Status) {
		r.Recorder.Eventf(cronJob, nil, corev1.EventTypeWarning, run.problem.reason, "Start", "%s", run.problem.message)
	}
	return nil
}

// tidy deletes finished Jobs beyond the limits.
func (r *CronJobReconciler) tidy(ctx context.Context, cronJob *cronv1.CronJob, jobs ownJobs) error {
	return r.deleteAll(ctx, jobs.surplus(&cronJob.Spec))
}

// deleteAll deletes Jobs with their Pods, unless they are being deleted already.
func (r *CronJobReconciler) deleteAll(ctx context.Context, jobs []*batchv1.Job) error {
	var failures []error
	for _, job := range jobs {
		if job.DeletionTimestamp != nil {
			continue
		}
		same := client.Preconditions{UID: &job.UID}
		err := r.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground), same)
		if client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("delete the Job %s: %w", job.Name, err))
		}
	}
	return errors.Join(failures...)
}
