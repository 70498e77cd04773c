//! Real containers: this program is its own shim, so it has no test harness around it.
//!
//! Making containers takes root and a cgroup v2 file system. When the machine has mounted another
//! there, the test runs again in a mount namespace of its own with the right one.

#![allow(clippy::unwrap_used)] // a test, though clippy cannot see that

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use futures_util::StreamExt;
use node::container::logs::{LogOptions, Stream};
use node::container::{
    BindMount, ContainerSpec, Error, ExecSpec, ExitStatus, Resources, Runtime, RuntimeOptions, SHIM_COMMAND, Seccomp,
    Security, Session, UserSpec, shim_main,
};
use node::image::{ImageOptions, Images, PreparedImage};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PATIENCE: Duration = Duration::from_secs(60);
const CGROUP: &str = "/sys/fs/cgroup";
/// Set in the mount namespace, so that a failure there is not tried again.
const INSIDE: &str = "CONTAINERS_TEST_INSIDE";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some((SHIM_COMMAND, rest)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return ExitCode::from(u8::try_from(shim_main(rest)).unwrap_or(1));
    }
    if arguments.iter().any(|argument| argument == "--list") {
        println!("containers: test");
        return ExitCode::SUCCESS;
    }
    if !rustix::process::geteuid().is_root() {
        println!("containers: not root, so there are no containers to test");
        return ExitCode::SUCCESS;
    }
    if !Path::new(CGROUP).join("cgroup.controllers").exists() {
        assert!(std::env::var_os(INSIDE).is_none(), "no cgroup v2 after mounting it");
        return inside();
    }
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    threads.block_on(all());
    ExitCode::SUCCESS
}

/// Runs this program again where cgroup v2 is mounted.
fn inside() -> ExitCode {
    let script = format!("mount -t cgroup2 cgroup2 {CGROUP} && exec \"$0\"");
    let this = std::env::current_exe().unwrap();
    let status = Command::new("unshare").args(["--mount", "sh", "-c", &script]).arg(this).env(INSIDE, "1").status();
    ExitCode::from(if status.unwrap().success() { 0 } else { 1 })
}

async fn all() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::new(directory.path()).await;
    let finished = tokio::time::timeout(Duration::from_secs(300), async {
        output_and_exit_code(&node).await;
        isolation(&node).await;
        users(&node).await;
        exec(&node).await;
        terminal(&node).await;
        attach(&node).await;
        signals(&node).await;
        file_systems(&node).await;
        system_call_filter(&node).await;
        failures(&node).await;
        memory_limit(&node).await;
    });
    finished.await.expect("all tests end in time");
    assert!(node.runtime.ids().is_empty());
    assert_eq!(std::fs::read_dir(directory.path().join("run")).unwrap().count(), 0);
    assert!(!node.runtime.options().cgroup_root.join("podtest").exists());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(directory.path().to_str().unwrap()), "{mounts}");
    let _ = std::fs::remove_dir(&node.runtime.options().cgroup_root);
}

struct Node {
    directory: PathBuf,
    runtime: Runtime,
    image: PreparedImage,
}

impl Node {
    async fn new(directory: &Path) -> Self {
        let images = Images::open(&directory.join("images"), ImageOptions::default()).unwrap();
        let imported =
            images.import_archive(archive(&["sh", "cat", "id", "sleep", "stty", "tty", "tail"])).await.unwrap();
        let image = images.find(&imported[0].id).unwrap();
        let cgroup_root = format!("{CGROUP}/containers-test-{}", std::process::id());
        let mut options = RuntimeOptions::new(directory.join("run"), directory.join("log"), cgroup_root);
        options.shim = std::env::current_exe().unwrap();
        Self { directory: directory.to_owned(), runtime: Runtime::open(options).unwrap(), image }
    }

