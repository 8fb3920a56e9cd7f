//! The mode about batches of writes.

use windlass_sdk::bindings::windlass::plugin::types::ObjectRef;
use windlass_sdk::bindings::windlass::plugin::writes::{
    self, DeleteOptions, DeleteWrite, FieldValidation, ObjectWrite, Operation, Propagation, WriteOptions,
};
use windlass_sdk::{Failures, Outcome};

/// Sends a batch and fails terminally with the result of each operation, in order.
pub(crate) fn batch() -> Result<Outcome, Failures> {
    let operations = [apply("first"), delete("second"), delete("../third"), apply("fourth")];
    let told = writes::batch(&operations).into_iter().map(|result| match result {
        Ok(Some(object)) => object,
        Ok(None) => "none".to_owned(),
        Err(error) => error.status_reason,
    });
    Err(Failures::terminal(told.collect::<Vec<_>>().join(", ")))
}

fn apply(object: &str) -> Operation {
    let options = WriteOptions {
        subresource: None,
        resource_version: None,
        owned: false,
        force: false,
        dry_run: false,
        field_validation: FieldValidation::Strict,
        manager_suffix: None,
        fields: None,
    };
    Operation::Apply(ObjectWrite { object: object.to_owned(), options })
}

fn delete(name: &str) -> Operation {
    let target = ObjectRef {
        cluster: None,
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        namespace: None,
        name: name.to_owned(),
        uid: None,
    };
    let options = DeleteOptions {
        resource_version: None,
        propagation: Propagation::Background,
        grace_period_ms: None,
        dry_run: false,
    };
    Operation::Delete(DeleteWrite { target, options })
}
