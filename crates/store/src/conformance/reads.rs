//! Promises about reading, now and in the past.

use super::{all_keys, bytes, delete, delete_prefix, done, get, list, put, value};
use crate::{Error, KeyRange, Op, RangeOptions, Revision, Store};
use bytes::Bytes;
use std::num::NonZeroUsize;

fn limited(limit: usize, at: Option<Revision>) -> RangeOptions {
    RangeOptions { at, limit: NonZeroUsize::new(limit) }
}

pub(super) async fn ranges_are_ordered_and_limited(store: &dyn Store) {
    let revision = done(store, ["b", "a/2", "a/10", "c", "a/1"].map(|key| put(key, key)).into()).await;
    let keys = |entries: &[(String, String)]| entries.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let (entries, more) = list(store, &KeyRange::prefix("a/"), RangeOptions::default()).await;
    assert_eq!((keys(&entries), more), (vec!["a/1".into(), "a/10".into(), "a/2".into()], false));
    let (entries, more) = list(store, &KeyRange::prefix("a/"), limited(2, None)).await;
    assert_eq!((keys(&entries), more), (vec!["a/1".into(), "a/10".into()], true));
    let (_, more) = list(store, &KeyRange::prefix("a/"), limited(3, None)).await;
    assert!(!more, "a limit that is just reached cuts off nothing");
    let (entries, _) = list(store, &KeyRange { start: bytes("a/2"), end: None }, RangeOptions::default()).await;
    assert_eq!(keys(&entries), ["a/2", "b", "c"]);
    let (entries, _) = list(store, &KeyRange::key("a/1"), RangeOptions::default()).await;
    assert_eq!(keys(&entries), ["a/1"]);
    let inverted = KeyRange { start: bytes("z"), end: Some(bytes("a")) };
    assert_eq!(list(store, &inverted, RangeOptions::default()).await, (vec![], false));
    let result = store.range(&all_keys(), RangeOptions::default()).await;
    assert_eq!(result.map(|result| result.revision), Ok(revision), "a range tells its revision");
}

pub(super) async fn the_past_stays_readable(store: &dyn Store) {
    let mut expected = vec![vec![]];
    let steps: [Vec<Op>; 7] = [
        vec![put("a", "1"), put("b", "1")],
        vec![put("a", "2")],
        vec![delete("b"), put("c", "1")],
        vec![put("b", "2")],
        vec![delete_prefix("")],
        vec![put("b", "3"), put("d", "1")],
        vec![put("b", "4")],
    ];
    for ops in steps {
        done(store, ops).await;
        expected.push(list(store, &all_keys(), RangeOptions::default()).await.0);
    }
    assert_eq!(expected[3], [("a".into(), "2".into()), ("c".into(), "1".into())]);
    for (revision, expected) in expected.iter().enumerate() {
        let at = Some(Revision(revision as u64));
        let (entries, _) = list(store, &all_keys(), RangeOptions { at, limit: None }).await;
        assert_eq!(&entries, expected, "the range at revision {revision}");
        for key in ["a", "b", "c", "d"] {
            let then = expected.iter().find(|(name, _)| name == key).map(|(_, value)| value.clone());
            assert_eq!(value(store, key, at).await, then, "{key} at revision {revision}");
        }
        let (one, more) = list(store, &all_keys(), limited(1, at)).await;
        assert_eq!((&one[..], more), (&expected[..expected.len().min(1)], expected.len() > 1));
    }
    let old = get(store, "a", Some(Revision(2))).await;
    assert_eq!(old.map(|entry| (entry.created, entry.modified)), Some((Revision(1), Revision(2))));
}

pub(super) async fn pages_of_one_revision_fit_together(store: &dyn Store) {
    let names: Vec<_> = (0..20).map(|number| format!("k/{number:02}")).collect();
    done(store, names.iter().map(|name| put(name, "old")).collect()).await;
    let at = Some(store.revision());
    let mut range = KeyRange::prefix("k/");
    let mut seen = Vec::new();
    loop {
        let (page, more) = list(store, &range, limited(3, at)).await;
        seen.extend(page);
        // Changes between the pages must not be seen.
        done(store, vec![put("k/00a", "new"), delete("k/10"), put("k/19", "new"), put("k/99", "new")]).await;
        done(store, vec![delete("k/15")]).await;
        if !more {
            break;
        }
        let last = &seen.last().expect("a page with more to come has entries").0;
        range.start = KeyRange::key(bytes(last)).end.expect("one key has an end");
    }
    assert_eq!(seen, names.into_iter().map(|name| (name, "old".to_owned())).collect::<Vec<_>>());
}

pub(super) async fn large_ranges_are_whole(store: &dyn Store) {
    const COUNT: usize = 3000;
    for first in (0..COUNT).step_by(500) {
        done(store, (first..first + 500).map(|number| put(&format!("n/{number:05}"), "v")).collect()).await;
    }
    let at = Some(store.revision());
    done(store, vec![delete_prefix("n/00"), put("n/99999", "v")]).await;
    for (at, count) in [(at, COUNT), (None, COUNT - 1000 + 1)] {
        let (entries, more) = list(store, &KeyRange::prefix("n/"), RangeOptions { at, limit: None }).await;
        assert_eq!((entries.len(), more), (count, false));
        assert!(entries.is_sorted());
        let (entries, more) = list(store, &KeyRange::prefix("n/"), limited(count - 1, at)).await;
        assert_eq!((entries.len(), more), (count - 1, true));
    }
}

pub(super) async fn compacted_and_future_revisions_are_refused(store: &dyn Store) {
    for number in 0..10 {
        done(store, vec![put("a", &number.to_string()), put(&format!("b/{number}"), "v")]).await;
    }
    let newest = store.revision();
    let future = Error::Future { requested: Revision(newest.0 + 1), newest };
    let after = Some(Revision(newest.0 + 1));
    assert_eq!(store.get(b"a", after).await, Err(future.clone()));
    let options = RangeOptions { at: after, limit: None };
    assert_eq!(store.range(&all_keys(), options).await.map(|_| ()), Err(future.clone()));
    assert_eq!(store.compact(Revision(newest.0 + 1)).await, Err(future));

    store.compact(Revision(6)).await.expect("compacting works");
    assert_eq!(store.compacted(), Revision(6));
    let compacted = Error::Compacted { requested: Revision(5), oldest: Revision(6) };
    assert_eq!(store.get(b"a", Some(Revision(5))).await, Err(compacted.clone()));
    let options = RangeOptions { at: Some(Revision(5)), limit: None };
    assert_eq!(store.range(&all_keys(), options).await.map(|_| ()), Err(compacted));
    assert_eq!(value(store, "a", Some(Revision(6))).await.as_deref(), Some("5"), "the oldest kept is readable");
    assert_eq!(value(store, "b/0", None).await.as_deref(), Some("v"), "live values stay");
    store.compact(Revision(2)).await.expect("compacting what is compacted changes nothing");
    assert_eq!(store.compacted(), Revision(6));
    store.compact(newest).await.expect("everything before the newest can go");
    assert_eq!(value(store, "a", Some(newest)).await.as_deref(), Some("9"));
    let all = store.range(&KeyRange::prefix(Bytes::new()), RangeOptions::default()).await;
    assert_eq!(all.map(|result| result.entries.len()), Ok(11));
}