    fn spec(&self, name: &str, script: &str) -> ContainerSpec {
        ContainerSpec {
            pod_uid: "test".into(),
            name: name.into(),
            attempt: 0,
            image: self.image.clone(),
            command: vec!["sh".into(), "-c".into(), script.into()],
            args: Vec::new(),
            env: vec![("GREETING".into(), "hello".into())],
            working_dir: None,
            user: UserSpec::default(),
            hostname: "pod".into(),
            network_namespace: None,
            ipc_namespace: None,
            pid_namespace: None,
            mounts: Vec::new(),
            resources: Resources::default(),
            security: Security::default(),
            read_only_root: false,
            tty: false,
            stdin: false,
            stdin_once: false,
            log_path: self.directory.join("log").join(format!("{name}.log")),
            sysctls: BTreeMap::new(),
        }
    }

    async fn start(&self, spec: &ContainerSpec) -> String {
        self.runtime.create_and_start(spec).await.unwrap_or_else(|error| panic!("{}: {error}", spec.name)).id
    }

    async fn log(&self, spec: &ContainerSpec, stream: Option<Stream>) -> String {
        let options = LogOptions { stream, ..LogOptions::default() };
        let mut pieces = self.runtime.logs(&spec.log_path, None, options).await.unwrap();
        let mut text = Vec::new();
        while let Some(piece) = pieces.next().await {
            text.extend_from_slice(&piece.unwrap());
        }
        String::from_utf8(text).unwrap()
    }

    /// Runs to the end; the status and everything written.
    async fn run(&self, spec: &ContainerSpec) -> (ExitStatus, String) {
        // An earlier run of the same name wrote to the same log.
        let _ = std::fs::remove_file(&spec.log_path);
        let id = self.start(spec).await;
        let status = self.wait(&id).await;
        // Their order between streams is anybody's guess.
        let mut log = self.log(spec, Some(Stream::Stdout)).await;
        log.push_str(&self.log(spec, Some(Stream::Stderr)).await);
        self.runtime.remove(&id).await.unwrap();
        (status, log)
    }

    async fn wait(&self, id: &str) -> ExitStatus {
        tokio::time::timeout(PATIENCE, self.runtime.wait(id)).await.expect("the container ends").unwrap()
    }

    async fn exec(&self, id: &str, script: &str) -> (i32, String, String) {
        let spec = ExecSpec { command: vec!["sh".into(), "-c".into(), script.into()], ..ExecSpec::default() };
        let mut session = self.runtime.exec(id, &spec).await.unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        session.stdout.take().unwrap().read_to_string(&mut out).await.unwrap();
        session.stderr.take().unwrap().read_to_string(&mut err).await.unwrap();
        (end(&session).await.code, out, err)
    }
}

async fn end(session: &Session) -> ExitStatus {
    tokio::time::timeout(PATIENCE, session.control().wait()).await.expect("the process ends").unwrap()
}

