//! Finds what a plugin cannot do, or does differently, in the sources of a project.

use super::scan::{SourceFacts, SourcePlace, Use};
use crate::go::serves_client_go;

/// How much a limitation matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    /// The build fails, or a call fails when it reaches such a place.
    Unserved,
    /// The code works, but not as in a separate process.
    Different,
}

/// A kind of use that matters.
#[derive(Debug)]
pub(super) struct UseRule {
    /// An import path; one that ends with `/` stands for everything below it. Otherwise `manager`, `options`,
    /// `builder`, `go` or `state`.
    import: &'static str,
    /// The names. Empty: all.
    names: &'static [&'static str],
    pub severity: Severity,
    pub what: &'static str,
    /// A way that an author can go instead.
    pub way: &'static str,
}

const FILES: &[&str] = &[
    "Chdir",
    "Chmod",
    "Chown",
    "Create",
    "CreateTemp",
    "DirFS",
    "Lstat",
    "Mkdir",
    "MkdirAll",
    "MkdirTemp",
    "Open",
    "OpenFile",
    "ReadDir",
    "ReadFile",
    "Remove",
    "RemoveAll",
    "Rename",
    "Stat",
    "Symlink",
    "TempDir",
    "WriteFile",
];

/// A database driver and the like opens sockets.
const SOCKETS: &str = "Plugins have no sockets. Speak HTTP with `windlass.dev/sdk/http/client`, for hosts that the \
                       manifest names and the policy grants; leave the rest to a Job or a sidecar that a plugin creates.";
const CONFIGURATION: &str = "Give the value in NAME.config.yaml, and read it with `windlass.dev/sdk/config`. A value of \
                             a Secret can stand there too.";

const ENVIRONMENT: &str = "A plugin has none of its own. main.go sets those of config/manager that have a plain value, \
                           and the field env of NAME.config.yaml sets those that windlass_plugin.go names.";

