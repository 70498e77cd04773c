//! Decisions about containers that need no container; the integration test runs real ones.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use super::bundle::{cgroup, configuration};
use super::user::{ResolvedUser, UserRequest, resolve};
use super::{BindMount, ContainerSpec, Error, Resources, RuntimeOptions, Seccomp, Security, UserSpec, seccomp};
use crate::image::{ImageConfig, PreparedImage};

fn spec() -> ContainerSpec {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    ContainerSpec {
        pod_uid: "1-2".into(),
        name: "main".into(),
        attempt: 0,
        image: PreparedImage {
            id: "sha256:0".into(),
            repo_digest: None,
            config: ImageConfig {
                entrypoint: words("/entry -e"),
                cmd: words("default args"),
                env: words("PATH=/image A=image B=image"),
                working_dir: "/srv".into(),
                ..ImageConfig::default()
            },
            layers: Vec::new(),
            size: 0,
        },
        command: Vec::new(),
        args: Vec::new(),
        env: vec![("B".into(), "pod".into()), ("C".into(), "x=y".into())],
        working_dir: None,
        user: UserSpec::default(),
        hostname: "web".into(),
        network_namespace: Some("/run/netns/web".into()),
        ipc_namespace: None,
        pid_namespace: None,
        mounts: Vec::new(),
        resources: Resources::default(),
        security: Security::default(),
        read_only_root: false,
        tty: false,
        stdin: false,
        stdin_once: false,
        log_path: "/log".into(),
        sysctls: BTreeMap::new(),
    }
}

fn configured(spec: &ContainerSpec) -> serde_json::Value {
    let options = RuntimeOptions::new("/run/c", "/log", "/sys/fs/cgroup/pods");
    let configuration = configuration(spec, &options, "id").unwrap();
    // What libcontainer will read.
    serde_json::from_value::<libcontainer::oci_spec::runtime::Spec>(configuration.clone()).unwrap();
    configuration
}