/// Reads until the text has come.
async fn expect(reader: &mut (impl AsyncReadExt + Unpin), text: &str) {
    let mut seen = String::new();
    while !seen.contains(text) {
        let mut piece = [0; 256];
        let count = tokio::time::timeout(PATIENCE, reader.read(&mut piece)).await;
        let count = count.unwrap_or_else(|_| panic!("{text:?} did not come, only {seen:?}")).unwrap();
        assert!(count > 0, "ended after {seen:?} without {text:?}");
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
}

async fn output_and_exit_code(node: &Node) {
    let spec = node.spec("output", "echo $GREETING; echo bad >&2; printf end; exit 7");
    let id = node.start(&spec).await;
    let status = node.wait(&id).await;
    assert_eq!((status.code, status.signal, status.oom_killed), (7, None, false));
    assert_eq!(node.log(&spec, Some(Stream::Stdout)).await, "hello\nend\n");
    assert_eq!(node.log(&spec, Some(Stream::Stderr)).await, "bad\n");
    assert!(!node.runtime.running(&id));
    assert!(matches!(node.runtime.exec(&id, &ExecSpec::default()).await, Err(Error::NotRunning(_))));
    node.runtime.signal(&id, Signal::TERM).unwrap();
    node.runtime.remove(&id).await.unwrap();
    assert!(matches!(node.runtime.wait(&id).await, Err(Error::NotFound(_))));
}

async fn isolation(node: &Node) {
    let mut spec = node.spec(
        "isolation",
        "echo pid $$; cat /proc/sys/kernel/hostname; pwd; echo /proc/[0-9]*; \
         cat /proc/kcore; echo x > /proc/sys/kernel/hostname; echo x > /sys/x; echo home $HOME",
    );
    spec.working_dir = Some("/new/place".into());
    let (status, log) = node.run(&spec).await;
    assert_eq!(status.code, 0, "{log}");
    assert!(log.contains("pid 1\npod\n/new/place\n/proc/1\n"), "{log}");
    assert!(log.contains("home /root\n"), "{log}");
    assert_eq!(log.matches("Read-only file system").count(), 2, "{log}");
}

async fn users(node: &Node) {
    let mut spec = node.spec("users", "id -u; id -g; id -G; cat /proc/self/status");
    spec.user = UserSpec { uid: Some(33), gid: None, supplemental_groups: vec![4000] };
    spec.security.no_new_privileges = true;
    spec.security.drop_capabilities = vec!["ALL".into()];
    let (_, log) = node.run(&spec).await;
    assert!(log.starts_with("33\n34\n34 50 4000\n"), "{log}");
    assert!(log.contains("NoNewPrivs:\t1") && log.contains("CapBnd:\t0000000000000000"), "{log}");
    spec.user = UserSpec::default();
    spec.image.config.user = "web:logs".into();
    let (_, log) = node.run(&spec).await;
    assert!(log.contains("33\n50\n"), "{log}");
    spec.image.config.user = "nobody".into();
    let error = node.runtime.create_and_start(&spec).await.unwrap_err().to_string();
    assert_eq!(error, "unable to find user nobody: no matching entries in passwd file");
}

async fn exec(node: &Node) {
    let spec = node.spec("exec", "exec sleep 1000");
    let id = node.start(&spec).await;
    let (code, out, err) =
        node.exec(&id, "cat /proc/sys/kernel/hostname; cat /proc/1/comm; echo $GREETING; echo e >&2; exit 3").await;
    assert_eq!((code, out.as_str(), err.as_str()), (3, "pod\nsleep\nhello\n", "e\n"));
    // A stdin that ends.
    let cat = ExecSpec { command: vec!["cat".into()], tty: false, stdin: true };
    let mut session = node.runtime.exec(&id, &cat).await.unwrap();
    let big = vec![b'x'; 300_000];
    let mut stdin = session.stdin.take().unwrap();
    let write = async {
        stdin.write_all(&big).await.unwrap();
        drop(stdin);
    };
    let mut copy = Vec::new();
    let (_, read) = tokio::join!(write, session.stdout.as_mut().unwrap().read_to_end(&mut copy));
    assert_eq!(read.unwrap(), big.len());
    assert_eq!(end(&session).await.code, 0);
    // A process that must be ended.
    let sleep = ExecSpec { command: vec!["sleep".into(), "1000".into()], ..ExecSpec::default() };
    let session = node.runtime.exec(&id, &sleep).await.unwrap();
    session.control().signal(Signal::KILL).unwrap();
    assert_eq!(end(&session).await.code, 137);
    let missing = ExecSpec { command: vec!["nothing".into()], ..ExecSpec::default() };
    let error = node.runtime.exec(&id, &missing).await.err().unwrap().to_string();
    assert_eq!(error, "exec: \"nothing\": executable file not found in $PATH");
    // Many at a time.
    let many = [0, 1, 2, 3].map(|number| {
        let id = &id;
        async move { node.exec(id, &format!("echo {number}")).await.1 }
    });
    let many = futures_util::future::join_all(many).await;
    assert_eq!(many, ["0\n", "1\n", "2\n", "3\n"]);
    node.runtime.remove(&id).await.unwrap();
}

async fn terminal(node: &Node) {
    let mut spec = node.spec("terminal", "tty; read line; echo \"got $line\"; exit 4");
    (spec.tty, spec.stdin) = (true, true);
    let id = node.start(&spec).await;
    let mut session = node.runtime.attach(&id, true).unwrap();
    assert!(session.stderr.is_none());
    // A terminal in a running container, with a size of its own.
    let shell = ExecSpec { command: vec!["sh".into()], tty: true, stdin: true };
    let mut second = node.runtime.exec(&id, &shell).await.unwrap();
    second.control().resize(100, 30).unwrap();
    second.stdin.as_mut().unwrap().write_all(b"stty size; exit 6\n").await.unwrap();
    expect(second.stdout.as_mut().unwrap(), "30 100").await;
    assert_eq!(end(&second).await.code, 6);
    session.stdin.as_mut().unwrap().write_all(b"word\n").await.unwrap();
    expect(session.stdout.as_mut().unwrap(), "got word").await;
    assert_eq!(node.wait(&id).await.code, 4);
    assert_eq!(end(&session).await.code, 4);
    let log = node.log(&spec, None).await;
    assert!(log.starts_with("/dev/pts/0\r\n") && log.contains("got word"), "{log}");
    node.runtime.remove(&id).await.unwrap();
}

async fn attach(node: &Node) {
    let mut spec =
        node.spec("attach", "while read line; do echo \"out $line\"; echo \"err $line\" >&2; done; echo over");
    (spec.stdin, spec.stdin_once) = (true, true);
    let id = node.start(&spec).await;
    let mut watcher = node.runtime.attach(&id, false).unwrap();
    let mut session = node.runtime.attach(&id, true).unwrap();
    assert!(watcher.stdin.is_none());
    let mut stdin = session.stdin.take().unwrap();
    stdin.write_all(b"1\n").await.unwrap();
    expect(session.stdout.as_mut().unwrap(), "out 1\n").await;
    expect(session.stderr.as_mut().unwrap(), "err 1\n").await;
    drop(stdin);
    // Everybody attached sees the end.
    expect(watcher.stdout.as_mut().unwrap(), "out 1\nover\n").await;
    let mut rest = String::new();
    session.stdout.take().unwrap().read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "over\n");
    assert_eq!(node.wait(&id).await.code, 0);
    node.runtime.remove(&id).await.unwrap();
}

