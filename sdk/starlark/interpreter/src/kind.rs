//! The kind of a script, reconciler or composer, and the kind that windlass.yaml names.

use crate::script::FILE;

/// The function that the host calls, and the name of its kind; then the same for the other kind.
#[cfg(feature = "reconciler")]
pub(crate) const KINDS: [(&str, &str); 2] = [("reconcile", "reconciler"), ("compose", "composer")];
#[cfg(feature = "composer")]
pub(crate) const KINDS: [(&str, &str); 2] = [("compose", "composer"), ("reconcile", "reconciler")];

/// The optional function of this kind, its arguments, and the manifest's mapping that uses it.
#[cfg(feature = "reconciler")]
pub(crate) const RELATION: (&str, &str, &str) = ("map", "watch, change", "mapper");
#[cfg(feature = "composer")]
pub(crate) const RELATION: (&str, &str, &str) = ("customize", "request", "customize");

/// The optional function of a reconciler that decides which changes count, its arguments, and the field of a watch in
/// the manifest that uses it.
#[cfg(feature = "reconciler")]
pub(crate) const PREDICATE: (&str, &str, &str) = ("matches", "watch, change", "codePredicate");

/// Refuses a script of the other kind before it is read: it may call functions that this kind does not have, and then
/// that error would be reported instead.
pub(crate) fn check(script: &str) -> Result<(), String> {
    let [(name, kind), (other, other_kind)] = KINDS;
    let defines = |name: &str| {
        let is_definition = |line: &str| {
            let rest = line.strip_prefix("def ").and_then(|rest| rest.trim_start().strip_prefix(name));
            rest.is_some_and(|rest| rest.trim_start().starts_with('('))
        };
        script.lines().position(is_definition)
    };
    match (defines(name), defines(other)) {
        (None, Some(line)) => Err(format!(
            "{FILE}:{}:1: it defines `{other}`, so it is a {other_kind}, and windlass.yaml says `plugin: {kind}`: say `plugin: {other_kind}` \
             there, or define `{name}`",
            line + 1
        )),
        _ => Ok(()),
    }
}

#[cfg(all(test, feature = "reconciler"))]
mod tests {
    use super::*;

    #[test]
    fn a_script_of_the_other_kind_is_reported_with_its_line_and_both_remedies() {
        let said = check("x = 1\n\ndef  compose (request):\n    pass\n").expect_err("a composer");
        assert!(said.starts_with("plugin.star:3:1: it defines `compose`"), "{said}");
        assert!(said.contains("`plugin: composer`") && said.contains("define `reconcile`"), "{said}");
        for fine in ["", "def reconcile(r):\n  pass\ndef compose(r):\n  pass\n", "def composed(r):\n  pass\n"] {
            assert_eq!(check(fine), Ok(()));
        }
    }
}