fn refused(spec: &ContainerSpec) -> String {
    let options = RuntimeOptions::new("/run/c", "/log", "/sys/fs/cgroup/pods");
    match configuration(spec, &options, "id") {
        Err(Error::Invalid(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn changed(change: impl FnOnce(&mut ContainerSpec)) -> ContainerSpec {
    let mut spec = spec();
    change(&mut spec);
    spec
}

#[test]
fn command_and_args_replace_entrypoint_and_cmd() {
    let args = |command: &[&str], args: &[&str]| {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let spec = changed(|spec| (spec.command, spec.args) = (owned(command), owned(args)));
        configured(&spec)["process"]["args"].clone()
    };
    assert_eq!(args(&[], &[]), json!(["/entry", "-e", "default", "args"]));
    assert_eq!(args(&[], &["a"]), json!(["/entry", "-e", "a"]));
    assert_eq!(args(&["c"], &[]), json!(["c"]));
    assert_eq!(args(&["c"], &["a"]), json!(["c", "a"]));
    let nothing = changed(|spec| spec.image.config = ImageConfig::default());
    assert_eq!(refused(&nothing), "no command specified");
}

#[test]
fn the_pods_environment_wins_over_the_images() {
    let env = configured(&spec())["process"]["env"].clone();
    assert_eq!(env, json!(["A=image", "B=pod", "C=x=y", "HOSTNAME=web", "PATH=/image"]));
    let bare = changed(|spec| spec.image.config.env.clear());
    let env = configured(&bare)["process"]["env"].to_string();
    assert!(env.contains("PATH=/usr/local/sbin:"), "{env}");
}

#[test]
fn the_working_directory_is_the_pods_the_images_or_the_root() {
    let cwd = |spec: &ContainerSpec| configured(spec)["process"]["cwd"].clone();
    assert_eq!(cwd(&spec()), "/srv");
    assert_eq!(cwd(&changed(|spec| spec.working_dir = Some("/pod".into()))), "/pod");
    assert_eq!(cwd(&changed(|spec| spec.image.config.working_dir.clear())), "/");
    refused(&changed(|spec| spec.working_dir = Some("pod".into())));
}

#[test]
fn capabilities_are_added_then_dropped() {
    let capabilities = |add: &[&str], drop: &[&str], privileged| {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let spec = changed(|spec| {
            spec.security.add_capabilities = owned(add);
            spec.security.drop_capabilities = owned(drop);
            spec.security.privileged = privileged;
        });
        let capabilities = configured(&spec)["process"]["capabilities"]["bounding"].clone();
        serde_json::from_value::<Vec<String>>(capabilities).unwrap()
    };
    let default = capabilities(&[], &[], false);
    assert_eq!(default.len(), 13);
    assert!(!default.contains(&"CAP_SYS_ADMIN".to_owned()) && !default.contains(&"CAP_MKNOD".to_owned()));
    assert_eq!(capabilities(&["NET_ADMIN", "cap_chown"], &["ALL"], false), ["CAP_CHOWN", "CAP_NET_ADMIN"]);
    assert_eq!(capabilities(&["ALL"], &[], false).len(), 41);
    assert_eq!(capabilities(&["ALL"], &["CHOWN"], false).len(), 40);
    assert_eq!(capabilities(&[], &["ALL"], false), Vec::<String>::new());
    assert_eq!(capabilities(&[], &["ALL"], true).len(), 41);
    refused(&changed(|spec| spec.security.add_capabilities = vec!["FLY".into()]));
}

#[test]
fn mounts_replace_default_ones_and_parents_come_first() {
    let mount = |target: &str, read_only| BindMount {
        source: PathBuf::from("/node").join(target.trim_start_matches('/')),
        target: target.into(),
        read_only,
    };
    let spec = changed(|spec| {
        spec.mounts = vec![mount("/data/inner", true), mount("/data", false), mount("/dev/shm", false)];
    });
    let mounts = configured(&spec)["mounts"].clone();
    let mounts = mounts.as_array().unwrap();
    let at = |target: &str| mounts.iter().position(|mount| mount["destination"] == target).unwrap();
    assert!(at("/data") < at("/data/inner"));
    assert_eq!(mounts[at("/data/inner")]["options"], json!(["rbind", "rprivate", "ro"]));
    assert_eq!(mounts.iter().filter(|mount| mount["destination"] == "/dev/shm").count(), 1);
    assert_eq!(mounts[at("/dev/shm")]["source"], "/node/dev/shm");
    refused(&changed(|spec| spec.mounts = vec![mount("relative", false)]));
}

#[test]
fn limits_and_namespaces_are_told_to_the_kernel() {
    let spec = changed(|spec| {
        spec.resources = Resources {
            cpu_shares: Some(512),
            cpu_quota: Some(50_000),
            memory_limit: Some(16 << 20),
            pids_limit: Some(64),
            oom_score_adj: Some(2000),
        };
    });
    let configuration = configured(&spec);
    let linux = &configuration["linux"];
    assert_eq!(linux["resources"]["memory"]["limit"], 16 << 20);
    assert_eq!(linux["resources"]["unified"]["memory.oom.group"], "1");
    assert_eq!(linux["resources"]["cpu"], json!({ "shares": 512, "quota": 50_000, "period": 100_000 }));
    assert_eq!(linux["resources"]["pids"]["limit"], 64);
    assert_eq!(configuration["process"]["oomScoreAdj"], 1000);
    assert_eq!(linux["cgroupsPath"], "/pods/pod1-2/id");
    let namespaces = linux["namespaces"].as_array().unwrap();
    assert!(namespaces.contains(&json!({ "type": "network", "path": "/run/netns/web" })));
    assert_eq!(namespaces.len(), 6);
    let host_network = changed(|spec| spec.network_namespace = None);
    assert_eq!(configured(&host_network)["linux"]["namespaces"].as_array().unwrap().len(), 5);
}

#[test]
fn a_pod_cannot_name_a_cgroup_elsewhere() {
    let options = RuntimeOptions::new("/run/c", "/log", "/sys/fs/cgroup/pods");
    for uid in ["", "..", "a/../../b"] {
        assert!(cgroup(&changed(|spec| spec.pod_uid = uid.into()), &options, "id").is_err(), "{uid}");
    }
    let elsewhere = RuntimeOptions::new("/run/c", "/log", "/other");
    assert!(cgroup(&spec(), &elsewhere, "id").is_err());
}

#[test]
fn nothing_is_hidden_from_a_privileged_container() {
    let plain = configured(&spec());
    assert!(plain["linux"]["maskedPaths"].as_array().unwrap().contains(&json!("/proc/kcore")));
    assert!(plain["linux"]["readonlyPaths"].as_array().unwrap().contains(&json!("/proc/sys")));
    let privileged = configured(&changed(|spec| spec.security.privileged = true));
    assert_eq!(privileged["linux"]["maskedPaths"], json!([]));
    assert_eq!(privileged["linux"]["readonlyPaths"], json!([]));
}

const PASSWD: &str =
    "root:x:0:0:root:/root:/bin/sh\nbroken\nweb:x:33:34:web:/srv/web:/bin/false\n100:x:7:7::/:/bin/sh\n";
const GROUP: &str = "root:x:0:\nwww:x:34:\nlogs:x:50:other,web\n";

fn resolved(image: &str, uid: Option<u32>, gid: Option<u32>, supplemental: &[u32]) -> Result<ResolvedUser, String> {
    let request = UserRequest { image: image.into(), uid, gid, supplemental_groups: supplemental.to_vec() };
    resolve(&request, PASSWD, GROUP).map_err(|error| error.to_string())
}

fn user(uid: u32, gid: u32, groups: &[u32], home: &str) -> ResolvedUser {
    ResolvedUser { uid, gid, groups: groups.to_vec(), home: home.into() }
}

#[test]
fn users_come_from_the_pod_then_the_image_and_its_files() {
    assert_eq!(resolved("", None, None, &[]), Ok(user(0, 0, &[0], "/root")));
    assert_eq!(resolved("web", None, None, &[]), Ok(user(33, 34, &[34, 50], "/srv/web")));
    assert_eq!(resolved("web:logs", None, None, &[9]), Ok(user(33, 50, &[9, 50], "/srv/web")));
    assert_eq!(resolved("33:77", None, None, &[]), Ok(user(33, 77, &[50, 77], "/srv/web")));
    assert_eq!(resolved("1234", None, None, &[]), Ok(user(1234, 0, &[0], "/")));
    // The pod's user does not take the image's group.
    assert_eq!(resolved("web:www", Some(1000), None, &[]), Ok(user(1000, 0, &[0], "/")));
    assert_eq!(resolved("web", Some(33), Some(5), &[]), Ok(user(33, 5, &[5, 50], "/srv/web")));
    // A name of digits is a name first.
    assert_eq!(resolved("100", None, None, &[]), Ok(user(7, 7, &[7], "/")));
    assert_eq!(
        resolved("nobody", None, None, &[]),
        Err("unable to find user nobody: no matching entries in passwd file".into())
    );
    assert!(resolved("web:none", None, None, &[]).is_err());
}

#[test]
fn the_system_call_filter_follows_the_capabilities() {
    let none = seccomp::programs(&[]).unwrap();
    assert_eq!(none.len(), 2);
    let admin = seccomp::programs(&["CAP_SYS_ADMIN".into()]).unwrap();
    assert_eq!(admin.len(), 1);
    assert!(admin[0].len() < none[1].len());
    assert_eq!(Security::default().seccomp, Seccomp::Unconfined);
}

#[tokio::test]
async fn a_failed_start_leaves_nothing_and_unknown_containers_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = RuntimeOptions::new(
        directory.path().join("run"),
        directory.path().join("log"),
        directory.path().join("cgroup/pods"),
    );
    options.cgroup_mount = directory.path().join("cgroup");
    options.shim = "/bin/false".into();
    let runtime = super::Runtime::open(options).unwrap();
    let spec = changed(|spec| spec.log_path = directory.path().join("log/0.log"));
    let error = runtime.create_and_start(&spec).await.unwrap_err();
    assert!(matches!(error, Error::Start(_)), "{error:?}");
    assert_eq!(std::fs::read_dir(directory.path().join("run")).unwrap().count(), 0);
    assert!(runtime.ids().is_empty());
    assert!(matches!(runtime.wait("other").await, Err(Error::NotFound(_))));
    assert!(!runtime.running("other"));
    runtime.remove("other").await.unwrap();
}

#[tokio::test]
async fn the_number_of_containers_is_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = RuntimeOptions::new(directory.path(), directory.path(), "/sys/fs/cgroup/pods");
    options.max_containers = 0;
    let runtime = super::Runtime::open(options).unwrap();
    let error = runtime.create_and_start(&spec()).await.unwrap_err();
    assert!(matches!(error, Error::Limit { limit: 0, .. }), "{error:?}");
}
