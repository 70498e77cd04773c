//! Starts one container: image, environment, mounts, process, hook.

use super::context::{Context, hostname, uses_host_network};
use super::env::{self, environment, expand, service_variables};
use super::model::{Role, container};
use super::probe::{self, Target};
use super::resources;
use super::volumes::sub_path;
use super::worker::Report;
use crate::container::{BindMount, ContainerSpec, Resources, Seccomp, Security, UserSpec, logs};
use crate::image::{PreparedImage, PullPolicy, RegistryAuth};
use crate::net::pods::PodNetwork;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Secret};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// What to start.
pub(crate) struct Job {
    pub(crate) pod: Arc<Pod>,
    pub(crate) name: String,
    pub(crate) attempt: u32,
    pub(crate) network: Option<PodNetwork>,
    /// Calls the start off while the image is pulled.
    pub(crate) call_off: Arc<Notify>,
}

/// Why a container was not started: upstream's reason, and a message.
struct Failure(&'static str, String);

/// Starts a container and reports how that went.
pub(crate) async fn start(context: Arc<Context>, job: Job, reports: mpsc::Sender<Report>) {
    let name = job.name.clone();
    let report = match begin(&context, &job, &reports).await {
        Ok(Some((id, at))) => {
            let _ = reports.send(Report::Started { name: name.clone(), id: id.clone(), at }).await;
            hook(&context, &job, &id).await;
            return;
        }
        Ok(None) => Report::CalledOff { name },
        Err(Failure("StartError", message)) => Report::NotStarted { name, message },
        Err(Failure(reason, message)) => Report::StartFailed { name, reason, message },
    };
    let _ = reports.send(report).await;
}

async fn begin(
    context: &Context,
    job: &Job,
    reports: &mpsc::Sender<Report>,
) -> Result<Option<(String, Timestamp)>, Failure> {
    let pod = &*job.pod;
    let Some((role, spec)) = container(pod, &job.name) else {
        return Err(Failure("CreateContainerConfigError", format!("container {:?} is not in the spec", job.name)));
    };
    let about = Some((role != Role::App, spec.name.as_str()));
    let image = tokio::select! {
        image = pull(context, pod, role, spec) => image?,
        () = job.call_off.notified() => return Ok(None),
    };
    let _ = reports.send(Report::Pulled { name: job.name.clone(), image_id: image_id(&image) }).await;
    let made = build(context, job, role, spec, image).await;
    let built = made.map_err(|message| {
        context.recorder.pod(pod, about, true, "Failed", format!("Error: {message}"));
        Failure("CreateContainerConfigError", message)
    })?;
    match context.engine.start(&built).await {
        Ok(started) => {
            context.recorder.pod(pod, about, false, "Created", format!("Container created: {}", spec.name));
            context.recorder.pod(pod, about, false, "Started", format!("Container started: {}", spec.name));
            Ok(Some((started.id, Timestamp::now())))
        }
        Err(message) => {
            context.recorder.pod(pod, about, true, "Failed", format!("Error: {message}"));
            Err(Failure("StartError", message))
        }
    }
}

fn image_id(image: &PreparedImage) -> String {
    image.repo_digest.clone().unwrap_or_else(|| image.id.clone())
}

async fn pull(context: &Context, pod: &Pod, role: Role, spec: &Container) -> Result<PreparedImage, Failure> {
    let name = spec.image.as_deref().unwrap_or_default();
    let about = Some((role != Role::App, spec.name.as_str()));
    let policy = match spec.image_pull_policy.as_deref() {
        Some("Always") => PullPolicy::Always,
        Some("Never") => PullPolicy::Never,
        _ => PullPolicy::IfNotPresent,
    };
    let auth = registry_auth(context, pod, name).await;
    let present = match policy {
        PullPolicy::Always => None,
        _ => context.engine.image(name, PullPolicy::Never, None).await.ok(),
    };
    if let Some(image) = present {
        let message = format!("Container image {name:?} already present on machine");
        context.recorder.pod(pod, about, false, "Pulled", message);
        return Ok(image);
    }
    if policy == PullPolicy::Never {
        let message = format!("Container image {name:?} is not present with pull policy of Never");
        context.recorder.pod(pod, about, true, "ErrImageNeverPull", message.clone());
        return Err(Failure("ErrImageNeverPull", message));
    }
    context.recorder.pod(pod, about, false, "Pulling", format!("Pulling image {name:?}"));
    let began = std::time::Instant::now();
    match context.engine.image(name, policy, auth).await {
        Ok(image) => {
            let message = format!("Successfully pulled image {name:?} in {:?}", began.elapsed());
            context.recorder.pod(pod, about, false, "Pulled", message);
            Ok(image)
        }
        Err(error) => {
            let message = format!("failed to pull image {name:?}: {error}");
            context.recorder.pod(pod, about, true, "Failed", message.clone());
            context.recorder.pod(pod, about, true, "Failed", "Error: ErrImagePull");
            Err(Failure("ErrImagePull", message))
        }
    }
}

/// The credential for an image's registry among the Pod's pull secrets.
async fn registry_auth(context: &Context, pod: &Pod, image: &str) -> Option<RegistryAuth> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let secrets = pod.spec.as_ref()?.image_pull_secrets.as_ref()?;
    for reference in secrets {
        let Ok(Some(secret)) = context.client.get::<Secret>(namespace, &reference.name).await else { continue };
        let data = secret.data.as_ref().and_then(|data| data.get(".dockerconfigjson"));
        if let Some(auth) = data.and_then(|data| docker_auth(&data.0, image)) {
            return Some(auth);
        }
    }
    None
}

