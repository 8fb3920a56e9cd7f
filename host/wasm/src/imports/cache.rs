//! `cache`: reads of the declared watches.

use crate::abi::v0_1_0::bindings::windlass::plugin::cache::{Host, ListQuery};
use crate::abi::v0_1_0::bindings::windlass::plugin::types::{ApiError, ObjectRef, Page};
use crate::abi::v0_1_0::convert;
use crate::imports::{RAISE_RESPONSE, malformed, too_large};
use crate::state::CallState;

/// After so many reads of one import call, other guests get their turn.
const READS_PER_TURN: usize = 64;

impl Host for CallState {
    fn get(
        &mut self,
        target: ObjectRef,
        fields: Option<Vec<String>>,
    ) -> wasmtime::Result<Result<Option<String>, ApiError>> {
        let budget = self.meter.limits().response_bytes;
        read(self, target, fields.as_deref(), budget)
    }

    async fn get_many(
        &mut self,
        targets: Vec<ObjectRef>,
        fields: Option<Vec<String>>,
    ) -> wasmtime::Result<Vec<Result<Option<String>, ApiError>>> {
        let mut budget = self.meter.limits().response_bytes;
        let mut answers = Vec::with_capacity(targets.len());
        for (index, target) in targets.into_iter().enumerate() {
            if index % READS_PER_TURN == READS_PER_TURN - 1 {
                self.meter.check_time()?;
                tokio::task::yield_now().await;
            }
            let answer = read(self, target, fields.as_deref(), budget)?;
            if let Ok(Some(object)) = &answer {
                budget -= object.len();
            }
            answers.push(answer);
        }
        Ok(answers)
    }

    fn list(&mut self, query: ListQuery) -> wasmtime::Result<Result<Page, ApiError>> {
        let budget = self.meter.limits().response_bytes;
        let world = self.enter("cache.list")?;
        let query = match convert::list_query(query, u32::try_from(budget).unwrap_or(u32::MAX)) {
            Ok(query) => query,
            Err(reason) => return Ok(Err(malformed("list", reason))),
        };
        Ok(world.ports.reads.list(&world.call, &query).map_err(convert::api_error).map(|page| Page {
            items: page.items.iter().map(ToString::to_string).collect(),
            next_token: page.next_token,
        }))
    }
}

/// One object, if it is no larger than `budget`.
fn read(
    state: &mut CallState,
    target: ObjectRef,
    fields: Option<&[String]>,
    budget: usize,
) -> wasmtime::Result<Result<Option<String>, ApiError>> {
    let world = state.enter("cache.get")?;
    let target = match convert::object_ref(target).and_then(|target| convert::check_fields(fields).map(|()| target)) {
        Ok(target) => target,
        Err(reason) => return Ok(Err(malformed("get", reason))),
    };
    Ok(match world.ports.reads.get(&world.call, &target, fields) {
        Ok(Some(object)) if object.len() > budget => {
            let message = format!("{target} does not fit: one call returns no more at once ({RAISE_RESPONSE})");
            Err(too_large("get", message))
        }
        Ok(object) => Ok(object.as_deref().map(str::to_owned)),
        Err(error) => Err(convert::api_error(error)),
    })
}
