//! Credentials for registries, as docker's `config.json` keeps them.
//!
//! A password goes only to the server for which it was given: the registry's own host and port, or a token server for
//! which the file has the same login. Neither a redirect nor a token server elsewhere gets it. Programs that the file
//! names as credential helpers are not run.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use windlass_core::rights::egress::HttpTarget;
use windlass_files::read_whole;

/// The maximum size of docker's file.
const CONFIG_FILE_BYTES_MAX: u64 = 1 << 20;
/// Docker Hub is one service at several hosts, and docker keeps its credentials under the first of these names.
const DOCKER_HUB_HOSTS: [&str; 4] = ["index.docker.io", "docker.io", "registry-1.docker.io", "auth.docker.io"];

/// Why the credentials cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The file cannot be read.
    #[error("cannot read credentials from {file}: {reason}")]
    Unreadable { file: String, reason: String },
    /// A helper program has the credentials.
    #[error(
        "{file} leaves the credentials for {host} to a helper program, which Windlass does not run: give --username and \
         --password-stdin"
    )]
    Helper { file: String, host: String },
    /// The entry is not a user and a password.
    #[error("{file} has an entry for {host} without a user and a password: log in again, or give --username")]
    Entry { file: String, host: String },
}

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: String,
    password: String,
}

impl Login {
    /// `None` if the user has a colon or either has a control character, because they cannot be sent then.
    #[must_use]
    pub fn new(user: &str, password: &str) -> Option<Self> {
        let is_sendable = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
        let can_be = is_sendable(user) && is_sendable(password) && !user.contains(':');
        can_be.then(|| Self { user: user.to_owned(), password: password.to_owned() })
    }

