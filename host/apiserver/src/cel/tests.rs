//! Tests the limits of the engine and the form of its errors. `tests/judged.rs` compares the values of expressions with
//! those of a real server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::types::{INT, Type};
use super::{EvalError, Program, Value};

fn compiled(source: &str) -> Program {
    let variables = vec![("self".to_owned(), Type::list(INT)), ("any".to_owned(), Type::Dyn)];
    Program::compile(source, variables).unwrap_or_else(|error| panic!("{source}: {error}"))
}

fn run(source: &str, list: Vec<i64>) -> Result<Value, EvalError> {
    let list = Value::List(Arc::new(list.into_iter().map(Value::Int).collect()));
    compiled(source).run(vec![("self".to_owned(), list)], 1_000_000).value
}

#[test]
fn expressions_have_their_usual_values() {
    for source in [
        "1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && -2 - -3 == 1 && 7 % 4 == 3",
        "self.exists(x, x == 2) && !self.exists(x, x == 4) && self.exists_one(x, x > 2)",
        "self.map(x, x * 2) == [2, 4, 6] && self.map(x, x > 1, x) == [2, 3] && self.filter(x, x < 2) == [1]",
        "type(self) == list && type(1) == int && string(duration('90s')) == '90s'",
        "self[?7].orValue(5) == 5 && self[?1].optMap(x, x + 1).value() == 3 && optional.none().or(optional.of(1)).hasValue()",
        "{'a': 1, 'b': 2}.all(k, v, v < 3) && {'a': 1}.a == 1 && has({'a': 1}.a) && 'a' in {'a': 1}",
        "'\\u00e9\\x41\\n\"' == \"éA\\n\\\"\" && r'\\n' == '\\\\n' && '''a'b''' == \"a'b\" && b'\\xff' == b'\\377'",
        "0x10 == 16 && 1u < 2u && 1.5e1 == 15.0 && .5 < 1.0 && size('aé') == 2",
        "true ? true : 1 / 0 == 1 // a comment",
        "self.transformMap(i, x, x + i) == {0: 1, 1: 3, 2: 5} && self.sortBy(x, -x) == [3, 2, 1]",
        "1 == 1 || 1 / 0 == 1",
        "false && 1 / 0 == 1 ? false : true",
        "duration('1s') != null && null != quantity('1') && optional.none() != null && !(null in [duration('1s')])",
    ] {
        assert_eq!(run(source, vec![1, 2, 3]), Ok(Value::Bool(true)), "{source}");
    }
}

#[test]
fn null_compares_only_with_nullable_values() {
    for source in
        ["true == null", "'a' == null", "1 == null", "[1] == null", "{'a': 1} == null", "[duration('1s'), null] == []"]
    {
        Program::compile(source, Vec::new()).expect_err(source);
    }
}

#[test]
fn a_mistyped_value_is_an_error_only_where_it_is_evaluated() {
    let wrong = || Value::Opaque(Arc::new(super::Mistyped("not an int")));
    let answer = |source: &str| compiled(source).run(vec![("self".to_owned(), wrong())], 1000).value;
    assert_eq!(answer("self == self"), Err(EvalError::Other("not an int".to_owned())));
    assert_eq!(answer("true || self == self"), Ok(Value::Bool(true)));
}

#[test]
fn an_error_points_at_its_place() {
    let error = Program::compile("1 +\n  x.y", Vec::new()).expect_err("x is unknown");
    assert_eq!(error, "ERROR: <input>:2:3: undeclared reference to 'x' (in container '')\n |   x.y\n | ..^");
}