/// The rules. The first one that fits a use counts.
pub(super) static RULES: &[UseRule] = &[
    unserved(
        "manager",
        &["Add"],
        "mgr.Add starts work beside the controllers",
        "A plugin runs only while it is called. Return `RequeueAfter` for work that comes back, or keep this in a program of its own.",
    ),
    unserved(
        "manager",
        &[
            "GetCache",
            "GetHTTPClient",
            "AddMetricsServerExtraHandler",
            "GetWebhookServer",
            "Elected",
            "GetControllerOptions",
        ],
        "the manager's own servers and caches",
        "The host has them. Read with `mgr.GetClient()`; it reads from the host's cache.",
    ),
    different(
        "manager",
        &["GetConfig"],
        "the manager's REST configuration",
        "It is empty. A client that is made of it cannot connect: use `mgr.GetClient()`.",
    ),
    different("options", &["Cache"], "options of the caches", CACHE_OPTIONS),
    different("sigs.k8s.io/controller-runtime/pkg/cache", &["Options"], "options of the caches", CACHE_OPTIONS),
    different(
        "options",
        &["Client", "NewClient", "Controller"],
        "options of the manager",
        "main.go does not set them. Copy those that the controllers need into its `ctrl.Options`.",
    ),
    different(
        "options",
        &["NewCache", "MapperProvider", "EventBroadcaster"],
        "caches, mappers and recorders of one's own",
        "The host has these. main.go does not set them.",
    ),
    unserved(
        "builder",
        &["WatchesRawSource"],
        "a source that is not a kind (WatchesRawSource)",
        "Watch a kind with `Watches`, or return `RequeueAfter` and look again.",
    ),
    unserved("sigs.k8s.io/controller-runtime", &["NewWebhookManagedBy"], "webhooks", WEBHOOKS),
    unserved("sigs.k8s.io/controller-runtime/pkg/webhook/", &[], "webhooks", WEBHOOKS),
    unserved(
        "sigs.k8s.io/controller-runtime/pkg/source/",
        &["Channel", "Kind", "Informer", "Func", "TypedChannel", "TypedKind"],
        "sources of one's own",
        "Watch a kind with `Watches`, or return `RequeueAfter` and look again.",
    ),
    unserved(
        "sigs.k8s.io/controller-runtime/pkg/cache",
        &["New", "NewInformerPool", "MultiNamespacedCacheBuilder"],
        "a cache of one's own",
        "The host has one cache for all plugins, which `mgr.GetClient()` reads.",
    ),
    unserved(
        "sigs.k8s.io/controller-runtime/pkg/cluster",
        &["New"],
        "a second cluster",
        "A plugin reaches the host's cluster only. Run a host in the other cluster.",
    ),
    unserved(
        "sigs.k8s.io/controller-runtime/pkg/client",
        &["New", "NewWithWatch", "NewDryRunClient"],
        "a client of one's own",
        "Use `mgr.GetClient()`, or `mgr.GetAPIReader()` for reads past the cache.",
    ),
    unserved(
        "sigs.k8s.io/controller-runtime/pkg/controller",
        &["NewUnmanaged", "NewTypedUnmanaged"],
        "controllers that start later",
        "A manifest is fixed when a plugin is loaded. `kindsFrom` takes kinds from the configuration.",
    ),
    unserved(
        "sigs.k8s.io/controller-runtime/pkg/certwatcher/",
        &[],
        "a watcher of certificates",
        "The host has the servers that need certificates.",
    ),
    different("sigs.k8s.io/controller-runtime/pkg/metrics", &[], "Prometheus metrics of one's own", METRICS),
    unserved(
        "sigs.k8s.io/controller-runtime/pkg/metrics/",
        &[],
        "a server for metrics",
        "The host serves the metrics of all plugins.",
    ),
    different("github.com/prometheus/client_golang/", &[], "Prometheus metrics of one's own", METRICS),
    unserved(
        "k8s.io/client-go/",
        &[],
        "packages of client-go beside types",
        "A plugin has no connection of its own to the API server. Use `mgr.GetClient()`, and `client.SubResource` for subresources. Logs of Pods, `exec` and port forwarding are not served.",
    ),
    different("os", &["Getenv", "LookupEnv", "Environ", "ExpandEnv"], "environment variables", ENVIRONMENT),
    unserved(
        "os",
        FILES,
        "files",
        "Plugins have no files. Embed what is fixed with `//go:embed`, and read ConfigMaps and Secrets as objects.",
    ),
    unserved("os/exec", &[], "other programs", "Plugins cannot start processes. Create a Job that does it."),
    unserved("os/signal", &[], "signals", "The host ends calls; a call's context is done then."),
    different("flag", &[], "flags, which have their defaults", CONFIGURATION),
    different("github.com/spf13/", &[], "flags and configuration files", CONFIGURATION),
    unserved(
        "net/http",
        &[
            "Get",
            "Post",
            "Head",
            "PostForm",
            "Client",
            "DefaultClient",
            "DefaultTransport",
            "Transport",
            "NewRequest",
            "NewRequestWithContext",
        ],
        "HTTP requests by net/http",
        "Use `windlass.dev/sdk/http/client`, and name the hosts in the manifest (`HTTP`).",
    ),
    unserved(
        "net/http",
        &["ListenAndServe", "ListenAndServeTLS", "Server", "Serve", "Handle", "HandleFunc"],
        "a server",
        "A plugin cannot listen. Its status, metrics and logs are the host's.",
    ),
    unserved(
        "net",
        &["Dial", "DialTimeout", "Dialer", "Listen", "Listener", "LookupHost", "LookupIP", "LookupSRV", "Resolver"],
        "sockets",
        SOCKETS,
    ),
    unserved("crypto/tls", &["Dial", "Client", "Server", "Listen", "DialWithDialer"], "sockets", SOCKETS),
    unserved("database/sql/", &[], "a database connection", SOCKETS),
    unserved("google.golang.org/grpc/", &[], "gRPC", SOCKETS),
    unserved("C", &[], "C code", "Plugins are built without cgo."),
    unserved("syscall", &[], "system calls", "Plugins run in a sandbox without an operating system."),
    unserved("golang.org/x/sys/", &[], "system calls", "Plugins run in a sandbox without an operating system."),
    different(
        "time",
        &["Sleep", "After", "Tick", "NewTicker", "NewTimer", "AfterFunc"],
        "waiting inside a call",
        WAITING,
    ),
    different(
        "k8s.io/apimachinery/pkg/util/wait",
        &[
            "PollUntilContextTimeout",
            "PollUntilContextCancel",
            "Poll",
            "PollImmediate",
            "PollWithContext",
            "PollImmediateWithContext",
            "PollUntil",
            "PollImmediateUntil",
            "PollInfinite",
            "PollImmediateInfinite",
            "ExponentialBackoff",
            "ExponentialBackoffWithContext",
            "Until",
            "UntilWithContext",
            "JitterUntil",
            "JitterUntilWithContext",
            "Forever",
        ],
        "waiting inside a call",
        WAITING,
    ),
    different("go", &[], "goroutines", "They run only until the call returns. Wait for them before you return."),
    different(
        "state",
        &[],
        "state that stays between calls",
        "Instances are reused, but the host may drop one at any time, and each instance has its own. Keep only what can be computed again.",
    ),
];

