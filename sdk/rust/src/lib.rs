//! The Rust SDK for Windlass plugins.
//!
//! A plugin is a type that implements [`Reconciler`], named in [`plugin!`], in a crate of type `cdylib` that is built
//! for `wasm32-unknown-unknown`:
//!
//! ```
//! use windlass_sdk::manifest::{Controller, Manifest, Watch};
//! use windlass_sdk::{Failures, Outcome, Reconciler, Request, info};
//!
//! struct Greeter;
//!
//! impl Reconciler for Greeter {
//!     fn manifest() -> Manifest {
//!         let watch = Watch::of("v1", "ConfigMap").labels("greet=yes");
//!         Manifest::new("greeter", "0.1.0").controller(Controller::new("greeter", watch))
//!     }
//!
//!     fn reconcile(request: Request) -> Result<Outcome, Failures> {
//!         let Some(object) = request.object::<serde_json::Value>()? else {
//!             return Ok(Outcome::Done);
//!         };
//!         info!("hello", name = request.name, kind = object["kind"]);
//!         Ok(Outcome::Done)
//!     }
//! }
//!
//! windlass_sdk::plugin!(Greeter);
//! # fn main() {}
//! ```
//!
//! A plugin calls the host through [`cache`], [`live`], [`writes`], [`owners`], [`events`], [`log`], [`metrics`],
//! [`config`](mod@config), [`clock`], [`random`] and [`http`]; [`bindings`] is the generated code below them. A plugin
//! that only says which children an object should have is simpler still: see [`Composer`].
//!
//! # Tests
//!
//! Plugins compile natively too, so that `cargo test` runs them: [`testing`] has a host in memory. Without one, log
//! lines go to stderr, the clock is the system's, and events and metrics are dropped; any other call to the host panics
//! and says which one.

// The generated code refers to the crate by name, both inside it and in plugins.
extern crate self as windlass_sdk;

pub mod bindings;
pub mod cache;
pub mod clock;
mod compose;
pub mod conditions;
pub mod config;
#[doc(hidden)]
pub mod entry;
mod error;
pub mod events;
mod failure;
pub mod http;
mod json;
pub mod live;
pub mod log;
pub mod manifest;
pub mod metrics;
mod native;
mod object;
pub mod owners;
mod pages;
mod quantity;
pub mod random;
mod relations;
mod request;
mod selector;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
mod texts;
pub mod triggers;
pub mod writes;

/// To grow the memory of a fresh instance, and to shrink it afterwards, costs the host two system calls. This allocator
/// first takes the heap that the linker lays out, of which `windlass build` asks for a page.
#[cfg(all(target_arch = "wasm32", feature = "allocator"))]
#[global_allocator]
static ALLOCATOR: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

pub use compose::{Composition, CompositionRequest};
pub use error::{ApiError, ApiReason, Error, JsonError};
pub use failure::{Failure, Failures};
pub use object::{Metadata, Object, ObjectKind, ObjectRef, OwnerReference, has_fields};
pub use pages::{Objects, Page, Pages};
pub use quantity::{Quantity, QuantityError};
pub use relations::{Change, RelatedRule, Target};
pub use request::{Outcome, Request};
pub use selector::{LabelSelector, LabelSelectorOperator, LabelSelectorRequirement};

/// A plugin that brings the cluster to the state that an object specifies, with any calls that it needs.
///
/// Do not rely on state from an earlier call: each call may get a fresh instance, so there is no `self`.
pub trait Reconciler {
    /// Describes the watches and the rights of the plugin. It must be constant: the host asks twice, with different
    /// clocks and random seeds, and refuses a plugin whose answers differ.
    fn manifest() -> manifest::Manifest;

    /// Reconciles one object. The host calls this function again whenever something changes, so it must write nothing
    /// if everything is as desired. An error must contain at least one failure.
    fn reconcile(request: Request) -> Result<Outcome, Failures>;
}

