//! Listens to a call that is recorded, and keeps its imports and their answers in the form of a recording.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;
use windlass_core::call::ports::{Answered, Asked, CallContext, Listener, Ports, Surroundings, listened};

use crate::document::{RecordedImport, RecordedSurroundings};
use crate::encode;

/// The maximum number of imports that are captured. A call with more is not recorded, because its replay would take too
/// long.
const RECORDED_IMPORTS_MAX: usize = 20_000;
/// The maximum number of clock readings, and of polls for answers, that are captured.
const RECORDED_CLOCK_READINGS_MAX: usize = 20_000;
/// The maximum size of a captured call, in bytes.
const CALL_BYTES_MAX: usize = 32 << 20;

/// The imports and answers of a call, while it runs.
pub(crate) struct Capture {
    seed: [u8; 32],
    noted: Mutex<CapturedCall>,
}

/// The captured data of a call.
pub(crate) struct CapturedCall {
    pub(crate) imports: Vec<RecordedImport>,
    pub(crate) surroundings: RecordedSurroundings,
    /// The approximate size.
    pub(crate) bytes: usize,
    /// Whether the call exceeds the limits of a recording.
    pub(crate) is_too_large: bool,
    random: StdRng,
    cpu: Duration,
}

impl Capture {
    /// An empty capture.
    pub(crate) fn new() -> Arc<Self> {
        let mut seed = [0; 32];
        windlass_world::fill(&mut seed);
        let noted = CapturedCall {
            imports: Vec::new(),
            surroundings: RecordedSurroundings::default(),
            bytes: 0,
            is_too_large: false,
            random: StdRng::from_seed(seed),
            cpu: Duration::ZERO,
        };
        Arc::new(Self { seed, noted: Mutex::new(noted) })
    }

    /// Wraps `ports` so that the capture receives each import and its answer.
    pub(crate) fn ports(self: &Arc<Self>, ports: &Ports) -> Ports {
        Ports { surroundings: Some(self.clone()), ..listened(ports, self.clone()) }
    }

    /// Takes the captured data, with the seed, after the call has ended.
    pub(crate) fn take(&self) -> CapturedCall {
        let mut noted = self.noted();
        let seed = self.seed.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        let surroundings = RecordedSurroundings { seed: Some(seed), ..std::mem::take(&mut noted.surroundings) };
        let random = StdRng::from_seed(self.seed);
        let CapturedCall { bytes, is_too_large, cpu, .. } = *noted;
        CapturedCall { imports: std::mem::take(&mut noted.imports), surroundings, bytes, is_too_large, random, cpu }
    }

    fn noted(&self) -> MutexGuard<'_, CapturedCall> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for Capture {
    fn asked(&self, _: &CallContext, asked: Asked<'_>) -> Option<usize> {
        let mut noted = self.noted();
        noted.is_too_large |= noted.imports.len() >= RECORDED_IMPORTS_MAX || noted.bytes > CALL_BYTES_MAX;
        if noted.is_too_large {
            return None;
        }
        let (import, args) = encode::asked(asked);
        noted.bytes += size(&args) + import.len();
        let cpu_us = microseconds(noted.cpu);
        noted.imports.push(RecordedImport { import: import.to_owned(), args, answer: None, cpu_us });
        Some(noted.imports.len() - 1)
    }

    fn answered(&self, place: usize, answered: Answered<'_>) {
        let answer = encode::answered(answered);
        let mut noted = self.noted();
        noted.bytes += size(&answer);
        // If the call ended before the answer, the data has been taken already.
        if let Some(import) = noted.imports.get_mut(place) {
            import.answer = Some(answer);
        }
    }
}

/// The approximate length of the value's texts, in bytes.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + 4 + size(value)).sum(),
        _ => 8,
    }
}

/// In whole microseconds.
pub(crate) fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Surroundings for Capture {
    fn now(&self, really: Duration) -> Duration {
        let mut noted = self.noted();
        noted.is_too_large |= noted.surroundings.now.len() >= RECORDED_CLOCK_READINGS_MAX;
        if !noted.is_too_large {
            noted.surroundings.now.push(nanoseconds(really));
        }
        really
    }

    fn monotonic(&self, really: Duration) -> Duration {
        let mut noted = self.noted();
        noted.is_too_large |= noted.surroundings.monotonic.len() >= RECORDED_CLOCK_READINGS_MAX;
        if !noted.is_too_large {
            noted.surroundings.monotonic.push(nanoseconds(really));
        }
        really
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.noted().random.fill_bytes(bytes);
    }

    fn is_simulated(&self) -> bool {
        false
    }

    fn recorded_answers(&self) -> Option<Vec<u32>> {
        None
    }

    fn answered(&self, requests: &[u32]) {
        let mut noted = self.noted();
        noted.is_too_large |= noted.surroundings.answered.len() >= RECORDED_CLOCK_READINGS_MAX;
        if !noted.is_too_large {
            noted.surroundings.answered.push(requests.to_vec());
        }
    }

    fn enters(&self, cpu: Duration) {
        self.noted().cpu = cpu;
    }
}