const WAITING: &str = "It takes no time: the clock of the call jumps to the end of the wait, so a poll times out at \
                       once, before anything has changed. Return `ctrl.Result{RequeueAfter: …}`.";
const CACHE_OPTIONS: &str = "main.go does not set them, so the plugin sees the objects of all namespaces. Copy them \
                             into `Cache` of its `ctrl.Options`, which the host obeys: `DefaultNamespaces`, `ByObject` and \
                             selectors.";
const WEBHOOKS: &str = "Windlass serves no webhooks. Put defaults and rules (`x-kubernetes-validations`) into the \
                        definition, use a ValidatingAdmissionPolicy, or keep the old program for its webhooks alone. \
                        Move their code out of packages that the reconcilers import.";
const METRICS: &str = "Registered collectors are not exported. Declare metrics in the manifest and set them with \
                       `windlass.dev/sdk/metrics`.";

const fn unserved(
    import: &'static str,
    names: &'static [&'static str],
    what: &'static str,
    way: &'static str,
) -> UseRule {
    UseRule { import, names, severity: Severity::Unserved, what, way }
}

const fn different(
    import: &'static str,
    names: &'static [&'static str],
    what: &'static str,
    way: &'static str,
) -> UseRule {
    UseRule { import, names, severity: Severity::Different, what, way }
}

/// The import paths of which the scanner reports uses.
pub(super) fn reported_imports() -> Vec<&'static str> {
    let is_path = |import: &&str| !matches!(*import, "manager" | "options" | "builder" | "go" | "state");
    let mut imports: Vec<_> = RULES.iter().map(|rule| rule.import).filter(is_path).collect();
    imports.sort_unstable();
    imports.dedup();
    imports
}

impl UseRule {
    fn fits(&self, found: &Use) -> bool {
        let is_import = match self.import.strip_suffix('/') {
            Some(parent) => found.import == parent || found.import.starts_with(self.import),
            None => found.import == self.import,
        };
        is_import && (self.names.is_empty() || self.names.contains(&&*found.name))
    }
}

/// Something that the plugin cannot do, or does differently, and where.
#[derive(Clone, Debug)]
pub(super) struct Limitation {
    pub severity: Severity,
    pub what: &'static str,
    pub way: &'static str,
    /// Each place, with what is used there.
    pub places: Vec<(SourcePlace, String)>,
}

/// The limitations among the uses in `folders`, the worst first.
pub(super) fn limitations(facts: &SourceFacts, in_folder: &dyn Fn(&str) -> bool) -> Vec<Limitation> {
    let mut found: Vec<Limitation> = Vec::new();
    for it in facts.uses.iter().filter(|it| in_folder(&it.folder) && !is_served(it)) {
        let Some(rule) = RULES.iter().find(|rule| rule.fits(it)) else { continue };
        let place = (it.place.clone(), used(it));
        match found.iter_mut().find(|limitation| limitation.what == rule.what && limitation.way == rule.way) {
            Some(limitation) => limitation.places.push(place),
            None => {
                found.push(Limitation { severity: rule.severity, what: rule.what, way: rule.way, places: vec![place] });
            }
        }
    }
    for limitation in &mut found {
        limitation.places.sort();
        limitation.places.dedup();
    }
    found.sort_by_key(|limitation| limitation.severity);
    found
}

