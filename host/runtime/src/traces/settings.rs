//! The settings of traces: from flags, and from the variables that OpenTelemetry's SDKs read.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use windlass_core::egress::HttpTarget;

use super::Sampling;

/// The path of traces below a collector's URL.
const PATH: &str = "/v1/traces";
/// Headers that the host sets itself.
const OWN: [&str; 5] = ["host", "connection", "content-length", "content-type", "transfer-encoding"];

/// The flags about traces.
#[derive(Clone, Debug, Default)]
pub struct TraceFlags {
    /// `--otlp-endpoint`.
    pub endpoint: Option<String>,
    /// `--trace-sampling`.
    pub sampling: Option<f64>,
}

/// Where the spans of calls are exported, and of how many calls.
#[derive(Clone)]
pub struct TraceSettings {
    pub(super) collector: HttpTarget,
    /// They may hold credentials.
    pub(super) headers: HeaderMap,
    pub(super) sampling: Sampling,
    /// The operator's, first; then the host's own.
    attributes: Vec<(String, String)>,
}

impl fmt::Debug for TraceSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collector, sampling, attributes, .. } = self;
        let mut shown = f.debug_struct("TraceSettings");
        shown.field("collector", collector).field("sampling", sampling).field("attributes", attributes);
        shown.finish_non_exhaustive()
    }
}

/// Why traces cannot be exported as they are to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceSettingsError {
    /// The collector's URL is none.
    #[error(
        "{name} {value:?} is no URL of a collector: {problem}. It is like http://collector.example:4318, for OTLP over HTTP"
    )]
    Endpoint {
        /// Where it was said.
        name: &'static str,
        /// The value.
        value: String,
        /// The problem.
        problem: String,
    },
    /// The protocol is none that the host speaks.
    #[error(
        "{name} is {value:?}, and the host exports traces by OTLP over HTTP only: set it to http/json, and name the collector's \
         port for HTTP, which is mostly 4318"
    )]
    Protocol {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// A list of keys and values is none. Its values are not told: they may hold credentials.
    #[error(
        "{name} has a part {part:?} that is not like KEY=VALUE: parts are separated by commas, and values are percent-encoded"
    )]
    Pair {
        /// The variable.
        name: &'static str,
        /// The part up to its first `=`.
        part: String,
    },
    /// A header cannot be sent.
    #[error("{name} has a header {header:?} that cannot be sent: {problem}")]
    Header {
        /// The variable.
        name: &'static str,
        /// The header's name.
        header: String,
        /// The problem.
        problem: &'static str,
    },
    /// The sampler is unknown.
    #[error(
        "OTEL_TRACES_SAMPLER {0:?} is none that the host has: it has always_on, always_off and traceidratio, and the same with \
         parentbased_ before them"
    )]
    Sampler(String),
    /// The share of sampled calls is none.
    #[error("{name} {value:?} is not a share of calls: it is a number from 0 to 1, such as 0.01")]
    Share {
        /// Where it was said.
        name: &'static str,
        /// The value.
        value: String,
    },
}

