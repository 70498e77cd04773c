use super::*;

const OPTIONS: BackoffOptions =
    BackoffOptions { initial: Duration::from_millis(100), max: Duration::from_secs(1), factor: 2.0, jitter: 0.5 };

#[test]
fn doubles_up_to_the_maximum() {
    let delays: Vec<u128> = (0..6).map(|n| OPTIONS.delay(n, 0.0).as_millis()).collect();
    assert_eq!(delays, [100, 200, 400, 800, 1000, 1000]);
}

#[test]
fn jitter_only_shortens() {
    assert_eq!(OPTIONS.delay(0, 1.0), Duration::from_millis(50));
    assert_eq!(OPTIONS.delay(9, 1.0), Duration::from_millis(500));
}

#[test]
fn strange_options_stay_bounded() {
    for factor in [f64::NAN, f64::INFINITY, -3.0, 0.0] {
        for jitter in [f64::NAN, -1.0, 7.0] {
            let options = BackoffOptions { factor, jitter, ..OPTIONS };
            for attempt in [0, 1, 40, u32::MAX] {
                assert!(options.delay(attempt, f64::NAN) <= options.max);
            }
        }
    }
    let zero = BackoffOptions { initial: Duration::ZERO, factor: f64::INFINITY, ..OPTIONS };
    assert_eq!(zero.delay(3, 0.0), Duration::ZERO);
}

#[test]
fn reset_starts_over() {
    let mut backoff = Backoff::new(BackoffOptions { jitter: 0.0, ..OPTIONS });
    backoff.next_delay();
    assert_eq!(backoff.next_delay(), Duration::from_millis(200));
    assert_eq!(backoff.attempts(), 2);
    backoff.reset();
    assert_eq!(backoff.next_delay(), Duration::from_millis(100));
}