    /// The value of the header `Authorization`.
    pub(crate) fn basic(&self) -> String {
        format!("Basic {}", STANDARD.encode(format!("{}:{}", self.user, self.password)))
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

/// The credentials of a person or a host, for some servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    file: String,
    entries: HashMap<String, Result<Login, Unusable>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unusable {
    Helper,
    Entry,
}

/// Docker's file.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DockerConfig {
    auths: HashMap<String, DockerEntry>,
    creds_store: Option<String>,
    cred_helpers: HashMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DockerEntry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

impl Credentials {
    /// Reads docker's file at `path`. There are no credentials if there is no such file.
    pub fn read(path: &Path) -> Result<Self, CredentialsError> {
        let file = path.display().to_string();
        let unreadable = |reason: String| CredentialsError::Unreadable { file: file.clone(), reason };
        let text = match read_whole(path, CONFIG_FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        Self::of_json(&file, &text)
    }

    /// Reads what docker's file or a Secret of type `kubernetes.io/dockerconfigjson` has. Errors name it `file`.
    pub fn of_json(file: &str, json: &[u8]) -> Result<Self, CredentialsError> {
        // The error of the parser could quote a password.
        let unreadable = |error: serde_json::Error| CredentialsError::Unreadable {
            file: file.to_owned(),
            reason: format!("it is not docker's JSON (line {}, column {})", error.line(), error.column()),
        };
        Ok(Self::of_docker(file.to_owned(), serde_json::from_slice(json).map_err(unreadable)?))
    }

    fn of_docker(file: String, config: DockerConfig) -> Self {
        let DockerConfig { auths, creds_store, cred_helpers } = config;
        let mut entries: HashMap<String, Result<Login, Unusable>> = auths
            .iter()
            .filter_map(|(name, entry)| Some((server_named(name)?, login_of(entry, creds_store.is_some()))))
            .collect();
        entries.extend(cred_helpers.keys().filter_map(|name| Some((server_named(name)?, Err(Unusable::Helper)))));
        Self { file, entries }
    }

    /// Adds `login` for the server at `host`, which is a host with or without a port.
    #[must_use]
    pub fn with(mut self, host: &str, login: Login) -> Self {
        if let Some(server) = server_named(host) {
            self.entries.insert(server, Ok(login));
        }
        self
    }

    /// Whether the credentials have the same login for both servers.
    pub(crate) fn have_one_login(&self, registry: &HttpTarget, token_server: &HttpTarget) -> bool {
        let login = |server| self.names_of(server).and_then(|login| login.as_ref().ok());
        login(registry).is_some() && login(registry) == login(token_server)
    }

    /// The login for `server`. `None` if there is none.
    pub(crate) fn of(&self, server: &HttpTarget) -> Result<Option<&Login>, CredentialsError> {
        let (file, host) = (self.file.clone(), server.authority());
        match self.names_of(server) {
            None => Ok(None),
            Some(Ok(login)) => Ok(Some(login)),
            Some(Err(Unusable::Helper)) => Err(CredentialsError::Helper { file, host }),
            Some(Err(Unusable::Entry)) => Err(CredentialsError::Entry { file, host }),
        }
    }

    fn names_of(&self, server: &HttpTarget) -> Option<&Result<Login, Unusable>> {
        let authority = server.authority();
        let is_hub = DOCKER_HUB_HOSTS.contains(&authority.as_str());
        let aliases = DOCKER_HUB_HOSTS.iter().filter(|_| is_hub).find_map(|alias| self.entries.get(*alias));
        self.entries.get(&authority).or(aliases)
    }
}

/// The host and port that a key of docker's file names. Old versions of docker wrote a URL.
fn server_named(name: &str) -> Option<String> {
    let name = name.trim_start_matches("https://").trim_start_matches("http://");
    let host = name.split('/').next().unwrap_or(name);
    Some(HttpTarget::parse(&format!("https://{host}/")).ok()?.authority())
}

fn login_of(entry: &DockerEntry, has_store: bool) -> Result<Login, Unusable> {
    let DockerEntry { auth, username, password, identitytoken } = entry;
    if !identitytoken.is_empty() {
        return Err(Unusable::Entry);
    }
    if auth.is_empty() && username.is_empty() {
        // With a store, docker leaves an empty entry for each host that it has a login for.
        return Err(if has_store { Unusable::Helper } else { Unusable::Entry });
    }
    if auth.is_empty() {
        return Login::new(username, password).ok_or(Unusable::Entry);
    }
    let text = STANDARD.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let login = text.as_deref().and_then(|text| text.trim_end_matches('\0').split_once(':'));
    login.and_then(|(user, password)| Login::new(user, password)).ok_or(Unusable::Entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(config: &str) -> Credentials {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("config.json");
        std::fs::write(&path, config).expect("written");
        Credentials::read(&path).expect("it can be read")
    }

    fn user(credentials: &Credentials, url: &str) -> Result<Option<String>, String> {
        let server = HttpTarget::parse(url).expect("a URL");
        credentials.of(&server).map(|it| it.map(|it| it.user.clone())).map_err(|error| error.to_string())
    }

    #[test]
    fn a_login_is_found_only_for_its_own_host_and_port() {
        let auth = STANDARD.encode("ann:pa:ss");
        let known = credentials(&format!(
            r#"{{"auths": {{"a.example.com:5000": {{"auth": "{auth}"}}, "https://B.example.com/v1/": {{"auth": "{auth}"}},
                "https://index.docker.io/v1/": {{"auth": "{auth}"}}}}}}"#
        ));
        let ann = Ok(Some("ann".to_owned()));
        assert_eq!(user(&known, "https://a.example.com:5000/v2/"), ann);
        assert_eq!(user(&known, "https://b.example.com/"), ann);
        assert_eq!(user(&known, "https://b.example.com:443/"), ann);
        for hub in ["registry-1.docker.io", "auth.docker.io"] {
            assert_eq!(user(&known, &format!("https://{hub}/")), ann, "docker keeps it under another name");
        }
        for other in ["https://a.example.com/", "https://a.example.com:5001/", "https://x.b.example.com/"] {
            assert_eq!(user(&known, other), Ok(None), "{other}");
        }
    }

    #[test]
    fn helpers_and_tokens_of_an_identity_are_refused_with_the_way_out() {
        let known = credentials(
            r#"{"auths": {"a.example.com": {}, "b.example.com": {"identitytoken": "t"}}, "credsStore": "desktop",
                "credHelpers": {"c.example.com": "gcloud"}}"#,
        );
        for host in ["a.example.com", "c.example.com"] {
            let error = user(&known, &format!("https://{host}/")).expect_err("a helper has it");
            assert!(error.contains(host) && error.contains("--password-stdin"), "{error}");
        }
        assert!(user(&known, "https://b.example.com/").is_err_and(|error| error.contains("log in again")));
        assert_eq!(user(&known, "https://d.example.com/"), Ok(None));
    }

    #[test]
    fn an_error_shows_no_password() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("config.json");
        std::fs::write(&path, r#"{"auths": {"a.example.com": "c2VjcmV0"}}"#).expect("written");
        let error = Credentials::read(&path).expect_err("not docker's").to_string();
        assert!(error.contains("line 1") && !error.contains("c2VjcmV0"), "{error}");
        let login = Login::new("ann", "secret").expect("valid");
        assert!(!format!("{login:?}").contains("secret"));
        assert!(Credentials::read(&directory.path().join("none")).is_ok(), "docker has no file before its first login");
    }
}