impl TraceSettings {
    /// Reads `flags`, and what they leave open from the environment, in which `variable` looks. None: no collector is named,
    /// or the environment switches traces off and no flag names one.
    ///
    /// # Errors
    ///
    /// Says what is wrong, and where.
    pub fn read(
        flags: &TraceFlags,
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, TraceSettingsError> {
        // As OpenTelemetry has it, an empty variable is one that is not set.
        let variable = |name| variable(name).filter(|value| !value.trim().is_empty());
        let Some(collector) = collector(flags, &variable)? else { return Ok(None) };
        let protocol = first(&variable, ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]);
        if let Some((name, value)) = protocol
            && !matches!(value.as_str(), "http/json" | "http/protobuf")
        {
            return Err(TraceSettingsError::Protocol { name, value });
        }
        let headers = first(&variable, ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"]);
        let headers = headers.map_or_else(|| Ok(HeaderMap::new()), |(name, text)| read_headers(name, &text))?;
        let sampling = match flags.sampling {
            Some(share) => share_of("--trace-sampling", share.to_string())?,
            None => sampler(&variable)?,
        };
        Ok(Some(Self { collector, headers, sampling, attributes: attributes(&variable)? }))
    }

    /// The resource's attributes, for the process `replica`.
    pub(super) fn resource(&self, replica: &str) -> Vec<(String, String)> {
        let mut all = self.attributes.clone();
        let own = [
            ("service.name", "windlass"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("service.instance.id", replica),
            ("telemetry.sdk.name", "windlass"),
            ("telemetry.sdk.language", "rust"),
            ("telemetry.sdk.version", env!("CARGO_PKG_VERSION")),
        ];
        for (name, value) in own {
            if !all.iter().any(|(known, _)| known == name) {
                all.push((name.to_owned(), value.to_owned()));
            }
        }
        all
    }
}

/// The first of these variables that is set.
fn first<const N: usize>(
    variable: &impl Fn(&'static str) -> Option<String>,
    names: [&'static str; N],
) -> Option<(&'static str, String)> {
    names.into_iter().find_map(|name| Some((name, variable(name)?)))
}

fn collector(
    flags: &TraceFlags,
    variable: &impl Fn(&'static str) -> Option<String>,
) -> Result<Option<HttpTarget>, TraceSettingsError> {
    const OF_TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    let flag = flags.endpoint.clone().filter(|url| !url.trim().is_empty()).map(|url| ("--otlp-endpoint", url));
    let is_off = || {
        variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none")
    };
    let Some((name, value)) =
        flag.or_else(|| first(variable, [OF_TRACES, "OTEL_EXPORTER_OTLP_ENDPOINT"]).filter(|_| !is_off()))
    else {
        return Ok(None);
    };
    let mut target = match HttpTarget::parse(value.trim()) {
        Ok(target) => target,
        Err(error) => return Err(TraceSettingsError::Endpoint { name, value, problem: error.to_string() }),
    };
    let is_whole = name == OF_TRACES || target.path_and_query.ends_with(PATH);
    if !is_whole {
        target.path_and_query = format!("{}{PATH}", target.path_and_query.trim_end_matches('/'));
    }
    Ok(Some(target))
}

/// `a=b,c=d`, with percent-encoded values.
fn pairs(name: &'static str, text: &str) -> Result<Vec<(String, String)>, TraceSettingsError> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let read = |part: &str| {
        let pair = part.split_once('=').filter(|(key, _)| !key.trim().is_empty());
        let (key, value) = pair.ok_or_else(|| {
            let part = part.split('=').next().unwrap_or_default().to_owned();
            TraceSettingsError::Pair { name, part }
        })?;
        Ok((key.trim().to_owned(), percent_decode_str(value.trim()).decode_utf8_lossy().into_owned()))
    };
    parts.map(read).collect()
}

fn read_headers(name: &'static str, text: &str) -> Result<HeaderMap, TraceSettingsError> {
    let mut headers = HeaderMap::new();
    for (header, value) in pairs(name, text)? {
        let problem = |problem| TraceSettingsError::Header { name, header: header.clone(), problem };
        let named = HeaderName::try_from(&header).map_err(|_| problem("its name is none"))?;
        if OWN.contains(&named.as_str()) {
            return Err(problem("it is the host's to set"));
        }
        let mut value = HeaderValue::try_from(value).map_err(|_| problem("its value holds what a header cannot"))?;
        value.set_sensitive(true);
        headers.append(named, value);
    }
    Ok(headers)
}

/// No call of the host's has a parent, so `parentbased_` says nothing.
fn sampler(variable: &impl Fn(&'static str) -> Option<String>) -> Result<Sampling, TraceSettingsError> {
    const SHARE: &str = "OTEL_TRACES_SAMPLER_ARG";
    let Some(sampler) = variable("OTEL_TRACES_SAMPLER") else { return Ok(Sampling::ALL) };
    match sampler.strip_prefix("parentbased_").unwrap_or(&sampler) {
        "always_on" => Ok(Sampling::ALL),
        "always_off" => Ok(Sampling::NONE),
        "traceidratio" => variable(SHARE).map_or(Ok(Sampling::ALL), |share| share_of(SHARE, share)),
        _ => Err(TraceSettingsError::Sampler(sampler)),
    }
}

fn share_of(name: &'static str, value: String) -> Result<Sampling, TraceSettingsError> {
    let share = value.trim().parse().ok().and_then(Sampling::share);
    share.ok_or(TraceSettingsError::Share { name, value })
}

fn attributes(variable: &impl Fn(&'static str) -> Option<String>) -> Result<Vec<(String, String)>, TraceSettingsError> {
    const ALL: &str = "OTEL_RESOURCE_ATTRIBUTES";
    let mut all = variable(ALL).map_or_else(|| Ok(Vec::new()), |text| pairs(ALL, &text))?;
    if let Some(service) = variable("OTEL_SERVICE_NAME") {
        all.retain(|(name, _)| name != "service.name");
        all.push(("service.name".to_owned(), service));
    }
    for (name, from) in [("k8s.pod.name", "POD_NAME"), ("k8s.namespace.name", "POD_NAMESPACE")] {
        if let Some(value) = variable(from).filter(|_| !all.iter().any(|(known, _)| known == name)) {
            all.push((name.to_owned(), value));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
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
        ] {
            assert_eq!(url(read(Some(flag), &[(general, "http://other")])).as_deref(), Some(whole));
        }
    }

    #[test]
    fn a_wrong_value_is_refused_with_its_place_and_what_to_do() {
        for wrong in ["collector:4318", "grpc://c", "http://", "http://me@c", "http://c:0"] {
            let error = read(Some(wrong), &[]).expect_err(wrong).to_string();
            assert!(error.contains("--otlp-endpoint") && error.contains("http://collector.example:4318"), "{error}");
        }
        for (variable, value, words) in [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/json"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization", "KEY=VALUE"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c", "its name is none"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "host=c", "the host's to set"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0A", "its value holds"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote", "traceidratio"),
            ("OTEL_RESOURCE_ATTRIBUTES", "=a", "KEY=VALUE"),
        ] {
            let error = refusal(&[(variable, value)]);
            assert!(error.contains(variable) && error.contains(words), "{error}");
        }
        let error = refusal(&[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "2")]);
        assert!(error.contains("OTEL_TRACES_SAMPLER_ARG") && error.contains("from 0 to 1"), "{error}");
        let secret = refusal(&[("OTEL_EXPORTER_OTLP_HEADERS", "=secret")]);
        assert!(!secret.contains("secret"), "{secret}");
    }

    #[test]
    fn the_usual_variables_are_read() {
        let settings = read(
            Some("http://c"),
            &[
                ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc, x-scope = prod"),
                ("OTEL_SERVICE_NAME", "operators"),
                ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=prod,service.name=other"),
                ("OTEL_TRACES_SAMPLER", "parentbased_always_off"),
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
            let said: Vec<_> = resource.iter().filter(|(known, _)| known == name).map(|(_, value)| value).collect();
            assert_eq!(said, [value], "{name}");
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
}