/// A plugin that computes the desired children of an object by a pure function. The host applies the children, makes
/// the parent their owner, prunes children that are no longer in the answer, and writes the status.
///
/// It may call [`log`], [`clock`], [`random`] and [`config`](mod@config), and nothing else: the host refuses a
/// component that imports more.
///
/// ```
/// use serde_json::{Value, json};
/// use windlass_sdk::manifest::{Controller, Manifest, Watch};
/// use windlass_sdk::{Composer, Composition, CompositionRequest, Failures};
///
/// struct Settings;
///
/// impl Composer for Settings {
///     fn manifest() -> Manifest {
///         let shops = Controller::new("shops", Watch::of("example.dev/v1", "Shop")).owns(Watch::of("v1", "ConfigMap"));
///         Manifest::new("settings", "0.1.0").controller(shops)
///     }
///
///     fn compose(request: CompositionRequest) -> Result<Composition, Failures> {
///         let shop: Value = request.parent()?;
///         let settings = json!({
///             "apiVersion": "v1", "kind": "ConfigMap",
///             "metadata": {"name": shop["metadata"]["name"], "namespace": shop["metadata"]["namespace"]},
///             "data": {"currency": shop["spec"]["currency"]},
///         });
///         Ok(Composition::new().child(&settings))
///     }
/// }
///
/// windlass_sdk::composer!(Settings);
/// # fn main() {}
/// ```
pub trait Composer {
    /// Describes the watches and the rights of the plugin. It must be constant, like a [`Reconciler`]'s.
    fn manifest() -> manifest::Manifest;

    /// Computes the composition. It must depend only on its argument. If it fails, nothing is changed. An error must
    /// contain at least one failure.
    fn compose(request: CompositionRequest) -> Result<Composition, Failures>;
}

/// Decisions about changes in a reconciler's code, for watches that no predicate or mapping of the manifest fits.
///
/// Implement [`matches`](Self::matches) for watches with [`code_predicate`](crate::manifest::Watch::code_predicate),
/// and [`map`](Self::map) for watches that the manifest maps by [`Mapping::Mapper`](crate::manifest::Mapping::Mapper).
///
/// Both functions may read [`cache`] and [`config`](mod@config), and may call [`log`], [`clock`] and [`random`]. The
/// host asks about each change once, so give the objects that a mapper reads a mapping, too. A mapper has no primary:
/// it must name the namespace of the objects that it reads, and it cannot list owned objects.
///
/// ```
/// use serde_json::Value;
/// use windlass_sdk::manifest::{Controller, IndexSource, Manifest, Mapping, SelectorForm, Watch};
/// use windlass_sdk::{Change, Failures, Mapper, Outcome, Reconciler, Request, Target};
///
/// struct Endpoints;
///
/// impl Reconciler for Endpoints {
///     fn manifest() -> Manifest {
///         let selector = IndexSource::Selector { pointer: "/spec/selector".into(), form: SelectorForm::Labels };
///         let services = Watch::of("v1", "Service").index("by-selector", selector);
///         let pods = Watch::of("v1", "Pod").named("pods");
///         Manifest::new("endpoints", "0.1.0").controller(Controller::new("services", services).watches(pods, Mapping::Mapper))
///     }
///
///     fn reconcile(_: Request) -> Result<Outcome, Failures> {
///         Ok(Outcome::Done)
///     }
/// }
///
/// impl Mapper for Endpoints {
///     // Selects the Services whose selector matches the Pod.
///     fn map(_watch: &str, change: &Change) -> Result<Vec<Target>, Failures> {
///         let labels = |pod: &Value| {
///             let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
///             labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect::<Vec<_>>()
///         };
///         let pods = change.states::<Value>()?;
///         Ok(pods.iter().map(|pod| Target::indexed("by-selector", labels(pod).join(","))).collect())
///     }
/// }
///
/// windlass_sdk::plugin!(Endpoints);
/// windlass_sdk::mapper!(Endpoints);
/// # fn main() {}
/// ```
pub trait Mapper: Reconciler {
    /// Whether a change in the watch of this name counts. The host asks about new objects, the objects of first lists,
    /// and updates that pass the watch's predicates; deletions always count. After an error or a panic the change
    /// counts.
    fn matches(_watch: &str, _change: &Change) -> Result<bool, Failures> {
        Ok(true)
    }

