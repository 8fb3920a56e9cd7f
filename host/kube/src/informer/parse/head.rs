//! Reads the heads of objects and events in the form that API servers write. The result is `None` for other forms: if a
//! string that the host reads has an escape, or a field appears twice, is null or has another type. See [`Scan`].

use std::borrow::Cow;

use super::{Pairs, ParsedMetadata, ParsedObject, ParsedOwner, Raw};
use crate::scan::{Scan, once};

/// The head of `text`, which has no white space around it.
pub(super) fn object(text: &str) -> Option<ParsedObject<'_>> {
    let mut scan = Scan::new(text);
    let object = object_at(&mut scan)?;
    scan.end().map(|()| object)
}

/// An event of a watch.
pub(super) struct UsualEvent<'a> {
    pub(super) name: &'a str,
    pub(super) object: ParsedObject<'a>,
    pub(super) text: &'a str,
}

/// The event in `text`, which has no white space around it, and the head of its object.
pub(super) fn event(text: &str) -> Option<UsualEvent<'_>> {
    let (mut name, mut object) = (None, None);
    let mut scan = Scan::new(text);
    scan.fields(|scan, field| match field {
        "type" => once(&mut name, scan.string()?),
        "object" => {
            let start = scan.at();
            let head = object_at(scan)?;
            once(&mut object, (head, scan.since(start)?))
        }
        _ => scan.pass(),
    })?;
    scan.end()?;
    object.zip(name).map(|((object, text), name)| UsualEvent { name, object, text })
}

fn object_at<'a>(scan: &mut Scan<'a>) -> Option<ParsedObject<'a>> {
    let mut object = ParsedObject::default();
    scan.fields(|scan, name| match name {
        "apiVersion" => once(&mut object.api_version, Raw(scan.raw()?)),
        "kind" => once(&mut object.kind, Raw(scan.raw()?)),
        "metadata" => once(&mut object.metadata, metadata(scan)?),
        "status" => once(&mut object.status, Raw(scan.raw()?)),
        _ => scan.pass(),
    })?;
    Some(object)
}

fn metadata<'a>(scan: &mut Scan<'a>) -> Option<ParsedMetadata<'a>> {
    let (mut name, mut namespace, mut uid, mut resource_version) = (None, None, None, None);
    let mut metadata = ParsedMetadata::default();
    scan.fields(|scan, field| match field {
        "name" => once(&mut name, scan.string()?),
        "namespace" => once(&mut namespace, scan.string()?),
        "uid" => once(&mut uid, scan.string()?),
        "resourceVersion" => once(&mut resource_version, scan.string()?),
        "generation" => once(&mut metadata.generation, scan.integer()?),
        "labels" => once(&mut metadata.labels, labels(scan)?),
        "ownerReferences" => once(&mut metadata.owner_references, owners(scan)?),
        "deletionTimestamp" => once(&mut metadata.deletion_timestamp, Raw(scan.raw()?)),
        "managedFields" => once(&mut metadata.managed_fields, Raw(scan.raw()?)),
        _ => scan.pass(),
    })?;
    let text = |text: Option<&'a str>| Cow::Borrowed(text.unwrap_or_default());
    metadata.name = text(name);
    metadata.namespace = text(namespace);
    metadata.uid = text(uid);
    metadata.resource_version = text(resource_version);
    Some(metadata)
}

fn labels<'a>(scan: &mut Scan<'a>) -> Option<Pairs<'a>> {
    let mut labels = Pairs::default();
    scan.fields(|scan, name| {
        let value = scan.string()?;
        labels.add(Cow::Borrowed(name), Cow::Borrowed(value));
        Some(())
    })?;
    Some(labels.sorted())
}

fn owners<'a>(scan: &mut Scan<'a>) -> Option<Vec<ParsedOwner<'a>>> {
    let mut owners = Vec::new();
    scan.expect(b'[')?;
    if scan.follows(b']') {
        return Some(owners);
    }
    loop {
        owners.push(owner(scan)?);
        if !scan.follows(b',') {
            scan.expect(b']')?;
            return Some(owners);
        }
    }
}

