//! Faults of single requests.

use std::time::Duration;

use futures::FutureExt as _;
use http::StatusCode;
use windlass_proxy::{Fault, Garbage, Loss, Match, Refusal, Verb};

use crate::support::{AGENT, CONFIG_MAPS, Setup, client, create, soon, watch};

const BEYOND_ANY_TEST: Duration = Duration::from_hours(1);

fn creates() -> Match {
    Match::verb(Verb::Create).resource("configmaps.").namespace("default").agent("faults/")
}

#[tokio::test]
async fn without_rules_the_client_seems_to_talk_to_the_server() {
    let it = Setup::start(1).await;
    assert_eq!(it.create("a").await.expect("created").code, StatusCode::CREATED);
    let through = it.get(&format!("{CONFIG_MAPS}/a")).await.expect("found");
    let direct = crate::support::send(&it.direct, http::Method::GET, &format!("{CONFIG_MAPS}/a"), None).await;
    assert_eq!(through.text, direct.expect("found").text);
    assert_eq!(it.get(&format!("{CONFIG_MAPS}/b")).await.expect("an answer").code, StatusCode::NOT_FOUND);
    let agents: Vec<_> = it.server.requests().into_iter().map(|it| it.user_agent).collect();
    assert!(agents.iter().all(|agent| agent == AGENT), "{agents:?}");
}

