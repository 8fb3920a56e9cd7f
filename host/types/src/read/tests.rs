#![expect(clippy::needless_pass_by_value, reason = "a schema reads best where it is passed")]

use serde_json::json;

use super::*;

/// The model of the kind `Shop`, whose schema has these properties.
fn model(properties: Value) -> Model {
    let schema = json!({"type": "object", "properties": properties, "required": ["needed"]});
    with_others(schema, json!({}))
}

fn with_others(mut schema: Value, others: Value) -> Model {
    schema["x-kubernetes-group-version-kind"] = json!([{"group": "example.com", "version": "v1", "kind": "Shop"}]);
    let mut document = json!({"components": {"schemas": others}});
    document["components"]["schemas"]["com.example.v1.Shop"] = schema;
    let mut schemas = Schemas::default();
    schemas.add(&document);
    read("crd.yaml", &schemas, &[wanted("Shop")]).expect("it has the kind")
}

fn wanted(kind: &str) -> Wanted {
    Wanted { group: "example.com".into(), version: "v1".into(), kind: kind.into(), name: kind.into() }
}

fn structure<'a>(model: &'a Model, name: &str) -> &'a Struct {
    match &model.declaration(name).expect("it is declared").body {
        Body::Struct(it) => it,
        Body::Enumeration(_) => panic!("{name} is an enumeration"),
    }
}

/// The shape of the only field of a `Shop`.
fn shape(schema: Value) -> Shape {
    structure(&model(json!({"it": schema})), "Shop").fields[0].shape.clone()
}

#[test]
fn each_schema_has_a_shape() {
    let boxed = |shape: Shape| Box::new(shape);
    let cases = [
        (json!({"type": "boolean"}), Shape::Bool),
        (json!({"type": "integer", "format": "int32"}), Shape::Int32),
        (json!({"type": "integer"}), Shape::Int64),
        (json!({"type": "number"}), Shape::Float),
        (json!({"type": "string"}), Shape::Text),
        (json!({"type": "string", "format": "byte"}), Shape::Text),
        (json!({"type": "string", "format": "date-time"}), Shape::Time),
        (json!({"x-kubernetes-int-or-string": true}), Shape::IntOrString),
        (json!({"x-kubernetes-int-or-string": true, "pattern": "^([KMGTPE]i)$"}), Shape::Quantity),
        (json!({"x-kubernetes-preserve-unknown-fields": true}), Shape::Json),
        (json!({"x-kubernetes-preserve-unknown-fields": true, "nullable": true}), Shape::Json),
        (json!({"type": "object"}), Shape::Map(boxed(Shape::Json))),
        (json!({"type": "object", "additionalProperties": true}), Shape::Map(boxed(Shape::Json))),
        (json!({"type": "object", "additionalProperties": {"type": "string"}}), Shape::Map(boxed(Shape::Text))),
        (
            json!({"type": "array", "items": {"type": "string", "nullable": true}}),
            Shape::List(boxed(Shape::Nullable(boxed(Shape::Text)))),
        ),
        (json!({"type": "string", "nullable": true}), Shape::Nullable(boxed(Shape::Text))),
        (json!({"type": "integer", "enum": [1, 2]}), Shape::Int64),
    ];
    for (schema, expected) in cases {
        assert_eq!(shape(schema.clone()), expected, "{schema}");
    }
}

#[test]
fn types_are_named_by_their_paths() {
    let port = json!({"type": "object", "properties": {
        "protocol": {"type": "string", "enum": ["TCP", "UDP", null]},
        "a-b": {"type": "object", "properties": {"x": {"type": "string"}}},
        "aB": {"type": "object", "properties": {"x": {"type": "string"}}},
    }});
    let spec = json!({"type": "object", "properties": {
        "ports": {"type": "array", "items": port}, "byName": {"type": "object", "additionalProperties": port},
    }});
    let model = model(json!({"spec": spec}));
    assert_eq!(model.kinds, ["Shop"]);
    let names: Vec<&str> = model.declarations.iter().map(|it| it.name.as_str()).collect();
    let expected = [
        "Shop",
        "ShopSpec",
        "ShopSpecByName",
        "ShopSpecByNameAB",
        "ShopSpecByNameAB2",
        "ShopSpecByNameProtocol",
        "ShopSpecPort",
        "ShopSpecPortAB",
        "ShopSpecPortAB2",
        "ShopSpecPortProtocol",
    ];
    assert_eq!(names, expected);
    assert_eq!(model.declaration("ShopSpecPort").expect("declared").docs, ["`spec.ports` of `Shop`."]);
    let values = Body::Enumeration(vec!["TCP".into(), "UDP".into()]);
    assert_eq!(model.declaration("ShopSpecPortProtocol").expect("declared").body, values);
}

#[test]
fn fields_have_their_default_and_whether_they_are_required() {
    let model = model(json!({"needed": {"type": "string"}, "other": {"type": "integer", "default": 0}}));
    let fields = &structure(&model, "Shop").fields;
    let facts: Vec<_> = fields.iter().map(|it| (it.key.as_str(), it.is_required, it.default.clone())).collect();
    assert_eq!(facts, [("needed", true, None), ("other", false, Some(json!(0)))]);
    assert_eq!(fields[1].docs, ["Default: `0`."]);
}

