package controller

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cronv1 "windlass.dev/plugins/cronjob/api/v1"
)

// at parses a time such as 2026-01-05T18:10:00Z.
func at(text string) time.Time {
	time, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return time
}

func shown(time *time.Time) string {
	if time == nil {
		return "none"
	}
	return time.UTC().Format("2006-01-02T15:04:05Z07:00")
}

func equal(t *testing.T, what string, got, wanted any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		t.Errorf("%s: got %v, wanted %v", what, got, wanted)
	}
}

func TestTheLastTimeIsFoundHoweverManyWereMissed(t *testing.T) {
	for _, test := range []struct{ schedule, base, now, last, next string }{
		{"*/5 * * * *", "2026-01-05T18:00:00Z", "2026-01-05T18:04:59Z", "none", "2026-01-05T18:05:00Z"},
		{"*/5 * * * *", "2026-01-05T18:00:00Z", "2026-01-05T18:05:00Z", "2026-01-05T18:05:00Z", "2026-01-05T18:10:00Z"},
		{"* * * * *", "2020-01-01T00:00:00Z", "2026-01-05T18:05:59Z", "2026-01-05T18:05:00Z", "2026-01-05T18:06:00Z"},
		{"0 0 29 2 *", "2021-01-01T00:00:00Z", "2026-01-05T00:00:00Z", "2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"@every 90m", "2026-01-01T00:00:07Z", "2026-01-05T18:00:00Z", "2026-01-05T16:30:07Z", "2026-01-05T18:00:07Z"},
		{"@every 90m", "2026-01-01T00:00:07Z", "2026-01-01T01:00:00Z", "none", "2026-01-01T01:30:07Z"},
		{"0 0 30 2 *", "2021-01-01T00:00:00Z", "2026-01-05T00:00:00Z", "none", "none"},
		{"CRON_TZ=Europe/Berlin 0 3 * * *", "2026-06-01T00:00:00Z", "2026-06-01T12:00:00Z", "2026-06-01T01:00:00Z", "2026-06-02T01:00:00Z"},
		// The clock was set back.
		{"@hourly", "2026-01-05T20:00:00Z", "2026-01-05T18:30:00Z", "none", "2026-01-05T21:00:00Z"},
	} {
		parsed, err := parseSchedule(test.schedule)
		if err != nil {
			t.Fatal(err)
		}
		times := timesAt(parsed, at(test.base), at(test.now), nil)
		equal(t, test.schedule+" at "+test.now, shown(times.due)+" "+shown(times.next), test.last+" "+test.next)
	}
}

func TestARunIsMissedWhenItsDeadlineHasPassed(t *testing.T) {
	parsed, _ := parseSchedule("0 * * * *")
	for now, wanted := range map[string]string{
		"2026-01-05T18:10:00Z": "2026-01-05T18:00:00Z none",
		"2026-01-05T18:10:01Z": "none 2026-01-05T18:00:00Z",
	} {
		times := timesAt(parsed, at("2026-01-05T17:30:00Z"), at(now), new(10*time.Minute))
		equal(t, now, shown(times.due)+" "+shown(times.missed), wanted)
	}
}

func TestScheduleMistakesAreErrors(t *testing.T) {
	for _, text := range []string{"", "TZ=UTC", "CRON_TZ=", "* * * *", "61 * * * *", "CRON_TZ=Moon 0 0 * * *", "@never", "@every x"} {
		if _, err := parseSchedule(text); err == nil {
			t.Errorf("%q is a schedule", text)
		}
	}
}

func newCronJob() *cronv1.CronJob {
	created := metav1.NewTime(at("2026-01-05T18:10:00Z"))
	return &cronv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "backup", Namespace: "prod", UID: "u", Generation: 1, CreationTimestamp: created},
		Spec:       cronv1.CronJobSpec{Schedule: "0 * * * *", ConcurrencyPolicy: cronv1.Allow},
	}
}

// jobAt is a Job that was due at an hour and has this condition, or is active if it is "".
func jobAt(hour int, condition batchv1.JobConditionType) batchv1.Job {
	cronJob := newCronJob()
	job := jobFor(cronJob, at(fmt.Sprintf("2026-01-05T%02d:00:00Z", hour)))
	owner := metav1.NewControllerRef(cronJob, cronv1.GroupVersion.WithKind("CronJob"))
	job.OwnerReferences = []metav1.OwnerReference{*owner}
	if condition != "" {
		job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue}}
	}
	return *job
}

