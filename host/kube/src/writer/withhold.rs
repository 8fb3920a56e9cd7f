//! Writes of a read-only host (`--read-only`). Each write is sent as a dry run, and the call treats the answer like
//! that of a real write, so that the plugin goes on and all its intended changes are seen. Nothing is stored, expected
//! or settled.
//!
//! If a dry run is not possible, the write is refused (`ReadOnly`), with as much information as is available here. A
//! dry run needs the same rights as the write, admission webhooks with side effects refuse it, and an aggregated API
//! server may not support it and carry out the write. A write that depends on an earlier withheld write of the same
//! call cannot be tried either.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use windlass_core::cache::overlay::WrittenState;
use windlass_core::call::ports::CallContext;
use windlass_core::error::{ApiError, ApiReason};
use windlass_core::object::compact::Version;
use windlass_core::object::difference::{Difference, Disclosure};
use windlass_core::object::withheld::{WithheldEffect, WithheldWrite};
use windlass_core::object::{ObjectKey, ObjectKind, ObjectRef};
use windlass_core::secret::confidential::Confidential;
use windlass_core::write::PatchType;

use super::Writer;
use super::carry_out::{Ended, warn};
use super::refusal::{self, unreadable};
use crate::client::headers;
use crate::client::request::{self, MUTATION_ANSWER_BYTES_MAX, MutationAnswer};
use crate::discovery::Resource;
use crate::informer::parse;
use crate::writer::answer::{self, Answered};
use crate::writer::audit::{self, WriteOutcome};
use crate::writer::plan::{How, Plan};
use crate::writer::skip::StateBefore;

/// The subresources that Kubernetes stores, and that support dry runs. Other subresources perform actions: `token`
/// issues a token, `proxy` forwards a request, `exec` and `attach` run commands.
const STORED: [&str; 9] =
    ["", "status", "scale", "eviction", "binding", "approval", "ephemeralcontainers", "finalize", "resize"];

/// The time that the server may take to return the object's state before a write.
const STATE_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// The text of an object before a write.
enum TextBefore {
    /// The plugin may not read the object.
    Unknown,
    /// The object does not exist.
    Absent,
    Text(Arc<str>),
}

impl Writer {
    /// Sends `plan`, which is a dry run, for an object that was in the state `before`.
    pub(super) async fn withhold(&self, call: &CallContext, mut plan: Plan, before: StateBefore) -> Ended {
        let began = Instant::now();
        if let Some(why) = self.has_no_dry_run(&plan.resource, &plan.subresource).await {
            return self.refuse(call, plan, before, (why, None), began).await.into();
        }
        let limit = match self.may_send(call, &plan) {
            Ok(limit) => limit,
            Err(lost) => return lost.into(),
        };
        plan.mutation.end_within(limit);
        let result = request::mutate(&self.client, plan.mutation.take(), limit).await;
        let code = audit::code(&result);
        match result {
            Ok(answer) => self.tried(call, plan, before, answer, began).await,
            Err(error) => {
                let (failure, fate) = plan.subject.mutation_failed(&error, true);
                if let Some(why) = is_no_verdict(call, &plan, &failure) {
                    return self.refuse(call, plan, before, (why, code), began).await.into();
                }
                let outcome = WriteOutcome::of_failure(&error, fate);
                self.audit(call, &plan).ended(outcome, code, began.elapsed());
                self.judged(&plan, failure).await.into()
            }
        }
    }