    /// The primaries that a change in the watch of this name concerns. After an error or a panic every primary runs.
    ///
    /// A delivery to a [hook](crate::manifest::Controller::hook) that the manifest maps by code is a change, too: the
    /// name is the hook's, and the new object has the request's JSON in `payload`. After an error or a panic nothing
    /// runs for it.
    fn map(watch: &str, _change: &Change) -> Result<Vec<Target>, Failures> {
        Err(Failures::terminal(format!("the manifest maps the watch {watch:?} by `Mapper`, which has no `map`")))
    }
}

/// Relations in a composer's code, if no mapping of the manifest can express them.
///
/// ```
/// # use serde_json::Value;
/// use windlass_sdk::manifest::{Controller, Manifest, Mapping, Watch};
/// use windlass_sdk::{Composer, Composition, CompositionRequest, Customize, Failures, RelatedRule, Request};
///
/// struct Shops;
///
/// impl Composer for Shops {
///     fn manifest() -> Manifest {
///         let settings = Watch::of("v1", "ConfigMap").named("settings");
///         let shops = Controller::new("shops", Watch::of("example.dev/v1", "Shop")).watches(settings, Mapping::Customize);
///         Manifest::new("shops", "0.1.0").controller(shops)
///     }
///
///     fn compose(request: CompositionRequest) -> Result<Composition, Failures> {
///         let settings: Vec<Value> = request.related("v1", "ConfigMap")?;
/// #       let _ = settings;
///         Ok(Composition::new())
///     }
/// }
///
/// impl Customize for Shops {
///     // Selects the ConfigMap that the shop names.
///     fn customize(shop: Request) -> Result<Vec<RelatedRule>, Failures> {
///         let shop: Value = shop.object()?.unwrap_or_default();
///         let name = shop["spec"]["settings"].as_str();
///         Ok(name.map(|name| RelatedRule::new("settings").name(name)).into_iter().collect())
///     }
/// }
///
/// windlass_sdk::composer!(Shops);
/// windlass_sdk::customize!(Shops);
/// # fn main() {}
/// ```
pub trait Customize: Composer {
    /// Returns rules that select the related objects of a parent, which is the object of the request.
    /// [`compose`](Composer::compose) receives these objects. When one of them changes, the parent is composed again.
    /// The rules must depend only on the argument and [`config`](mod@config). An error must contain at least one
    /// failure.
    fn customize(request: Request) -> Result<Vec<RelatedRule>, Failures>;
}

/// Makes a [`Reconciler`] the plugin of this crate. Use it once, at the root of a `cdylib`.
#[macro_export]
macro_rules! plugin {
    ($plugin:ty) => {
        const _: () = {
            struct Component;

            impl $crate::bindings::exports::windlass::plugin::reconciler::Guest for Component {
                fn describe() -> ::std::string::String {
                    $crate::entry::describe::<$plugin>()
                }

                fn reconcile(
                    request: $crate::bindings::windlass::plugin::types::Request,
                ) -> ::std::result::Result<
                    $crate::bindings::exports::windlass::plugin::reconciler::Outcome,
                    ::std::vec::Vec<$crate::bindings::windlass::plugin::types::Failure>,
                > {
                    $crate::entry::reconcile::<$plugin>(request)
                }
            }

            $crate::export_guest!(Component);
        };
    };
}

/// Makes a [`Composer`] the plugin of this crate. Use it once, at the root of a `cdylib`.
#[macro_export]
macro_rules! composer {
    ($plugin:ty) => {
        const _: () = {
            struct Component;

            impl $crate::bindings::composer::exports::windlass::plugin::composer::Guest for Component {
                fn describe() -> ::std::string::String {
                    $crate::entry::describe_composer::<$plugin>()
                }

                fn compose(
                    request: $crate::bindings::composer::exports::windlass::plugin::composer::CompositionRequest,
                ) -> ::std::result::Result<
                    $crate::bindings::composer::exports::windlass::plugin::composer::Composition,
                    ::std::vec::Vec<$crate::bindings::windlass::plugin::types::Failure>,
                > {
                    $crate::entry::compose::<$plugin>(request)
                }
            }

            $crate::export_composer_guest!(Component);
        };
    };
}