func TestTheLaterOfStatusAndJobsIsTheLastRun(t *testing.T) {
	for name, test := range map[string]struct {
		status *metav1.Time
		jobs   []batchv1.Job
		due    string
	}{
		"neither":                                  {nil, nil, "2026-01-05T20:00:00Z"},
		"only the status: the Job was deleted":     {&metav1.Time{Time: at("2026-01-05T20:00:00Z")}, nil, "none"},
		"only the Job: the status was not written": {nil, []batchv1.Job{jobAt(20, "")}, "none"},
		"an old Job beside a newer status":         {&metav1.Time{Time: at("2026-01-05T20:00:00Z")}, []batchv1.Job{jobAt(19, "")}, "none"},
	} {
		cronJob := newCronJob()
		cronJob.Status.LastScheduleTime = test.status
		equal(t, name, shown(planned(cronJob, sortedJobs(test.jobs, at("2026-01-05T20:30:00Z")), at("2026-01-05T20:30:00Z")).due), test.due)
	}
}

func TestATimeFarAheadDoesNotCountAndIsReported(t *testing.T) {
	now := at("2026-01-05T20:30:00Z")
	misdated := jobAt(19, batchv1.JobComplete)
	misdated.CreationTimestamp = metav1.NewTime(at("2026-01-05T19:00:01Z"))
	misdated.Annotations[cronv1.ScheduledAt] = "2099-01-01T00:00:00Z"
	cronJob := newCronJob()
	cronJob.Status.LastScheduleTime = &metav1.Time{Time: at("2026-01-05T19:00:00Z")}
	jobs := sortedJobs([]batchv1.Job{jobAt(20, batchv1.JobComplete), misdated}, now)
	equal(t, "the order", jobs.successful[0].Name, misdated.Name)
	run := planned(cronJob, sortedJobs([]batchv1.Job{misdated}, now), now)
	equal(t, "beside a Job", shown(run.due)+" "+run.problem.reason, "2026-01-05T20:00:00Z JobMisdated")
	equal(t, "whether runs stop", run.problem.stopsRuns(), false)

	// A clock that was ahead wrote the status.
	cronJob.Status.LastScheduleTime = &metav1.Time{Time: at("2099-01-01T00:00:00Z")}
	run = planned(cronJob, ownJobs{}, now)
	equal(t, "the status", shown(run.due)+" "+run.problem.reason, "none LastRunAhead")
	equal(t, "whether runs stop", run.problem.stopsRuns(), true)
	equal(t, "the wait", run.wait(now), 10*time.Minute)
	cronJob.Status.LastScheduleTime = &metav1.Time{Time: at("2026-01-05T21:00:00Z")}
	run = planned(cronJob, ownJobs{}, now)
	equal(t, "a clock that was set back a little", shown(run.due)+" "+fmt.Sprint(run.problem == nil), "none true")
}

func TestOnlyForbidWaitsForTheActiveJob(t *testing.T) {
	for policy, due := range map[cronv1.ConcurrencyPolicy]string{
		"": "2026-01-05T20:00:00Z", cronv1.Allow: "2026-01-05T20:00:00Z", cronv1.Replace: "2026-01-05T20:00:00Z", cronv1.Forbid: "none",
	} {
		cronJob := newCronJob()
		cronJob.Spec.ConcurrencyPolicy = policy
		run := planned(cronJob, sortedJobs([]batchv1.Job{jobAt(19, "")}, at("2026-01-05T20:30:00Z")), at("2026-01-05T20:30:00Z"))
		equal(t, string(policy), shown(run.due), due)
		equal(t, string(policy)+", the wait", run.wait(at("2026-01-05T20:30:00Z")), 30*time.Minute)
	}
}

func TestASuspendedCronJobPlansNothing(t *testing.T) {
	cronJob := newCronJob()
	cronJob.Spec.Suspend = new(true)
	run := planned(cronJob, ownJobs{}, at("2026-01-05T20:30:00Z"))
	equal(t, "the plan", shown(run.due)+" "+shown(run.next), "none none")
	equal(t, "the wait", run.wait(at("2026-01-05T20:30:00Z")), time.Duration(0))
}

func TestALongNameIsAProblem(t *testing.T) {
	cronJob := newCronJob()
	cronJob.Name = fmt.Sprintf("%053d", 0)
	run := planned(cronJob, ownJobs{}, at("2026-01-05T20:30:00Z"))
	equal(t, "the problem", run.problem.reason+" "+shown(run.due), "InvalidName none")
}

