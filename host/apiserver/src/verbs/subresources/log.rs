//! `pods/log`: no container runs here, so the log of a container that exists is one line that says so.

use crate::object::{items, text};
use crate::request::{Query, Target};
use crate::status_error::ApiError;
use crate::storage::state::State;

const NOTHING: &str = "the embedded API server runs no containers, so there is no log\n";

/// The log of the container that the query names, or of the only container.
pub(crate) fn log(state: &State, target: &Target, query: &Query) -> Result<&'static str, ApiError> {
    let pod = crate::verbs::stored(state, target)?;
    let name = target.name();
    let names = |list: &str| -> Vec<String> {
        items(&pod, &format!("/spec/{list}")).iter().map(|container| text(container, "/name").to_owned()).collect()
    };
    let (main, first, debug) = (names("containers"), names("initContainers"), names("ephemeralContainers"));
    match query.get("container") {
        "" if main.len() + first.len() + debug.len() == 1 => Ok(NOTHING),
        "" => Err(ApiError::bad_request(choice(name, &main, &first, &debug))),
        wanted if [&main, &first, &debug].into_iter().flatten().any(|name| name == wanted) => Ok(NOTHING),
        wanted => Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}"))),
    }
}

fn choice(pod: &str, main: &[String], first: &[String], debug: &[String]) -> String {
    let mut message = format!("a container name must be specified for pod {pod}, choose one of: [{}]", main.join(" "));
    for (kind, names) in [("init", first), ("ephemeral", debug)] {
        if !names.is_empty() {
            message = format!("{message} or one of the {kind} containers: [{}]", names.join(" "));
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_names_all_containers() {
        let names = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let all = choice("p", &names("a b"), &names("c"), &[]);
        let expected =
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [c]";
        assert_eq!(all, expected);
    }
}
