//! Tests when timers are due: cron expressions, time zones with daylight saving, intervals, and missed due times.

use std::time::Duration;

use windlass_core::timer::{
    CronExpression, DueTime, KeptProgress, MissedTimes, TimerProgress, TimerRule, TimerStep, time_zone,
};

fn at(text: &str) -> Duration {
    DueTime::try_from(text.to_owned()).expect("a time").since_1970()
}

fn cron(expression: &str, zone: &str) -> TimerRule {
    let expression = expression.parse().unwrap_or_else(|error| panic!("{expression}: {error}"));
    TimerRule::Cron(expression, time_zone(zone).expect("a time zone"))
}

/// The first due times after `after`.
fn due_times(rule: &TimerRule, after: &str, count: usize) -> Vec<String> {
    let mut last = at(after);
    let mut due = || {
        last = rule.next(Some(last), Duration::ZERO, last).expect("it is due again");
        DueTime::at(last).to_string()
    };
    (0..count).map(|_| due()).collect()
}

fn refusal(expression: &str) -> String {
    expression.parse::<CronExpression>().expect_err("it must be refused").to_string()
}

#[test]
fn fields_name_values_ranges_steps_and_lists() {
    let cases = [
        ("30 3 * * *", ["2026-11-29T03:30:00Z", "2026-11-30T03:30:00Z"]),
        ("*/20 * * * *", ["2026-11-28T19:40:00Z", "2026-11-28T20:00:00Z"]),
        ("50-59/4 * * * *", ["2026-11-28T19:50:00Z", "2026-11-28T19:54:00Z"]),
        ("5/25 22,20 * * ?", ["2026-11-28T20:05:00Z", "2026-11-28T20:30:00Z"]),
        ("0 0 1 JAN,jul *", ["2027-01-01T00:00:00Z", "2027-07-01T00:00:00Z"]),
        ("0 12 * * Mon-Tue", ["2026-11-30T12:00:00Z", "2026-12-01T12:00:00Z"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
        ("@hourly", ["2026-11-28T20:00:00Z", "2026-11-28T21:00:00Z"]),
        ("@weekly", ["2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z"]),
    ];
    for (expression, expected) in cases {
        assert_eq!(due_times(&cron(expression, "UTC"), "2026-11-28T19:30:00Z", 2), expected, "{expression}");
    }
    assert_eq!(due_times(&cron("0 0 29 2 *", "UTC"), "2096-03-01T00:00:00Z", 1), ["2104-02-29T00:00:00Z"]);
}

#[test]
fn restricted_days_of_month_and_week_match_if_either_does() {
    let either = due_times(&cron("0 0 13 * fri", "UTC"), "2026-11-28T00:00:00Z", 3);
    assert_eq!(either, ["2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z", "2026-12-13T00:00:00Z"]);
    let both = due_times(&cron("0 0 * * fri", "UTC"), "2026-11-28T00:00:00Z", 2);
    assert_eq!(both, ["2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z"]);
    // As in robfig/cron, a step restricts the days.
    let stepped = due_times(&cron("0 0 */14 * fri", "UTC"), "2026-11-28T00:00:00Z", 3);
    assert_eq!(stepped, ["2026-11-29T00:00:00Z", "2026-12-01T00:00:00Z", "2026-12-04T00:00:00Z"]);
}

#[test]
fn a_local_time_that_does_not_exist_is_not_due() {
    // New York went from 02:00 to 03:00 on 8 March 2026.
    let skipped = due_times(&cron("30 2 * * *", "America/New_York"), "2026-03-07T12:00:00Z", 2);
    assert_eq!(skipped, ["2026-03-09T06:30:00Z", "2026-03-10T06:30:00Z"]);
    let hourly = due_times(&cron("0 * * * *", "America/New_York"), "2026-03-08T06:00:00Z", 2);
    assert_eq!(hourly, ["2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z"]);
    // Midnight does not exist on 24 April 2026 in Cairo.
    let midnight = due_times(&cron("0 0 * * *", "Africa/Cairo"), "2026-04-23T12:00:00Z", 1);
    assert_eq!(midnight, ["2026-04-24T21:00:00Z"]);
}

#[test]
fn a_local_time_that_exists_twice_is_due_twice() {
    // Berlin went from 03:00 back to 02:00 on 25 October 2026.
    let twice = due_times(&cron("30 2 * * *", "Europe/Berlin"), "2026-10-24T12:00:00Z", 3);
    assert_eq!(twice, ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"]);
    // Lord Howe Island sets its clocks by half an hour.
    let half = due_times(&cron("45 1 * * *", "Australia/Lord_Howe"), "2026-04-04T00:00:00Z", 3);
    assert_eq!(half, ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-05T15:15:00Z"]);
}

#[test]
fn wrong_expressions_are_refused_with_the_field_and_what_it_may_have() {
    for (expression, expected) in [
        ("* * * *", "has 4 fields instead of five"),
        ("0 0 3 * * *", "has 6 fields instead of five"),
        ("60 * * * *", "minute: `60` has a value that is not 0 to 59"),
        ("* 24 * * *", "hour: `24` has a value that is not 0 to 23"),
        ("* * * * 7", "day of the week: `7` has a value that is not 0 to 6, or sun to sat; Sunday is 0"),
        ("* * * foo *", "month: `foo` has a value that is not 1 to 12, or jan to dec"),
        ("*/0 * * * *", "minute: `*/0` has a step that is not a positive number"),
        ("30-10 * * * *", "minute: `30-10` is a range whose end comes before its beginning"),
        ("1,,2 * * * *", "minute: `` has a value"),
        ("0 0 L * *", "day of the month: `L` has a value"),
        ("0 0 30 2 *", "never matches"),
        ("TZ=UTC 0 0 * * *", "names a time zone: write it to `timeZone`"),
        ("@every 5m", "is an interval: write it to `intervalMs`"),
        ("@noon", "`@noon` is no abbreviation"),
    ] {
        let refusal = refusal(expression);
        assert!(refusal.contains(expected), "{expression}: {refusal}");
    }
}

#[test]
fn the_latest_of_the_missed_due_times_is_due_at_once() {
    let (rule, last, now) = (cron("*/5 * * * *", "UTC"), at("2026-11-28T03:00:00Z"), at("2026-11-28T03:22:10Z"));
    assert_eq!(rule.next(Some(last), Duration::ZERO, now), Some(at("2026-11-28T03:20:00Z")));
    assert_eq!(
        rule.next(None, at("2026-11-28T03:21:00Z"), now),
        Some(at("2026-11-28T03:25:00Z")),
        "none since it began"
    );
    let nightly = cron("30 2 * * *", "Europe/Berlin");
    let (last, now) = (at("2026-10-24T00:30:00Z"), at("2026-10-25T01:40:00Z"));
    assert_eq!(nightly.next(Some(last), Duration::ZERO, now), Some(at("2026-10-25T01:30:00Z")), "the second 02:30");
    let now = at("2026-10-25T01:10:00Z");
    assert_eq!(nightly.next(Some(last), Duration::ZERO, now), Some(at("2026-10-25T00:30:00Z")), "the first 02:30");
}

#[test]
fn an_interval_is_due_at_once_and_then_keeps_its_rhythm() {
    let (rule, now) = (TimerRule::Interval(Duration::from_mins(10)), at("2026-11-28T03:22:10Z"));
    assert_eq!(rule.next(None, now, now), Some(now));
    let last = at("2026-11-28T03:20:00Z");
    assert_eq!(rule.next(Some(last), now, now), Some(at("2026-11-28T03:30:00Z")));
    let later = at("2026-11-28T03:55:00Z");
    assert_eq!(rule.next(Some(last), now, later), Some(at("2026-11-28T03:50:00Z")), "two were missed");
}

/// A timer that began to run at 03:00.
fn begun(rule: &TimerRule) -> TimerProgress {
    let mut progress = TimerProgress::default();
    assert_eq!(progress.next(rule, at("2026-11-28T03:00:00Z")), None, "it does not run yet");
    progress.resume("a", None, at("2026-11-28T03:00:00Z"));
    progress
}

/// The step that follows when a call for `due` can be made `now`, with `missed: once`.
fn reach(progress: &mut TimerProgress, rule: &TimerRule, due: DueTime, now: &str) -> TimerStep {
    progress.reach(rule, MissedTimes::Once, due, due.since_1970(), at(now))
}

#[test]
fn missed_due_times_lead_to_one_call_or_are_skipped() {
    let rule = cron("*/5 * * * *", "UTC");
    let due = DueTime::at(at("2026-11-28T03:05:00Z"));
    let planned = at("2026-11-28T03:05:20Z");
    let late = DueTime::at(at("2026-11-28T03:20:00Z"));
    for (missed, now, expected) in [
        (MissedTimes::Once, "2026-11-28T03:05:20Z", TimerStep::Call(due)),
        (MissedTimes::Once, "2026-11-28T03:23:00Z", TimerStep::Call(late)),
        (MissedTimes::Skip, "2026-11-28T03:06:20Z", TimerStep::Call(due)),
        (MissedTimes::Skip, "2026-11-28T03:06:21Z", TimerStep::Skip(due)),
        (MissedTimes::Skip, "2026-11-28T03:21:20Z", TimerStep::Call(late)),
        (MissedTimes::Skip, "2026-11-28T03:21:21Z", TimerStep::Skip(late)),
    ] {
        let mut progress = begun(&rule);
        assert_eq!(progress.reach(&rule, missed, due, planned, at(now)), expected, "{missed:?} at {now}");
    }
}

#[test]
fn a_jitter_longer_than_the_gap_between_due_times_makes_none_late() {
    let rule = cron("*/5 * * * *", "UTC");
    let mut progress = begun(&rule);
    let (due, planned) = (DueTime::at(at("2026-11-28T03:05:00Z")), at("2026-11-28T03:22:00Z"));
    let latest = DueTime::at(at("2026-11-28T03:20:00Z"));
    assert_eq!(progress.reach(&rule, MissedTimes::Skip, due, planned, planned), TimerStep::Call(latest));
}

#[test]
fn a_due_time_whose_call_begins_late_is_skipped_unless_it_was_tried() {
    let rule = cron("@hourly", "UTC");
    let due = DueTime::at(at("2026-11-28T04:00:00Z"));
    let (in_time, late) = (at("2026-11-28T04:06:00Z"), at("2026-11-28T04:06:01Z"));
    let jitter = Duration::from_mins(5);
    let mut progress = begun(&rule);
    assert_eq!(progress.reach(&rule, MissedTimes::Skip, due, due.since_1970(), due.since_1970()), TimerStep::Call(due));
    assert_eq!(progress.clone().skip_late(MissedTimes::Once, jitter, late), None);
    assert_eq!(progress.skip_late(MissedTimes::Skip, jitter, in_time), None);
    let mut tried = progress.clone();
    assert_eq!(progress.skip_late(MissedTimes::Skip, jitter, late), Some(due));
    assert_eq!((progress.pending(), progress.kept().and_then(|kept| kept.last)), (None, Some(due)));
    tried.begin(MissedTimes::Skip, due);
    assert_eq!(tried.skip_late(MissedTimes::Skip, jitter, late), None, "this is a retry");
    let kept = serde_json::to_string(tried.kept().expect("it runs")).expect("a text");
    let mut other = TimerProgress::default();
    other.resume("a", Some(serde_json::from_str(&kept).expect("as it was written")), late);
    let step = other.reach(&rule, MissedTimes::Skip, due, due.since_1970(), late);
    assert_eq!(step, TimerStep::Call(due), "the next replica goes on");
    other.finish(due);
    assert_eq!(other.kept().and_then(|kept| kept.tried), None);
}

fn next(progress: &mut TimerProgress, rule: &TimerRule, now: &str) -> String {
    progress.next(rule, at(now)).expect("it is due").to_string()
}

#[test]
fn a_due_time_is_pending_until_its_call_ends_well() {
    let rule = cron("*/5 * * * *", "UTC");
    let mut progress = begun(&rule);
    let first = progress.next(&rule, at("2026-11-28T03:05:00Z")).expect("it is due");
    assert_eq!(first.to_string(), "2026-11-28T03:05:00Z");
    assert_eq!(reach(&mut progress, &rule, first, "2026-11-28T03:05:00Z"), TimerStep::Call(first));
    assert_eq!(reach(&mut progress, &rule, first, "2026-11-28T03:05:00Z"), TimerStep::Wait, "it is queued once");
    assert_eq!(next(&mut progress, &rule, "2026-11-28T03:05:01Z"), "2026-11-28T03:10:00Z");
    assert_eq!((progress.pending(), progress.kept().and_then(|kept| kept.last)), (Some(first), None));
    progress.finish(first);
    assert_eq!((progress.pending(), progress.kept().and_then(|kept| kept.last)), (None, Some(first)));
    let second = progress.next(&rule, at("2026-11-28T03:10:00Z")).expect("it is due");
    assert_eq!(reach(&mut progress, &rule, second, "2026-11-28T03:10:00Z"), TimerStep::Call(second));
    progress.finish(first);
    assert_eq!(progress.pending(), Some(second), "another due time has come meanwhile");
    progress.forget_pending();
    assert_eq!(next(&mut progress, &rule, "2026-11-28T03:10:30Z"), "2026-11-28T03:10:00Z", "its call was lost");
}

#[test]
fn a_later_replica_goes_on_from_what_was_kept() {
    let rule = cron("*/5 * * * *", "UTC");
    let mut progress = begun(&rule);
    progress.finish(DueTime::at(at("2026-11-28T03:05:00Z")));
    let kept = serde_json::to_string(progress.kept().expect("it runs")).expect("a text");
    assert_eq!(kept, r#"{"rule":"a","begun":"2026-11-28T03:00:00Z","last":"2026-11-28T03:05:00Z"}"#);
    let kept: KeptProgress = serde_json::from_str(&kept).expect("as it was written");
    let mut other = TimerProgress::default();
    other.resume("a", Some(kept.clone()), at("2026-11-28T03:17:00Z"));
    assert_eq!(next(&mut other, &rule, "2026-11-28T03:17:00Z"), "2026-11-28T03:15:00Z");
    let mut changed = TimerProgress::default();
    changed.resume("another rule", Some(kept), at("2026-11-28T03:17:00Z"));
    assert_eq!(next(&mut changed, &rule, "2026-11-28T03:17:00Z"), "2026-11-28T03:20:00Z", "it missed nothing");
}

#[test]
fn a_clock_that_is_set_back_repeats_an_hour_at_most() {
    let rule = cron("*/5 * * * *", "UTC");
    let mut progress = begun(&rule);
    progress.finish(DueTime::at(at("2026-11-28T04:30:00Z")));
    assert_eq!(next(&mut progress.clone(), &rule, "2026-11-28T03:31:00Z"), "2026-11-28T04:35:00Z");
    assert_eq!(
        next(&mut progress, &rule, "2026-11-28T03:29:00Z"),
        "2026-11-28T03:30:00Z",
        "the clock was wrong before"
    );
    assert_eq!(progress.kept().and_then(|kept| kept.last), None);
}
