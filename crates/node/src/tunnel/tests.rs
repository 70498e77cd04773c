//! Paths, options and frames of the tunnel.

use super::frames::{end, size};
use super::route::{Place, Route, options, parameter, route};
use node_api::tunnel::{ExecOptions, LogOptions};

#[test]
fn paths_name_pods_and_containers() {
    let place = |container: &str| Place {
        namespace: "d".into(),
        pod: "p".into(),
        uid: "u".into(),
        container: container.into(),
    };
    for (path, expected) in [
        ("/healthz", Some(Route::Health)),
        ("/logs/d/p/u/c%20d", Some(Route::Logs(place("c d")))),
        ("/exec/d/p/u/c", Some(Route::Exec(place("c")))),
        ("/attach/d/p/u/c", Some(Route::Attach(place("c")))),
        ("/portforward/d/p/u", Some(Route::PortForward(place("")))),
        ("/logs/d/p/u", None),
        ("/logs/d/p/u/c/x", None),
        ("/logs/d/p/u/%zz", None),
        ("/", None),
    ] {
        assert_eq!(route(path), expected, "{path}");
    }
}

#[test]
fn options_are_json_in_the_query() {
    let query = "options=%7B%22follow%22%3Atrue%2C%22tailLines%22%3A3%7D&port=80";
    let read: LogOptions = options(Some(query)).unwrap();
    assert!(read.follow && read.tail_lines == Some(3));
    assert_eq!(parameter(Some(query), "port").as_deref(), Some("80"));
    assert_eq!(options::<ExecOptions>(None).unwrap(), ExecOptions::default());
    assert!(options::<ExecOptions>(Some("options=%7B")).is_err());
}

#[test]
fn the_end_of_a_command_is_a_status() {
    assert_eq!(end(0)["status"], "Success");
    assert_eq!(end(3)["reason"], "NonZeroExitCode");
    assert_eq!(end(3)["details"]["causes"][0]["message"], "3");
}

#[test]
fn sizes_are_columns_and_rows() {
    assert_eq!(size(br#"{"Width":80,"Height":24}"#), Some((80, 24)));
    assert_eq!(size(br#"{"Width":80}"#), None);
    assert_eq!(size(br#"{"Width":800000,"Height":24}"#), None);
}
