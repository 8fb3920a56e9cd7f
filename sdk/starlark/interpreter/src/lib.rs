//! The interpreter from which `windlass build` makes a plugin in Starlark.
//!
//! The module exports Windlass's interface. The component contains the script ([`carried`]). An instance reads it once
//! ([`script`]), and its functions handle each call ([`entry`]). [`api`] has the functions that a script may call, with
//! a module for each interface; [`values`] and [`arguments`] convert, and [`failures`] reports how a call failed.

#[cfg(all(feature = "reconciler", feature = "composer"))]
compile_error!("a module has one world: enable exactly one of the features `reconciler` and `composer`");
#[cfg(not(any(feature = "reconciler", feature = "composer")))]
compile_error!("a module has one world: enable exactly one of the features `reconciler` and `composer`");

mod answers;
mod api;
#[cfg_attr(feature = "composer", expect(dead_code, reason = "a composer calls less of the host"))]
mod arguments;
mod attributes;
mod carried;
mod entry;
#[cfg_attr(feature = "composer", expect(dead_code, reason = "a composer calls less of the host"))]
mod failures;
mod kind;
mod nesting;
mod options;
mod relations;
mod script;
mod stack;
mod values;

#[cfg(all(test, feature = "reconciler"))]
mod tests;
