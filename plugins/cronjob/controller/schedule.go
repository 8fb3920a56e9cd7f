package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	// For schedules with CRON_TZ: neither a plugin nor a small image has the system's time zones.
	_ "time/tzdata"
)

// The times of a schedule. Pure: nothing here reads the clock.

// schedule is a parsed schedule.
type schedule struct{ times cron.Schedule }

// parseSchedule parses five fields, or one of cron's words such as @hourly, after an optional CRON_TZ=ZONE.
func parseSchedule(text string) (schedule, error) {
	// The library panics if nothing follows the zone.
	if zone, _, follows := strings.Cut(text, " "); !follows && strings.Contains(zone, "TZ=") {
		return schedule{}, fmt.Errorf("no times follow the time zone in %q", text)
	}
	times, err := cron.ParseStandard(text)
	return schedule{times}, err
}

// next returns the first time after a moment, or nil if there is none in the next years. The times of "@every 1h" count
// from base.
func (s schedule) next(after, base time.Time) *time.Time {
	if every, is := s.times.(cron.ConstantDelaySchedule); is {
		return new(base.Add(every.Delay * (elapsed(base, after, every.Delay) + 1)))
	}
	if time := s.times.Next(after); !time.IsZero() {
		return &time
	}
	return nil
}

// last returns the last time that is later than base and not later than now, or nil.
func (s schedule) last(base, now time.Time) *time.Time {
	if every, is := s.times.(cron.ConstantDelaySchedule); is {
		if passed := elapsed(base, now, every.Delay); passed > 0 {
			return new(base.Add(every.Delay * passed))
		}
		return nil
	}
	if !s.isDue(base, now) {
		return nil
	}
	// A time follows from the moment `from`, and none from `until`. The distance is halved because there may be millions
	// of times since base.
	from, until := base, now
	for until.Sub(from) > time.Second {
		middle := from.Add(until.Sub(from) / 2)
		if s.isDue(middle, now) {
			from = middle
		} else {
			until = middle
		}
	}
	return new(s.times.Next(from))
}

// isDue reports whether a time is later than a moment and not later than now.
func (s schedule) isDue(after, now time.Time) bool {
	time := s.times.Next(after)
	return !time.IsZero() && !time.After(now)
}

// elapsed returns how many whole intervals lie between two moments.
func elapsed(from, to time.Time, interval time.Duration) time.Duration {
	return max(to.Sub(from)/interval, 0)
}

// dueTimes are the times of a schedule around a moment.
type dueTimes struct {
	// due is the time for which a Job should start now; nil if there is none.
	due *time.Time
	// missed is the last time whose deadline has passed; nil if there is none, or if a later time is due.
	missed *time.Time
	// next is the next time; nil if there is none in the next years.
	next *time.Time
}

// timesAt compares a schedule with the last time for which a Job was started. A deadline of nil does not end.
func timesAt(s schedule, last, now time.Time, deadline *time.Duration) dueTimes {
	// After the clock was set back, the next time comes when the last one has passed again.
	times := dueTimes{next: s.next(later(last, now), last)}
	reached := s.last(last, now)
	if reached != nil && deadline != nil && now.Sub(*reached) > *deadline {
		times.missed = reached
	} else {
		times.due = reached
	}
	return times
}

func later(one, other time.Time) time.Time {
	if one.After(other) {
		return one
	}
	return other
}
