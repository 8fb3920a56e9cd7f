//! Functions that make lists of headers grow. The crate `wasmtime-wasi-http` limits the size of a single list, and
//! the limit on handles bounds the number of lists. This module limits the total size of all lists.

use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::p2::HeaderResult;
use wasmtime_wasi_http::p2::bindings::http::types::{HeaderError, Host as _, HostFields};
use wasmtime_wasi_http::{FieldMap, WasiHttpCtxView, WasiHttpView as _};

use super::super::refuse::GIVEN_VERSION;
use crate::state::CallState;
use crate::wasi_http_state::{header_bytes, header_size};

/// Replaces the functions that make lists grow.
pub(super) fn define(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    let mut types = linker.instance(&format!("wasi:http/types@{GIVEN_VERSION}"))?;
    types.func_wrap("[constructor]fields", |mut store, (): ()| {
        store.data_mut().wasi().headers_grow(header_size(0, 0))?;
        Ok((HostFields::new(&mut store.data_mut().http())?,))
    })?;
    types.func_wrap("[static]fields.from-list", |mut store, (entries,): (Vec<(String, Vec<u8>)>,)| {
        let bytes = entries.iter().map(|(name, value)| header_size(name.len(), value.len())).sum();
        Ok((store.data_mut().grown(bytes, |view| HostFields::from_list(view, entries))?,))
    })?;
    types.func_wrap(
        "[method]fields.set",
        |mut store, (fields, name, values): (Resource<FieldMap>, String, Vec<Vec<u8>>)| {
            let bytes = name.len() + values.iter().map(|value| header_size(0, value.len())).sum::<usize>();
            Ok((store.data_mut().grown(bytes, |view| HostFields::set(view, fields, name, values))?,))
        },
    )?;
    types.func_wrap(
        "[method]fields.append",
        |mut store, (fields, name, value): (Resource<FieldMap>, String, Vec<u8>)| {
            let bytes = header_size(name.len(), value.len());
            Ok((store.data_mut().grown(bytes, |view| HostFields::append(view, fields, name, value))?,))
        },
    )?;
    types.func_wrap("[method]fields.clone", |mut store, (fields,): (Resource<FieldMap>,)| {
        let wasi = store.data_mut().wasi();
        let bytes = header_bytes(wasi.table.get(&fields)?);
        wasi.headers_grow(bytes)?;
        Ok((HostFields::clone(&mut store.data_mut().http(), fields)?,))
    })
}

impl CallState {
    /// Applies `change`, which may make headers grow by `bytes`.
    fn grown<T>(
        &mut self,
        bytes: usize,
        change: impl FnOnce(&mut WasiHttpCtxView<'_>) -> HeaderResult<T>,
    ) -> wasmtime::Result<Result<T, HeaderError>> {
        self.meter.import_bytes(bytes);
        self.wasi().headers_grow(bytes)?;
        let mut view = self.http();
        match change(&mut view) {
            Ok(done) => Ok(Ok(done)),
            Err(error) => Ok(Err(view.convert_header_error(error)?)),
        }
    }
}