#[tokio::test]
async fn a_refused_request_brings_a_status_and_never_reaches_the_server() {
    let it = Setup::start(1).await;
    let wait = Duration::from_millis(1500);
    for (refusal, code, reason) in [
        (Refusal::too_many_requests(wait), StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
        (Refusal::internal_error(), StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        (Refusal::unavailable(), StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
    ] {
        let rule = it.proxy.add(Fault::Refuse(refusal).on(creates()).times(1));
        let answer = it.create("a").await.expect("an answer");
        assert_eq!((answer.code, rule.fired()), (code, 1));
        let status = answer.json();
        assert_eq!((&status["kind"], &status["reason"]), (&"Status".into(), &reason.into()));
        assert_eq!(status["code"], code.as_u16());
        if code == StatusCode::TOO_MANY_REQUESTS {
            assert_eq!(
                (&answer.headers["retry-after"], &status["details"]["retryAfterSeconds"]),
                (&"2".parse().expect("a header"), &2.into())
            );
        }
    }
    assert_eq!(it.served("create"), 0);
    assert_eq!(it.create("a").await.expect("an answer").code, StatusCode::CREATED);
}

#[tokio::test]
async fn a_reset_request_never_reaches_the_server() {
    let it = Setup::start(1).await;
    let rule = it.proxy.add(Fault::Reset.on(creates()).times(1));
    it.create("a").await.expect_err("the connection is reset");
    assert_eq!((rule.fired(), it.served("create")), (1, 0));
    assert_eq!(it.create("a").await.expect("an answer").code, StatusCode::CREATED);
}

#[tokio::test]
async fn an_answer_lost_by_a_reset_is_that_of_a_committed_write() {
    let it = Setup::start(1).await;
    let rule = it.proxy.add(Fault::Lose(Loss::Reset).on(creates()).times(1));
    it.create("a").await.expect_err("the answer is lost");
    assert_eq!((rule.fired(), it.served("create")), (1, 1));
    assert_eq!(it.get(&format!("{CONFIG_MAPS}/a")).await.expect("an answer").code, StatusCode::OK);
}

#[tokio::test]
async fn an_answer_lost_to_a_500_is_that_of_a_committed_write() {
    let it = Setup::start(1).await;
    let rule = it.proxy.add(Fault::Lose(Loss::Error).on(creates()).times(1));
    let answer = it.create("a").await.expect("an answer");
    assert_eq!(
        (answer.code, answer.json()["reason"].as_str()),
        (StatusCode::INTERNAL_SERVER_ERROR, Some("InternalError"))
    );
    assert_eq!((rule.lost(), it.served("create")), (1, 1));
    assert_eq!(it.get(&format!("{CONFIG_MAPS}/a")).await.expect("an answer").code, StatusCode::OK);
}

#[tokio::test]
async fn an_answer_lost_in_silence_never_comes_though_the_write_is_committed() {
    let it = Setup::start(1).await;
    let _rule = it.proxy.add(Fault::Lose(Loss::Silence).on(creates()).times(1));
    let mut seen = watch(&it.direct).await;
    let mut waiting = Box::pin(it.create("a"));
    tokio::select! {
        answer = &mut waiting => panic!("{answer:?}"),
        names = seen.names(1) => assert_eq!(names, ["a"]),
    }
    assert!((&mut waiting).now_or_never().is_none());
}

#[tokio::test]
async fn a_write_with_a_lost_answer_is_committed_even_if_the_client_gave_up() {
    let it = Setup::start(1).await;
    let moment = Duration::from_millis(50);
    let _late = it.proxy.add(Fault::DelayRequest(moment..=moment).on(creates()));
    let lost = it.proxy.add(Fault::Lose(Loss::Silence).on(creates()));
    let mut seen = watch(&it.direct).await;
    tokio::select! {
        answer = it.create("a") => panic!("{answer:?}"),
        () = it.proxy.until(|| lost.fired() == 1) => {}
    }
    soon(it.proxy.until(|| it.proxy.connections().open == 0)).await;
    assert_eq!(seen.names(1).await, ["a"]);
}

#[tokio::test]
async fn a_client_is_stopped_just_behind_its_second_write() {
    let it = Setup::start(1).await;
    let lost = it.proxy.add(Fault::Lose(Loss::Silence).on(creates()).skip(1).times(1));
    // A lost response is not an occasion for later rules: this rule stops all requests from the third on.
    let stopped = it.proxy.add(Fault::DelayRequest(BEYOND_ANY_TEST..=BEYOND_ANY_TEST).on(creates()).skip(1));
    assert_eq!(it.create("a").await.expect("an answer").code, StatusCode::CREATED);
    assert_eq!(lost.lost(), 0);
    tokio::select! {
        answer = it.create("b") => panic!("{answer:?}"),
        () = it.proxy.until(|| lost.lost() == 1) => {}
    }
    assert_eq!(it.served("create"), 2, "the second is committed when it counts as lost");
    tokio::select! {
        answer = it.create("c") => panic!("{answer:?}"),
        () = it.proxy.until(|| stopped.fired() == 1) => {}
    }
    assert_eq!(it.served("create"), 2);
}

#[tokio::test]
async fn a_delayed_request_reaches_the_server_late() {
    let it = Setup::start(1).await;
    let endless = it.proxy.add(Fault::DelayRequest(BEYOND_ANY_TEST..=BEYOND_ANY_TEST).on(creates()).times(1));
    {
        let mut waiting = Box::pin(it.create("a"));
        tokio::select! {
            answer = &mut waiting => panic!("{answer:?}"),
            () = it.proxy.until(|| endless.fired() == 1) => {}
        }
    }
    let some = Duration::from_millis(1)..=Duration::from_millis(9);
    let short = it.proxy.add(Fault::DelayRequest(some).on(creates()));
    assert_eq!(it.create("b").await.expect("an answer").code, StatusCode::CREATED);
    assert_eq!((short.fired(), it.served("create")), (1, 1), "the first is still on its way");
}

#[tokio::test]
async fn a_delayed_response_is_late_though_the_server_has_committed() {
    let it = Setup::start(1).await;
    let endless = it.proxy.add(Fault::DelayResponse(BEYOND_ANY_TEST..=BEYOND_ANY_TEST).on(creates()));
    let mut seen = watch(&it.direct).await;
    {
        let mut waiting = Box::pin(it.create("a"));
        tokio::select! {
            answer = &mut waiting => panic!("{answer:?}"),
            names = seen.names(1) => assert_eq!(names, ["a"]),
        }
    }
    endless.remove();
    let some = Duration::from_millis(1)..=Duration::from_millis(9);
    let short = it.proxy.add(Fault::DelayResponse(some).on(creates()));
    assert_eq!(it.create("b").await.expect("an answer").code, StatusCode::CREATED);
    assert_eq!(short.fired(), 1);
}

#[tokio::test]
async fn a_slow_body_arrives_whole() {
    let it = Setup::start(1).await;
    it.create_directly(&["a"]).await;
    let path = format!("{CONFIG_MAPS}/a");
    let expected = it.get(&path).await.expect("an answer").text;
    let rule =
        it.proxy.add(Fault::Slow { bytes: 7, every: Duration::from_millis(1) }.on(Match::verb(Verb::Get).name("a")));
    assert_eq!(it.get(&path).await.expect("an answer").text, expected);
    assert_eq!(rule.fired(), 1);
}

#[tokio::test]
async fn a_body_so_slow_that_it_never_comes_has_a_head() {
    let it = Setup::start(1).await;
    let _rule = it.proxy.add(Fault::Slow { bytes: 1, every: BEYOND_ANY_TEST }.on(Match::any()));
    let _watch = it.watch().await;
}

#[tokio::test]
async fn garbage_comes_in_place_of_a_body() {
    let it = Setup::start(1).await;
    it.create_directly(&["a"]).await;
    let path = format!("{CONFIG_MAPS}/a");
    let expected = it.get(&path).await.expect("an answer").text;
    for (garbage, text) in [
        (Garbage::Truncated, expected[..expected.len() / 2].to_owned()),
        (Garbage::NotJson, "<html><body>Bad Gateway</body></html>".to_owned()),
        (Garbage::Twice, expected.repeat(2)),
    ] {
        let _rule = it.proxy.add(Fault::Garble(garbage).on(Match::verb(Verb::Get).resource("configmaps")));
        let answer = it.get(&path).await.expect("the body is complete");
        assert_eq!((answer.code, answer.text), (StatusCode::OK, text), "{garbage:?}");
    }
}

#[tokio::test]
async fn a_seed_reproduces_which_requests_fail() {
    let mut luck = Vec::new();
    for seed in [5, 5, 6] {
        let it = Setup::start(seed).await;
        let _rule = it.proxy.add(Fault::Refuse(Refusal::unavailable()).on(Match::any()).with_probability(0.5));
        let mut codes = Vec::new();
        for _ in 0..40 {
            codes.push(it.get("/version").await.expect("an answer").code);
        }
        luck.push(codes);
    }
    assert_eq!(luck[0], luck[1]);
    assert_ne!(luck[0], luck[2]);
}

#[tokio::test]
async fn a_server_that_is_down_looks_down() {
    let it = Setup::start(1).await;
    it.create("a").await.expect("an answer");
    let Setup { server, proxy, client: before, .. } = it;
    server.shutdown().await;
    create(&before, "b").await.expect_err("upstream is down");
    create(&client(&proxy.url()), "b").await.expect_err("upstream is down");
    assert_eq!(proxy.count(&creates()), 3);
    soon(proxy.until(|| proxy.connections().open == 0)).await;
}
