//! The place of the script, which `windlass build` fills in.
//!
//! The builder finds the slot by the name under which it is exported, puts the script into pages that it adds to the memory, and
//! writes address and length here: two more data segments, and no other change of the module (`host/componentize/src/script.rs`).

use std::sync::atomic::{AtomicU32, Ordering};

/// Address and length of the script. Zero: none was joined.
// The name is what the builder looks for. Nothing else of that name is linked.
#[allow(unsafe_code)]
#[unsafe(export_name = "windlass_script")]
static SLOT: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];

/// The script that was joined.
pub(crate) fn script() -> Option<&'static str> {
    let [address, length] = [0, 1].map(|place: usize| SLOT[place].load(Ordering::Relaxed) as usize);
    if address == 0 {
        return None;
    }
    // SAFETY: the builder has put `length` bytes of a data segment at `address`. They are behind all that the linker placed, in pages
    // that the memory begins with, so the allocator, which grows the memory, never hands them out; nothing writes them.
    #[allow(unsafe_code)]
    let bytes = unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), length) };
    std::str::from_utf8(bytes).ok()
}
