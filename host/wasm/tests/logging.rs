//! A guest's log lines become events of `tracing`, one line each, whatever the guest writes. In its own test program,
//! because it installs a global subscriber.

mod support;

use std::io;
use std::sync::{Arc, Mutex};

use support::guests::Core;
use support::ports::quiet;
use support::{call_of, call_with, load, sandbox};
use windlass_core::object::ObjectKey;
use windlass_core::queue::outcome::CallResult;
use windlass_wasm::{CallLimits, Limits};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_guest_cannot_forge_a_line() {
    let written = Written::default();
    let writer = written.clone();
    tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).init();

    let import = r#"(import "windlass:plugin/log@0.3.0" "log" (func $log (param i32 i32 i32 i32 i32)))"#;
    // Level 3 is `warn`; the one field is ("v1", "ok<newline>forged").
    let log = "(call $log (i32.const 3) (i32.const 3000) (i32.const 9) (i32.const 3072) (i32.const 1))";
    let data = r#"(data (i32.const 3000) "ok\0aforged") (data (i32.const 3072) "\00\08\00\00\02\00\00\00\b8\0b\00\00\09\00\00\00")"#;
    let guest = Core { imports: import.into(), items: data.into(), reconcile: log.into(), ..Core::default() };
    let plugin = load(&sandbox(Limits::default()), "guest", &guest.component()).await.expect("it loads");
    let call = call_of(&plugin, &ObjectKey::namespaced("prod", "shop"));
    let called = call_with(&plugin, &quiet(), call.clone(), None, CallLimits::default()).await;
    assert_eq!(called.result, CallResult::Done);
    let kept = call.lines.take();
    assert_eq!(kept.len(), 1, "the call keeps it: {kept:?}");
    assert_eq!((kept[0].level, &*kept[0].text), ("WARN", r"ok\nforged v1=ok\nforged"));

    let bytes = written.0.lock().expect("not poisoned").clone();
    let text = String::from_utf8(bytes).expect("UTF-8");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("forged")).collect();
    let [line] = lines[..] else { panic!("not one line: {text}") };
    let fields = r#"fields="[[\"v1\",\"ok\\\\nforged\"]]""#;
    for part in ["WARN windlass::plugin", "ok\\nforged", fields, "plugin=\"guest\"", "key=prod/shop"] {
        assert!(line.contains(part), "{part:?} is missing in: {line}");
    }
}
