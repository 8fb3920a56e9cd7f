//! `log`, and `print`, which writes to it.

use starlark::PrintHandler;
use starlark::collections::SmallMap;
use starlark::environment::GlobalsBuilder;
use starlark::starlark_module;
use starlark::values::Value;
use starlark::values::none::NoneType;
use windlass_sdk::bindings::windlass::plugin::log::{self, Level};

use crate::arguments::{pairs, shown, wrong};
use crate::script;

const LEVELS: [(&str, Level); 5] = [
    ("trace", Level::Trace),
    ("debug", Level::Debug),
    ("info", Level::Info),
    ("warn", Level::Warn),
    ("error", Level::Error),
];

#[starlark_module]
pub(crate) fn functions(builder: &mut GlobalsBuilder) {
    fn trace<'v>(
        #[starlark(require = pos)] message: Value<'v>,
        #[starlark(kwargs)] fields: SmallMap<String, Value<'v>>,
    ) -> starlark::Result<NoneType> {
        Ok(line(Level::Trace, message, fields))
    }

    fn debug<'v>(
        #[starlark(require = pos)] message: Value<'v>,
        #[starlark(kwargs)] fields: SmallMap<String, Value<'v>>,
    ) -> starlark::Result<NoneType> {
        Ok(line(Level::Debug, message, fields))
    }

    fn info<'v>(
        #[starlark(require = pos)] message: Value<'v>,
        #[starlark(kwargs)] fields: SmallMap<String, Value<'v>>,
    ) -> starlark::Result<NoneType> {
        Ok(line(Level::Info, message, fields))
    }

    fn warn<'v>(
        #[starlark(require = pos)] message: Value<'v>,
        #[starlark(kwargs)] fields: SmallMap<String, Value<'v>>,
    ) -> starlark::Result<NoneType> {
        Ok(line(Level::Warn, message, fields))
    }

    fn error<'v>(
        #[starlark(require = pos)] message: Value<'v>,
        #[starlark(kwargs)] fields: SmallMap<String, Value<'v>>,
    ) -> starlark::Result<NoneType> {
        Ok(line(Level::Error, message, fields))
    }

    fn log<'v>(
        #[starlark(require = pos)] level: &str,
        #[starlark(require = pos)] message: Value<'v>,
        #[starlark(require = pos)] fields: Option<Value<'v>>,
    ) -> starlark::Result<NoneType> {
        let Some((_, level)) = LEVELS.iter().find(|(name, _)| *name == level) else {
            let names: Vec<_> = LEVELS.iter().map(|(name, _)| *name).collect();
            return Err(wrong(format!("there is no level {level:?} of the log; there are: {}", names.join(", "))));
        };
        let fields = fields.filter(|fields| !fields.is_none());
        let fields = fields.map(|fields| pairs(fields, "the fields of log.log")).transpose()?;
        write(*level, &shown(message), &fields.unwrap_or_default());
        Ok(NoneType)
    }
}

fn line(level: Level, message: Value<'_>, fields: SmallMap<String, Value<'_>>) -> NoneType {
    let fields: Vec<_> = fields.into_iter().map(|(name, value)| (name, shown(value))).collect();
    write(level, &shown(message), &fields);
    NoneType
}

/// Writes a line. It is dropped while the script is read and while the host asks for the manifest, because there is no
/// log then.
pub(crate) fn write(level: Level, message: &str, fields: &[(String, String)]) {
    if script::is_in_call() {
        log::log(level, message, fields);
    }
}

/// Lines that the script prints.
pub(crate) struct Printed;

impl PrintHandler for Printed {
    fn println(&self, text: &str) -> starlark::Result<()> {
        write(Level::Info, text, &[]);
        Ok(())
    }
}