/// The registry that an image's name means.
pub(crate) fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "docker.io",
    }
}

/// The credential for an image's registry in a `.dockerconfigjson`.
pub(crate) fn docker_auth(config: &[u8], image: &str) -> Option<RegistryAuth> {
    use base64::Engine;
    let config: serde_json::Value = serde_json::from_slice(config).ok()?;
    let wanted = registry(image);
    let (_, entry) = config["auths"].as_object()?.iter().find(|(key, _)| {
        let host = key.trim_start_matches("https://").trim_start_matches("http://");
        let host = host.split('/').next().unwrap_or_default();
        host == wanted || (wanted == "docker.io" && host == "index.docker.io")
    })?;
    let text = |field: &str| entry[field].as_str().map(str::to_owned);
    if let Some(token) = text("registrytoken") {
        return Some(RegistryAuth::Bearer(token));
    }
    if let (Some(username), Some(password)) = (text("username"), text("password")) {
        return Some(RegistryAuth::Basic { username, password });
    }
    let both = base64::engine::general_purpose::STANDARD.decode(text("auth")?).ok()?;
    let both = String::from_utf8(both).ok()?;
    let (username, password) = both.split_once(':')?;
    Some(RegistryAuth::Basic { username: username.to_owned(), password: password.to_owned() })
}

async fn build(
    context: &Context,
    job: &Job,
    role: Role,
    spec: &Container,
    image: PreparedImage,
) -> Result<ContainerSpec, String> {
    let pod = &*job.pod;
    let pod_spec = pod.spec.as_ref().ok_or("the Pod has no spec")?;
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let pod_name = pod.metadata.name.clone().unwrap_or_default();
    let facts = context.facts(job.network.as_ref().map(|network| network.address));
    let references = context
        .references(&namespace, env::needs(spec))
        .await
        .map_err(|error| runtime::error_chain(&error).to_string())?;
    let services = services(context, pod, &namespace);
    let variables = environment(pod, spec, &services, &references, &facts)?;
    let known: BTreeMap<String, String> = variables.iter().cloned().collect();
    let expanded = |words: &Option<Vec<String>>| -> Vec<String> {
        words.iter().flatten().map(|word| expand(word, &known)).collect()
    };
    let host = hostname(pod, &context.node);
    let (command, args) = (expanded(&spec.command), expanded(&spec.args));
    // Later ones win, and the Pod's own come last.
    let mut environment = vec![("HOSTNAME".to_owned(), host.clone())];
    environment.extend(variables);
    let (user, security) = security(pod, spec, role, &image)?;
    let limits = resources::limits(spec);
    let log_path = logs::path(&context.log_root, &namespace, &pod_name, &uid, &spec.name, job.attempt);
    let mounts = {
        let (pod, spec) = (job.pod.clone(), spec.clone());
        let (root, attempt) = (context.pod_dir(&uid), job.attempt);
        tokio::task::spawn_blocking(move || mounts(&root, &pod, &spec, attempt, &known))
            .await
            .map_err(|_| "the mounts could not be made".to_owned())??
    };
    Ok(ContainerSpec {
        pod_uid: uid,
        name: spec.name.clone(),
        attempt: job.attempt,
        image,
        command,
        args,
        env: environment,
        working_dir: spec.working_dir.as_ref().filter(|dir| !dir.is_empty()).map(PathBuf::from),
        user,
        hostname: host,
        network_namespace: job.network.as_ref().map(|network| network.namespace.clone()),
        ipc_namespace: None,
        pid_namespace: None,
        mounts,
        resources: Resources {
            cpu_shares: Some(limits.cpu_shares),
            cpu_quota: limits.cpu_quota,
            memory_limit: limits.memory,
            pids_limit: None,
            oom_score_adj: None,
        },
        read_only_root: spec.security_context.as_ref().and_then(|s| s.read_only_root_filesystem) == Some(true),
        security,
        tty: spec.tty == Some(true),
        stdin: spec.stdin == Some(true),
        stdin_once: spec.stdin_once == Some(true),
        log_path,
        sysctls: sysctls(pod_spec),
    })
}

