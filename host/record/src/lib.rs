//! Recordings of calls: what a plugin was asked, what it asked, what it was told, and how it ended.
//!
//! Recording: [`Recordings`] decides which calls are sampled, `capture` notes what goes through a call's ports, and one thread
//! (`writing`) redacts it and writes it to files of bounded size (`segments`). Replay: [`read()`] reads them, [`replay()`] makes a
//! call again with ports that answer from the recording, and [`compare()`] says what became of it. What is recorded and what a
//! replay leaves have one form, [`RecordedCall`], and go through one [`Redactor`], so that they can be compared.

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
