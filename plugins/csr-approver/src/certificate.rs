//! Reads a request in PKCS #10. Pure, and strict: an attacker may have written the request, so anything unusual is an
//! error.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::pem::parse_x509_pem;
use x509_parser::prelude::FromDer;

/// The type of the PEM block.
const PEM_LABEL: &str = "CERTIFICATE REQUEST";
/// The longest request that is read. A kubelet's request has less than 1 KiB.
const ENCODED_PEM_BYTES_MAX: usize = 64 * 1024;

/// The names and addresses that a request asks the signer to certify.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CertificateRequest {
    /// The common names of the subject.
    pub(crate) common_names: Vec<String>,
    /// The organizations of the subject.
    pub(crate) organizations: Vec<String>,
    /// The DNS names.
    pub(crate) dns_names: Vec<String>,
    /// The IP addresses.
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether there are alternative names of other types, such as email addresses.
    pub(crate) has_other_names: bool,
}

/// Reads the field `spec.request`. The error says what is wrong.
pub(crate) fn read(request: &str) -> Result<CertificateRequest, String> {
    if request.len() > ENCODED_PEM_BYTES_MAX {
        return Err(format!("the request is longer than {ENCODED_PEM_BYTES_MAX} bytes"));
    }
    let pem = BASE64_STANDARD.decode(request).map_err(|error| format!("the request is not Base64: {error}"))?;
    let (rest, block) = parse_x509_pem(&pem).map_err(|error| format!("the request is not PEM: {error}"))?;
    if block.label != PEM_LABEL || !rest.trim_ascii().is_empty() {
        return Err(format!("the request is not a single PEM block of type {PEM_LABEL}"));
    }
    let (rest, parsed) = X509CertificationRequest::from_der(&block.contents)
        .map_err(|error| format!("the request is not PKCS #10: {error}"))?;
    if !rest.is_empty() {
        return Err("the request has bytes after its end".into());
    }
    contents(&parsed)
}

fn contents(parsed: &X509CertificationRequest<'_>) -> Result<CertificateRequest, String> {
    let subject = &parsed.certification_request_info.subject;
    let texts =
        |attributes: &mut dyn Iterator<Item = Result<String, String>>| attributes.collect::<Result<Vec<_>, _>>();
    let malformed = |_| "the subject has a text with invalid characters".to_owned();
    let text = |it: &x509_parser::x509::AttributeTypeAndValue<'_>| it.as_str().map(str::to_owned).map_err(malformed);
    let mut found = CertificateRequest {
        common_names: texts(&mut subject.iter_common_name().map(text))?,
        organizations: texts(&mut subject.iter_organization().map(text))?,
        ..CertificateRequest::default()
    };
    let attributes = parsed.certification_request_info.attributes();
    if attributes.len() > 1 {
        return Err("the request has more than one attribute".into());
    }
    let mut alternative_names = 0;
    for extension in parsed.requested_extensions().into_iter().flatten() {
        if let ParsedExtension::SubjectAlternativeName(names) = extension {
            alternative_names += 1;
            names.general_names.iter().try_for_each(|name| add(&mut found, name))?;
        }
    }
    if alternative_names > 1 {
        return Err("the request has several lists of alternative names".into());
    }
    Ok(found)
}

fn add(found: &mut CertificateRequest, name: &GeneralName<'_>) -> Result<(), String> {
    match name {
        GeneralName::DNSName(name) => found.dns_names.push((*name).to_owned()),
        GeneralName::IPAddress(bytes) => found.addresses.push(address(bytes)?),
        _ => found.has_other_names = true,
    }
    Ok(())
}

fn address(bytes: &[u8]) -> Result<IpAddr, String> {
    let address = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).map(IpAddr::from),
    };
    let address = address.map_err(|_| format!("an IP address has {} bytes, not 4 or 16", bytes.len()))?;
    Ok(address.to_canonical())
}
