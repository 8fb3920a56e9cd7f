//! The answers to requests, given the cluster's reviews of their tokens.

use std::sync::Mutex;
use std::time::Duration;

use super::*;

/// A cluster in which `reader` may get metrics, `operator` may resume a plugin, `nobody` may do nothing, and other
/// tokens are invalid.
#[derive(Clone, Default)]
pub(crate) struct ScriptedReviews(Arc<Mutex<ReviewState>>);

#[derive(Default)]
struct ReviewState {
    asked: Vec<String>,
    is_away: bool,
}

impl ScriptedReviews {
    fn record(&self, question: String) -> Result<(), ReviewError> {
        let mut state = self.0.lock().expect("no panic");
        state.asked.push(question);
        if state.is_away { Err(ReviewError::Unnameable("the server is away".to_owned())) } else { Ok(()) }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic").asked)
    }

    fn goes_away(&self) {
        self.0.lock().expect("no panic").is_away = true;
    }
}

impl TokenReviewer for ScriptedReviews {
    fn whose(&self, token: String) -> BoxFuture<'static, Result<Option<TokenUser>, ReviewError>> {
        let this = self.clone();
        let user = async move {
            this.record(token.clone())?;
            let is_known = ["reader", "operator", "nobody"].contains(&&*token);
            Ok(is_known.then(|| TokenUser { username: token, ..TokenUser::default() }))
        };
        user.boxed()
    }

    fn may_access(
        &self,
        user: Arc<TokenUser>,
        verb: &'static str,
        path: String,
    ) -> BoxFuture<'static, Result<bool, ReviewError>> {
        let this = self.clone();
        let may = async move {
            this.record(format!("{} {verb} {path}", user.username))?;
            let is_operators = verb == "post" && path == "/plugins/shop/resume";
            Ok(match &*user.username {
                "reader" => verb == "get" && (path == "/metrics" || path == "/plugins/shop/resume"),
                "operator" => is_operators,
                _ => false,
            })
        };
        may.boxed()
    }
}

fn request(path: &str, authorization: &[&str]) -> Request<()> {
    let request = authorization.iter().fold(Request::get(path), |it, value| it.header(AUTHORIZATION, *value));
    request.body(()).expect("a request")
}

/// The status and the text of the answer if a request is refused, or `None`.
async fn refused(authorizer: &Authorizer, path: &str, token: &str) -> Option<(u16, String)> {
    let refusal = authorizer.check(&request(path, &[&format!("Bearer {token}")])).await.err()?;
    Some((refusal.code().as_u16(), refusal.to_string()))
}

#[tokio::test(start_paused = true)]
async fn probes_need_no_token_and_all_else_does() {
    let reviews = ScriptedReviews::default();
    let authorizer = Authorizer::new(reviews.clone());
    for path in ["/healthz", "/readyz", "/healthz?verbose"] {
        assert!(authorizer.check(&request(path, &[])).await.is_ok(), "{path}");
    }
    for path in ["/metrics", "/plugins", "/", "/healthz/", "/readyz/x", "/unknown", "/plugins/../healthz"] {
        let refusal = authorizer.check(&request(path, &[])).await.expect_err(path);
        assert_eq!(refusal.code(), StatusCode::UNAUTHORIZED, "{path}");
        assert!(refusal.to_string().contains("kubectl create token"), "{refusal}");
    }
    assert!(reviews.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_token_has_its_users_rights_and_the_cluster_is_asked_once() {
    let reviews = ScriptedReviews::default();
    let authorizer = Authorizer::new(reviews.clone());
    for _ in 0..3 {
        assert_eq!(refused(&authorizer, "/metrics", "reader").await, None);
        assert_eq!(refused(&authorizer, "/metrics?name=x", "reader").await, None);
        let (code, why) = refused(&authorizer, "/plugins", "reader").await.expect("no right");
        assert!(code == 403 && why.contains("reader may not get /plugins") && why.contains("nonResourceURLs"), "{why}");
        assert_eq!(refused(&authorizer, "/metrics", "nobody").await.map(|it| it.0), Some(403));
        assert_eq!(refused(&authorizer, "/metrics", "wrong").await.map(|it| it.0), Some(401));
    }
    let expected = ["reader", "reader get /metrics", "reader get /plugins", "nobody", "nobody get /metrics", "wrong"];
    assert_eq!(reviews.asked(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_right_to_get_a_path_does_not_allow_a_post() {
    let authorizer = Authorizer::new(ScriptedReviews::default());
    let asks = async |method: Method, token: &str| {
        let mut request = request("/plugins/shop/resume", &[&format!("Bearer {token}")]);
        *request.method_mut() = method;
        authorizer.check(&request).await.map_err(|refusal| refusal.to_string())
    };
    assert_eq!(asks(Method::POST, "operator").await, Ok(Some("operator".to_owned())));
    for _ in 0..2 {
        assert_eq!(asks(Method::GET, "reader").await, Ok(Some("reader".to_owned())));
        let why = asks(Method::POST, "reader").await.expect_err("no right");
        assert!(why.contains("reader may not post /plugins/shop/resume") && why.contains("the verb post"), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_api_server_known_tokens_work_on_for_a_minute() {
    let reviews = ScriptedReviews::default();
    let authorizer = Authorizer::new(reviews.clone());
    assert_eq!(refused(&authorizer, "/metrics", "reader").await, None);
    reviews.goes_away();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(refused(&authorizer, "/metrics", "reader").await, None);
    tokio::time::advance(Duration::from_secs(1)).await;
    let (code, why) = refused(&authorizer, "/metrics", "reader").await.expect("the API server cannot be asked");
    assert!(code == 503 && why.contains("the server is away"), "{why}");
    assert_eq!(refused(&authorizer, "/healthz", "reader").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_wrong_tokens_is_answered_with_429() {
    let reviews = ScriptedReviews::default();
    let authorizer = Authorizer::new(reviews.clone());
    let tokens: Vec<_> = (0..100).map(|number| format!("wrong-{number}")).collect();
    let codes = futures::future::join_all(tokens.iter().map(|token| refused(&authorizer, "/metrics", token))).await;
    let busy = codes.iter().flatten().filter(|(code, _)| *code == 429).count();
    assert!(busy >= 80 && reviews.asked().len() <= 20, "{codes:?}");
}

#[test]
fn a_token_is_a_bearers_or_a_browsers_password() {
    let of = |values: &[&str]| token(request("/", values).headers());
    assert_eq!(of(&["Bearer abc.def"]).as_deref(), Some("abc.def"));
    assert_eq!(of(&["bearer  abc "]).as_deref(), Some("abc"));
    // `anybody:abc.def`.
    assert_eq!(of(&["Basic YW55Ym9keTphYmMuZGVm"]).as_deref(), Some("abc.def"));
    for none in [&[][..], &["Bearer "], &["Bearer"], &["abc"], &["Digest abc"], &["Basic %%%"], &["Basic YWJj"]] {
        assert_eq!(of(none), None, "{none:?}");
    }
    assert_eq!(of(&["Bearer a", "Bearer b"]), None, "which of the two?");
    // The third token is `x:abc 1`, in which a `TokenReview` would read `abc`. The fourth has a line break.
    for several in ["Bearer abc 1", "Bearer abc\t1", "Basic eDphYmMgMQ==", "Basic eDphYmMKMQ=="] {
        assert_eq!(of(&[several]), None, "{several}");
    }
}