/// Exports a type that implements the generated [`Guest`](bindings::exports::windlass::plugin::reconciler::Guest), for
/// plugins that need more than [`Reconciler`] allows.
#[macro_export]
macro_rules! export_guest {
    ($guest:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::export!($guest with_types_in $crate::bindings);

        // A native linker does not keep the exports. This line prevents the compiler from reporting the plugin as dead
        // code in a native build.
        #[cfg(not(target_arch = "wasm32"))]
        const _: &dyn ::std::any::Any = &(
            <$guest as $crate::bindings::exports::windlass::plugin::reconciler::Guest>::describe,
            <$guest as $crate::bindings::exports::windlass::plugin::reconciler::Guest>::reconcile,
        );
    };
}

/// Exports a type that implements the generated
/// [`Guest`](bindings::composer::exports::windlass::plugin::composer::Guest) of composers, for plugins that need more
/// than [`Composer`] allows.
#[macro_export]
macro_rules! export_composer_guest {
    ($guest:ident) => {
        #[cfg(target_arch = "wasm32")]
        $crate::bindings::composer::export!($guest with_types_in $crate::bindings::composer);

        // As in `export_guest!`.
        #[cfg(not(target_arch = "wasm32"))]
        const _: &dyn ::std::any::Any = &(
            <$guest as $crate::bindings::composer::exports::windlass::plugin::composer::Guest>::describe,
            <$guest as $crate::bindings::composer::exports::windlass::plugin::composer::Guest>::compose,
        );
    };
}

/// Exports this type's [`Mapper`] from the plugin of this crate. Use it beside [`plugin!`].
#[macro_export]
macro_rules! mapper {
    ($plugin:ty) => {
        const _: () = {
            struct Component;

            impl $crate::bindings::mapper::exports::windlass::plugin::mapper::Guest for Component {
                fn matches(
                    batch: $crate::bindings::mapper::exports::windlass::plugin::mapper::ChangeBatch,
                ) -> ::std::result::Result<::std::vec::Vec<bool>, ::std::string::String> {
                    $crate::entry::matches::<$plugin>(batch)
                }

                fn map(
                    batch: $crate::bindings::mapper::exports::windlass::plugin::mapper::ChangeBatch,
                ) -> ::std::result::Result<
                    ::std::vec::Vec<
                        ::std::vec::Vec<$crate::bindings::mapper::exports::windlass::plugin::mapper::Target>,
                    >,
                    ::std::string::String,
                > {
                    $crate::entry::map::<$plugin>(batch)
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::bindings::mapper::export!(Component with_types_in $crate::bindings::mapper);

            // As in `export_guest!`.
            #[cfg(not(target_arch = "wasm32"))]
            const _: &dyn ::std::any::Any = &(
                <Component as $crate::bindings::mapper::exports::windlass::plugin::mapper::Guest>::matches,
                <Component as $crate::bindings::mapper::exports::windlass::plugin::mapper::Guest>::map,
            );
        };
    };
}

/// Exports this type's [`Customize`] from the plugin of this crate. Use it beside [`composer!`].
#[macro_export]
macro_rules! customize {
    ($plugin:ty) => {
        const _: () = {
            struct Component;

            impl $crate::bindings::customize::exports::windlass::plugin::customize::Guest for Component {
                fn customize(
                    request: $crate::bindings::windlass::plugin::types::Request,
                ) -> ::std::result::Result<
                    ::std::vec::Vec<$crate::bindings::customize::exports::windlass::plugin::customize::RelatedRule>,
                    ::std::vec::Vec<$crate::bindings::windlass::plugin::types::Failure>,
                > {
                    $crate::entry::customize::<$plugin>(request)
                }
            }

            #[cfg(target_arch = "wasm32")]
    $crate::bindings::customize::export!(Component with_types_in $crate::bindings::customize);

            // As in `export_guest!`.
            #[cfg(not(target_arch = "wasm32"))]
            const _: &dyn ::std::any::Any =
                &<Component as $crate::bindings::customize::exports::windlass::plugin::customize::Guest>::customize;
        };
    };
}

// The plugin that the README shows must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

// All examples of the guide must compile, too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/authoring.md")]
struct Authoring;
