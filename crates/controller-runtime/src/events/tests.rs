use super::*;
use k8s_openapi::api::core::v1::Pod;

fn note(name: &str, message: &str) -> Note {
    Note {
        cluster: "c".into(),
        about: ObjectReference { name: Some(name.into()), uid: Some(name.into()), ..ObjectReference::default() },
        type_: EventType::Normal,
        reason: "Test".into(),
        message: message.into(),
        at: jiff::Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn repeated_events_are_counted_and_forgotten_in_time() {
    let options = EventOptions { burst: 100, ..EventOptions::default() };
    let mut correlator = Correlator::new(options);
    let now = Instant::now();
    let Decision::Create { name } = correlator.decide(&note("pod", "hello"), now) else { panic!("the first is new") };
    assert!(name.starts_with("pod."));
    let first = jiff::Timestamp::UNIX_EPOCH;
    assert_eq!(correlator.decide(&note("pod", "hello"), now), Decision::Count { name, count: 2, first });
    assert!(matches!(correlator.decide(&note("pod", "other"), now), Decision::Create { .. }));
    let later = now + options.remembered_for;
    assert!(matches!(correlator.decide(&note("pod", "hello"), later), Decision::Create { .. }));
}

#[test]
fn an_object_has_a_burst_and_then_a_trickle() {
    let options = EventOptions { burst: 3, refill: Duration::from_secs(10), ..EventOptions::default() };
    let mut correlator = Correlator::new(options);
    let now = Instant::now();
    let mut passed =
        |name: &str, number: u32, at| correlator.decide(&note(name, &number.to_string()), at) != Decision::Drop;
    let of_one: Vec<bool> = (0..5).map(|number| passed("one", number, now)).collect();
    assert_eq!(of_one, [true, true, true, false, false]);
    assert!(passed("two", 0, now), "another object");
    assert!(passed("one", 6, now + Duration::from_secs(11)));
    assert!(!passed("one", 7, now + Duration::from_secs(12)));
}

#[test]
fn what_is_remembered_is_bounded() {
    let options = EventOptions { max_remembered: 8, ..EventOptions::default() };
    let mut correlator = Correlator::new(options);
    let start = Instant::now();
    for number in 0..100_u64 {
        let at = start + Duration::from_secs(number);
        correlator.decide(&note(&format!("pod-{number}"), "hello"), at);
        assert!(correlator.remembered() <= 8);
    }
    let again = correlator.decide(&note("pod-99", "hello"), start + Duration::from_secs(100));
    assert!(matches!(again, Decision::Count { count: 2, .. }), "the newest are kept");
}

#[tokio::test]
async fn a_full_recorder_drops_and_names_what_it_is_about() {
    let (recorder, mut notes) = EventRecorder::channel(1);
    let mut pod = Pod::default();
    pod.metadata.name = Some("web".into());
    pod.metadata.namespace = Some("default".into());
    recorder.normal(&"c".into(), &pod, "Started", "one");
    recorder.warning(&"c".into(), &pod, "Started", "two");
    let first = notes.recv().await.expect("one fits");
    assert_eq!((first.message.as_str(), first.about.kind.as_deref()), ("one", Some("Pod")));
    assert!(notes.try_recv().is_err(), "the second was dropped");
}

#[test]
fn messages_are_cut_between_characters() {
    let mut text = "aöb".to_owned();
    truncate(&mut text, 2);
    assert_eq!(text, "a");
}

#[test]
fn events_of_clusters_that_are_gone_are_forgotten_in_time() {
    let options = EventOptions { max_remembered: 10_000, ..EventOptions::default() };
    let mut correlator = Correlator::new(options);
    let start = Instant::now();
    for number in 0..5000 {
        correlator.decide(&note(&format!("pod-{number}"), "hello"), start);
    }
    let full = correlator.room();
    correlator.decide(&note("last", "hello"), start + options.remembered_for);
    assert_eq!(correlator.remembered(), 1, "whatever is told later, too");
    assert!(full >= 5000 && correlator.room() < 200, "{full} {}", correlator.room());
    correlator.sweep(start + 2 * options.remembered_for);
    assert!(correlator.is_empty());
}

/// Answers every request with what it was sent.
struct Echo;

#[async_trait::async_trait]
impl crate::Transport for Echo {
    async fn send(&self, request: http::Request<bytes::Bytes>) -> Result<http::Response<crate::Body>, crate::BoxError> {
        let body = http_body_util::Full::new(request.into_body());
        Ok(http::Response::new(crate::Body::new(http_body_util::BodyExt::map_err(body, |never| match never {}))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_recorder_forgets_by_itself() {
    let options = EventOptions::default();
    let (recorder, notes) = EventRecorder::channel(16);
    let client = Client::new(Arc::new(Echo), "c");
    let correlator = Correlator::new(options);
    let mut writer = Writer { client, component: "test".into(), options, correlator, notes };
    recorder.record(note("pod", "hello"));
    assert!(timeout(Duration::from_secs(1), writer.run()).await.is_err(), "it waits for more");
    assert_eq!(writer.correlator.remembered(), 1);
    assert!(timeout(options.remembered_for * 2, writer.run()).await.is_err());
    assert!(writer.correlator.is_empty());
}
