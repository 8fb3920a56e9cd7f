//! The credentials of HTTP: headers, and what a URL has of them.

use serde_json::Value;

/// Parts of the names of headers and of query parameters whose values nobody should read.
const CONFIDENTIAL: [&str; 9] =
    ["auth", "cookie", "token", "secret", "password", "passwd", "api-key", "apikey", "api_key"];

fn is_confidential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    CONFIDENTIAL.iter().any(|word| name.contains(word)) || ["key", "sig", "signature"].contains(&name.as_str())
}

/// Redacts a fetch and its answer: `hide` gives what is written instead of a value.
pub(super) fn redact(import: &mut Value, mut hide: impl FnMut(&str) -> String) {
    if let Some(Value::String(url)) = import["args"].get_mut("url") {
        *url = without_credentials(url, &mut hide);
    }
    headers(&mut import["args"]["headers"], &mut hide);
    if let Some(response) = import.get_mut("answer").and_then(|answer| answer.get_mut("ok")) {
        headers(&mut response["headers"], &mut hide);
    }
    if import["args"]["headers"].is_null() {
        import["args"].as_object_mut().map(|args| args.remove("headers"));
    }
}

fn headers(headers: &mut Value, hide: &mut impl FnMut(&str) -> String) {
    for header in headers.as_array_mut().into_iter().flatten() {
        if !header[0].as_str().is_some_and(is_confidential) {
            continue;
        }
        if let Value::String(value) = &mut header[1] {
            // `Bearer`, `Basic`: how it authorizes is no secret.
            *value = match value.split_once(' ') {
                Some((scheme, credentials)) if scheme.bytes().all(|it| it.is_ascii_alphabetic()) => {
                    format!("{scheme} {}", hide(credentials))
                }
                _ => hide(value),
            };
        }
    }
}

fn without_credentials(url: &str, hide: &mut impl FnMut(&str) -> String) -> String {
    let (before, query) = url.split_once('?').map_or((url, None), |(before, query)| (before, Some(query)));
    let mut told = before.to_owned();
    if let Some((scheme, rest)) = before.split_once("://") {
        let end = rest.find('/').unwrap_or(rest.len());
        if let Some(at) = rest[..end].rfind('@') {
            let (user, password) = rest[..at].split_once(':').unwrap_or(("", &rest[..at]));
            let colon = if user.is_empty() { "" } else { ":" };
            told = format!("{scheme}://{user}{colon}{}{}", hide(password), &rest[at..]);
        }
    }
    let Some(query) = query else { return told };
    let parameter = |parameter: &str| match parameter.split_once('=') {
        Some((name, value)) if is_confidential(name) => format!("{name}={}", hide(value)),
        _ => parameter.to_owned(),
    };
    format!("{told}?{}", query.split('&').map(parameter).collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_are_hidden_and_the_rest_stays() {
        let mut import = json!({
            "import": "http.fetch",
            "args": {
                "method": "GET", "url": "https://me:hunter2@h.example/p?page=2&api_key=k",
                "headers": [["Authorization", "Bearer abc"], ["accept", "text/plain"], ["X-Api-Key", "def"]],
            },
            "answer": {"ok": {"status": 200, "headers": [["set-cookie", "s=1"], ["etag", "e"]], "body": {"text": ""}}},
        });
        redact(&mut import, |value| format!("<{}>", value.len()));
        assert_eq!(import["args"]["url"], "https://me:<7>@h.example/p?page=2&api_key=<1>");
        let headers = json!([["Authorization", "Bearer <3>"], ["accept", "text/plain"], ["X-Api-Key", "<3>"]]);
        assert_eq!(import["args"]["headers"], headers);
        assert_eq!(import["answer"]["ok"]["headers"], json!([["set-cookie", "<3>"], ["etag", "e"]]));
    }

    #[test]
    fn a_url_without_credentials_is_told_whole() {
        for url in ["https://h.example", "http://h.example:8080/a@b?x=y@z", "not a url"] {
            assert_eq!(without_credentials(url, &mut |_| unreachable!()), url);
        }
    }
}