fn sysctls(spec: &k8s_openapi::api::core::v1::PodSpec) -> BTreeMap<String, String> {
    let list = spec.security_context.iter().flat_map(|context| context.sysctls.iter().flatten());
    list.map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect()
}

/// Variables of the Services that a Pod is told of.
fn services(context: &Context, pod: &Pod, namespace: &str) -> Vec<(String, String)> {
    let Some(services) = &context.services else { return Vec::new() };
    let links = pod.spec.as_ref().and_then(|spec| spec.enable_service_links) != Some(false);
    services.with(|known| {
        let mut variables = Vec::new();
        for service in known.in_namespace("default") {
            if service.metadata.name.as_deref() == Some("kubernetes") {
                variables.extend(service_variables(service));
            }
        }
        if links {
            for service in known.in_namespace(namespace) {
                if namespace != "default" || service.metadata.name.as_deref() != Some("kubernetes") {
                    variables.extend(service_variables(service));
                }
            }
        }
        variables
    })
}

fn security(pod: &Pod, spec: &Container, role: Role, image: &PreparedImage) -> Result<(UserSpec, Security), String> {
    let _ = role;
    let of_pod = pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
    let own = spec.security_context.as_ref();
    let id = |own: Option<i64>, of_pod: Option<i64>| own.or(of_pod).and_then(|id| u32::try_from(id).ok());
    let uid = id(own.and_then(|c| c.run_as_user), of_pod.and_then(|c| c.run_as_user));
    let gid = id(own.and_then(|c| c.run_as_group), of_pod.and_then(|c| c.run_as_group));
    let non_root = own.and_then(|c| c.run_as_non_root).or(of_pod.and_then(|c| c.run_as_non_root)) == Some(true);
    if non_root {
        let user = image.config.user.split(':').next().unwrap_or_default();
        match (uid, user) {
            (Some(0), _) => return Err("container's runAsUser breaks non-root policy".to_owned()),
            (Some(_), _) => {}
            (None, "" | "0" | "root") => {
                return Err("container has runAsNonRoot and image will run as root".to_owned());
            }
            (None, user) if user.parse::<u32>().is_err() => {
                return Err(format!(
                    "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root"
                ));
            }
            _ => {}
        }
    }
    let mut groups: Vec<u32> = of_pod
        .iter()
        .flat_map(|c| c.supplemental_groups.iter().flatten())
        .filter_map(|id| u32::try_from(*id).ok())
        .collect();
    groups.extend(of_pod.and_then(|c| c.fs_group).and_then(|id| u32::try_from(id).ok()));
    let capabilities = own.and_then(|c| c.capabilities.as_ref());
    let names = |list: Option<&Vec<String>>| list.cloned().unwrap_or_default();
    let profile = own.and_then(|c| c.seccomp_profile.as_ref()).or(of_pod.and_then(|c| c.seccomp_profile.as_ref()));
    let privileged = own.and_then(|c| c.privileged) == Some(true);
    let security = Security {
        add_capabilities: names(capabilities.and_then(|c| c.add.as_ref())),
        drop_capabilities: names(capabilities.and_then(|c| c.drop.as_ref())),
        no_new_privileges: own.and_then(|c| c.allow_privilege_escalation) == Some(false),
        privileged,
        unmasked: own.and_then(|c| c.proc_mount.as_deref()) == Some("Unmasked"),
        seccomp: match profile.map(|profile| profile.type_.as_str()) {
            Some("RuntimeDefault") if !privileged => Seccomp::RuntimeDefault,
            _ => Seccomp::Unconfined,
        },
    };
    Ok((UserSpec { uid, gid, supplemental_groups: groups }, security))
}

/// The file that a container writes its termination message to.
pub(crate) fn message_file(root: &Path, container: &str, attempt: u32) -> PathBuf {
    root.join("containers").join(container).join(format!("{attempt}.message"))
}

