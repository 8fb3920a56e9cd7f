//! The place of an error in a script, in the form that `windlass dev` reads.

use std::fmt;

use starlark::codemap::FileSpan;

/// A place, and the function that contains it. The function is `None` at the top level of the script.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StackFrame {
    function: Option<String>,
    place: String,
}

impl StackFrame {
    fn new(function: Option<&str>, span: &FileSpan) -> Self {
        let begin = span.resolve_span().begin;
        let place = format!("{}:{}:{}", span.filename(), begin.line + 1, begin.column + 1);
        Self { function: function.map(str::to_owned), place }
    }

    /// The frame in the form of compilers: `plugin.star:12:5 in scale`.
    pub(crate) fn text(&self) -> String {
        let within = self.function.as_ref().map(|function| format!(" in {function}"));
        format!("{}{}", self.place, within.unwrap_or_default())
    }
}

/// The frame in the form of a JavaScript stack: `at scale (plugin.star:12:5)`.
impl fmt::Display for StackFrame {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => write!(out, "at {function} ({})", self.place),
            None => write!(out, "at {}", self.place),
        }
    }
}

/// The call stack of an error, innermost frame first.
pub(crate) fn frames(error: &starlark::Error) -> Vec<StackFrame> {
    let calls = &error.call_stack().frames;
    // A frame has the place of the call. The function that contains this place is in the previous frame.
    let function = |place: Option<usize>| place.map(|place| calls[place].name.as_str());
    let last = calls.len().checked_sub(1);
    // A host function has no lines, so the error is reported at the place of its call.
    let is_called_there = |span: &&FileSpan| last.and_then(|last| calls[last].location.as_ref()) == Some(span);
    let own = error.span().filter(|span| !is_called_there(span)).map(|span| (function(last), span));
    let made = (0..calls.len()).rev();
    let made = made.filter_map(|place| Some((function(place.checked_sub(1)), calls[place].location.as_ref()?)));
    own.into_iter().chain(made).map(|(function, span)| StackFrame::new(function, span)).collect()
}