#[test]
fn structs_keep_unknown_fields_if_the_server_does() {
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let mut open = closed.clone();
    open["x-kubernetes-preserve-unknown-fields"] = json!(true);
    let model = model(json!({"open": open, "closed": closed}));
    assert!(structure(&model, "ShopOpen").is_open && !structure(&model, "ShopClosed").is_open);
}

#[test]
fn a_schema_that_refers_to_itself_is_any_json() {
    let reference = |name: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]});
    let object = |properties: Value| json!({"type": "object", "description": "Green.", "properties": properties});
    let branches = json!({"type": "array", "items": reference("io.k8s.api.core.v1.Branch")});
    let others = json!({
        "io.k8s.api.core.v1.Tree": object(json!({"branches": branches})),
        "io.k8s.api.core.v1.Branch": object(json!({"tree": reference("io.k8s.api.core.v1.Tree")})),
        "io.k8s.api.core.v1.Leaf": object(json!({"a": {"type": "string", "default": ""}})),
    });
    let schema = json!({"type": "object", "properties": {
        "tree": reference("io.k8s.api.core.v1.Tree"), "leaf": reference("io.k8s.api.core.v1.Leaf"),
        "again": reference("io.k8s.api.core.v1.Leaf"), "absent": reference("io.k8s.api.core.v1.Bark"),
    }});
    let model = with_others(schema, others);
    let shapes: Vec<_> = structure(&model, "Shop").fields.iter().map(|it| it.shape.clone()).collect();
    assert_eq!(shapes, [Shape::Json, Shape::Named("Leaf".into()), Shape::Named("Leaf".into()), Shape::Json]);
    assert_eq!(model.declarations.len(), 2);
    assert_eq!(model.declaration("Leaf").expect("declared").docs, ["Green."]);
    assert_eq!(structure(&model, "Leaf").fields[0].default, None, "a zero value of Go is no default");
}

#[test]
fn lists_that_kubernetes_requires_may_be_null() {
    let others = json!({"io.k8s.api.core.v1.Pod": {
        "type": "object", "required": ["containers"],
        "properties": {"containers": {"type": "array", "items": {"type": "string"}}},
    }});
    let schema =
        json!({"type": "object", "properties": {"pod": {"$ref": "#/components/schemas/io.k8s.api.core.v1.Pod"}}});
    let expected = Shape::Nullable(Box::new(Shape::List(Box::new(Shape::Text))));
    assert_eq!(structure(&with_others(schema, others), "Pod").fields[0].shape, expected);
}

#[test]
fn a_kind_without_a_schema_is_an_error() {
    let error = read("crd.yaml", &Schemas::default(), &[wanted("Shop")]).expect_err("there is none");
    assert_eq!(error.to_string(), "no schema for Shop of example.com/v1");
}

#[test]
fn an_open_struct_keeps_fields_that_go_cannot_name() {
    let hostile = "x\"`\n}\nfunc init() {}\ntype Y struct {\n\tZ string `json:\"z";
    for key in [hostile, "x`\n    pub fn f() {}\n //", "a,b", "", "price€", "a–b", "e\u{301}", "größe"] {
        let schema = json!({"type": "object", "properties": {key: {"type": "string", "default": "x"}, "a": {}}});
        let model = model(json!({key: {"type": "string", "default": "x"}, "it": schema}));
        for (name, field) in [("Shop", "it"), ("ShopIt", "a")] {
            let it = structure(&model, name);
            let keys: Vec<&str> = it.fields.iter().map(|field| field.key.as_str()).collect();
            assert_eq!((keys, it.is_open), (vec![field], true), "{key}");
        }
        for (_, language) in crate::Language::KNOWN {
            let text = crate::generate(language, &model, "main");
            assert!(key.is_empty() || !text.contains(key), "{text}");
        }
    }
    let every = json!({KEY_SYMBOLS: {"type": "string"}});
    assert!(!structure(&model(every), "Shop").is_open);
}

#[test]
fn a_long_chain_of_references_is_any_json() {
    const CHAIN_LENGTH: usize = 1000;
    let name = |number: usize| format!("com.example.v1.A{number}");
    let list =
        |number: usize| json!({"type": "array", "items": {"$ref": format!("#/components/schemas/{}", name(number))}});
    let mut others: Map<String, Value> = (0..CHAIN_LENGTH).map(|number| (name(number), list(number + 1))).collect();
    others.insert(name(CHAIN_LENGTH), json!({"type": "string"}));
    let schema = json!({"type": "object", "properties": {"long": list(0), "short": list(CHAIN_LENGTH - 1)}});
    let model = with_others(schema, Value::Object(others));
    let shapes: Vec<_> = structure(&model, "Shop").fields.iter().map(|it| it.shape.within().pop().cloned()).collect();
    assert_eq!(shapes, [Some(Shape::Json), Some(Shape::Text)]);
}