async fn signals(node: &Node) {
    let spec = node.spec("signals", "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done");
    let id = node.start(&spec).await;
    let options = LogOptions { follow: true, ..LogOptions::default() };
    let mut log = node.runtime.logs(&spec.log_path, Some(&id), options).await.unwrap();
    let first = tokio::time::timeout(PATIENCE, log.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&first[..], b"ready\n");
    node.runtime.signal(&id, Signal::TERM).unwrap();
    assert_eq!(node.wait(&id).await.code, 5);
    // Following ends with the container.
    assert!(tokio::time::timeout(PATIENCE, log.next()).await.unwrap().is_none());
    node.runtime.remove(&id).await.unwrap();

    let id = node.start(&node.spec("killed", "sleep 1000 & sleep 1000")).await;
    node.runtime.kill_all(&id).unwrap();
    let status = node.wait(&id).await;
    assert_eq!((status.code, status.signal, status.oom_killed), (137, Some(9), false));
    node.runtime.remove(&id).await.unwrap();
    // Removal alone ends it too.
    let id = node.start(&node.spec("removed", "sleep 1000")).await;
    node.runtime.remove(&id).await.unwrap();
}

async fn file_systems(node: &Node) {
    let data = node.directory.join("data");
    std::fs::create_dir_all(data.join("in")).unwrap();
    std::fs::write(data.join("in/file"), "content\n").unwrap();
    let mount = |target: &str, read_only| BindMount { source: data.join("in"), target: target.into(), read_only };
    let mut spec = node.spec(
        "mounts",
        "cat /data/file; echo new > /data/made; echo x > /fixed/made; echo x > /root-file && cat /root-file",
    );
    spec.mounts = vec![mount("/data", false), mount("/fixed", true)];
    let (_, log) = node.run(&spec).await;
    assert!(log.contains("content\n") && log.contains("x\n"), "{log}");
    assert_eq!(log.matches("Read-only file system").count(), 1, "{log}");
    assert_eq!(std::fs::read_to_string(data.join("in/made")).unwrap(), "new\n");
    spec.read_only_root = true;
    let (_, log) = node.run(&spec).await;
    assert_eq!(log.matches("Read-only file system").count(), 2, "{log}");
    // The image is as it was.
    assert!(!self_contains(&node.image, "root-file"));
}

