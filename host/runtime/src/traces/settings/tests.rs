use super::*;

fn read(endpoint: Option<&str>, variables: &[(&str, &str)]) -> Result<Option<TraceSettings>, TraceSettingsError> {
    let flags = TraceFlags { endpoint: endpoint.map(str::to_owned), sampling: None };
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
    TraceSettings::read(&flags, |name| find(name).map(|(_, value)| (*value).to_owned()))
}

fn url(settings: Result<Option<TraceSettings>, TraceSettingsError>) -> Option<String> {
    let target = settings.expect("settings")?.collector;
    Some(format!("{target}{}", target.path_and_query))
}

fn refusal(variables: &[(&str, &str)]) -> String {
    read(Some("http://c:4318"), variables).expect_err("it is wrong").to_string()
}

#[test]
fn traces_are_exported_only_where_a_collector_is_named() {
    let (general, own) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    assert_eq!(url(read(None, &[(general, " ")])), None);
    assert_eq!(url(read(None, &[(general, "http://c:4318")])).as_deref(), Some("http://c:4318/v1/traces"));
    assert_eq!(url(read(None, &[(own, "http://c/x"), (general, "http://d")])).as_deref(), Some("http://c/x"));
    for off in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
        assert_eq!(url(read(None, &[(general, "http://c:4318"), off])), None, "{off:?}");
        assert!(url(read(Some("http://c"), &[off])).is_some(), "a flag is meant for this host");
    }
    for (flag, whole) in [
        ("https://c/otlp/", "https://c/otlp/v1/traces"),
        ("http://[::1]:4318/v1/traces", "http://[::1]:4318/v1/traces"),
        ("https://c/otlp?team=a/b", "https://c/otlp/v1/traces?team=a/b"),
        ("https://c/v1/traces?team=a", "https://c/v1/traces?team=a"),
    ] {
        assert_eq!(url(read(Some(flag), &[(general, "http://other")])).as_deref(), Some(whole));
    }
}

#[test]
fn a_wrong_value_is_refused_with_its_place_and_the_remedy() {
    for wrong in ["collector:4318", "grpc://c", "http://", "http://me@c", "http://c:0"] {
        let error = read(Some(wrong), &[]).expect_err(wrong).to_string();
        assert!(error.contains("--otlp-endpoint") && error.contains("http://collector.example:4318"), "{error}");
    }
    for (variable, value, words) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization", "KEY=VALUE"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c", "its name is invalid"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "host=c", "the host sets host itself"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0A", "the value of a has characters"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote", "traceidratio"),
        ("OTEL_RESOURCE_ATTRIBUTES", "=a", "KEY=VALUE"),
    ] {
        let error = refusal(&[(variable, value)]);
        assert!(error.contains(variable) && error.contains(words), "{error}");
    }
    let error = refusal(&[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")]);
    assert!(error.contains("OTEL_TRACES_SAMPLER_ARG") && error.contains("from 0 to 1"), "{error}");
}

#[test]
fn no_refusal_shows_a_possible_credential() {
    // Frequent mistakes: the value looks like a header, or a comma is not encoded.
    for headers in ["=secret", "secret", "authorization: Bearer secret", "a: secret==", "a=b,secret", "a=secret%0A"] {
        let error = read(Some("http://c"), &[("OTEL_EXPORTER_OTLP_HEADERS", headers)]).expect_err("it is wrong");
        assert!(error.to_string().contains("part ") && error.to_string().contains("OTEL_EXPORTER_OTLP_HEADERS"));
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
    let error = read(Some("https://me:secret@c"), &[]).expect_err("no URL");
    assert!(!format!("{error} {error:?}").contains("secret") && error.to_string().contains("user name"), "{error:?}");
}

#[test]
fn the_collector_timeout_is_read_in_milliseconds_from_its_variable() {
    let (general, own) = ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT");
    let time = |variables: &[(&str, &str)]| read(Some("http://c"), variables).expect("settings").map(|it| it.timeout);
    assert_eq!(time(&[]), Some(Duration::from_secs(10)));
    assert_eq!(time(&[(general, "2500")]), Some(Duration::from_millis(2500)));
    assert_eq!(time(&[(general, "2500"), (own, "100")]), Some(Duration::from_millis(100)));
    for wrong in ["0", "10s", "-1"] {
        let error = refusal(&[(own, wrong)]);
        assert!(error.contains(own) && error.contains(wrong) && error.contains("milliseconds"), "{error}");
    }
}

#[test]
fn a_file_of_authorities_is_read_at_start_and_named_by_its_variable() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("ca.pem");
    let variable = ("OTEL_EXPORTER_OTLP_CERTIFICATE", path.to_str().expect("UTF-8"));
    let error = refusal(&[variable]);
    assert!(error.contains("ca.pem") && error.contains(variable.0) && !error.contains("--http-ca"), "{error}");
    let made = rcgen::generate_simple_self_signed(["collector".to_owned()]).expect("a certificate");
    std::fs::write(&path, made.cert.pem()).expect("written");
    assert!(read(Some("https://collector"), &[variable]).expect("settings").expect("a collector").trust.is_some());
}

#[test]
fn the_usual_variables_are_read() {
    let settings = read(
        Some("http://c"),
        &[
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc, x-scope = prod"),
            ("OTEL_SERVICE_NAME", "operators"),
            (
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment.name=test,service.name=other,deployment.environment.name=prod",
            ),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "HTTP/JSON"),
            ("OTEL_TRACES_SAMPLER", "ParentBased_Always_Off"),
            ("POD_NAMESPACE", "windlass"),
        ],
    );
    let settings = settings.expect("settings").expect("a collector");
    assert_eq!(settings.headers["authorization"], "Basic abc");
    assert_eq!(settings.headers["x-scope"], "prod");
    assert_eq!(settings.sampling, Sampling::NONE);
    let resource = settings.resource("host-1");
    for (name, value) in [
        ("service.name", "operators"),
        ("service.instance.id", "host-1"),
        ("deployment.environment.name", "prod"),
        ("k8s.namespace.name", "windlass"),
    ] {
        let values: Vec<_> = resource.iter().filter(|(known, _)| known == name).map(|(_, value)| value).collect();
        assert_eq!(values, [value], "{name}");
    }
    let shown = format!("{settings:?}");
    assert!(!shown.contains("abc"), "{shown}");
}

#[test]
fn the_flag_wins_over_the_sampler_of_the_environment() {
    let flags = TraceFlags { endpoint: Some("http://c".to_owned()), sampling: Some(1.0) };
    let off = |name: &str| (name == "OTEL_TRACES_SAMPLER").then(|| "always_off".to_owned());
    let settings = TraceSettings::read(&flags, off).expect("settings").expect("a collector");
    assert_eq!(settings.sampling, Sampling::ALL);
}
