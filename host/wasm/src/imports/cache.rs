//! `cache`: reads of the declared watches.

use windlass_core::call::ports;
use windlass_core::error;

use crate::abi::v0_3_0::bindings::windlass::plugin::cache::{Host, ListQuery};
use crate::abi::v0_3_0::bindings::windlass::plugin::types::{ApiError, ObjectRef, Page};
use crate::abi::v0_3_0::convert;
use crate::imports::{HostWork, RAISE_RESPONSE, make_room, malformed, too_large};
use crate::meter::Meter;
use crate::state::CallState;

/// The number of objects of a page that are parsed without a pause.
const PARSED_TOGETHER_MAX: u32 = 32;
const PARSED_OBJECTS_MAX: u32 = 1_000;
/// The answer to a mapper that lists what a primary owns.
const NO_OWNER: &str = "`owned` means the primary's objects, but a mapper is called about changes, and not about a primary: \
                        list by another condition";

impl Host for CallState {
    fn get(
        &mut self,
        target: ObjectRef,
        fields: Option<Vec<String>>,
    ) -> wasmtime::Result<Result<Option<String>, ApiError>> {
        let budget = self.meter.limits().response_bytes;
        read(self, "cache.get", target, fields.as_deref(), budget)
    }

    async fn get_many(
        &mut self,
        targets: Vec<ObjectRef>,
        fields: Option<Vec<String>>,
    ) -> wasmtime::Result<Vec<Result<Option<String>, ApiError>>> {
        let mut budget = self.meter.limits().response_bytes;
        let mut answers = Vec::with_capacity(targets.len());
        let mut work = HostWork::begun();
        for target in targets {
            work.pause(&self.meter).await?;
            let answer = read(self, "cache.get-many", target, fields.as_deref(), budget)?;
            if let Ok(Some(object)) = &answer {
                budget -= object.len();
            }
            answers.push(answer);
        }
        make_room(self, self.meter.limits().response_bytes - budget).await;
        Ok(answers)
    }

    async fn list(&mut self, query: ListQuery) -> wasmtime::Result<Result<Page, ApiError>> {
        let budget = self.meter.limits().response_bytes;
        let (reads, call) = self.enter_reads("cache.list")?;
        let (reads, call) = (reads.clone(), call.clone());
        let query = match convert::list_query(query, u32::try_from(budget).unwrap_or(u32::MAX)) {
            Ok(query) => query,
            Err(reason) => return Ok(Err(malformed("list", reason))),
        };
        if query.owned && !self.has_primary() {
            return Ok(Err(malformed("list", NO_OWNER.to_owned())));
        }
        let page = if query.fields.is_some() {
            parsed(&self.meter, query, |query| reads.list(&call, query)).await?
        } else {
            reads.list(&call, &query)
        };
        make_room(self, page.as_ref().map_or(0, |page| page.items.iter().map(|item| item.len()).sum())).await;
        Ok(page.map_err(convert::api_error).map(|page| Page {
            items: page.items.iter().map(ToString::to_string).collect(),
            next_token: page.next_token,
        }))
    }
}

/// Lists a page whose objects must be parsed. The page is read in parts, each in its current state, so that other calls
/// can use the thread in between.
async fn parsed(
    meter: &Meter,
    query: ports::ListQuery,
    list: impl Fn(&ports::ListQuery) -> Result<ports::ListPage, error::ApiError>,
) -> wasmtime::Result<Result<ports::ListPage, error::ApiError>> {
    let (mut objects, mut bytes) = (query.limit.min(PARSED_OBJECTS_MAX), query.max_bytes);
    let mut page = ports::ListPage { items: vec![], next_token: query.page_token.clone() };
    let mut work = HostWork::begun();
    loop {
        let limit = objects.min(PARSED_TOGETHER_MAX);
        let token = page.next_token.clone();
        let part = match list(&ports::ListQuery { limit, max_bytes: bytes, page_token: token, ..query.clone() }) {
            Ok(part) => part,
            Err(error) => return Ok(Err(error)),
        };
        let length = part.items.iter().map(|item| item.len()).sum::<usize>();
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        // These objects exceed the remaining size of the page, so the next page begins with them. An empty page takes
        // them nevertheless: a single object is never too large for a page.
        if !page.items.is_empty() && bytes.is_some_and(|bytes| length > bytes) {
            return Ok(Ok(page));
        }
        objects -= limit;
        bytes = bytes.map(|bytes| bytes.saturating_sub(length));
        page.items.extend(part.items);
        page.next_token = part.next_token;
        if page.next_token.is_none() || objects == 0 || bytes == Some(0) {
            return Ok(Ok(page));
        }
        work.pause(meter).await?;
    }
}

/// Parses one object, if it is not larger than `budget`.
fn read(
    state: &mut CallState,
    import: &'static str,
    target: ObjectRef,
    fields: Option<&[String]>,
    budget: usize,
) -> wasmtime::Result<Result<Option<String>, ApiError>> {
    let (reads, call) = state.enter_reads(import)?;
    let target = match convert::object_ref(target).and_then(|target| convert::check_fields(fields).map(|()| target)) {
        Ok(target) => target,
        Err(reason) => return Ok(Err(malformed("get", reason))),
    };
    Ok(match reads.get(call, &target, fields) {
        Ok(Some(object)) if object.len() > budget => {
            let message = format!("{target} is larger than what one import call may return ({RAISE_RESPONSE})");
            Err(too_large("get", message))
        }
        Ok(object) => Ok(object.as_deref().map(str::to_owned)),
        Err(error) => Err(convert::api_error(error)),
    })
}
