//! The one task that lets Events expire, in every cluster.

use crate::registry::Registry;
use crate::registry::expire::Sweep;
use jiff::Timestamp;
use runtime::{Clock, Shutdown, error_chain};
use std::time::Duration;

/// Pause between two steps of one sweep, so that other work is not held up.
const STEP_PAUSE: Duration = Duration::from_millis(20);
/// Sweeps are at least a sixtieth of the lifetime apart, but no more than this need be.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// Removes Events once they have not been written for `lifetime`, until `shutdown`. An Event goes up to
/// a minute late. While there is none, one look per lifetime is taken.
pub(crate) async fn run(registry: &Registry, lifetime: Duration, clock: &dyn Clock, shutdown: &Shutdown) {
    let mut sweep = Sweep::default();
    loop {
        let now = Timestamp::try_from(clock.now()).unwrap_or(Timestamp::MIN);
        let until = now.checked_sub(lifetime).unwrap_or(Timestamp::MIN);
        let pause = match registry.expire(&mut sweep, until).await {
            Ok(step) => {
                if step.removed > 0 {
                    tracing::debug!(events = step.removed, "expired");
                }
                if step.last { until_next(step.oldest, now, lifetime) } else { STEP_PAUSE }
            }
            Err(error) => {
                tracing::warn!(error = error_chain(&error), "events could not be removed that have expired");
                shortest(lifetime)
            }
        };
        if shutdown.unless_triggered(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

/// How long no Event can expire after a sweep that left `oldest`, but not less than is sensible.
fn until_next(oldest: Option<Timestamp>, now: Timestamp, lifetime: Duration) -> Duration {
    let age = oldest.map_or(Duration::ZERO, |oldest| {
        // Negative when the clock was set back.
        Duration::try_from(now.duration_since(oldest)).unwrap_or_default()
    });
    lifetime.saturating_sub(age).max(shortest(lifetime))
}

fn shortest(lifetime: Duration) -> Duration {
    (lifetime / 60).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    //! When to look, and that the task looks.

    use super::*;
    use crate::pki;
    use crate::registry::{LogicalClusterKind, Options};
    use crate::request::{ClusterScope, RequestContext, RequestInfo, ResourceRequest};
    use apimachinery::auth::UserInfo;
    use apimachinery::definition::GroupResource;
    use http::HeaderValue;
    use http::header::CONTENT_TYPE;
    use runtime::ManualClock;
    use serde_json::{Value, json};
    use std::sync::Arc;
    use std::time::SystemTime;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn the_next_look_is_when_the_oldest_expires() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let ago = |seconds: i64| Some(Timestamp::from_second(1_000_000 - seconds).unwrap());
        let table = [
            (None, HOUR, 3600),
            (ago(0), HOUR, 3600),
            (ago(600), HOUR, 3000),
            (ago(3590), HOUR, 60),
            (ago(-600), HOUR, 3600),
            (ago(29), Duration::from_secs(30), 1),
        ];
        for (oldest, lifetime, seconds) in table {
            assert_eq!(until_next(oldest, now, lifetime), Duration::from_secs(seconds), "{oldest:?} {lifetime:?}");
        }
    }

    async fn registry(store: &Arc<store::Memory>, options: Options) -> Registry {
        let base = vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})];
        let definitions = apimachinery::builtin::definitions();
        let registry = Registry::open(store.clone(), definitions, base, options).unwrap();
        for name in ["a", "b"] {
            let authority = pki::new_client_authority(name).unwrap();
            registry.create_logical_cluster(name, LogicalClusterKind::Cluster, authority).await.unwrap();
        }
        registry
    }

    /// Sends a write of an object in namespace `default`.
    async fn send(registry: &Registry, verb: &str, cluster: &str, resource: &str, name: Option<&str>, body: Value) {
        let request = ResourceRequest {
            group: String::new(),
            version: "v1".into(),
            resource: resource.into(),
            namespace: Some("default".into()),
            name: name.map(str::to_owned),
            subresource: None,
        };
        let info = RequestInfo {
            cluster: ClusterScope::One(cluster.into()),
            verb: verb.into(),
            path: String::new(),
            resource: Some(request),
            query: Vec::new(),
        };
        let context = RequestContext { info, user: UserInfo::anonymous() };
        let media_type = if verb == "patch" { "application/merge-patch+json" } else { "application/json" };
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(media_type))].into_iter().collect();
        registry.serve(&context, &headers, body.to_string().into()).await.unwrap();
    }

    async fn create(registry: &Registry, cluster: &str, kind: &str, name: &str) {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}});
        let resource = if kind == "Event" { "events" } else { "configmaps" };
        if kind == "Event" {
            object["involvedObject"] = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        }
        send(registry, "create", cluster, resource, None, object).await;
    }

    async fn names(registry: &Registry, cluster: &str, resource: &str) -> Vec<String> {
        let kind = GroupResource { group: String::new(), resource: resource.into() };
        let all = registry.list(cluster, &kind, Some("default")).await.unwrap();
        all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[tokio::test]
    async fn only_events_that_were_not_written_since_go() {
        let store = Arc::new(store::Memory::default());
        let old = registry(&store, Options::default()).await;
        for (cluster, kind, name) in
            [("a", "Event", "once"), ("a", "Event", "twice"), ("b", "Event", "other"), ("a", "ConfigMap", "map")]
        {
            create(&old, cluster, kind, name).await;
        }
        let until = Timestamp::now();
        send(&old, "patch", "a", "events", Some("twice"), json!({"count": 2})).await;
        create(&old, "b", "Event", "later").await;
        drop(old);
        // A restart: what is known is in the store.
        let registry = registry(&store, Options::default()).await;
        let step = registry.expire(&mut Sweep::default(), until).await.unwrap();
        assert!(step.last && step.removed == 2 && step.oldest.is_some_and(|oldest| oldest > until), "{step:?}");
        assert_eq!(names(&registry, "a", "events").await, ["twice"]);
        assert_eq!(names(&registry, "b", "events").await, ["later"]);
        assert_eq!(names(&registry, "a", "configmaps").await, ["map"]);
    }

    #[tokio::test]
    async fn a_step_is_bounded_and_the_next_goes_on() {
        let store = Arc::new(store::Memory::default());
        let registry = registry(&store, Options { expire_entries: 2, ..Options::default() }).await;
        for number in 0..3 {
            create(&registry, "a", "Event", &format!("old-{number}")).await;
        }
        let until = Timestamp::now();
        create(&registry, "a", "Event", "a-new").await;
        create(&registry, "b", "Event", "new").await;
        let mut sweep = Sweep::default();
        let mut steps = Vec::new();
        for _ in 0..3 {
            let step = registry.expire(&mut sweep, until).await.unwrap();
            steps.push((step.removed, step.last, step.oldest.is_some()));
        }
        assert_eq!(steps, [(1, false, false), (2, false, false), (0, true, true)]);
        let step = registry.expire(&mut sweep, Timestamp::now()).await.unwrap();
        assert_eq!(step, crate::registry::expire::Step { removed: 2, last: true, oldest: None }, "from the beginning");
    }

    #[tokio::test(start_paused = true)]
    async fn events_go_after_their_lifetime() {
        let registry = registry(&Arc::default(), Options::default()).await;
        create(&registry, "a", "Event", "e").await;
        let (clock, shutdown) = (Arc::new(ManualClock::new(SystemTime::now())), Shutdown::new());
        let task = {
            let (registry, clock, shutdown) = (registry.clone(), clock.clone(), shutdown.clone());
            tokio::spawn(async move { run(&registry, HOUR, &*clock, &shutdown).await })
        };
        tokio::time::sleep(2 * HOUR).await;
        assert_eq!(names(&registry, "a", "events").await, ["e"], "by the clock no time has passed");
        clock.advance(HOUR);
        tokio::time::sleep(HOUR + LONGEST_PAUSE).await;
        assert!(names(&registry, "a", "events").await.is_empty());
        shutdown.trigger();
        task.await.unwrap();
    }
}
