//! The settings of traces, from flags and from the environment variables of OpenTelemetry's SDKs.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use windlass_core::rights::egress::HttpTarget;

use super::Sampling;
use windlass_egress::tls::{Trust, TrustError};

/// The path for traces, below a collector's URL.
const PATH: &str = "/v1/traces";
/// Headers that the host sets itself.
const OWN: [&str; 5] = ["host", "connection", "content-length", "content-type", "transfer-encoding"];
/// The default timeout of a request, as in OpenTelemetry's exporters.
const EXPORT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// The flags about traces.
#[derive(Clone, Debug, Default)]
pub struct TraceFlags {
    /// `--otlp-endpoint`.
    pub endpoint: Option<String>,
    /// `--trace-sampling`.
    pub sampling: Option<f64>,
}

/// Where spans are exported, and for which share of calls.
#[derive(Clone)]
pub struct TraceSettings {
    pub(super) collector: HttpTarget,
    /// May hold credentials.
    pub(super) headers: HeaderMap,
    /// How long one request may take.
    pub(super) timeout: Duration,
    /// The collector's certificate authorities. `None` for the authorities that all requests trust.
    pub(super) trust: Option<Arc<Trust>>,
    pub(super) sampling: Sampling,
    /// The operator's attributes, followed by the host's.
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

/// Why traces cannot be exported as configured.
#[derive(Debug, thiserror::Error)]
pub enum TraceSettingsError {
    /// The collector's URL is invalid. It is not quoted, as it may hold credentials.
    #[error(
        "{name} is not the URL of a collector: {problem}. It is like http://collector.example:4318, for OTLP over HTTP"
    )]
    Endpoint {
        /// The flag or the variable.
        name: &'static str,
        /// The problem.
        problem: String,
    },
    /// The host does not speak the protocol.
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
    /// A list of keys and values is invalid. Its parts are not quoted, as they may hold credentials.
    #[error(
        "part {part} of {name} is not like KEY=VALUE: parts are separated by commas, and values are percent-encoded, so that \
         a comma in a value is %2C"
    )]
    Pair {
        /// The variable.
        name: &'static str,
        /// The number of the part, from 1.
        part: usize,
    },
    /// A header cannot be sent.
    #[error("part {part} of {name} is a header that cannot be sent: {problem}")]
    Header {
        /// The variable.
        name: &'static str,
        /// The number of the part, from 1.
        part: usize,
        /// The problem.
        problem: String,
    },
    /// The timeout of a request is invalid.
    #[error(
        "{name} is {value:?}, but the timeout of a request to the collector must be a number of milliseconds above 0"
    )]
    Timeout {
        /// The variable.
        name: &'static str,
        /// The value.
        value: String,
    },
    /// The collector's authorities cannot be read.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The sampler is unknown.
    #[error(
        "OTEL_TRACES_SAMPLER {0:?} is unknown: the host has always_on, always_off and traceidratio, each also with the prefix \
         parentbased_"
    )]
    Sampler(String),
    /// The share of sampled calls is invalid.
    #[error("{name} is {value:?}, but a share of calls is a number from 0 to 1, such as 0.01")]
    Share {
        /// The flag or the variable.
        name: &'static str,
        /// The value.
        value: String,
    },
}

