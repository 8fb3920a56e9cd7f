//! Where in a script something went wrong, in the form that `windlass dev` reads.

use starlark::codemap::FileSpan;

/// `plugin.star:12:5`
pub(crate) fn place(span: &FileSpan) -> String {
    let begin = span.resolve_span().begin;
    format!("{}:{}:{}", span.filename(), begin.line + 1, begin.column + 1)
}

/// Where an error came from, the innermost frame first: `at scale (plugin.star:12:5)`, one a line.
pub(crate) fn lines(error: &starlark::Error) -> Vec<String> {
    let frames = &error.call_stack().frames;
    // Each frame says where it was called from; the one before it says in which function that is.
    let function = |place: Option<usize>| place.map_or("the top of the script", |place| &frames[place].name);
    let last = frames.len().checked_sub(1);
    // A function of the host's has no lines: the error is where it was called.
    let is_called_there = |span: &&FileSpan| last.and_then(|last| frames[last].location.as_ref()) == Some(span);
    let own = error.span().filter(|span| !is_called_there(span)).map(|span| (function(last), span));
    let calls = (0..frames.len()).rev();
    let calls = calls.filter_map(|place| Some((function(place.checked_sub(1)), frames[place].location.as_ref()?)));
    own.into_iter().chain(calls).map(|(function, span)| format!("at {function} ({})", place(span))).collect()
}
