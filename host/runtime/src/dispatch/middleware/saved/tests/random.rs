//! Random plugins in random histories.

use std::time::Duration;

use tokio::runtime::Builder;

use super::world::{Op, Plugin, World};

/// The number of steps of a history.
const STEPS: usize = 40;
/// The number of children that a plugin may read and write.
const CHILDREN_OF_RANDOM_PLUGINS: u64 = 3;

/// A generator of random numbers (xorshift). What it gives depends only on its seed.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..4 {
            random.below(2);
        }
        random
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn child(&mut self) -> usize {
        usize::try_from(self.below(CHILDREN_OF_RANDOM_PLUGINS)).expect("it is small")
    }

    fn op(&mut self, depth: u64) -> Op {
        match self.below(20) {
            0..3 => Op::Primary,
            3..8 => Op::Get { child: self.child(), part: self.below(2) == 0 },
            8..10 => Op::List,
            10..13 => Op::Apply { child: self.child(), values: 1 + self.below(3), part: self.below(2) == 0 },
            13 => Op::Config,
            14 if self.below(3) == 0 => Op::Clock,
            14 | 17 => Op::Gauge,
            15 if self.below(3) == 0 => Op::Live,
            16 if self.below(3) == 0 => Op::Event,
            _ if depth < 2 => {
                let modulus = 2 + self.below(2);
                Op::If { modulus, then: self.ops(depth + 1), otherwise: self.ops(depth + 1) }
            }
            _ => Op::Primary,
        }
    }

    fn ops(&mut self, depth: u64) -> Vec<Op> {
        (0..self.below(4)).map(|_| self.op(depth)).collect()
    }

    fn plugin(&mut self) -> Plugin {
        let mut ops = self.ops(0);
        ops.extend([self.op(0), self.op(0)]);
        let again = (self.below(4) == 0).then(|| Duration::from_secs(20 + self.below(30)));
        Plugin { again, ..Plugin::new(ops) }
    }
}

/// A history as users see it after each step, and the number of calls that were saved and mispredicted.
struct Outcome {
    seen: Vec<String>,
    saved: u64,
    mispredicted: u64,
}

/// Changes the world at random. Returns whether the key is queued for it.
async fn step(world: &mut World, random: &mut Random) {
    let (child, value, is_mapped) = (random.child(), random.below(3), random.below(5) > 0);
    match random.below(16) {
        0..4 => world.change_child(child, Some(value)),
        4..6 => world.change_child(child, None),
        6..8 => world.touch_child(child),
        8 => world.change_primary(value),
        9 => world.touch_primary(),
        // The run for the new configuration comes later than the next change.
        10 => return world.configure(value),
        11 => return world.tick(),
        12 => return world.run(true),
        14 => return world.measure_for_another(u8::try_from(value).expect("it is small")),
        13 => {
            tokio::time::advance(Duration::from_secs(7 * value)).await;
            return world.run_due();
        }
        _ => {}
    }
    // Some changes are not mapped to the key.
    if is_mapped {
        world.run(false);
    }
}

fn outcome(seed: u64, audits: Option<fn() -> bool>) -> Outcome {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let mut random = Random::new(seed);
        let mut world = World::new(random.plugin(), audits);
        world.follows_writes = true;
        world.change_primary(0);
        world.run(true);
        let mut shown = vec![world.seen()];
        for _ in 0..STEPS {
            step(&mut world, &mut random).await;
            shown.push(world.seen());
        }
        Outcome { seen: shown, saved: world.saved(), mispredicted: world.mispredicted() }
    })
}

/// Compares the histories of a random plugin with all calls, with saved calls, and with all saved calls audited.
/// Returns the number of saved calls.
pub(super) fn compare(seed: u64) -> Result<u64, String> {
    let all = outcome(seed, None);
    let saved = outcome(seed, Some(|| false));
    let audited = outcome(seed, Some(|| true));
    for (name, other) in [("saved", &saved), ("audited", &audited)] {
        if let Some(at) = (0..all.seen.len()).find(|at| all.seen[*at] != other.seen[*at]) {
            let (made, other) = (&all.seen[at], &other.seen[at]);
            return Err(format!("seed {seed}, step {at}: all calls: {made}; {name}: {other}"));
        }
    }
    if audited.mispredicted > 0 {
        return Err(format!("seed {seed}: {} calls were mispredicted", audited.mispredicted));
    }
    Ok(saved.saved)
}
