use super::*;
use k8s_openapi::api::core::v1::Pod;
use std::time::Duration;
use tokio::time::Instant;

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
