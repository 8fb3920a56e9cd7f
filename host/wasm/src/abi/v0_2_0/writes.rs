//! `writes` of 0.2.0. Its options have no `fields`, so every write returns the whole object.

use super::reconciler_bindings::windlass::plugin::writes as old;
use crate::abi::v0_3_0::bindings::windlass::plugin::types::{ApiError, ObjectRef};
use crate::abi::v0_3_0::bindings::windlass::plugin::writes as new;
use crate::abi::v0_3_0::bindings::windlass::plugin::writes::Host;
use crate::state::CallState;

impl old::Host for CallState {
    async fn create(
        &mut self,
        object: String,
        options: old::WriteOptions,
    ) -> wasmtime::Result<Result<String, ApiError>> {
        Host::create(self, object, options.into()).await
    }

    async fn update(
        &mut self,
        object: String,
        options: old::WriteOptions,
    ) -> wasmtime::Result<Result<String, ApiError>> {
        Host::update(self, object, options.into()).await
    }

    async fn patch(
        &mut self,
        target: ObjectRef,
        patch_type: old::PatchType,
        patch: String,
        options: old::WriteOptions,
    ) -> wasmtime::Result<Result<String, ApiError>> {
        Host::patch(self, target, patch_type.into(), patch, options.into()).await
    }

    async fn apply(
        &mut self,
        object: String,
        options: old::WriteOptions,
    ) -> wasmtime::Result<Result<String, ApiError>> {
        Host::apply(self, object, options.into()).await
    }

    async fn delete(
        &mut self,
        target: ObjectRef,
        options: old::DeleteOptions,
    ) -> wasmtime::Result<Result<Option<String>, ApiError>> {
        Host::delete(self, target, options.into()).await
    }

    async fn delete_collection(
        &mut self,
        collection: old::Collection,
        options: old::DeleteOptions,
    ) -> wasmtime::Result<Result<Option<Vec<ObjectRef>>, ApiError>> {
        Host::delete_collection(self, collection.into(), options.into()).await
    }

    async fn batch(
        &mut self,
        operations: Vec<old::Operation>,
    ) -> wasmtime::Result<Vec<Result<Option<String>, ApiError>>> {
        Host::batch(self, operations.into_iter().map(Into::into).collect()).await
    }
}

/// Converts types that have the same cases or fields in both versions: a case or field that one version lacks does not
/// compile.
macro_rules! same {
    (enum $name:ident { $($case:ident),+ $(,)? }) => {
        impl From<old::$name> for new::$name {
            fn from(value: old::$name) -> Self {
                match value { $(old::$name::$case => Self::$case),+ }
            }
        }
    };
    (record $name:ident { $($field:ident),+ $(,)? }) => {
        impl From<old::$name> for new::$name {
            fn from(value: old::$name) -> Self {
                let old::$name { $($field),+ } = value;
                Self { $($field: $field.into()),+ }
            }
        }
    };
    (variant $name:ident { $($case:ident),+ $(,)? }) => {
        impl From<old::$name> for new::$name {
            fn from(value: old::$name) -> Self {
                match value { $(old::$name::$case(inner) => Self::$case(inner.into())),+ }
            }
        }
    };
}

same!(
    enum PatchType {
        Merge,
        Json,
        Strategic,
    }
);
same!(
    enum FieldValidation {
        Strict,
        Warn,
        Ignore,
    }
);
same!(
    enum Propagation {
        Background,
        Foreground,
        Orphan,
    }
);
same!(record Subresource { name, parent });
same!(record DeleteOptions { resource_version, propagation, grace_period_ms, dry_run });
same!(record Collection { kind, namespace, label_selector, field_selector, all });
same!(record ObjectWrite { object, options });
same!(record PatchWrite { target, patch_type, patch, options });
same!(record DeleteWrite { target, options });
same!(variant Operation { Create, Update, Patch, Apply, Delete });

impl From<old::WriteOptions> for new::WriteOptions {
    fn from(options: old::WriteOptions) -> Self {
        let old::WriteOptions {
            subresource,
            resource_version,
            owned,
            force,
            dry_run,
            field_validation,
            manager_suffix,
        } = options;
        Self {
            subresource: subresource.map(Into::into),
            resource_version,
            owned,
            force,
            dry_run,
            field_validation: field_validation.into(),
            manager_suffix,
            fields: None,
        }
    }
}
