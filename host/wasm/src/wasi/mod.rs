//! WASI 0.2 for components built by stock toolchains, based on the crate `wasmtime-wasi` (ADR 37).
//!
//! Time, random data and the log are those of the plugin's own interface, so the same guarantees hold: `describe` and
//! `compose` get fixed values, and a call can be repeated. The interfaces for them are implemented here, because they
//! need the call, which the crate's own clocks and generators cannot access. All other interfaces are the crate's own,
//! without resources: no arguments, no directory, no socket. `refuse` handles what the crate lacks.

mod cli;
mod clocks;
mod http;
mod io;
mod met;
mod random;
mod refuse;

pub(crate) use self::cli::end_lines;
pub use self::met::met_at;

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime_wasi::p2::bindings::{
    cli as cli_bindings, clocks as clocks_bindings, io as io_bindings, random as random_bindings,
};
use wasmtime_wasi::{WasiCtxView, WasiView};

use crate::state::CallState;

/// Each function of the crate gets its context and table here, so this is where calls are counted.
impl WasiView for CallState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.called().wasi();
        WasiCtxView { ctx: &mut wasi.ctx, table: &mut wasi.table }
    }
}

impl CallState {
    fn table(&mut self) -> &mut ResourceTable {
        &mut self.wasi().table
    }
}

/// Adds the imports of WASI in `component` to `linker`. A later definition replaces an earlier one: the crate's
/// definitions replace refusals, and this module's replace the crate's.
pub(crate) fn define(linker: &mut Linker<CallState>, component: &Component) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    refuse::define(linker, component)?;
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    cli_bindings::stdout::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    cli_bindings::stderr::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    clocks_bindings::monotonic_clock::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    clocks_bindings::wall_clock::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    io_bindings::poll::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    io_bindings::streams::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    random_bindings::random::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    random_bindings::insecure::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    random_bindings::insecure_seed::add_to_linker::<_, HasSelf<_>>(linker, CallState::called)?;
    if component.component_type().imports(linker.engine()).any(|(name, _)| http::is_import(name)) {
        http::define(linker)?;
    }
    linker.allow_shadowing(false);
    Ok(())
}
