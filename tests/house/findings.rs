//! Findings, and the exceptions from a rule.

/// A breach of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The name in the list of exceptions.
    pub(crate) of: String,
    /// The text for the reader.
    pub(crate) text: String,
}

/// A name that may break a rule, and the reason.
pub(crate) struct Exception {
    pub(crate) of: &'static str,
    pub(crate) reason: &'static str,
}

/// The findings that have no exception, and the exceptions that are no longer needed. So the list of exceptions can
/// only get shorter.
pub(crate) fn without_exceptions(findings: Vec<Finding>, exceptions: &[Exception]) -> Vec<String> {
    let is_needed = |it: &&Exception| findings.iter().any(|finding| finding.of == it.of);
    let idle = exceptions.iter().filter(|it| !is_needed(it));
    let idle: Vec<_> = idle.map(|it| format!("{}: no exception is needed any more ({})", it.of, it.reason)).collect();
    let excepted = |finding: &Finding| exceptions.iter().any(|it| it.of == finding.of);
    findings.into_iter().filter(|it| !excepted(it)).map(|it| it.text).chain(idle).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_hide_their_findings_and_nothing_else() {
        let finding = |of: &str| Finding { of: of.to_owned(), text: format!("{of} is bad") };
        let exception = |of| Exception { of, reason: "so be it" };
        let exceptions = [exception("a"), exception("b")];
        let found = without_exceptions(vec![finding("a"), finding("c")], &exceptions);
        assert_eq!(found, ["c is bad", "b: no exception is needed any more (so be it)"]);
    }
}
