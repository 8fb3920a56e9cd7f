//! Chooses the calls that the new main.go makes: the calls of the old main.go, or calls that the controllers suggest.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::controllers::ImportedController;
use super::scan::{GoStruct, Import, Setup, SourceFacts, SourcePackage, SourcePlace};

/// The fields of a reconciler that a manager can fill, with Go's expressions.
const KNOWN_FIELDS: [(&str, &str); 4] = [
    ("Client", "mgr.GetClient()"),
    ("Scheme", "mgr.GetScheme()"),
    ("APIReader", "mgr.GetAPIReader()"),
    ("Recorder", "mgr.GetEventRecorderFor(\"{name}\")"),
];

/// A call in the new main.go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MainCall {
    pub place: SourcePlace,
    /// Go source. If `open` is not empty, it is only a comment.
    pub source: String,
    /// The things that main.go lacks for this call. Empty if the call is complete.
    pub open: String,
    /// Fields of the old main.go that are not set: the field, its value, and the place.
    pub dropped: Vec<(String, String, SourcePlace)>,
    pub returns_error: bool,
}

/// The contents of the new main.go.
#[derive(Debug, Default)]
pub(super) struct MainCalls {
    pub imports: BTreeSet<Import>,
    /// Calls that fill the scheme, without the argument.
    pub schemes: Vec<String>,
    pub calls: Vec<MainCall>,
    /// The folders of the old main packages, which are not part of the plugin.
    pub old: Vec<String>,
    /// Controllers that no main package sets up.
    pub unused: Vec<String>,
}

/// Chooses the calls.
pub(super) fn main_calls(facts: &SourceFacts, controllers: &[ImportedController], module: &str) -> MainCalls {
    let mut main = MainCalls::default();
    let mains: Vec<&SourcePackage> = facts.packages.iter().filter(|package| package.name == "main").collect();
    let in_main = |folder: &str| mains.iter().any(|package| package.folder == folder);
    let mut setups: Vec<&Setup> = facts.setups.iter().filter(|setup| in_main(&setup.folder)).collect();
    if setups.is_empty() {
        // Some projects set up their controllers in a package that main calls.
        let is_method_of_controller = |setup: &&Setup| {
            controllers.iter().any(|it| it.folder == setup.folder && setup.place.file == it.place.file)
        };
        setups = facts.setups.iter().filter(|setup| !is_method_of_controller(setup)).collect();
    }
    let mut folders: Vec<&str> = setups.iter().map(|setup| &*setup.folder).collect();
    folders.dedup();
    for setup in &setups {
        let is_again = main.calls.iter().any(|call| call.source == setup.source && !setup.source.is_empty());
        if !is_again {
            main.take(setup);
        }
    }
    // Other main packages are tools.
    let has_manager = |folder: &str| {
        folders.contains(&folder) || facts.uses.iter().any(|it| it.import == "manager" && it.folder == folder)
    };
    main.old = mains.iter().map(|it| it.folder.clone()).filter(|folder| has_manager(folder)).collect();
    main.old.extend(folders.iter().filter(|folder| !in_main(folder)).map(|folder| (*folder).to_owned()));
    for scheme in facts.schemes.iter().filter(|scheme| main.old.contains(&scheme.folder)) {
        let call = format!("{}.{}", scheme.import.name, scheme.call);
        if !main.schemes.contains(&call) {
            main.schemes.push(call);
            main.imports.insert(scheme.import.clone());
        }
    }
    main.suggest(facts, controllers, module, &setups);
    main
}

impl MainCalls {
    fn take(&mut self, setup: &Setup) {
        let is_open = setup.source.is_empty() || setup.returns == "other";
        let dropped = setup.dropped.iter().map(|it| (it.field.clone(), it.text.clone(), it.place.clone()));
        let open = match (&*setup.reason, is_open) {
            (_, false) => String::new(),
            ("", true) => "it returns more than an error".to_owned(),
            (names, true) => format!("it needs {names}"),
        };
        if open.is_empty() {
            self.imports.extend(setup.imports.iter().cloned());
        }
        self.calls.push(MainCall {
            place: setup.place.clone(),
            source: if open.is_empty() { setup.source.clone() } else { setup.original.clone() },
            open,
            dropped: dropped.collect(),
            returns_error: setup.returns != "none",
        });
    }

    /// Adds calls for the controllers that no call sets up, if there is no call at all. Otherwise, main leaves them out
    /// on purpose.
    fn suggest(&mut self, facts: &SourceFacts, controllers: &[ImportedController], module: &str, setups: &[&Setup]) {
        let import_of = |folder: &str| if folder == "." { module.to_owned() } else { format!("{module}/{folder}") };
        let is_set_up = |it: &ImportedController| {
            let import = import_of(&it.folder);
            // A function of a package may set up all of its controllers.
            setups
                .iter()
                .any(|setup| setup.import == import && (setup.go_type == it.receiver || setup.go_type.is_empty()))
                || setups.iter().any(|setup| setup.import.is_empty())
        };
        for (index, controller) in controllers.iter().filter(|it| !is_set_up(it)).enumerate() {
            if !setups.is_empty() {
                self.unused.push(controller.name.clone());
                continue;
            }
            let name = format!("controller{}", index + 1);
            let structure =
                facts.structs.iter().find(|it| it.folder == controller.folder && it.name == controller.receiver);
            let (source, open) = suggested(controller, structure, &name);
            if open.is_empty() {
                self.imports.insert(Import { name, path: import_of(&controller.folder) });
            }
            let place = controller.place.clone();
            self.calls.push(MainCall { place, source, open, dropped: vec![], returns_error: true });
        }
    }
}

/// A call that sets up a controller by the fields of its reconciler, and what it lacks.
fn suggested(controller: &ImportedController, structure: Option<&GoStruct>, import: &str) -> (String, String) {
    let ImportedController { receiver, function, .. } = controller;
    let fields = structure.map(|it| it.fields.as_slice()).unwrap_or_default();
    let (mut known, mut unknown) = (String::new(), Vec::new());
    let is_known = |field: &&String| KNOWN_FIELDS.iter().any(|(name, _)| name == field);
    let width = fields.iter().filter(is_known).map(String::len).max().unwrap_or_default() + 1;
    for field in fields {
        match KNOWN_FIELDS.iter().find(|(name, _)| name == field) {
            Some((_, value)) => {
                let (key, value) = (format!("{field}:"), value.replace("{name}", &controller.name));
                // Writing to a `String` cannot fail.
                let _ = writeln!(known, "\t{key:width$} {value},");
            }
            None => unknown.push(field.as_str()),
        }
    }
    let known = if known.is_empty() { known } else { format!("\n{known}") };
    let source = format!("(&{import}.{receiver}{{{known}}}).{function}(mgr)");
    let open = match (structure, receiver.is_empty()) {
        (_, true) | (None, _) => format!("{function} is no method of a struct"),
        (Some(_), false) if unknown.is_empty() => String::new(),
        (Some(_), false) => format!("it needs values for {}", unknown.join(", ")),
    };
    (source, open)
}
