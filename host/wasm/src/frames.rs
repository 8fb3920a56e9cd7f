//! Summarises the guest's stack for the message of a trap: the author's own functions first, by their names in the
//! sources. Frames of panics, the language's runtime and the SDK are only counted.

use std::fmt::Write as _;

use wasmtime::WasmBacktrace;

use crate::text::single_line;

/// The maximum number of frames in a message.
const SHOWN_FRAMES_MAX: usize = 6;
/// The maximum length of a function's name, which the guest's author chose.
const SHOWN_NAME_BYTES_MAX: usize = 120;

/// Crates of Rust's standard library, including those of panics.
const RUSTS_CRATES: [&str; 5] = ["std", "core", "alloc", "__rustc", "compiler_builtins"];
/// The SDK and the bindings below it.
const SDKS_CRATES: [&str; 2] = ["windlass_sdk", "wit_bindgen"];
/// Prefixes of functions that have no crate and are not the author's: entry points, the SDK for C, start-up code of
/// languages.
const OTHER_PREFIXES: [&str; 7] =
    ["windlass_", "windlass:", "exports_windlass_", "__", "rust_", "cabi_", "_initialize"];
/// Functions of the C library in which programs trap.
const OTHER_FUNCTIONS: [&str; 5] = ["abort", "exit", "memcpy", "memmove", "memset"];

/// A summary of the frames of `backtrace`, innermost first, to append to a message. Empty if there are no frames.
pub(crate) fn summary(backtrace: &WasmBacktrace) -> String {
    let name = |frame: &wasmtime::FrameInfo| match frame.func_name() {
        Some(name) => single_line(&readable(name), SHOWN_NAME_BYTES_MAX),
        None => format!("function {}", frame.func_index()),
    };
    in_words(&backtrace.frames().iter().map(name).collect::<Vec<_>>())
}

/// A function's name as in its source. Rust's linker leaves mangled names with a hash at the end.
fn readable(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

fn in_words(names: &[String]) -> String {
    // Shows the author's own functions. If they were inlined into their callers, shows the SDK's functions that called
    // them. If there are no such functions either, shows the innermost frames.
    let is_rusts = |name: &String| name.split_once("::").is_some_and(|(first, _)| RUSTS_CRATES.contains(&first));
    let shown = |is_shown: &dyn Fn(&String) -> bool| names.iter().filter(|name| is_shown(name)).collect::<Vec<_>>();
    let choices: [&dyn Fn(&String) -> bool; 3] = [&|name| is_the_authors(name), &|name| !is_rusts(name), &|_| true];
    let shown = choices.into_iter().map(shown).find(|shown| !shown.is_empty()).unwrap_or_default();
    let others = names.len() - shown.len();
    let mut text = String::new();
    for (index, name) in shown.iter().take(SHOWN_FRAMES_MAX).enumerate() {
        text.push_str(if index == 0 { "; in " } else { " ← " });
        text.push_str(name);
    }
    if shown.len() > SHOWN_FRAMES_MAX {
        text.push_str(" ← …");
    }
    if others > 0 {
        // Writing to a String cannot fail.
        let _ = write!(text, " (and {others} of the SDK and the runtime)");
    }
    text
}

fn is_the_authors(name: &str) -> bool {
    // `<shop::Plugin as windlass_sdk::Reconciler>::reconcile` belongs to the plugin, but
    // `<core::option::Option<…>>::unwrap` does not.
    let path = name.trim_start_matches(['<', '&', '*', '(', '[']);
    match path.split_once("::") {
        Some((first, _)) => !RUSTS_CRATES.contains(&first) && !SDKS_CRATES.contains(&first),
        None => !OTHER_PREFIXES.iter().any(|prefix| path.starts_with(prefix)) && !OTHER_FUNCTIONS.contains(&path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary_of(names: &[&str]) -> String {
        in_words(&names.iter().map(|name| readable(name)).collect::<Vec<_>>())
    }

    #[test]
    fn the_authors_functions_come_first_and_panic_frames_are_counted() {
        let names = [
            "__rustc::rust_panic",
            "_ZN4core9panicking9panic_fmt17h0123456789abcdefE",
            "_ZN4core9panicking18panic_bounds_check17h0123456789abcdefE",
            "_ZN4shop5scale17h0123456789abcdefE",
            "_ZN57_$LT$shop..Plugin$u20$as$u20$windlass_sdk..Reconciler$GT$9reconcile17h0123456789abcdefE",
            "windlass_sdk::entry::reconcile",
            "windlass:plugin/reconciler@0.3.0#reconcile",
        ];
        let reads = "; in shop::scale ← <shop::Plugin as windlass_sdk::Reconciler>::reconcile \
                     (and 5 of the SDK and the runtime)";
        assert_eq!(summary_of(&names), reads);
    }

    #[test]
    fn without_names_the_innermost_functions_are_shown() {
        assert_eq!(summary_of(&["function 179", "function 3"]), "; in function 179 ← function 3");
        let inlined =
            ["core::panicking::panic", "windlass_sdk::entry::reconcile", "windlass:plugin/reconciler@0.3.0#reconcile"];
        let reads = "; in windlass_sdk::entry::reconcile ← windlass:plugin/reconciler@0.3.0#reconcile (and 1 of the SDK and the runtime)";
        assert_eq!(summary_of(&inlined), reads);
        assert_eq!(summary_of(&["core::panicking::panic"]), "; in core::panicking::panic");
        assert_eq!(summary_of(&["core::panicking::panic", "abort"]), "; in abort (and 1 of the SDK and the runtime)");
        assert_eq!(summary_of(&[]), "");
    }

    #[test]
    fn a_long_stack_is_cut() {
        assert_eq!(summary_of(&["f"; 9]), "; in f ← f ← f ← f ← f ← f ← …");
    }
}