func TestTheOldestFinishedJobsAreSurplus(t *testing.T) {
	finished := []batchv1.Job{
		jobAt(5, batchv1.JobComplete), jobAt(1, batchv1.JobComplete), jobAt(2, ""), jobAt(3, batchv1.JobFailed),
		jobAt(4, batchv1.JobFailed), jobAt(6, batchv1.JobComplete), jobAt(7, batchv1.JobComplete),
	}
	for _, test := range []struct {
		successful, failed *int32
		wanted             []int
	}{
		{nil, nil, []int{1, 3}},
		{new(int32(0)), new(int32(2)), []int{1, 5, 6, 7}},
		{new(int32(9)), new(int32(9)), nil},
	} {
		spec := &cronv1.CronJobSpec{SuccessfulJobsHistoryLimit: test.successful, FailedJobsHistoryLimit: test.failed}
		var hours []int
		for _, job := range sortedJobs(finished, at("2026-01-05T20:30:00Z")).surplus(spec) {
			hours = append(hours, dueTimeOf(job).Hour())
		}
		equal(t, "surplus", hours, test.wanted)
	}
}

func TestAJobHasTheTemplatesLabelsAndItsTime(t *testing.T) {
	cronJob := newCronJob()
	cronJob.Spec.JobTemplate.Labels = map[string]string{"app": "backup"}
	cronJob.Spec.JobTemplate.Annotations = map[string]string{"note": "kept"}
	job := jobFor(cronJob, at("2026-01-05T19:00:00Z"))
	equal(t, "the name", job.Namespace+"/"+job.Name, "prod/backup-1767639600")
	equal(t, "the labels", job.Labels, cronJob.Spec.JobTemplate.Labels)
	equal(t, "the annotations", job.Annotations, map[string]string{"note": "kept", cronv1.ScheduledAt: "2026-01-05T19:00:00Z"})
	equal(t, "the template's annotations", len(cronJob.Spec.JobTemplate.Annotations), 1)
}

func TestAStatusHasTheTenActiveJobsThatStartedLast(t *testing.T) {
	var items []batchv1.Job
	for hour := 12; hour > 0; hour-- {
		items = append(items, jobAt(hour, ""))
	}
	cronJob := newCronJob()
	setStatus(cronJob, sortedJobs(items, at("2026-01-05T20:30:00Z")), nil, nil, at("2026-01-05T20:30:00Z"))
	equal(t, "how many", len(cronJob.Status.Active), 10)
	equal(t, "the first", cronJob.Status.Active[0].Name, jobAt(3, "").Name)
	equal(t, "the message", meta.FindStatusCondition(cronJob.Status.Conditions, progressing).Message, "12 Jobs are active")
}

func TestConditionsSayWhyNothingRuns(t *testing.T) {
	suspended := newCronJob()
	suspended.Spec.Suspend = new(true)
	failed := sortedJobs([]batchv1.Job{jobAt(1, batchv1.JobComplete), jobAt(2, batchv1.JobFailed)}, at("2026-01-05T20:30:00Z"))
	recovered := sortedJobs([]batchv1.Job{jobAt(1, batchv1.JobFailed), jobAt(2, batchv1.JobComplete)}, at("2026-01-05T20:30:00Z"))
	for name, test := range map[string]struct {
		cronJob *cronv1.CronJob
		jobs    ownJobs
		problem *problem
		wanted  string
	}{
		"at rest":               {newCronJob(), ownJobs{}, nil, "AllJobsCompleted True, NoJobsActive False, NoProblem False"},
		"suspended":             {suspended, ownJobs{}, nil, "Suspended False, NoJobsActive False, NoProblem False"},
		"the last Job failed":   {newCronJob(), failed, nil, "JobsFailed False, NoJobsActive False, JobsFailed True"},
		"a later one succeeded": {newCronJob(), recovered, nil, "AllJobsCompleted True, NoJobsActive False, NoProblem False"},
		"no schedule": {
			newCronJob(), ownJobs{}, &problem{reasonInvalidSchedule, "x"}, "InvalidSchedule False, NoJobsActive False, InvalidSchedule True",
		},
		"a missed run": {
			newCronJob(), ownJobs{}, &problem{reasonMissedSchedule, "x"}, "AllJobsCompleted True, NoJobsActive False, MissedSchedule True",
		},
	} {
		setStatus(test.cronJob, test.jobs, nil, test.problem, at("2026-01-05T20:30:00Z"))
		var found string
		for _, kind := range []string{available, progressing, degraded} {
			condition := meta.FindStatusCondition(test.cronJob.Status.Conditions, kind)
			found += fmt.Sprintf(", %s %s", condition.Reason, condition.Status)
		}
		equal(t, name, found[2:], test.wanted)
	}
}
