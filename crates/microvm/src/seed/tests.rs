//! Tests of what a machine is told.
#![allow(clippy::unwrap_used)]

use super::*;
use compute_api::{MachineId, Secret};

fn request(boot_config: &str, secret: &str) -> NodeRequest {
    NodeRequest {
        id: MachineId("one".to_owned()),
        cluster: "c".to_owned(),
        node_name: "n".to_owned(),
        cpus: 1,
        memory_mib: 256,
        boot_config: boot_config.to_owned(),
        join_secret: Secret::new(secret),
    }
}

const CONFIG: &str = r#"{"server":"https://10.0.2.2:6443","cluster":"c","nodeName":"n",
    "certificateAuthority":"","podCidr":"10.244.0.0/24","serviceCidr":"10.96.0.0/12",
    "clusterDns":"10.96.0.10","clusterDomain":"cluster.local","insecureRegistries":["a:1"]}"#;

#[test]
fn registries_of_the_host_are_reached_through_its_address() {
    let mut options = HostOptions::new("s", "c", "a");
    options.insecure_registries = vec!["a:1".to_owned(), "localhost:5000".to_owned(), "b:2".to_owned()];
    let config = boot_config(&request(CONFIG, ""), &options).unwrap();
    assert_eq!(config.insecure_registries, ["a:1", "localhost:5000", "10.0.2.2:5000", "b:2"]);
    assert_eq!(
        config.registry_mirrors.into_iter().collect::<Vec<_>>(),
        [("localhost:5000".to_owned(), "10.0.2.2:5000".to_owned())]
    );
}

#[test]
fn the_secret_is_padded_and_never_shown() {
    let drive = join_drive(&request(CONFIG, r#"{"token":"abc"}"#)).unwrap();
    assert_eq!(drive.len(), 512);
    assert!(drive.starts_with(br#"{"token":"abc"}"#) && drive[15..].iter().all(|byte| *byte == 0));
    let error = join_drive(&request(CONFIG, r#"{"tokn":"hidden"}"#)).unwrap_err();
    assert!(!format!("{error:?}{error}").contains("hidden"));
}

#[test]
fn the_seed_holds_no_secret_and_a_bad_configuration_is_named() {
    let request = request(CONFIG, r#"{"token":"abc-secret"}"#);
    let config = boot_config(&request, &HostOptions::new("s", "c", "a")).unwrap();
    let image = image(&request, &config).unwrap();
    assert!(image.windows(15).any(|window| window == USER_DATA_HEADER.as_bytes()));
    assert!(!image.windows(10).any(|window| window == b"abc-secret"));
    let bad = super::boot_config(&self::request("{", ""), &HostOptions::new("s", "c", "a")).unwrap_err();
    assert!(bad.to_string().contains("boot configuration"));
}