fn mounts(
    root: &Path,
    pod: &Pod,
    spec: &Container,
    attempt: u32,
    known: &BTreeMap<String, String>,
) -> Result<Vec<BindMount>, String> {
    let mut mounts = Vec::new();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let volumes: BTreeMap<&str, _> = volumes.map(|volume| (volume.name.as_str(), volume)).collect();
    let own = spec.volume_mounts.as_deref().unwrap_or_default();
    for (file, target) in [("hosts", "/etc/hosts"), ("hostname", "/etc/hostname"), ("resolv.conf", "/etc/resolv.conf")]
    {
        let shared = file == "hosts" && uses_host_network(pod);
        if !shared && !own.iter().any(|mount| mount.mount_path == target) {
            mounts.push(BindMount { source: root.join("etc").join(file), target: target.into(), read_only: false });
        }
    }
    let message = message_file(root, &spec.name, attempt);
    let failed = |error: std::io::Error| error.to_string();
    if let Some(parent) = message.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    std::fs::write(&message, b"").map_err(failed)?;
    std::fs::set_permissions(&message, std::os::unix::fs::PermissionsExt::from_mode(0o666)).map_err(failed)?;
    let target = spec.termination_message_path.as_deref().unwrap_or("/dev/termination-log");
    mounts.push(BindMount { source: message, target: target.into(), read_only: false });
    for mount in own {
        let volume =
            volumes.get(mount.name.as_str()).ok_or_else(|| format!("volume {:?} does not exist", mount.name))?;
        let dir = match &volume.host_path {
            Some(host) => PathBuf::from(&host.path),
            None => root.join("volumes").join(&mount.name),
        };
        let sub = match &mount.sub_path_expr {
            Some(expression) => expand(expression, known),
            None => mount.sub_path.clone().unwrap_or_default(),
        };
        let fixed = volume.config_map.is_some()
            || volume.secret.is_some()
            || volume.projected.is_some()
            || volume.downward_api.is_some();
        mounts.push(BindMount {
            source: sub_path(&dir, &sub)?,
            target: Path::new("/").join(&mount.mount_path),
            read_only: fixed || mount.read_only == Some(true),
        });
    }
    Ok(mounts)
}

/// Runs the hook after a container's start. A hook that fails ends the container.
async fn hook(context: &Context, job: &Job, id: &str) {
    let Some((role, spec)) = container(&job.pod, &job.name) else { return };
    let Some(hook) = spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.post_start.as_ref()) else { return };
    let address = address(context, job.network.as_ref());
    let target = Target { id, address: &address, ports: spec.ports.as_deref() };
    if let Err(message) = probe::hook(&*context.engine, hook, &target, Duration::from_secs(600)).await {
        let about = Some((role != Role::App, spec.name.as_str()));
        context.recorder.pod(&job.pod, about, true, "FailedPostStartHook", format!("PostStartHook failed: {message}"));
        context.recorder.pod(&job.pod, about, false, "Killing", "FailedPostStartHook");
        context.engine.kill(id);
    }
}

/// The address at which a Pod's containers are reached.
pub(crate) fn address(context: &Context, network: Option<&PodNetwork>) -> String {
    network.map_or_else(|| context.host.clone(), |network| network.address.to_string())
}

#[cfg(test)]
mod tests {
    use super::{RegistryAuth, docker_auth, registry};

    #[test]
    fn registries_of_names() {
        for (image, expected) in [
            ("nginx", "docker.io"),
            ("a/b:1", "docker.io"),
            ("localhost/x", "localhost"),
            ("10.0.2.2:5000/x", "10.0.2.2:5000"),
            ("ghcr.io/a/b", "ghcr.io"),
        ] {
            assert_eq!(registry(image), expected);
        }
    }

    #[test]
    fn pull_secrets_by_registry() {
        let config = br#"{"auths":{"https://ghcr.io/v1":{"auth":"dTpw"},"r:5":{"username":"a","password":"b"}}}"#;
        let basic = |u: &str, p: &str| Some(RegistryAuth::Basic { username: u.into(), password: p.into() });
        assert_eq!(docker_auth(config, "ghcr.io/x/y"), basic("u", "p"));
        assert_eq!(docker_auth(config, "r:5/y"), basic("a", "b"));
        assert_eq!(docker_auth(config, "nginx"), None);
        assert_eq!(docker_auth(b"{", "nginx"), None);
    }
}