fn self_contains(image: &PreparedImage, path: &str) -> bool {
    image.layers.iter().any(|layer| layer.join(path).exists())
}

async fn system_call_filter(node: &Node) {
    let mut spec = node.spec("filter", "cat /proc/self/status");
    let (_, log) = node.run(&spec).await;
    assert!(log.contains("Seccomp:\t0"), "{log}");
    spec.security.seccomp = Seccomp::RuntimeDefault;
    let (status, log) = node.run(&spec).await;
    assert!(status.code == 0 && log.contains("Seccomp:\t2"), "{log}");
}

async fn failures(node: &Node) {
    let mut spec = node.spec("failures", "");
    for (command, expected) in [
        ("nothing", "exec: \"nothing\": executable file not found in $PATH"),
        ("/nothing", "exec: \"/nothing\": stat /nothing: no such file or directory"),
        ("/etc", "exec: \"/etc\": is a directory"),
        ("/etc/passwd", "exec: \"/etc/passwd\": permission denied"),
    ] {
        spec.command = vec![command.into()];
        let error = node.runtime.create_and_start(&spec).await.unwrap_err();
        assert!(matches!(error, Error::Start(_)));
        assert_eq!(error.to_string(), expected);
    }
}

async fn memory_limit(node: &Node) {
    let controllers = std::fs::read_to_string(Path::new(CGROUP).join("cgroup.controllers")).unwrap();
    if !controllers.split_whitespace().any(|controller| controller == "memory") {
        println!("containers: this kernel has given memory to cgroup v1, so its limit is not tested");
        return;
    }
    let mut spec = node.spec("memory", "tail /dev/zero");
    spec.resources.memory_limit = Some(16 << 20);
    let (status, log) = node.run(&spec).await;
    assert!(status.oom_killed, "{status:?} {log}");
    assert_eq!(status.code, 137);
}

/// An image of programs of this machine and the libraries they need, as `docker save` writes it.
fn archive(programs: &[&str]) -> std::fs::File {
    let mut layer = tar::Builder::new(Vec::new());
    let mut done = std::collections::BTreeSet::new();
    for program in programs {
        let path = ["/bin", "/usr/bin"].map(|directory| Path::new(directory).join(program));
        let path =
            path.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("this machine has no {program}"));
        let libraries = Command::new("ldd").arg(&path).output().unwrap();
        let libraries = String::from_utf8(libraries.stdout).unwrap();
        let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from);
        for source in libraries {
            if done.insert(source.clone()) {
                add(&mut layer, source.strip_prefix("/").unwrap(), &std::fs::read(&source).unwrap(), 0o755);
            }
        }
        add(&mut layer, &Path::new("bin").join(program), &std::fs::read(&path).unwrap(), 0o755);
    }
    let passwd = b"root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/srv:/bin/sh\n";
    add(&mut layer, Path::new("etc/passwd"), passwd, 0o644);
    add(&mut layer, Path::new("etc/group"), b"root:x:0:\nweb:x:34:\nlogs:x:50:web\n", 0o644);
    let layer = layer.into_inner().unwrap();
    let diff_id = node::image::Digest::of(&layer);
    let config = serde_json::json!({
        "os": "linux", "architecture": "amd64", "config": {}, "rootfs": { "type": "layers", "diff_ids": [diff_id] },
    });
    let manifest = serde_json::json!([{ "Config": "config.json", "RepoTags": ["test:1"], "Layers": ["layer.tar"] }]);
    let mut archive = tar::Builder::new(Vec::new());
    add(&mut archive, Path::new("layer.tar"), &layer, 0o644);
    add(&mut archive, Path::new("config.json"), config.to_string().as_bytes(), 0o644);
    add(&mut archive, Path::new("manifest.json"), manifest.to_string().as_bytes(), 0o644);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&archive.into_inner().unwrap()).unwrap();
    file
}

fn add(archive: &mut tar::Builder<Vec<u8>>, path: &Path, content: &[u8], mode: u32) {
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    archive.append_data(&mut header, path, content).unwrap();
}
