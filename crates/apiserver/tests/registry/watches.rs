//! Watches: from now and from a revision, bookmarks, selectors, and what is too old.

use crate::support::*;
use serde_json::{Value, json};
use std::time::Duration;
use store::Store as _;

const ONLY_APP: &str = "labelSelector=app";

#[tokio::test]
async fn from_the_state_and_from_a_revision() {
    let h = Harness::new().await;
    let first = h.call("a", &format!("create {MAPS}"), labelled("x", "1")).await.expect(201);
    let mut state = h.watch("a", &format!("{MAPS}?{ONLY_APP}")).await;
    let mut later = h.watch("a", &format!("{MAPS}?{ONLY_APP}&resourceVersion={}", version(&first))).await;
    assert_eq!(state.line().await, "ADDED x");
    h.call("a", &format!("create {MAPS}"), labelled("y", "1")).await.expect(201);
    h.patch("a", &format!("{MAPS}/x"), "merge", json!({"data": {"k": "2"}})).await.expect(200);
    h.call("a", &format!("delete {MAPS}/y"), Value::Null).await.expect(200);
    for watch in [&mut state, &mut later] {
        for line in ["ADDED y", "MODIFIED x"] {
            assert_eq!(watch.line().await, line);
        }
        let deleted = watch.next().await.unwrap();
        assert_eq!(deleted["type"], "DELETED");
        assert_eq!(deleted["object"]["data"]["k"], "v");
        // The version of the deletion, from which a client watches on.
        assert_eq!(version(&deleted["object"]), h.disk.revision().to_string());
    }
}

#[tokio::test]
async fn a_selector_sees_objects_come_and_go() {
    let h = Harness::new().await;
    let mut watch = h.watch("a", &format!("{MAPS}?labelSelector=app=1")).await;
    let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
    h.call("a", &format!("create {MAPS}"), labelled("x", "2")).await.expect(201);
    for value in ["1", "2", "1"] {
        h.patch("a", &format!("{MAPS}/x"), "merge", label(value)).await.expect(200);
    }
    h.patch("a", &format!("{MAPS}/x"), "merge", json!({"data": {"k": "2"}})).await.expect(200);
    for line in ["ADDED x", "DELETED x", "ADDED x", "MODIFIED x"] {
        assert_eq!(watch.line().await, line);
    }
    let mut one = h.watch("a", &format!("{MAPS}?fieldSelector=metadata.name=y")).await;
    h.call("a", &format!("create {MAPS}"), labelled("z", "2")).await.expect(201);
    h.call("a", &format!("create {MAPS}"), labelled("y", "2")).await.expect(201);
    assert_eq!(one.line().await, "ADDED y");
    let mut named = h.watch("a", &format!("{MAPS}/y")).await;
    assert_eq!(named.line().await, "ADDED y");
}

#[tokio::test]
async fn what_is_too_old_is_told_in_an_event() {
    let h = Harness::new().await;
    let first = h.call("a", &format!("create {MAPS}"), config_map("x")).await.expect(201);
    h.call("a", &format!("create {MAPS}"), config_map("y")).await.expect(201);
    h.disk.compact(h.disk.revision()).await.unwrap();
    let mut watch = h.watch("a", &format!("{MAPS}?resourceVersion={}", version(&first))).await;
    let event = watch.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!((event["object"]["code"].as_i64(), event["object"]["reason"].as_str()), (Some(410), Some("Expired")));
    assert!(event["object"]["message"].as_str().unwrap().starts_with("too old resource version: "));
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn bookmarks_and_initial_events() {
    let options = apiserver::registry::Options { bookmark_interval: Duration::ZERO, ..options() };
    let memory = store::memory::Options::default();
    let watch_options = store::WatchOptions { progress_interval: Duration::from_millis(20), ..memory.watch };
    let h = Harness::with(options, store::memory::Options { watch: watch_options, ..memory }).await;
    h.call("a", &format!("create {MAPS}"), labelled("x", "1")).await.expect(201);
    let query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = h.watch("a", &format!("{MAPS}?{ONLY_APP}&{query}")).await;
    assert_eq!(watch.line().await, "ADDED x");
    let end = watch.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    // Later bookmarks follow the store although nothing selected changes.
    h.call("b", &format!("create {MAPS}"), labelled("x", "1")).await.expect(201);
    let newest = h.disk.revision().to_string();
    loop {
        let event = watch.next().await.unwrap();
        assert_eq!((event["type"].as_str(), event["object"]["kind"].as_str()), (Some("BOOKMARK"), Some("ConfigMap")));
        if version(&event["object"]) == newest {
            break;
        }
    }
    let without = h.raw("a", &format!("watch {MAPS}?sendInitialEvents=true"), &[], "").await;
    assert_eq!(without.unwrap_err().code, 422);
}

#[tokio::test]
async fn a_watch_ends_in_its_time() {
    let h = Harness::new().await;
    let mut watch = h.watch("a", &format!("{MAPS}?{ONLY_APP}&timeoutSeconds=1")).await;
    assert!(watch.next().await.is_none());
    let bad = h.raw("a", &format!("watch {MAPS}?timeoutSeconds=x"), &[], "").await;
    assert_eq!(bad.unwrap_err().code, 400);
    let future = h.raw("a", &format!("watch {MAPS}?resourceVersion=99999999"), &[], "").await;
    assert_eq!(future.unwrap_err().code, 504);
}

#[tokio::test]
async fn a_slow_watcher_is_cut_off_and_can_go_on() {
    let memory = store::memory::Options::default();
    let watch_options = store::WatchOptions { buffer_transactions: 2, ..memory.watch };
    let h = Harness::with(options(), store::memory::Options { watch: watch_options, ..memory }).await;
    let mut watch = h.watch("a", &format!("{MAPS}?{ONLY_APP}")).await;
    for n in 0..5 {
        h.call("a", &format!("create {MAPS}"), labelled(&format!("x{n}"), "1")).await.expect(201);
    }
    // It ends without a word, and the client resumes from what it saw.
    assert!(watch.next().await.is_none());
    let mut seen = Vec::new();
    let mut from = "1".to_owned();
    while seen.len() < 5 {
        let mut watch = h.watch("a", &format!("{MAPS}?{ONLY_APP}&resourceVersion={from}")).await;
        while let Some(event) = watch.next().await {
            from = version(&event["object"]);
            seen.push(event["object"]["metadata"]["name"].as_str().unwrap().to_owned());
            if seen.len() == 5 {
                break;
            }
        }
    }
    assert_eq!(seen, ["x0", "x1", "x2", "x3", "x4"]);
}
