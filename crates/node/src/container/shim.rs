//! The process between the node agent and a container's process. The agent has threads and cannot
//! fork; so it runs its own program again as this shim, which has one thread, makes the container or
//! joins it, waits for its process, and tells the agent over a socket.
//!
//! What to do is read from files in a private directory: arguments may hold secrets, and everybody
//! on the node can read a process' argument list.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use libcontainer::container::builder::ContainerBuilder;
use libcontainer::oci_spec::runtime::Spec;
use libcontainer::syscall::syscall::SyscallType;
use libcontainer::workload::{Executor, ExecutorError, ExecutorValidationError, default};
use rustix::fs::{Access, AtFlags};
use rustix::process::{Pid, WaitOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::seccomp;
use super::spec::Seccomp;
use super::user::{self, ResolvedUser, UserRequest};
use crate::rootdir::RootDir;

/// First argument of the program when it is to be the shim.
pub const SHIM_COMMAND: &str = "container-shim";

/// The name libcontainer knows the container by; each has its own state directory.
const NAME: &str = "c";

/// Bytes of a message on the socket.
pub(super) const MAX_MESSAGE: u64 = 64 << 10;

/// Characters of an error's text; fits a message however they are escaped.
const MAX_TEXT: usize = 4096;

/// Asks for a new container; the file is `run.json` in the container's directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RunRequest {
    /// Directory that holds all layers.
    pub(super) layers_root: PathBuf,
    /// Names of the layers' directories, the lowest first.
    pub(super) layers: Vec<String>,
    /// OCI runtime configuration without the user.
    pub(super) configuration: Value,
    pub(super) user: UserRequest,
    pub(super) seccomp: Seccomp,
}

/// Asks for a process in the container; the file is `<number>.json`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ExecRequest {
    pub(super) command: Vec<String>,
    pub(super) tty: bool,
    pub(super) seccomp: Seccomp,
}

/// What the shim tells, one JSON document per line.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Message {
    /// The process runs; the shim goes on after one byte from the agent, so that until then the
    /// process' number cannot be given to another.
    Started { pid: i32 },
    /// The process ended.
    Exited { code: i32, signal: Option<i32> },
    /// There will be no process.
    Failed { message: String },
}

/// Files of one run of the shim, in the container's directory.
pub(super) struct Files {
    pub(super) request: PathBuf,
    pub(super) control: PathBuf,
    pub(super) console: PathBuf,
}

impl Files {
    pub(super) fn new(directory: &Path, job: &str) -> Self {
        let file = |extension: &str| directory.join(format!("{job}.{extension}"));
        Self { request: file("json"), control: file("sock"), console: file("tty") }
    }
}

/// The shim's whole life; `arguments` are those after [`SHIM_COMMAND`]. To be called before the
/// process has a second thread. Returns the exit code of the process.
pub fn shim_main(arguments: &[String]) -> i32 {
    let [directory, job] = arguments else { return 2 };
    let directory = Path::new(directory);
    let files = Files::new(directory, job);
    let Ok(mut control) = UnixStream::connect(&files.control) else { return 3 };
    match work(directory, job, &files, &mut control) {
        Ok(()) => 0,
        Err(error) => {
            let message = text(error.as_ref()).chars().take(MAX_TEXT).collect();
            let _ = tell(&mut control, &Message::Failed { message });
            1
        }
    }
}

type BoxError = Box<dyn std::error::Error>;

fn work(directory: &Path, job: &str, files: &Files, control: &mut UnixStream) -> Result<(), BoxError> {
    let request = fs::read(&files.request)?;
    let pid = if job == "run" {
        run(directory, files, &serde_json::from_slice(&request)?)?
    } else {
        exec(directory, files, &serde_json::from_slice(&request)?)?
    };
    // The streams are the process' alone now, so that their end is seen.
    let null = fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    drop(null);
    tell(control, &Message::Started { pid: pid.as_raw_nonzero().get() })?;
    control.read_exact(&mut [0])?;
    let status = loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => break status,
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    let signal = status.terminating_signal();
    let code = status.exit_status().unwrap_or_else(|| signal.map_or(255, |signal| 128 + signal));
    Ok(tell(control, &Message::Exited { code, signal })?)
}

