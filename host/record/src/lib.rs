//! Recordings of calls of `reconcile` and `compose`: each call's request, its imports with their answers, and its
//! result. Calls of `map`, `matches` (predicates by code) and `customize` are not recorded. They decide which calls are
//! made, and a replay makes the recorded calls.
//!
//! To record, [`Recordings`] decides which calls are sampled, `capture` listens to a call's ports, and one thread
//! (`writing`) redacts the data and writes it to files of bounded size (`segments`). To replay, [`read()`] parses the
//! files, [`replay()`] makes a call again with ports that answer from the recording, and [`compare()`] finds the
//! differences. Recorded and replayed calls have the same form, [`RecordedCall`], and pass through the same
//! [`Redactor`], so that they can be compared.

mod capture;
mod compare;
mod counts;
mod decode;
mod document;
mod encode;
mod intent;
mod json;
mod options;
mod read;
mod recorder;
mod redact;
mod replay;
mod segments;
pub mod story;
mod writing;

pub use compare::{CallVerdict, Comparison, WriteChange, WriteDifference, compare};
pub use counts::RecordingCounts;
pub use document::{
    FORMAT, RecordedCall, RecordedComponent, RecordedImport, RecordedRequest, RecordedSurroundings, RecordedTrigger,
    RecordedUse, RecordingHeader,
};
pub use options::RecordOptions;
pub use read::{ReadError, Recording, RecordingReader, TornRecording, files, read, visit};
pub use recorder::{CallRecording, PluginRecorder, Recordings};
pub use redact::{Redactor, is_redacted};
pub use replay::{CannotReplay, ReplayedCall, Stuck, replay};
