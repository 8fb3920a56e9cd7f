use super::*;
use crate::rights::grants::{Allowance, Grants, Scheme};

fn target(url: &str) -> HttpTarget {
    HttpTarget::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn rule(host: &str) -> HttpRule {
    HttpRule {
        scheme: Scheme::Https,
        host: host.to_owned(),
        port: None,
        methods: vec!["GET".to_owned()],
        addresses: Vec::new(),
    }
}

fn asked(http: Vec<HttpRule>) -> LiveGrants {
    LiveGrants::new(Grants::asked(Allowance { http, ..Allowance::default() }))
}

fn is_allowed(rule: &HttpRule, method: &str, url: &str) -> bool {
    allow(&asked(vec![rule.clone()]), method, &target(url)).is_ok()
}

fn reach(networks: &[&str]) -> AddressReach {
    AddressReach { layers: vec![networks.iter().map(|network| network.parse().expect("a network")).collect()] }
}

fn denied(address: &str, networks: &[&str]) -> Option<AddressClass> {
    let socket = SocketAddr::new(address.parse().expect("an address"), 443);
    check_address(socket, &reach(networks), NetworkFacts::default()).err().map(|denied| denied.class)
}

#[test]
fn a_url_is_parsed_into_its_parts() {
    let read = target("HTTPS://Api.Example.COM.:8443/a/b%20c?d=[e]#secret");
    assert_eq!(read.to_string(), "https://api.example.com:8443");
    assert_eq!(read.path_and_query, "/a/b%20c?d=[e]");
    assert_eq!(target("http://example.com").path_and_query, "/");
    assert_eq!(target("http://example.com?a").path_and_query, "/?a");
    assert_eq!((target("http://a").port, target("https://a").port), (80, 443));
    assert_eq!(target("https://a:443/").authority(), "a");
    assert_eq!(target("http://[::1]:80/").host, UrlHost::Address("::1".parse().expect("an address")));
}

#[test]
fn ambiguous_urls_are_refused() {
    for url in [
        "",
        "example.com",
        "//example.com",
        "ftp://example.com",
        "https:example.com",
        "https:/example.com",
        "https://",
        "https:///path",
        "https://user@example.com",
        "https://user:word@example.com",
        "https://good.com@evil.com",
        "https://good.com\\@evil.com",
        "https://good.com\\.evil.com",
        "https://exa mple.com",
        "https://a\tb",
        "https://a\r\nHost: b",
        "https://exämple.com",
        "https://a%2eb.com",
        "https://a..b",
        "https://.a",
        "https://-a",
        "https://a-",
        "https://a:",
        "https://a:0",
        "https://a:65536",
        "https://a:+80",
        "https://a:080080",
        "https://[::1",
        "https://[::1]80",
        "https://[::1%25eth0]",
        "https://[1.2.3.4]",
        "https://::1",
        "https://a/%",
        "https://a/%4",
        "https://a/%zz",
        "https://a/ä",
        "https://a/|",
    ] {
        assert!(HttpTarget::parse(url).is_err(), "{url:?}");
    }
    assert!(HttpTarget::parse(&format!("https://a/{}", "b".repeat(9000))).is_err());
    assert!(HttpTarget::parse(&format!("https://{}/", "a".repeat(64))).is_err());
}

#[test]
fn addresses_in_octal_hexadecimal_or_one_number_are_refused() {
    for host in
        ["2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.1", "127.0.0.1.", "1.2.3.4.5", "0x", "a.1"]
    {
        assert!(HttpTarget::parse(&format!("http://{host}/")).is_err(), "{host}");
    }
    assert_eq!(target("http://127.0.0.1/").host, UrlHost::Address(IpAddr::from([127, 0, 0, 1])));
    assert!(matches!(target("http://1.a/").host, UrlHost::Name(_)));
}

#[test]
fn a_rule_may_name_the_hosts_that_urls_can_have() {
    for host in ["a", "api.example.com", "my_host", "1.a", "8.8.8.8", "[::1]", "[::ffff:7f00:1]"] {
        assert!(is_host_pattern(host) && HttpTarget::parse(&format!("https://{host}/")).is_ok(), "{host}");
    }
    for host in [
        "",
        "a..b",
        "-a",
        "a/b",
        "a:80",
        "127.1",
        "1.2.3.4.5",
        "0x7f.1",
        "a.1",
        "2130706433",
        "[::1",
        "[[::1]]",
        "[10.0.0.1]",
    ] {
        let is_url = HttpTarget::parse(&format!("https://{host}/")).is_ok_and(|it| it.host.to_string() == host);
        assert!(!is_host_pattern(host) && !is_url, "{host}");
    }
    for pattern in ["*", "*.example.com", "*.*.*.*", "127.*", "::1"] {
        assert!(is_host_pattern(pattern), "{pattern}");
    }
    assert!(!is_host_pattern("*.1") && !is_host_pattern("a*.example.com"));
}

#[test]
fn methods_are_upper_case_tokens_without_connect_and_trace() {
    for good in ["GET", "POST", "M-SEARCH", "VERSION-CONTROL"] {
        assert!(is_method(good), "{good}");
    }
    for bad in ["", "get", "GET ", "GET / HTTP/1.1\r\nA:", "CONNECT", "TRACE", "GÉT"] {
        assert!(!is_method(bad), "{bad:?}");
    }
}

#[test]
fn a_rule_covers_its_scheme_host_port_and_methods_and_nothing_else() {
    let rule = rule("api.example.com");
    assert!(is_allowed(&rule, "GET", "https://api.example.com/any?thing"));
    assert!(is_allowed(&rule, "GET", "https://API.example.com.:443/"));
    assert!(!is_allowed(&rule, "POST", "https://api.example.com/"));
    assert!(!is_allowed(&rule, "GET", "http://api.example.com/"));
    assert!(!is_allowed(&rule, "GET", "http://api.example.com:443/"));
    assert!(!is_allowed(&rule, "GET", "https://api.example.com:8443/"));
    assert!(!is_allowed(&rule, "GET", "https://example.com/"));
    assert!(!is_allowed(&rule, "GET", "https://api.example.com.evil.org/"));
    let other_port = HttpRule { port: Some(8443), methods: vec!["*".to_owned()], ..rule };
    assert!(is_allowed(&other_port, "DELETE", "https://api.example.com:8443/"));
    assert!(!is_allowed(&other_port, "GET", "https://api.example.com/"));
}

#[test]
fn a_star_stands_for_exactly_one_label() {
    let rule = rule("*.example.com");
    assert!(is_allowed(&rule, "GET", "https://a.example.com/"));
    for host in ["example.com", "a.b.example.com", "aexample.com", "a.example.com.evil.org"] {
        assert!(!is_allowed(&rule, "GET", &format!("https://{host}/")), "{host}");
    }
}

#[test]
fn a_star_does_not_match_addresses() {
    assert!(!is_allowed(&rule("*.*.*.*"), "GET", "https://10.0.0.1/"));
    assert!(is_allowed(&rule("10.0.0.1"), "GET", "https://10.0.0.1/"));
    assert!(is_allowed(&rule("[::1]"), "GET", "https://[0:0:0:0:0:0:0:1]/"));
    assert!(is_allowed(&rule("::1"), "GET", "https://[::1]/"));
    assert!(!is_allowed(&rule("127.0.0.1"), "GET", "https://[::ffff:127.0.0.1]/"));
}

#[test]
fn a_denial_names_the_missing_rule_without_the_path_and_is_counted() {
    let grants = asked(vec![rule("a.b")]);
    let error = allow(&grants, "POST", &target("https://a.b:8443/secret?token=1")).expect_err("no rule").to_string();
    for part in [
        "its manifest",
        "POST https://a.b:8443",
        r#"http: - {scheme: https, host: "a.b", port: 8443, methods: [POST]}"#,
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(!error.contains("secret"), "{error}");
    let counted = grants.denials().snapshot();
    assert_eq!(
        (counted[0].verb.as_str(), counted[0].resource.as_str(), counted[0].count),
        ("POST", "https://a.b:8443", 1)
    );
}

#[test]
fn addresses_that_are_not_public_are_denied() {
    use AddressClass as Class;
    for (class, addresses) in [
        (Class::Unspecified, &["0.0.0.0", "0.1.2.3", "::"][..]),
        (Class::Loopback, &["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1"]),
        (Class::LinkLocal, &["169.254.0.1", "fe80::1", "febf::1", "::ffff:169.254.0.1"]),
        (Class::Private, &["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fdff::1", "fec0::1"]),
        (Class::Shared, &["100.64.0.1", "100.127.255.255"]),
        (Class::Multicast, &["224.0.0.1", "239.255.255.255", "ff02::1"]),
        (Class::Broadcast, &["255.255.255.255"]),
        (Class::Documentation, &["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"]),
        (
            Class::Reserved,
            &["192.0.0.1", "192.88.99.1", "198.18.0.1", "240.0.0.1", "100::1", "4000::1", "2001::1", "5f00::1"],
        ),
        (
            Class::Metadata,
            &["169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "fd20:ce::254"],
        ),
    ] {
        for address in addresses {
            assert_eq!(denied(address, &[]), Some(class), "{address}");
        }
    }
    for public in
        ["1.1.1.1", "172.32.0.1", "100.128.0.1", "9.9.9.9", "2606:4700::1111", "64:ff9b::1.1.1.1", "2002:101:101::1"]
    {
        assert_eq!(denied(public, &[]), None, "{public}");
    }
}

#[test]
fn embedded_addresses_are_checked_too() {
    for address in [
        "64:ff9b::127.0.0.1",     // NAT64
        "2002:7f00:1::1",         // 6to4
        "2606:4700::5efe:7f00:1", // ISATAP
    ] {
        assert_eq!(denied(address, &[]), Some(AddressClass::Loopback), "{address}");
        assert_eq!(denied(address, &["127.0.0.1/32"]), None, "{address}");
    }
    // An address in a deprecated form is allowed only if rules list both the form and the embedded address.
    for address in ["::127.0.0.1", "::ffff:0:127.0.0.1", "2001:0:101:101::80ff:fffe"] {
        assert!(denied(address, &["127.0.0.0/8"]).is_some(), "{address}");
        assert!(denied(address, &["::/0"]).is_some(), "{address}");
        assert_eq!(denied(address, &["::/0", "127.0.0.0/8"]), None, "{address}");
    }
}

#[test]
fn a_rule_that_lists_a_network_allows_it() {
    assert_eq!(denied("127.0.0.1", &["127.0.0.0/8"]), None);
    assert_eq!(denied("::ffff:127.0.0.1", &["127.0.0.0/8"]), None);
    assert_eq!(denied("::1", &["127.0.0.0/8"]), Some(AddressClass::Loopback));
    assert_eq!(denied("10.1.2.3", &["10.2.0.0/16", "10.1.0.0/16"]), None);
}

#[test]
fn a_metadata_service_must_be_listed_by_itself() {
    assert_eq!(denied("169.254.169.254", &["169.254.0.0/16", "0.0.0.0/0"]), Some(AddressClass::Metadata));
    assert_eq!(denied("169.254.169.254", &["169.254.169.254/32"]), None);
}

#[test]
fn the_api_server_and_the_host_itself_are_denied_although_public() {
    let api_server = ["8.8.8.8:443".parse().expect("an address")];
    let around = NetworkFacts { api_server: &api_server, is_own: false };
    let check = |socket: &str, networks: &[&str]| {
        check_address(socket.parse().expect("an address"), &reach(networks), around).err().map(|denied| denied.class)
    };
    assert_eq!(check("8.8.8.8:443", &[]), Some(AddressClass::ApiServer));
    assert_eq!(check("[::ffff:8.8.8.8]:443", &["8.8.0.0/16"]), Some(AddressClass::ApiServer));
    assert_eq!(check("[64:ff9b::8.8.8.8]:443", &[]), Some(AddressClass::ApiServer));
    assert_eq!(check("8.8.8.8:443", &["8.8.8.8/32"]), None);
    assert_eq!(check("8.8.8.8:80", &[]), Some(AddressClass::ApiServerMachine));
    assert_eq!(check("8.8.8.8:80", &["8.8.0.0/16"]), None);
    assert_eq!(check("8.8.8.9:443", &[]), None);
    let own = NetworkFacts { is_own: true, ..NetworkFacts::default() };
    let socket = "9.9.9.9:443".parse().expect("an address");
    assert_eq!(check_address(socket, &reach(&[]), own).expect_err("its own").class, AddressClass::Own);
    assert_eq!(check_address(socket, &reach(&["9.9.9.0/24"]), own), Ok(()));
}

#[test]
fn a_denied_address_comes_with_the_missing_rule() {
    let socket = "10.0.0.1:80".parse().expect("an address");
    let denied = check_address(socket, &AddressReach::default(), NetworkFacts::default()).expect_err("private");
    let grants = asked(vec![]);
    let error = deny(&grants, "GET", &target("http://intranet/"), &denied).to_string();
    assert!(error.contains("10.0.0.1, which is a private address"), "{error}");
    assert!(error.contains(r#"addresses: ["10.0.0.1/32"]"#), "{error}");
    assert_eq!(grants.denials().snapshot().len(), 1);
}

#[test]
fn a_denied_address_names_the_layer_that_lacks_it() {
    use std::sync::Arc;
    let rules = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|range| (*range).to_owned()).collect();
        Arc::new(Allowance { http: vec![HttpRule { addresses, ..rule("localhost") }], ..Allowance::default() })
    };
    let denied = AddressDenied { address: [127, 0, 0, 1].into(), class: AddressClass::Loopback };
    let said = |policy: &[&str], ceiling: &[&str]| {
        let grants = Grants::asked((*rules(&[])).clone()).bounded(Layer::Policy, rules(policy));
        let grants = LiveGrants::new(grants.bounded(Layer::Ceiling, rules(ceiling)));
        deny(&grants, "GET", &target("https://localhost/"), &denied).to_string()
    };
    assert!(said(&["127.0.0.0/8"], &[]).starts_with("nothing in the host's ceiling allows"));
    assert!(said(&[], &["127.0.0.0/8"]).starts_with("nothing in its policy allows"));
    assert!(said(&[], &[]).starts_with("nothing in its policy and the host's ceiling allows"));
}

#[test]
fn each_layer_of_the_operator_must_list_an_address() {
    use std::sync::Arc;
    let rules = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|range| (*range).to_owned()).collect();
        Allowance { http: vec![HttpRule { addresses, ..rule("localhost") }], ..Allowance::default() }
    };
    let api_server = ["10.0.0.1:443".parse().expect("an address")];
    let around = NetworkFacts { api_server: &api_server, is_own: false };
    let reaches = |asked: &[&str], layers: &[&[&str]], address: &str| {
        let layers = layers.iter().map(|addresses| Arc::new(rules(addresses)));
        let grants = layers.fold(Grants::asked(rules(asked)), |grants, layer| grants.bounded(Layer::Policy, layer));
        let reach = allow(&LiveGrants::new(grants), "GET", &target("https://localhost/")).expect("the host is granted");
        check_address(SocketAddr::new(address.parse().expect("an address"), 443), &reach, around).is_ok()
    };
    assert!(!reaches(&["127.0.0.0/8"], &[], "127.0.0.1"), "the author's word is not enough");
    assert!(reaches(&[], &[&["127.0.0.0/8"]], "127.0.0.1"));
    assert!(reaches(&[], &[&["10.0.0.0/8"], &["10.1.2.3/32"]], "10.1.2.3"));
    assert!(!reaches(&[], &[&["10.0.0.0/8"], &["10.1.0.0/16"]], "10.2.0.1"));
    assert!(!reaches(&[], &[&["10.0.0.0/8"], &[]], "10.0.0.2"));
    let metadata = "169.254.169.254";
    for (network, single, address) in
        [("169.254.0.0/16", "169.254.169.254/32", metadata), ("10.0.0.0/8", "10.0.0.1/32", "10.0.0.1")]
    {
        assert!(!reaches(&[], &[&[network], &[single]], address), "{address}: each layer lists it by itself");
        assert!(!reaches(&[], &[&[single], &[network]], address), "{address}: each layer lists it by itself");
        assert!(reaches(&[], &[&[single], &[single]], address), "{address}");
    }
}

#[test]
fn a_request_needs_a_rule_in_each_layer() {
    use std::sync::Arc;
    let http = |rule: HttpRule| Allowance { http: vec![rule], ..Allowance::default() };
    let allowed = |asked: &str, policy: HttpRule, url: &str| {
        let grants = Grants::asked(http(rule(asked))).bounded(Layer::Policy, Arc::new(http(policy)));
        allow(&LiveGrants::new(grants), "GET", &target(url)).is_ok()
    };
    assert!(allowed("*.example.com", rule("api.example.com"), "https://api.example.com/"));
    assert!(!allowed("*.example.com", rule("api.example.com"), "https://web.example.com/"));
    assert!(!allowed("api.example.com", rule("example.com"), "https://api.example.com/"));
    let put = HttpRule { methods: vec!["PUT".to_owned()], ..rule("example.com") };
    assert!(!allowed("example.com", put, "https://example.com/"));
    assert!(!allowed("example.com", HttpRule { port: Some(8443), ..rule("example.com") }, "https://example.com/"));
    assert!(allowed("example.com", HttpRule { port: Some(443), ..rule("example.com") }, "https://example.com/"));
    assert!(!allowed("8.8.8.8", rule("*.*.*.*"), "https://8.8.8.8/"), "an address is not a name");
}