fn tell(control: &mut UnixStream, message: &Message) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    control.write_all(&line)
}

/// Reads a message; `None` at the end.
pub(super) fn parse(line: &[u8]) -> Option<Message> {
    serde_json::from_slice(line).ok()
}

fn run(directory: &Path, files: &Files, request: &RunRequest) -> Result<Pid, BoxError> {
    let bundle = directory.join("bundle");
    let root = bundle.join("rootfs");
    mount_root(directory, &root, request)?;
    let mut configuration = request.configuration.clone();
    {
        let root = RootDir::open(&root)?;
        let user = user::resolve_in(&root, &request.user)?;
        set_user(&mut configuration, &user);
        if let Some(working_directory) = configuration["process"]["cwd"].as_str() {
            root.make_directory(Path::new(working_directory), &|_| None)?;
        }
    }
    write_private(&bundle.join("config.json"), &serde_json::to_vec(&configuration)?)?;
    let tty = configuration["process"]["terminal"].as_bool().unwrap_or(false);
    let mut container = builder(directory, files, tty, executor(&configuration, request.seccomp)?)?
        .as_init(&bundle)
        .with_systemd(false)
        .with_detach(true)
        .build()?;
    let pid = container.pid().and_then(|pid| Pid::from_raw(pid.as_raw())).ok_or("the container has no process")?;
    container.start()?;
    Ok(pid)
}

fn exec(directory: &Path, files: &Files, request: &ExecRequest) -> Result<Pid, BoxError> {
    let configuration: Value = serde_json::from_slice(&fs::read(directory.join("bundle").join("config.json"))?)?;
    let mut process = configuration["process"].clone();
    process["args"] = json!(request.command);
    process["terminal"] = json!(request.tty);
    if request.tty {
        let variables = process["env"].as_array_mut().ok_or("the container has no environment")?;
        if !variables.iter().any(|variable| variable.as_str().is_some_and(|text| text.starts_with("TERM="))) {
            variables.push(json!("TERM=xterm"));
        }
    }
    let executor = executor(&configuration, request.seccomp)?;
    let process_file = files.request.with_extension("process");
    write_private(&process_file, &serde_json::to_vec(&process)?)?;
    let pid = builder(directory, files, request.tty, executor)?
        .as_tenant()
        .with_detach(request.tty)
        .with_process(Some(&process_file))
        .build()?;
    Pid::from_raw(pid.as_raw()).ok_or_else(|| "the process has no number".into())
}

fn builder(directory: &Path, files: &Files, tty: bool, executor: ShimExecutor) -> Result<ContainerBuilder, BoxError> {
    Ok(ContainerBuilder::new(NAME.to_owned(), SyscallType::default())
        .with_root_path(directory.join("state"))?
        .with_console_socket(tty.then(|| files.console.clone()))
        .with_executor(executor))
}

/// Mounts the layers and a writable one above them. The layers are named relative to the current
/// directory, because the kernel takes no more than a page of options.
fn mount_root(directory: &Path, root: &Path, request: &RunRequest) -> Result<(), BoxError> {
    let (upper, work) = (directory.join("upper"), directory.join("work"));
    let empty = directory.join("empty");
    let lower = if request.layers.is_empty() {
        fs::create_dir_all(&empty)?;
        empty.to_str().ok_or("the path of the container is not UTF-8")?.to_owned()
    } else {
        std::env::set_current_dir(&request.layers_root)?;
        request.layers.iter().rev().map(String::as_str).collect::<Vec<_>>().join(":")
    };
    let (upper, work) = (upper.to_str().ok_or("path is not UTF-8")?, work.to_str().ok_or("path is not UTF-8")?);
    let options = CString::new(format!("lowerdir={lower},upperdir={upper},workdir={work}"))?;
    rustix::mount::mount("overlay", root, "overlay", rustix::mount::MountFlags::empty(), options.as_c_str())
        .map_err(cannot_mount)?;
    std::env::set_current_dir("/")?;
    Ok(())
}