impl TraceSettings {
    /// Reads `flags`, and the settings that they do not contain from the environment, by `variable`. `None` if no
    /// collector is named, or if the environment switches traces off and no flag names a collector.
    ///
    /// # Errors
    ///
    /// If a setting is wrong; the error says which and why.
    pub fn read(
        flags: &TraceFlags,
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, TraceSettingsError> {
        // As in OpenTelemetry, an empty variable counts as unset.
        let variable = |name| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let Some(collector) = collector(flags, &variable)? else { return Ok(None) };
        let protocol = first(&variable, ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"]);
        if let Some((name, value)) = protocol
            && !matches!(&*value.to_ascii_lowercase(), "http/json" | "http/protobuf")
        {
            return Err(TraceSettingsError::Protocol { name, value });
        }
        let headers = first(&variable, ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"]);
        let headers = headers.map_or_else(|| Ok(HeaderMap::new()), |(name, text)| read_headers(name, &text))?;
        let timeout = first(&variable, ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"]);
        let timeout = timeout.map_or(Ok(EXPORT_TIMEOUT_DEFAULT), |(name, value)| read_timeout(name, value))?;
        let trust = first(&variable, ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"]);
        let trust = trust.map(|(name, file)| Trust::named(Path::new(&file), name).map(Arc::new)).transpose()?;
        let sampling = match flags.sampling {
            Some(share) => share_of("--trace-sampling", share.to_string())?,
            None => sampler(&variable)?,
        };
        Ok(Some(Self { collector, headers, timeout, trust, sampling, attributes: attributes(&variable)? }))
    }

    /// The resource attributes of the process `replica`.
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

/// The first of these variables that is set, and its name.
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
            || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value.eq_ignore_ascii_case("none"))
    };
    let Some((name, value)) =
        flag.or_else(|| first(variable, [OF_TRACES, "OTEL_EXPORTER_OTLP_ENDPOINT"]).filter(|_| !is_off()))
    else {
        return Ok(None);
    };
    let mut target = match HttpTarget::parse(value.trim()) {
        Ok(target) => target,
        Err(error) => return Err(TraceSettingsError::Endpoint { name, problem: error.to_string() }),
    };
    let (path, query) =
        target.path_and_query.split_at(target.path_and_query.find('?').unwrap_or(target.path_and_query.len()));
    let is_whole = name == OF_TRACES || path.ends_with(PATH);
    if !is_whole {
        target.path_and_query = format!("{}{PATH}{query}", path.trim_end_matches('/'));
    }
    Ok(Some(target))
}

/// Parses `a=b,c=d` with percent-encoded values. Each pair has its number, from 1.
fn pairs(name: &'static str, text: &str) -> Result<Vec<(usize, String, String)>, TraceSettingsError> {
    let parts = (1..).zip(text.split(',').map(str::trim)).filter(|(_, part)| !part.is_empty());
    let read = |(part, text): (usize, &str)| {
        let pair = text.split_once('=').filter(|(key, _)| !key.trim().is_empty());
        let (key, value) = pair.ok_or(TraceSettingsError::Pair { name, part })?;
        Ok((part, key.trim().to_owned(), percent_decode_str(value.trim()).decode_utf8_lossy().into_owned()))
    };
    parts.map(read).collect()
}

fn read_headers(name: &'static str, text: &str) -> Result<HeaderMap, TraceSettingsError> {
    let mut headers = HeaderMap::new();
    for (part, header, value) in pairs(name, text)? {
        let problem = |problem: String| TraceSettingsError::Header { name, part, problem };
        // An invalid name is not quoted, because it may be a credential: `authorization: Bearer abc==` has a `=` too.
        let named = HeaderName::try_from(&header).map_err(|_| problem("its name is invalid".to_owned()))?;
        if OWN.contains(&named.as_str()) {
            return Err(problem(format!("the host sets {named} itself")));
        }
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| problem(format!("the value of {named} has characters that a header cannot have")))?;
        value.set_sensitive(true);
        // If two headers have the same name, the last one counts, as in OpenTelemetry's SDKs. It may also replace a
        // header of the host.
        headers.insert(named, value);
    }
    Ok(headers)
}

fn read_timeout(name: &'static str, value: String) -> Result<Duration, TraceSettingsError> {
    let milliseconds = value.parse().ok().filter(|milliseconds| *milliseconds > 0);
    milliseconds.map(Duration::from_millis).ok_or(TraceSettingsError::Timeout { name, value })
}

/// Reads the sampler. The host's calls have no parent, so the prefix `parentbased_` makes no difference.
fn sampler(variable: &impl Fn(&'static str) -> Option<String>) -> Result<Sampling, TraceSettingsError> {
    const SHARE: &str = "OTEL_TRACES_SAMPLER_ARG";
    let Some(sampler) = variable("OTEL_TRACES_SAMPLER") else { return Ok(Sampling::ALL) };
    let named = sampler.to_ascii_lowercase();
    match named.strip_prefix("parentbased_").unwrap_or(&named) {
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
    let given = variable(ALL).map_or_else(|| Ok(Vec::new()), |text| pairs(ALL, &text))?;
    let mut all: Vec<(String, String)> = Vec::new();
    for (_, name, value) in given {
        // A resource cannot have two attributes with one name, so the last one counts.
        all.retain(|(known, _)| *known != name);
        all.push((name, value));
    }
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
mod tests;