    /// Evaluates a dry run that the server has answered.
    async fn tried(
        &self,
        call: &CallContext,
        plan: Plan,
        before: StateBefore,
        answer: MutationAnswer,
        began: Instant,
    ) -> Ended {
        let MutationAnswer { code, text, warnings } = answer;
        let read = move |text: &str| {
            let answered = answer::read(&plan, text);
            (plan, answered)
        };
        let (plan, answered) = self.offload.read(text, read).await;
        let answered = match answered {
            Ok(answered) => answered,
            Err(error) => {
                self.audit(call, &plan).ended(WriteOutcome::Withheld, Some(code), began.elapsed());
                return unreadable(&plan.subject, code, &error).into();
            }
        };
        let effect = effect(&plan, code, &answered);
        let before = match (effect, &answered) {
            (WithheldEffect::Create, _) => TextBefore::Absent,
            (WithheldEffect::Delete, Answered::Gone { last: None, .. }) => TextBefore::Unknown,
            (_, Answered::Whole(object)) => self.before(call, &plan, before, Some(&object.header.version)).await,
            _ => self.before(call, &plan, before, None).await,
        };
        let after = match &answered {
            Answered::Whole(object) => Some(object.text()),
            Answered::Other(text) => Some(text.clone()),
            Answered::Gone { last, .. } => last.clone(),
        };
        let (plan, difference) = self.difference(call, plan, effect, (before, after)).await;
        if !plan.is_unstored() {
            answered.lay(&plan, &call.overlay);
        }
        let is_same = difference.as_ref().is_some_and(|it| effect == WithheldEffect::Change && it.is_empty());
        let is_idle = is_same || plan.is_unstored();
        let write = withheld(&plan, effect, difference.unwrap_or_default(), None);
        let is_news = !is_idle && self.tell_withheld(call, &write);
        self.audit(call, &plan).withheld(&write, is_news, Some(code), began.elapsed());
        if is_news {
            warn(call, &plan.subject, &warnings);
        }
        Ended { written: Ok(answered.into_text()), unsettled: None }
    }

    /// The answer to a write that was not tried, with the reason and the server's code.
    async fn refuse(
        &self,
        call: &CallContext,
        plan: Plan,
        before: StateBefore,
        (why, code): (String, Option<u16>),
        began: Instant,
    ) -> ApiError {
        let before = match plan.how {
            How::Create => TextBefore::Absent,
            How::Delete => TextBefore::Unknown,
            How::Apply | How::Update | How::Patch(_) => self.before(call, &plan, before, None).await,
        };
        let effect = match (plan.how, &*plan.subresource, &before) {
            (How::Delete, ..) | (_, "eviction", _) => WithheldEffect::Delete,
            (How::Create | How::Apply | How::Update, "", TextBefore::Absent) => WithheldEffect::Create,
            _ => WithheldEffect::Change,
        };
        let (plan, difference) = self.difference(call, plan, effect, (before, None)).await;
        let write = withheld(&plan, effect, difference.unwrap_or_default(), Some(why.clone()));
        let is_news = self.tell_withheld(call, &write);
        self.audit(call, &plan).withheld(&write, is_news, code, began.elapsed());
        refusal::read_only(&plan.subject, &write, &why)
    }

    pub(super) fn tell_withheld(&self, call: &CallContext, write: &WithheldWrite) -> bool {
        self.withheld.as_ref().is_none_or(|withheld| withheld(call, write))
    }

    /// The reason why a write to `subresource` of `resource` must not be sent even as a dry run.
    pub(super) async fn has_no_dry_run(&self, resource: &Resource, subresource: &str) -> Option<String> {
        if !STORED.contains(&subresource) {
            return Some(format!("for {subresource:?} the server may carry out the request in spite of the dry run"));
        }
        let api_version = &resource.kind.api_version;
        match self.discovery.is_own(resource).await {
            Ok(true) => None,
            Ok(false) => {
                Some(format!("an aggregated API server seems to serve {api_version}, and it may not support dry runs"))
            }
            Err(error) => Some(format!("it is not known which server serves {api_version}: {error}")),
        }
    }

