//! The oracle: derives from the server's history how many children were created or deleted without need. Pure.
//!
//! There are two judgements, each exact where it applies.
//!
//! **Need.** If each operation started with a converged parent, it needs an exact number of writes: a scale-up by two
//! needs two creations, a child deleted by hand one creation, a scale-down by two two deletions. All further writes are
//! too many.
//!
//! **Bounds.** If operations start while earlier ones are still in progress, a controller may act on a spec that is not
//! the newest, and may not know of others' deletions yet. But it knows the spec that its status reports, and all of its
//! own writes. So after a creation there must never be more children than the largest spec since then asks for. After a
//! deletion by the controller, the children that remain, plus the children that the controller may wrongly count, must
//! never be fewer than the smallest spec asks for. The controller may wrongly count each child that others have deleted
//! since the parent's status and children last agreed with its spec. (They agree only if the controller knows all
//! deletions. Otherwise its status counts too many children.)

use std::collections::{BTreeMap, BTreeSet};

use windlass_tests::children::{Entry, Parent, What};

/// The numbers of writes to children, and of those that were too many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Children that appeared.
    pub(crate) created: u64,
    /// Children that the controller deleted.
    pub(crate) deleted: u64,
    /// Children that the test deleted.
    pub(crate) deleted_by_hand: u64,
    /// The created children that were too many.
    pub(crate) created_in_surplus: u64,
    /// The deleted children that were too many.
    pub(crate) deleted_in_surplus: u64,
}

impl std::ops::AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.created += other.created;
        self.deleted += other.deleted;
        self.deleted_by_hand += other.deleted_by_hand;
        self.created_in_surplus += other.created_in_surplus;
        self.deleted_in_surplus += other.deleted_in_surplus;
    }
}

/// Counts without judging.
fn count<'a>(entries: impl IntoIterator<Item = &'a Entry>, by_hand: &BTreeSet<String>) -> Figures {
    let mut figures = Figures::default();
    for entry in entries {
        match &entry.what {
            What::Appeared(_) => figures.created += 1,
            What::Went(child) if by_hand.contains(child) => figures.deleted_by_hand += 1,
            What::Went(_) => figures.deleted += 1,
            What::Asked(..) | What::Reported(..) => {}
        }
    }
    figures
}

/// Judges the whole life of one parent, up to its present state, by need. Each operation started with a converged
/// parent.
pub(crate) fn by_need(entries: &[&Entry], by_hand: &BTreeSet<String>) -> Figures {
    let mut figures = count(entries.iter().copied(), by_hand);
    let (mut ups, mut downs, mut asked) = (0, 0, 0);
    for entry in entries {
        if let What::Asked(_, replicas) = entry.what {
            ups += replicas.saturating_sub(asked);
            downs += asked.saturating_sub(replicas);
            asked = replicas;
        }
    }
    figures.created_in_surplus = figures.created.saturating_sub(ups + figures.deleted_by_hand);
    figures.deleted_in_surplus = figures.deleted.saturating_sub(downs);
    figures
}

/// Judges the whole life of one parent, up to now, by bounds.
pub(crate) fn by_bounds(entries: &[&Entry], by_hand: &BTreeSet<String>) -> Figures {
    let mut figures = count(entries.iter().copied(), by_hand);
    let mut parent = Parent::default();
    // The specs on which the controller may act, by generation.
    let mut specs = BTreeMap::<i64, u64>::new();
    let mut unheard = 0;
    for Entry { what, .. } in entries {
        parent.apply(what);
        let live = parent.live.len() as u64;
        match what {
            What::Asked(generation, replicas) => {
                specs.insert(*generation, *replicas);
            }
            What::Reported(observed, _) => specs.retain(|generation, _| generation >= observed),
            What::Appeared(_) => {
                let most = specs.values().max().copied().unwrap_or_default();
                figures.created_in_surplus += u64::from(live > most);
            }
            What::Went(child) if by_hand.contains(child) => unheard += 1,
            What::Went(_) => {
                let fewest = specs.values().min().copied().unwrap_or_default();
                figures.deleted_in_surplus += u64::from(live + unheard < fewest);
            }
        }
        if parent.is_converged() && parent.is_reported() {
            unheard = 0;
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `5` asks for five in the next generation, `+a` creates, `-a` deletes, `!a` deletes by hand, `=5` is a status of
    /// five for the present generation.
    fn judged(judge: fn(&[&Entry], &BTreeSet<String>) -> Figures, life: &str) -> (u64, u64) {
        let (mut generation, mut by_hand, mut entries) = (0, BTreeSet::new(), Vec::new());
        for (version, word) in (1..).zip(life.split(' ')) {
            let (sign, rest) = word.split_at(1);
            let what = match sign {
                "+" => What::Appeared(rest.into()),
                "-" => What::Went(rest.into()),
                "!" => {
                    by_hand.insert(rest.to_owned());
                    What::Went(rest.into())
                }
                "=" => What::Reported(generation, rest.parse().unwrap()),
                _ => {
                    generation += 1;
                    What::Asked(generation, word.parse().unwrap())
                }
            };
            entries.push(Entry { version, parent: "p".into(), what });
        }
        let figures = judge(&entries.iter().collect::<Vec<_>>(), &by_hand);
        (figures.created_in_surplus, figures.deleted_in_surplus)
    }

    #[test]
    fn a_needed_creation_or_deletion_is_not_too_much() {
        for judge in [by_need, by_bounds] {
            assert_eq!(judged(judge, "2 +a +b =2 !a +c 3 +d =3 1 -b -c =1"), (0, 0));
        }
    }

    #[test]
    fn a_surplus_write_is_counted_with_its_correction() {
        assert_eq!(judged(by_need, "2 +a +b +c -a"), (1, 1));
        assert_eq!(judged(by_bounds, "2 +a +b +c -a"), (1, 0), "the deletion mends it");
        assert_eq!(judged(by_need, "2 +a +b 1 -a -b +c"), (1, 1));
        assert_eq!(judged(by_bounds, "2 +a +b =2 1 =1 -a -b +c"), (0, 1), "the creation mends it");
    }

    #[test]
    fn judging_by_need_finds_surplus_that_bounds_accept() {
        // Five are created for the old spec: the controller could not know that it was old.
        assert_eq!(judged(by_bounds, "5 +a +b 3 +c +d +e -a -b"), (0, 0));
        assert_eq!(judged(by_need, "2 +a +b 4 +c +d 3 -a 4 +e +f -b"), (1, 1));
    }

    #[test]
    fn a_spec_counts_until_the_status_reports_a_later_one() {
        assert_eq!(judged(by_bounds, "3 +a +b +c =3 2 =2 -a +d"), (1, 0));
        assert_eq!(judged(by_bounds, "3 +a +b +c =3 2 -a +d"), (0, 0));
        assert_eq!(judged(by_bounds, "3 +a +b +c =3 2 -a -b"), (0, 1));
    }

    #[test]
    fn a_foreign_deletion_excuses_one_deletion_until_it_must_be_known() {
        assert_eq!(judged(by_bounds, "3 +a +b +c =3 !a 2 -b =2"), (0, 0));
        assert_eq!(judged(by_bounds, "3 +a +b +c =3 !a +d 2 -b -c"), (0, 1));
    }
}