/// The limitation about webhooks that markers declare, wherever they are.
pub(super) fn webhooks(facts: &SourceFacts) -> Option<Limitation> {
    let markers = facts.markers.iter().filter(|marker| marker.text.starts_with("+kubebuilder:webhook:"));
    let places: Vec<_> = markers.map(|marker| (marker.place.clone(), webhook_name(&marker.text))).collect();
    let is_some = !places.is_empty();
    is_some.then_some(Limitation { severity: Severity::Unserved, what: "webhooks", way: WEBHOOKS, places })
}

fn webhook_name(marker: &str) -> String {
    let kind = if marker.contains("mutating=true") { "mutating" } else { "validating" };
    let resource = marker.split(',').find_map(|field| field.strip_prefix("resources=")).unwrap_or_default();
    format!("{kind} {resource}")
}

fn is_served(it: &Use) -> bool {
    it.import.strip_prefix("k8s.io/client-go/").is_some_and(serves_client_go)
}

/// A use as an author reads it.
fn used(it: &Use) -> String {
    let name = match &*it.import {
        "go" => return "go".to_owned(),
        "state" => return it.name.clone(),
        "manager" => format!("mgr.{}", it.name),
        "options" => return format!("{}: {}", it.name, it.text),
        "builder" => it.name.clone(),
        import if it.name == "_" => format!("import {import}"),
        import => format!("{}.{}", import.rsplit('/').next().unwrap_or(import), it.name),
    };
    if it.text.is_empty() { name } else { format!("{name} {}", it.text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_use(folder: &str, import: &str, name: &str, text: &str) -> Use {
        let place = SourcePlace { file: format!("{folder}/a.go"), line: 7 };
        Use { place, folder: folder.into(), import: import.into(), name: name.into(), text: text.into() }
    }

    #[test]
    fn limitations_name_the_place_and_a_way() {
        let uses = vec![
            a_use("ctl", "os", "Getenv", "IMAGE"),
            a_use("ctl", "manager", "Add", ""),
            a_use("ctl", "k8s.io/client-go/kubernetes", "NewForConfig", ""),
            a_use("ctl", "k8s.io/client-go/kubernetes/scheme", "AddToScheme", ""),
            a_use("ctl", "k8s.io/client-go/util/retry", "RetryOnConflict", ""),
            a_use("ctl", "k8s.io/client-go/tools/reference", "GetReference", ""),
            a_use("ctl", "net/http", "StatusOK", ""),
            a_use("ctl", "time", "Second", ""),
            a_use("ctl", "k8s.io/apimachinery/pkg/util/wait", "Jitter", ""),
            a_use("ctl", "k8s.io/apimachinery/pkg/util/wait", "PollUntilContextTimeout", ""),
            a_use("ctl", "options", "Scheme", "scheme"),
            a_use("ctl", "options", "Cache", "cache.Options{DefaultNamespaces: all}"),
            a_use("test", "os/exec", "Command", "kubectl"),
        ];
        let facts = SourceFacts { uses, ..SourceFacts::default() };
        let found = limitations(&facts, &|folder| folder == "ctl");
        let short: Vec<_> = found.iter().map(|it| (it.severity, it.places[0].1.as_str())).collect();
        let expected = [
            (Severity::Unserved, "mgr.Add"),
            (Severity::Unserved, "kubernetes.NewForConfig"),
            (Severity::Different, "os.Getenv IMAGE"),
            (Severity::Different, "wait.PollUntilContextTimeout"),
            (Severity::Different, "Cache: cache.Options{DefaultNamespaces: all}"),
        ];
        assert_eq!(short, expected);
        assert!(found.iter().all(|it| it.places[0].0.to_string() == "ctl/a.go:7" && it.way.ends_with('.')));
    }

    #[test]
    fn each_rule_can_be_found() {
        for rule in RULES {
            // Another rule may have the parent of a prefix.
            let import = rule.import.strip_suffix('/').map_or(rule.import.to_owned(), |parent| format!("{parent}/x"));
            let it = a_use("a", &import, rule.names.first().unwrap_or(&"Name"), "");
            let facts = SourceFacts { uses: vec![it], ..SourceFacts::default() };
            let found = limitations(&facts, &|_| true);
            assert_eq!(found.iter().map(|it| it.what).collect::<Vec<_>>(), [rule.what], "{}", rule.import);
        }
        assert!(reported_imports().contains(&"k8s.io/client-go/") && !reported_imports().contains(&"manager"));
    }
}