    /// The state that `plan` would change. `version` is the version of the state for which the server has tried the
    /// plan.
    async fn before(
        &self,
        call: &CallContext,
        plan: &Plan,
        before: StateBefore,
        version: Option<&Version>,
    ) -> TextBefore {
        let Plan { resource, key, subresource, .. } = plan;
        let is_whole = matches!(&**subresource, "" | "status");
        if is_whole {
            match call.overlay.get(&resource.kind, key).and_then(|known| known.left) {
                Some(WrittenState::State(kind, object)) if kind == resource.kind => {
                    return TextBefore::Text(object.text());
                }
                Some(WrittenState::Nothing(_)) => return TextBefore::Absent,
                Some(WrittenState::State(..) | WrittenState::Unkept(_)) | None => {}
            }
            if let StateBefore::State(object) = before
                && version.is_none_or(|version| object.header.version == *version)
            {
                return TextBefore::Text(object.text());
            }
            let cached = self
                .skips
                .as_ref()
                .zip(version)
                .and_then(|(skips, version)| skips.cached(&resource.kind, key, Some(&version.to_string())));
            if let Some(object) = cached {
                return TextBefore::Text(object.text());
            }
        }
        let uri = resource.object(key, if is_whole { "" } else { subresource });
        let Ok(headers) = headers::of_call(call) else { return TextBefore::Unknown };
        match request::get_as(&self.client, &uri, headers, MUTATION_ANSWER_BYTES_MAX, STATE_READ_TIMEOUT).await {
            Ok(text) => {
                let kind = resource.kind.clone();
                let clean = self.offload.read(text, move |text| parse::clean(text, &kind)).await;
                clean.map_or(TextBefore::Unknown, TextBefore::Text)
            }
            Err(error) if error.code() == Some(404) => TextBefore::Absent,
            Err(_) => TextBefore::Unknown,
        }
    }

    /// The fields that `plan` would change. `None` if they are not known.
    async fn difference(
        &self,
        call: &CallContext,
        plan: Plan,
        effect: WithheldEffect,
        (before, after): (TextBefore, Option<Arc<str>>),
    ) -> (Plan, Option<Difference>) {
        let text = after.as_deref().unwrap_or_default().to_owned();
        let config = call.config.clone();
        let read = move |after: &str| {
            let difference = difference(&config, &plan, effect, before, after);
            (plan, difference)
        };
        self.offload.read(text, read).await
    }
}

/// `after` is empty if it is not known.
fn difference(
    config: &Confidential,
    plan: &Plan,
    effect: WithheldEffect,
    before: TextBefore,
    after: &str,
) -> Option<Difference> {
    if plan.is_unstored() {
        // The object may be a secret, such as a token.
        return None;
    }
    let body = std::str::from_utf8(&plan.mutation.body).unwrap_or_default();
    let before_text = if let TextBefore::Text(before) = &before { &**before } else { "" };
    let disclosure = if [body, before_text, after].iter().any(|text| config.stands_in(text)) {
        // A text contains a secret of the plugin's configuration.
        Disclosure::Names
    } else {
        Disclosure::of(&plan.resource.kind)
    };
    let json = |text: &str| serde_json::from_str::<Value>(text).ok();
    let body = || json(body);
    let of_body = |before: Option<&Value>| {
        let body = body()?;
        Some(match (plan.how, before) {
            (How::Patch(PatchType::Json), _) => Difference::of_operations(&body, disclosure),
            (_, Some(before)) => Difference::of_body(before, &body, disclosure),
            (_, None) => Difference::of_new(&body, disclosure),
        })
    };
    match (effect, before, after) {
        (WithheldEffect::Create, ..) => of_body(None),
        (WithheldEffect::Delete, ..) if plan.how == How::Delete || &*plan.subresource == "eviction" => None,
        (_, TextBefore::Text(before), "") => of_body(Some(&json(&before)?)),
        (_, TextBefore::Text(before), after) => Some(Difference::between(&json(&before)?, &json(after)?, disclosure)),
        (_, TextBefore::Unknown | TextBefore::Absent, _) => of_body(None),
    }
}