/// An attacker sends an expression whose tree is too deep for any stack.
#[test]
fn depth_is_limited_in_every_syntax() {
    let n = 20_000;
    for source in [
        format!("{}1{}", "(".repeat(n), ")".repeat(n)),
        format!("1{}", " + 1".repeat(n)),
        format!("any{}", ".a".repeat(n)),
        format!("any{}", "[0]".repeat(n)),
        format!("{}true", "!".repeat(n)),
        format!("{}1", "-".repeat(n)),
        format!("{}1{}", "[".repeat(n), "]".repeat(n)),
        format!("{}1{}", "{1: ".repeat(n), "}".repeat(n)),
        format!("1{}", " < 1".repeat(n)),
        format!("{}1", "true ? 1 : ".repeat(8000)),
        format!("any{}", ".all(x, any".repeat(8000)),
    ] {
        let error = Program::compile(&source, vec![("any".to_owned(), Type::Dyn)]).expect_err("too deep");
        assert!(error.contains("recursion limit") || error.contains("size exceeds limit"), "{}", error.len());
    }
    // The deepest allowed expression evaluates on any stack.
    let deepest = compiled(&format!("{}1{} == 1", "(".repeat(60), ")".repeat(60)));
    let chain = compiled(&format!("1{} > 1", " + 1".repeat(120)));
    let small = std::thread::Builder::new().stack_size(512 << 10);
    let run = move || [deepest, chain].map(|program| program.run(Vec::new(), 1000).value);
    let answers = small.spawn(run).expect("a thread").join().expect("no overflow");
    assert_eq!(answers, [Ok(Value::Bool(true)), Ok(Value::Bool(true))]);
}

/// An attacker sends an expression whose evaluation would never end, or would not fit into memory.
#[test]
fn cost_is_limited_in_every_construct() {
    let list: Vec<i64> = (0..5_000).collect();
    let doubled = |start: &str, rest: &str| {
        let binds: String = (0..40).map(|_| "[a + a].all(a, ").collect();
        format!("[{start}].all(a, {binds}{rest}{})", ")".repeat(40))
    };
    for source in [
        "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))",
        "self.map(a, self).map(l, l.map(x, x)).size() == 1",
        "self.all(a, self.exists(b, b == 4999))",
        "self.all(a, 4999 in self)",
        "self.all(a, self == self)",
        "self.all(a, sets.contains(self, self))",
        "lists.range(1000000000).size() == 1",
        &doubled("'aaaaaaaaaaaaaaaa'", "a.size() > 0"),
        &doubled("self", "a.size() > 0"),
        &doubled("'aaaaaaaaaaaaaaaa'", "a.matches(a)"),
        "self.all(a, ('a' + string(a)).matches('(a{200}){200}' + string(a)))",
        "self.sortBy(a, self).size() == 1",
        "self.all(a, self.map(b, string(b)).join(',').split(',').size() > 0)",
    ] {
        let start = Instant::now();
        let answer = run(source, list.clone());
        assert!(answer.is_err(), "{source}: {answer:?}");
        assert!(start.elapsed() < Duration::from_secs(10), "{source}: {:?}", start.elapsed());
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(source in r#"([a-z"'0-9.,?:(){}\[\]!&|<>=+*/% -]|self|has|all|\PC){0,40}"#) {
        if let Ok(program) = Program::compile(&source, vec![("self".to_owned(), Type::Dyn)]) {
            let _answer = program.run(vec![("self".to_owned(), Value::Int(1))], 10_000);
        }
    }

    #[test]
    fn no_call_makes_it_panic(
        function in prop::sample::select(super::declarations::names()),
        args in prop::collection::vec(
            prop::sample::select(vec![
                "1", "-1", "9223372036854775807", "'a'", "'é'", "''", "[1]", "[]", "['b', 'a']", "{'a': 1}", "b'x'",
                "1u", "1.5", "-0.0 / 0.0", "null", "true", "timestamp('2020-01-01T00:00:00Z')", "duration('1h')",
                "duration('-100000h')", "quantity('1e30')", "quantity('1Gi')", "quantity('1n')", "ip('::1')",
                "cidr('10.0.0.0/8')", "semver('1.2.3')", "url('http://a')", "optional.none()",
                "timestamp('0001-01-01T00:00:00Z')", "timestamp('9999-12-31T23:59:59Z')",
            ]),
            0..4,
        ),
    ) {
        let mut sources = vec![format!("{function}({})", args.join(", "))];
        if let Some((first, rest)) = args.split_first() {
            sources.push(format!("({first}).{function}({})", rest.join(", ")));
            for operator in ["+", "-", "*", "/", "%", "<", "==", "in"] {
                sources.push(format!("({first}) {operator} ({})", rest.first().unwrap_or(&"1")));
            }
        }
        for source in sources {
            if let Ok(program) = Program::compile(&source, Vec::new()) {
                let _answer = program.run(Vec::new(), 10_000);
            }
        }
    }
}
