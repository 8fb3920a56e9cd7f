//! Circles: modules that need each other, directly or through other modules.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Crate, Edge, ModulePath};

/// Two modules may need each other. A larger circle is one module that is split into several files.
const CIRCLE_MODULES_MAX: usize = 2;

/// A folder with fewer modules is easy to understand, so it is not checked.
const SMALL_FOLDER: usize = 6;

/// The circles among the top modules of a crate.
pub(crate) fn among_top_modules(of: &Crate) -> Vec<String> {
    among(of, &[], &of.edges())
}

/// The circles among the modules of each larger folder of a crate.
pub(crate) fn within_folders(of: &Crate) -> Vec<String> {
    let edges = of.edges();
    let folders = of.modules.keys().filter(|path| !path.is_empty());
    let large = folders.filter(|path| children(of, path).len() > SMALL_FOLDER);
    large.flat_map(|path| among(of, path, &edges)).collect()
}

fn children<'a>(of: &'a Crate, folder: &[String]) -> Vec<&'a str> {
    let paths = of.modules.keys();
    paths
        .filter_map(|path| path.strip_prefix(folder)?.first().filter(|_| path.len() == folder.len() + 1))
        .map(String::as_str)
        .collect()
}

fn among(of: &Crate, folder: &[String], edges: &[Edge]) -> Vec<String> {
    let mut graph: BTreeMap<(&str, &str), Vec<&Edge>> = BTreeMap::new();
    let child = |path: &'_ ModulePath| path.strip_prefix(folder)?.first().cloned();
    let names: BTreeSet<&str> = children(of, folder).into_iter().collect();
    for edge in edges {
        let (Some(from), Some(to)) = (child(&edge.from), child(&edge.to)) else { continue };
        if let (Some(from), Some(to)) = (names.get(from.as_str()), names.get(to.as_str()))
            && from != to
        {
            graph.entry((from, to)).or_default().push(edge);
        }
    }
    let arrows: BTreeSet<_> = graph.keys().copied().collect();
    let large = circles(&names, &arrows).into_iter().filter(|it| it.len() > CIRCLE_MODULES_MAX);
    large.map(|circle| description(of, folder, &circle, &graph)).collect()
}

/// The largest sets of names in which every name leads to every other.
fn circles<'a>(names: &BTreeSet<&'a str>, arrows: &BTreeSet<(&'a str, &'a str)>) -> Vec<BTreeSet<&'a str>> {
    let reached = |from: &'a str| {
        let (mut seen, mut waiting) = (BTreeSet::new(), vec![from]);
        while let Some(at) = waiting.pop() {
            let next = arrows.iter().filter(|(from, _)| *from == at).map(|(_, to)| *to);
            waiting.extend(next.filter(|to| seen.insert(*to)));
        }
        seen
    };
    let reached: BTreeMap<_, _> = names.iter().map(|name| (*name, reached(name))).collect();
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for (name, from_it) in &reached {
        if from_it.contains(name) && !found.iter().any(|circle| circle.contains(name)) {
            found.push(from_it.iter().copied().filter(|other| reached[other].contains(name)).collect());
        }
    }
    found
}

fn description(
    of: &Crate,
    folder: &[String],
    circle: &BTreeSet<&str>,
    graph: &BTreeMap<(&str, &str), Vec<&Edge>>,
) -> String {
    let names: Vec<_> = circle.iter().copied().collect();
    let place = [&["src".to_owned()], folder].concat().join("/");
    let head = format!("{}/{place}: {} modules need each other: {}", of.folder, names.len(), names.join(", "));
    let of_it = graph.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    let arrows = of_it.map(|((from, to), edges)| {
        let others = if edges.len() > 1 { format!(" (and {} more)", edges.len() - 1) } else { String::new() };
        format!("    {from} -> {to}: {}{others}", edges[0].example)
    });
    std::iter::once(head).chain(arrows).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_two_is_allowed_and_one_of_three_is_not() {
        let two =
            [("lib.rs", "mod a; mod b; mod c;"), ("a.rs", "use crate::b;"), ("b.rs", "use crate::a; use crate::c;")];
        let two = [&two[..], &[("c.rs", "")]].concat();
        assert_eq!(among_top_modules(&Crate::of(&two)), [""; 0]);
        let three =
            [&two[..3], &[("c.rs", "mod inner; use crate::a;"), ("c/inner.rs", "fn f() { crate::a::g() }")]].concat();
        let expected = "host/made/src: 3 modules need each other: a, b, c\
            \n    a -> b: src/a.rs:1: use crate::b;\
            \n    b -> a: src/b.rs:1: use crate::a; use crate::c;\
            \n    b -> c: src/b.rs:1: use crate::a; use crate::c;\
            \n    c -> a: src/c.rs:1: mod inner; use crate::a; (and 1 more)";
        assert_eq!(among_top_modules(&Crate::of(&three)), [expected]);
    }

    #[test]
    fn a_node_that_leads_to_a_circle_is_not_part_of_it() {
        let arrows = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("e", "f"), ("f", "g"), ("g", "e")];
        let names = "abcdefg".split("").filter(|it| !it.is_empty()).collect();
        let found = circles(&names, &arrows.into_iter().collect());
        assert_eq!(found, [BTreeSet::from(["b", "c"]), BTreeSet::from(["e", "f", "g"])]);
    }

    #[test]
    fn modules_inside_a_large_folder_are_checked() {
        let uses = |it: &str| format!("use super::{it}; use crate::top::z;");
        let (a, b, c) = (uses("b"), uses("c"), uses("a"));
        let few = [
            ("lib.rs", "mod top;"),
            ("top.rs", "mod a; mod b; mod c; mod x; mod y; mod z;"),
            ("top/a.rs", &a),
            ("top/b.rs", &b),
            ("top/c.rs", &c),
            ("top/x.rs", ""),
            ("top/y.rs", ""),
            ("top/z.rs", ""),
        ];
        assert_eq!(within_folders(&Crate::of(&few)), [""; 0]);
        let many =
            [&[("lib.rs", "mod top;"), ("top.rs", "mod a; mod b; mod c; mod w; mod x; mod y; mod z;")], &few[2..]];
        let many = [&many.concat()[..], &[("top/w.rs", "")]].concat();
        let found = within_folders(&Crate::of(&many));
        assert!(found.len() == 1 && found[0].starts_with("host/made/src/top: 3 modules need each other: a, b, c"));
    }
}
