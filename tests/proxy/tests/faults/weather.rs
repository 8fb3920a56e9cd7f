//! Everything at once, by rate.

use std::time::Duration;

use http::StatusCode;
use windlass_proxy::{Match, Proxy, Weather};

use crate::support::{CONFIG_MAPS, Setup, client};

const SLOW_ANSWER_DELAY: Duration = Duration::from_millis(1);

/// The responses to a client's writes, one after the other. Each uses a new connection, so that no write breaks
/// another.
async fn seen(proxy: &Proxy, writes: usize) -> Vec<Option<StatusCode>> {
    let mut seen = Vec::new();
    for number in 0..writes {
        let answer = crate::support::create(&client(&proxy.url()), &format!("c{number}")).await;
        seen.push(answer.ok().map(|answer| answer.code));
    }
    seen
}

#[tokio::test]
async fn a_seed_reproduces_the_weather_and_every_fault_is_seen() {
    let mut all = Vec::new();
    for seed in [5, 5, 6] {
        let it = Setup::start(seed).await;
        let spell =
            it.proxy.begin(&Weather::new(0.15).slow(SLOW_ANSWER_DELAY..=2 * SLOW_ANSWER_DELAY).agent("faults/"));
        let answers = seen(&it.proxy, 60).await;
        for what in ["500 before", "500 after", "cut after", "409", "429", "slow"] {
            assert!(spell.fired(what) > 0, "{what}: {spell}");
        }
        let count = |code: Option<StatusCode>| answers.iter().filter(|answer| **answer == code).count() as u64;
        let expected = [
            (Some(StatusCode::INTERNAL_SERVER_ERROR), spell.fired("500 before") + spell.fired("500 after")),
            (Some(StatusCode::CONFLICT), spell.fired("409")),
            (Some(StatusCode::TOO_MANY_REQUESTS), spell.fired("429")),
            (None, spell.fired("cut after")),
        ];
        for (code, times) in expected {
            assert_eq!(count(code), times, "{code:?}: {spell}");
        }
        let refused = ["500 before", "409", "429"].map(|what| spell.fired(what)).into_iter().sum::<u64>();
        assert_eq!(it.served("create"), 60 - refused, "the others were carried out, whatever the client was told");
        all.push(answers);
    }
    assert_eq!(all[0], all[1]);
    assert_ne!(all[0], all[2]);
}

#[tokio::test]
async fn the_weather_cuts_watches_and_ends_with_its_spell() {
    let it = Setup::start(1).await;
    it.create_directly(&["a"]).await;
    let mut lines = it.watch().await;
    assert_eq!(lines.names(1).await, ["a"]);
    let spell = it.proxy.begin(&Weather::new(1.0).slow(Duration::ZERO..=SLOW_ANSWER_DELAY));
    it.create_directly(&["b"]).await;
    let half = lines.next().await.expect("a half line").expect("the body ends properly");
    assert!(half.starts_with('{') && serde_json::from_str::<serde_json::Value>(&half).is_err(), "{half}");
    assert_eq!(it.create("c").await.expect("an answer").code, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(spell.to_string(), "0 409, 0 429, 0 500 after, 1 500 before, 0 cut, 0 cut after, 1 slow, 1 watch cut");
    drop(spell);
    assert_eq!(it.create("c").await.expect("an answer").code, StatusCode::CREATED);
    assert_eq!(it.get(&format!("{CONFIG_MAPS}/c")).await.expect("an answer").code, StatusCode::OK);
    assert_eq!(it.proxy.count(&Match::writes()), 2);
}
