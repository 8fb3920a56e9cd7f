//! Field selectors, read no further than the host must: whether the server could read one, and which name it asks for.
//! Which fields a kind can be selected by only the server knows.

/// Why a text is not a field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("in the field selector {selector:?}: {term:?} is not like field=value or field!=value")]
pub(crate) struct FieldSelectorError {
    selector: String,
    term: String,
}

/// The name of the only object that `selector` can match. None: it may match more than one.
pub(crate) fn only_name(selector: &str) -> Result<Option<&str>, FieldSelectorError> {
    let mut name = None;
    for term in terms(selector).filter(|term| !term.is_empty()) {
        let wrong = || FieldSelectorError { selector: selector.to_owned(), term: term.to_owned() };
        let (field, value) = term.split_once('=').ok_or_else(wrong)?;
        let (field, is_equal) = field.strip_suffix('!').map_or((field, true), |field| (field, false));
        let value = value.strip_prefix('=').filter(|_| is_equal).unwrap_or(value);
        if field.is_empty() || has_bare(value, '=') {
            return Err(wrong());
        }
        // With a backslash it would have to be unescaped first; no name has one.
        if is_equal && field == "metadata.name" && !value.is_empty() && !value.contains('\\') {
            name = Some(value);
        }
    }
    Ok(name)
}

/// The parts between commas that no backslash escapes.
fn terms(selector: &str) -> impl Iterator<Item = &str> {
    let mut is_escaped = false;
    selector.split(move |c| {
        let ends = c == ',' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    })
}

fn has_bare(text: &str, wanted: char) -> bool {
    let mut is_escaped = false;
    text.chars().any(|c| {
        let found = c == wanted && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_reads_is_read() {
        for selector in [
            "",
            "status.phase=Running",
            "a==b",
            "a!=b",
            "a=",
            "a=b,c!=d",
            "a=b,,c=d",
            r"a=b\,c=d",
            r"a=b\=c",
            "a.b/c=d",
        ] {
            assert_eq!(only_name(selector), Ok(None), "{selector}");
        }
    }

    #[test]
    fn what_the_server_refuses_is_refused() {
        for selector in ["a", "a=b,c", "=b", "!=b", "a=b=c", "a!==b", "a in (b)"] {
            assert!(only_name(selector).is_err(), "{selector}");
        }
        let error = only_name("a=b,phase").expect_err("no operator").to_string();
        assert!(error.contains("\"phase\""), "{error}");
    }

    #[test]
    fn a_name_is_known_where_nothing_else_can_match() {
        assert_eq!(only_name("metadata.name=a"), Ok(Some("a")));
        assert_eq!(only_name("status.phase!=x,metadata.name==a"), Ok(Some("a")));
        for selector in ["metadata.name!=a", "metadata.name=", r"metadata.name=a\,b", "metadata.namespace=a"] {
            assert_eq!(only_name(selector), Ok(None), "{selector}");
        }
    }
}
