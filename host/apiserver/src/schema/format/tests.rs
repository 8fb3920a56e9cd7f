use super::{Format, Kind};

fn each(name: &str, good: &[&str], bad: &[&str]) {
    let format = Format::known(name, Some(Kind::String)).expect("a known format");
    for text in good {
        assert!(format.accepts(text), "{text:?} is a {name}");
    }
    for text in bad {
        assert!(!format.accepts(text), "{text:?} is no {name}");
    }
}

// All of these answers come from real servers; tests/differential/scripts/formats.yaml has many more.
#[test]
fn names_and_addresses_are_accepted_as_in_go() {
    each("hostname", &["a", "a-", "a.bc", "1a.com", "ä.de", "☃.net"], &["a.b", "a-b-c", "1.2.3.4", "-a", "a..com", ""]);
    each("k8s-short-name", &["a", "1"], &["A", "a-", "a.b", ""]);
    each("k8s-long-name", &["a.b", "1.2.3.4"], &["a..b", ".a", ""]);
    each("ipv4", &["10.0.0.1", "010.000.0.1", "::ffff:10.0.0.1"], &["10.0.0", "::1", "10.0.0.256", "1..2.3"]);
    each("ipv6", &["::1", "::ffff:1.2.3.4"], &["10.0.0.1", ":::", "fe80::1%eth0", "00001::"]);
    each("cidr", &["10.0.0.1/8", "010.0.0.0/08", "00fd00::/8"], &["10.0.0.0", "10.0.0.0/33", "x/1", "10.0.0.0/+8"]);
    each("mac", &["00:11:22:33:44:55", "0011.2233.4455"], &["00:11:22", "00:11-22:33:44:55", "0:1:2:3:4:5"]);
    each(
        "email",
        &["a@b", "G <a@b.c>", "g: a@b.c;", "a@[::1]", "\"a b\"@c.d"],
        &["a", "@b", "a b@c", "a..b@c.d", "g:;"],
    );
    each(
        "uri",
        &["https://x/z", "/a", "*", "x:", "http://[::1]:80/"],
        &["x", "", "1:x", "http://a:b/", "/%zz", "http://%41/"],
    );
}

#[test]
fn times_are_read_as_go_reads_them() {
    each("date", &["2026-01-02", "0000-01-01"], &["2026-13-02", "2023-02-29", "2026-1-2", ""]);
    each(
        "date-time",
        &["2026-01-02T03:04:05Z", "2026-01-02t03:04:05x5+99:99", "2026-01-02T03:04:05ZT"],
        &["2026-01-02", "2026-01-02 03:04:05Z", "2026-01-02T03:04:60Z", "2026-01-02T03:04:05", ""],
    );
    each(
        "duration",
        &["1h30m", "1.s", "0", "-2m", "22 ns", "1 Day", "P1D", "x1s"],
        &["", "5", "1x", "s", "-", "P1Y", "9223372036854775808ns"],
    );
}

#[test]
fn numerals_and_codes_are_accepted_as_in_go() {
    each("isbn", &["3 401 01319 X", "978-4-87311-368-5"], &["3836221196", "foo", ""]);
    each("creditcard", &["4220 8554 2622 2389"], &["4220855426213389", "", "30190239451016"]);
    each("ssn", &["191-60 2869"], &["191602869"]);
    each("byte", &["YWJj", "YQ=="], &["", "YQ=", "YQ", "===="]);
    each("uuid", &["123e4567e89b-12d3a456-426614174000"], &["123e-4567-e89b-12d3-a456-426614174000"]);
    each("uuid4", &["123e4567-e89b-42d3-B456-426614174000"], &["123e4567-e89b-42d3-c456-426614174000"]);
    each("uuid3", &["123e4567-e89b-32d3-c456-426614174000"], &["x"]);
    each("hexcolor", &["#fff", "abcdef"], &["#ff", "##fff"]);
    each("rgbcolor", &["rgb( 0,\t10,255)"], &["rgb(01,0,0)", "rgb(256,0,0)", "rgb(1,2)"]);
    each("bsonobjectid", &["507f1f77bcf86cd799439011"], &["x"]);
}

#[test]
fn a_format_is_known_only_for_its_type() {
    assert!(Format::known("u-u-i-d", None).is_some(), "dashes do not count");
    assert!(Format::known("binary", Some(Kind::String)).is_none());
    assert!(Format::known("int32", Some(Kind::String)).is_none());
    assert!(Format::known("int32", Some(Kind::Integer)).is_some());
    assert!(Format::known("float", Some(Kind::Integer)).is_none());
    assert!(Format::known("date", Some(Kind::Object)).is_none());
}