fn owner<'a>(scan: &mut Scan<'a>) -> Option<ParsedOwner<'a>> {
    let (mut api_version, mut kind, mut name, mut uid, mut controller) = (None, None, None, None, None);
    scan.fields(|scan, field| match field {
        "apiVersion" => once(&mut api_version, scan.string()?),
        "kind" => once(&mut kind, scan.string()?),
        "name" => once(&mut name, scan.string()?),
        "uid" => once(&mut uid, scan.string()?),
        "controller" => once(&mut controller, scan.boolean()?),
        _ => scan.pass(),
    })?;
    Some(ParsedOwner {
        api_version: Cow::Borrowed(api_version?),
        kind: Cow::Borrowed(kind?),
        name: Cow::Borrowed(name?),
        uid: Cow::Borrowed(uid?),
        controller,
    })
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    /// In the order in which kube-apiserver writes them, and with all that Go escapes.
    const OBJECTS: [&str; 4] = [
        r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"shop-7c9d","generateName":"shop-","namespace":"prod",
"uid":"2a5e64bb-6c7c-4d6e-9b0d-0c2f5b0a8f10","resourceVersion":"813","generation":3,"creationTimestamp":"2026-11-23T10:00:00Z",
"deletionTimestamp":"2026-11-23T10:00:01Z","deletionGracePeriodSeconds":30,"labels":{"app":"shop","tier":""},
"annotations":{"last-applied":"{\"a\":\"\\\\\u003cb\u003e\\n\"}\n"},"ownerReferences":[{"apiVersion":"apps/v1","kind":
"ReplicaSet","name":"shop","uid":"0d2b7b62-90b5-4a53-8f0f-0a4f9b7a7c55","controller":true,"blockOwnerDeletion":true},
{"apiVersion":"v1","kind":"Node","name":"n","uid":"n-1"}],"finalizers":["windlass.dev/webapp"],"managedFields":[{"manager":
"kubelet","operation":"Update","fieldsV1":{"f:status":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}}}}}]},"spec":{"a":[],
"b":{},"c":[[1,-2,0],[1.5e-3,-0.0,10E+7,0e0]],"d":null,"e":[true,false,{"f":"\u00fcü€"}]},"status":{"phase":"Running",
"conditions":[{"type":"Ready","status":"True"}]}}"#,
        r#"{"metadata":{"name":"a","labels":{"b":"1","a":"2","b":"3"},"ownerReferences":[]}}"#,
        r#"{"apiVersion":"x","kind":"y","metadata":{},"status":7}"#,
        "{}",
    ];

    fn objects() -> impl Iterator<Item = String> {
        OBJECTS.into_iter().map(|text| text.replace('\n', ""))
    }

    fn by_serde(text: &str) -> Option<ParsedObject<'_>> {
        serde_json::from_str(text).ok()
    }

    #[test]
    fn objects_of_api_servers_are_read_in_one_pass_as_serde_reads_them() {
        for text in objects() {
            let read = object(&text);
            assert!(read.is_some(), "{text}");
            assert_eq!(read, by_serde(&text), "{text}");
            for line in [
                format!(r#"{{"type":"ADDED","object":{text}}}"#),
                format!(r#"{{"object":{text},"a":{{}},"type":"ADDED"}}"#),
            ] {
                let event = event(&line).expect("an event");
                assert_eq!((event.name, event.text, Some(event.object)), ("ADDED", &*text, by_serde(&text)), "{line}");
            }
        }
    }

    /// With insertions into a sorted list, this would take minutes.
    #[test]
    fn very_many_labels_in_the_worst_order_are_read_quickly() {
        let labels: Vec<_> = (0..200_000).rev().map(|number| format!("\"{number:06}\":\"v\"")).collect();
        let text = format!(r#"{{"metadata":{{"labels":{{{},"000007":"last"}}}}}}"#, labels.join(","));
        let read = object(&text).expect("an object");
        assert_eq!(Some(&read), by_serde(&text).as_ref());
        let Pairs(pairs) = read.metadata.and_then(|metadata| metadata.labels).expect("labels");
        assert_eq!((pairs.len(), &*pairs[7].1), (labels.len(), "last"));
    }

    #[test]
    fn unusual_and_bad_texts_are_left_to_serde() {
        for text in [
            "",
            "[]",
            " {}",
            "{ }",
            "{}{}",
            r#"{"kind":null}"#,
            r#"{"kind":"a","kind":"b"}"#,
            r#"{"metadata":null}"#,
            r#"{"metadata":["a"]}"#,
            r#"{"metadata":{"name":"a","name":"b"}}"#,
            r#"{"metadata":{"name":"\u0061"}}"#,
            r#"{"metadata":{"n\u0061me":"a"}}"#,
            r#"{"metadata":{"generation":-0}}"#,
            r#"{"metadata":{"generation":1e2}}"#,
            r#"{"metadata":{"generation":9223372036854775808}}"#,
            r#"{"metadata":{"ownerReferences":[{"uid":"u"}]}}"#,
            r#"{"a":01}"#,
            r#"{"a":1.}"#,
            r#"{"a":"\x"}"#,
            r#"{"a":"\u12g4"}"#,
            "{\"a\":\"\t\"}",
            r#"{"a":[1,]}"#,
            r#"{"a":[1}"#,
            r#"{"a":{"b":1,}}"#,
            r#"{"a":tru}"#,
        ] {
            assert_eq!(object(text), None, "{text}");
        }
        let deep = |depth| format!(r#"{{"a":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        assert!(object(&deep(64)).is_some() && object(&deep(66)).is_none() && by_serde(&deep(66)).is_some());
    }

    #[test]
    fn serde_reads_everything_that_one_pass_reads_in_the_same_way() {
        const BYTES: &[u8] = b"{}[]\",:\\0123456789-+.eEtrufalsn \n\t\x1f\x7f";
        let objects: Vec<_> = objects().collect();
        let mut random = SmallRng::seed_from_u64(7);
        let mut read = 0;
        for round in 0..50_000 {
            let mut bytes = objects[round % objects.len()].clone().into_bytes();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..bytes.len());
                let byte = BYTES[random.random_range(0..BYTES.len())];
                match random.random_range(0..4) {
                    0 => bytes.insert(at, byte),
                    1 => drop(bytes.remove(at)),
                    2 => bytes[at] = byte,
                    _ => {
                        let from = random.random_range(0..bytes.len());
                        let piece = bytes[from..bytes.len().min(from + 12)].to_vec();
                        drop(bytes.splice(at..at, piece));
                    }
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let Ok(text) = String::from_utf8(bytes) else { continue };
            let found = object(&text);
            if found.is_some() {
                read += 1;
                assert_eq!(found, by_serde(&text), "{text}");
            }
        }
        assert!(read > 5_000, "{read} of them are objects");
    }
}