/// The effect on the object, according to the answer to the dry run.
fn effect(plan: &Plan, code: u16, answered: &Answered) -> WithheldEffect {
    let created = code == http::StatusCode::CREATED.as_u16();
    match (plan.how, &*plan.subresource, answered) {
        (How::Delete, ..) | (_, "eviction", _) => WithheldEffect::Delete,
        (How::Create, "", _) => WithheldEffect::Create,
        (_, "", _) if created => WithheldEffect::Create,
        (.., Answered::Gone { .. }) => WithheldEffect::Delete,
        _ => WithheldEffect::Change,
    }
}

fn withheld(plan: &Plan, effect: WithheldEffect, difference: Difference, unjudged: Option<String>) -> WithheldWrite {
    let is_any = plan.generated || plan.key.name.is_empty();
    let name = if is_any { without_suffix(&plan.key.name) } else { plan.key.name.clone() };
    let key = ObjectKey { namespace: plan.key.namespace.clone(), name };
    let object = ObjectRef { kind: plan.resource.kind.clone(), key, uid: None };
    let (verb, resource) = (plan.subject.verb, plan.subject.resource.clone());
    WithheldWrite { verb, resource, object, effect, difference, unjudged }
}

/// A generated name without its random suffix. An object without a name has only the star.
fn without_suffix(name: &str) -> Arc<str> {
    let kept = name.len().saturating_sub(super::plan::RANDOM_LENGTH);
    format!("{}*", &name[..name.floor_char_boundary(kept)]).into()
}

/// The reason why the failure of the dry run says nothing about the real write.
fn is_no_verdict(call: &CallContext, plan: &Plan, failure: &ApiError) -> Option<String> {
    let left = |kind: &ObjectKind, key: &ObjectKey| call.overlay.get(kind, key).filter(|it| it.is_dry_run)?.left;
    let would_be_there = || {
        let namespace = plan.key.namespace.as_ref().map(|name| ObjectKey::cluster(name.clone()));
        let of_namespace = namespace.and_then(|key| left(&ObjectKind::new("v1", "Namespace"), &key));
        [left(&plan.resource.kind, &plan.key), of_namespace].into_iter().flatten().any(|left| is_there(&left))
    };
    let would_be_gone = || left(&plan.resource.kind, &plan.key).is_some_and(|left| !is_there(&left));
    match failure.reason {
        ApiReason::Forbidden if lacks_right(&failure.message) => {
            Some(format!("the server refuses the dry run: {}", failure.message))
        }
        _ if failure.code == 400 && failure.message.contains("does not support dry run") => {
            Some(failure.message.clone())
        }
        ApiReason::NotFound if would_be_there() => {
            Some("the write needs an object that only an earlier write of this call would have created".to_owned())
        }
        ApiReason::AlreadyExists if would_be_gone() => Some(
            "the write conflicts with an object that only an earlier write of this call would have deleted".to_owned(),
        ),
        _ => None,
    }
}

fn is_there(left: &WrittenState) -> bool {
    !matches!(left, WrittenState::Nothing(_))
}

/// Whether the server says that a right is missing (`apiserver/pkg/endpoints/handlers/responsewriters/errors.go`), and
/// not that admission refuses the object.
fn lacks_right(message: &str) -> bool {
    message.split_once(" cannot ").is_some_and(|(_, after)| after.contains(" resource "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_distinguished_from_a_refused_object() {
        let right = "deployments.apps \"shop\" is forbidden: User \"u\" cannot patch resource \"deployments\" in API group \
                     \"apps\" in the namespace \"prod\"";
        assert!(lacks_right(right));
        assert!(!lacks_right(
            "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
        ));
    }

    #[test]
    fn a_generated_name_is_shown_without_its_suffix() {
        assert_eq!(&*without_suffix("web-x7k2p"), "web-*");
        assert_eq!(&*without_suffix("x"), "*");
    }
}
