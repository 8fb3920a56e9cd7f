//! Faults of watches.

use std::time::Duration;

use windlass_proxy::{Cut, Fault, Garbage, Match};

use crate::support::{Setup, name_in, soon, watch};

fn watches() -> Match {
    Match::watches("configmaps")
}

#[tokio::test]
async fn a_running_watch_is_cut_cleanly_on_demand() {
    let it = Setup::start(1).await;
    it.create_directly(&["a"]).await;
    let (mut first, mut second) = (it.watch().await, it.watch().await);
    assert_eq!([first.names(1).await, second.names(1).await], [["a"], ["a"]]);
    assert_eq!(it.proxy.cut(&Match::watches("pods"), Cut::Clean), 0);
    assert_eq!(it.proxy.watching(&watches()), 2);
    assert_eq!(it.proxy.cut(&watches(), Cut::Clean), 2);
    assert!(first.next().await.is_none());
    assert!(second.next().await.is_none());
    assert_eq!(it.proxy.watching(&Match::any()), 0);
    assert_eq!(it.proxy.cut(&watches(), Cut::Clean), 0, "none is left");
}

#[tokio::test]
async fn a_cut_in_the_midst_of_a_line_leaves_a_half() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    let rule = it.proxy.add(Fault::Cut(Cut::MidLine).on(watches()).skip(1).times(1));
    it.create_directly(&["a", "b"]).await;
    assert_eq!(lines.names(1).await, ["a"]);
    let half = lines.next().await.expect("a half line").expect("the body ends properly");
    assert!(half.starts_with('{') && serde_json::from_str::<serde_json::Value>(&half).is_err(), "{half}");
    assert!(lines.next().await.is_none());
    assert_eq!(rule.fired(), 1);
    // The event is not lost: the next watch gets it.
    assert_eq!(it.watch().await.names(2).await, ["a", "b"]);
}

#[tokio::test]
async fn a_quiet_watch_can_be_cut_in_the_midst_of_a_line_too() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    soon(it.proxy.until(|| it.proxy.watching(&watches()) == 1)).await;
    it.proxy.cut(&watches(), Cut::MidLine);
    let half = lines.next().await.expect("a half line").expect("the body ends properly");
    assert!(serde_json::from_str::<serde_json::Value>(&half).is_err(), "{half}");
    assert!(lines.next().await.is_none());
}

#[tokio::test]
async fn a_watch_is_cut_by_a_reset() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    let _rule = it.proxy.add(Fault::Cut(Cut::Reset).on(watches()));
    it.create_directly(&["a"]).await;
    let error = lines.next().await.expect("not the proper end").expect_err("the connection is reset");
    assert!(format!("{error:?}").contains("ConnectionReset"), "{error:?}");
    soon(it.proxy.until(|| it.proxy.watching(&Match::any()) == 0 && it.proxy.connections().open == 0)).await;
}

#[tokio::test]
async fn held_events_come_in_order_when_they_are_released() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    it.create_directly(&["a"]).await;
    assert_eq!(lines.names(1).await, ["a"]);
    let hold = it.proxy.add(Fault::Hold.on(watches()));
    it.create_directly(&["b", "c", "d"]).await;
    soon(it.proxy.until(|| hold.held() == 3)).await;
    tokio::select! {
        line = lines.next() => panic!("{line:?}"),
        // The hold also stops the events of another client's watch, which would come now.
        names = async { watch(&it.direct).await.names(4).await } => assert_eq!(names, ["a", "b", "c", "d"]),
    }
    hold.remove();
    assert_eq!(lines.names(3).await, ["b", "c", "d"]);
    it.create_directly(&["e"]).await;
    assert_eq!(lines.names(1).await, ["e"], "the stream goes on");
}

#[tokio::test]
async fn an_event_that_is_held_holds_those_behind_it_in_its_stream_alone() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    soon(it.proxy.until(|| it.proxy.watching(&watches()) == 1)).await;
    let hold = it.proxy.add(Fault::Hold.on(watches()).times(1));
    it.create_directly(&["a"]).await;
    soon(it.proxy.until(|| hold.held() == 1)).await;
    it.create_directly(&["b"]).await;
    assert_eq!(it.watch().await.names(2).await, ["a", "b"]);
    assert_eq!((hold.fired(), hold.held()), (1, 1));
    drop(hold);
    assert_eq!(lines.names(2).await, ["a", "b"]);
}

#[tokio::test]
async fn a_cut_drops_the_held_events_with_the_stream() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    let hold = it.proxy.add(Fault::Hold.on(watches()));
    it.create_directly(&["a"]).await;
    soon(it.proxy.until(|| hold.held() == 1)).await;
    it.proxy.cut(&watches(), Cut::Clean);
    assert!(lines.next().await.is_none());
    soon(it.proxy.until(|| hold.held() == 0)).await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_a_watch_whose_events_are_held() {
    let it = Setup::start(1).await;
    let lines = it.watch().await;
    let hold = it.proxy.add(Fault::Hold.on(watches()));
    it.create_directly(&["a"]).await;
    soon(it.proxy.until(|| hold.held() == 1)).await;
    drop(lines);
    soon(it.proxy.until(|| it.proxy.watching(&Match::any()) == 0 && hold.held() == 0)).await;
}

#[tokio::test]
async fn delayed_events_keep_their_order() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    let some = Duration::ZERO..=Duration::from_millis(20);
    let rule = it.proxy.add(Fault::DelayEvents(some).on(watches()));
    let names: Vec<_> = (0..40).map(|number| format!("c{number}")).collect();
    it.create_directly(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(lines.names(40).await, names);
    assert_eq!(rule.fired(), 40);
}

#[tokio::test]
async fn a_garbled_event_is_noticed_and_the_stream_continues() {
    let it = Setup::start(1).await;
    let mut lines = it.watch().await;
    soon(it.proxy.until(|| it.proxy.watching(&watches()) == 1)).await;
    for (name, garbage) in [("a", Garbage::Truncated), ("b", Garbage::NotJson)] {
        let _rule = it.proxy.add(Fault::Garble(garbage).on(watches()).times(1));
        it.create_directly(&[name]).await;
        let line = lines.next().await.expect("the stream goes on").expect("nothing breaks");
        assert!(!line.is_empty() && serde_json::from_str::<serde_json::Value>(&line).is_err(), "{line}");
    }
    let _rule = it.proxy.add(Fault::Garble(Garbage::Twice).on(watches()).times(1));
    it.create_directly(&["c", "d"]).await;
    assert_eq!(lines.names(3).await, ["c", "c", "d"]);
}

#[tokio::test]
async fn a_seed_reproduces_which_events_cut_their_watch() {
    let mut seen = Vec::new();
    for seed in [3, 3, 4] {
        let it = Setup::start(seed).await;
        let names: Vec<_> = (0..30).map(|number| format!("c{number:02}")).collect();
        it.create_directly(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let _rule = it.proxy.add(Fault::Cut(Cut::Clean).on(watches()).with_probability(0.2));
        let mut lengths = Vec::new();
        for _ in 0..5 {
            let (mut lines, mut length) = (it.watch().await, 0);
            // Only a watch that is not cut reaches the last name. It must be the name of the line's object, because
            // some UIDs contain the same text.
            while length < names.len()
                && let Some(line) = lines.next().await
            {
                assert_eq!(name_in(&line.expect("nothing breaks")), names[length]);
                length += 1;
            }
            lengths.push(length);
        }
        seen.push(lengths);
    }
    assert_eq!(seen[0], seen[1]);
    assert_ne!(seen[0], seen[2]);
}
