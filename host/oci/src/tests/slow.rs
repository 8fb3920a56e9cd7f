//! Servers that take their time. Time is simulated.

use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up() {
    let began = Instant::now();
    let hanging = Reply::raw("").then(Then::Hang);
    assert_eq!(refusal(&World::with_component(hanging)).await, "TimedOut");
    assert_eq!(began.elapsed().as_secs(), 30);
    let body = Reply::new("200 OK", "", b"").then(Then::Hang);
    let body = Reply { bytes: String::from_utf8_lossy(&body.bytes).replace("Length: 0", "Length: 18").into(), ..body };
    assert_eq!(refusal(&World::with_component(body)).await, "TimedOut");
}

#[tokio::test(start_paused = true)]
async fn a_slow_drip_ends_with_the_time_for_its_size() {
    let began = Instant::now();
    let mut manifest = manifest();
    manifest["layers"][0]["size"] = json!(32 << 20);
    let world = World::with_manifest(&manifest);
    let component = "\0asm";
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{component}", 32 << 20);
    world.reply(&blob_path(COMPONENT), Reply::raw(head).then(Then::Drip(Duration::from_secs(20))));
    assert_eq!(refusal(&world).await, "TimedOut");
    // A minute, and 32 MiB at 32 KiB/s.
    let took = began.elapsed().as_secs();
    assert!((1084..1125).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn dripping_headers_end_within_the_idle_time() {
    let began = Instant::now();
    let head = Reply::raw("HTTP/1.1 200 OK\r\nX-").then(Then::Drip(Duration::from_secs(10)));
    let reason = refusal(&World::with_component(head)).await;
    // A zero is no character of a header.
    assert!(matches!(reason, "TimedOut" | "BrokenAnswer"), "{reason}");
    assert!(began.elapsed().as_secs() <= 30);
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_is_waited_for_a_few_times_and_not_as_long_as_it_asks() {
    let busy = |headers: &str| Reply::new("429 Too Many Requests", headers, b"");
    for (headers, seconds) in [("", 15), ("Retry-After: 1\r\n", 4), ("Retry-After: 99999999999\r\n", 120)] {
        let began = Instant::now();
        let world = World::with_component(busy(headers));
        assert_eq!(refusal(&world).await, "Busy", "{headers}");
        assert_eq!(began.elapsed().as_secs(), seconds, "{headers}");
        assert_eq!(world.seen().len(), 2 + 5, "{headers}");
    }
    let world = World::honest();
    let unavailable = Reply::new("503 Service Unavailable", "Retry-After: x\r\n", b"");
    world.replies_to(&blob_path(COMPONENT), vec![unavailable, busy(""), Reply::ok(LAYER_TYPE, COMPONENT)]);
    assert_eq!(refusal(&world).await, "pulled");
}