/// Why the root file system could not be mounted, and what to do about it.
fn cannot_mount(error: rustix::io::Errno) -> String {
    let advice = match error {
        // As mount(2) says of a file system that is not configured in the kernel.
        rustix::io::Errno::NODEV => {
            ": the kernel has no overlay file system; load the module \"overlay\" (modprobe overlay), or use a kernel \
             with CONFIG_OVERLAY_FS"
        }
        _ => "",
    };
    format!("mount the root file system: {error}{advice}")
}

fn set_user(configuration: &mut Value, user: &ResolvedUser) {
    let process = &mut configuration["process"];
    process["user"] = json!({ "uid": user.uid, "gid": user.gid, "additionalGids": user.groups });
    let Some(variables) = process["env"].as_array_mut() else { return };
    // Always set, because looking it up later would need name services that a static program lacks.
    if !variables.iter().any(|variable| variable.as_str().is_some_and(|text| text.starts_with("HOME=/"))) {
        variables.retain(|variable| variable != "HOME=");
        variables.push(json!(format!("HOME={}", user.home)));
    }
}

fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(content)
}

fn executor(configuration: &Value, seccomp: Seccomp) -> Result<ShimExecutor, BoxError> {
    let programs = match seccomp {
        Seccomp::Unconfined => Vec::new(),
        Seccomp::RuntimeDefault => {
            let capabilities: Vec<String> =
                serde_json::from_value(configuration["process"]["capabilities"]["bounding"].clone())?;
            seccomp::programs(&capabilities)?
        }
    };
    Ok(ShimExecutor { programs })
}

/// Becomes the container's program, within the system call filter.
#[derive(Clone)]
struct ShimExecutor {
    programs: Vec<seccompiler::BpfProgram>,
}

impl Executor for ShimExecutor {
    fn exec(&self, spec: &Spec) -> Result<(), ExecutorError> {
        for program in &self.programs {
            seccompiler::apply_filter(program).map_err(|error| ExecutorError::Other(error.to_string()))?;
        }
        default::get_executor().exec(spec)
    }

    fn validate(&self, spec: &Spec) -> Result<(), ExecutorValidationError> {
        let process = spec.process().as_ref();
        let program = process.and_then(|process| process.args().as_ref()?.first().cloned()).unwrap_or_default();
        let variables = process.and_then(|process| process.env().clone()).unwrap_or_default();
        let search = variables.iter().find_map(|variable| variable.strip_prefix("PATH=")).unwrap_or_default();
        find_program(&program, search).map_err(ExecutorValidationError::ArgValidationError)
    }

    fn setup_envs(
        &self,
        variables: HashMap<String, String>,
    ) -> Result<(), libcontainer::workload::ExecutorSetEnvsError> {
        default::get_executor().setup_envs(variables)
    }
}

/// Whether there is such a program, in the words that users of containers know.
fn find_program(program: &str, search: &str) -> Result<(), String> {
    let executable = |path: &Path| {
        path.is_file() && rustix::fs::accessat(rustix::fs::CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
    };
    if program.contains('/') {
        let path = Path::new(program);
        return match fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("exec: {program:?}: stat {program}: no such file or directory"))
            }
            Err(error) => Err(format!("exec: {program:?}: stat {program}: {error}")),
            Ok(metadata) if metadata.is_dir() => Err(format!("exec: {program:?}: is a directory")),
            Ok(_) if executable(path) => Ok(()),
            Ok(_) => Err(format!("exec: {program:?}: permission denied")),
        };
    }
    let mut directories = search.split(':').map(|directory| if directory.is_empty() { "." } else { directory });
    if directories.any(|directory| executable(&Path::new(directory).join(program))) {
        Ok(())
    } else {
        Err(format!("exec: {program:?}: executable file not found in $PATH"))
    }
}

/// The error and what caused it; libcontainer wraps the one line that matters many times.
fn text(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
        source = error.source();
    }
    match text.find("exec: \"") {
        Some(start) => text[start..].trim_end_matches(['"', ')', ' ', '\0']).to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    //! What a failure says.

    use super::*;

    #[test]
    fn a_kernel_without_overlay_is_told_what_to_do() {
        let said = cannot_mount(rustix::io::Errno::NODEV);
        assert!(said.contains("modprobe overlay") && said.contains("CONFIG_OVERLAY_FS"), "{said}");
        assert!(!cannot_mount(rustix::io::Errno::INVAL).contains("overlay"));
    }
}
