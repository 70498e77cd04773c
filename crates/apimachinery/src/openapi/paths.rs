//! The paths and operations of a kind.

use super::components::{Components, component_name};
use super::operations::{Action, Body, Operation, PRETTY, Parameter, Path};
use super::{index_path, meta};
use crate::definition::{ConnectSubresource, GroupVersionKind, ResourceDefinition, Scope};

const JSON: &str = "application/json";

/// Every path of a kind.
pub(super) fn paths(components: &Components, definition: &ResourceDefinition) -> Vec<Path> {
    let writer = Writer::new(components, definition);
    let mut paths = writer.collection();
    paths.push(writer.item());
    if definition.subresources.status {
        paths.push(writer.object_subresource("status", &definition.gvk, component_name(definition)));
    }
    if definition.subresources.scale.is_some() {
        let scale = GroupVersionKind { group: "autoscaling".into(), version: "v1".into(), kind: "Scale".into() };
        paths.push(writer.object_subresource("scale", &scale, meta::SCALE.to_owned()));
    }
    paths.extend(definition.subresources.connect.iter().map(|subresource| writer.connect(subresource)));
    // Kinds that can only be created (reviews) have no item.
    paths.retain(|path| !path.operations.is_empty());
    paths
}

struct Writer<'a> {
    components: &'a Components,
    definition: &'a ResourceDefinition,
    component: String,
    /// `/apis/apps/v1`
    root: String,
    /// `/apis/apps/v1/namespaces/{namespace}/deployments`
    plural: String,
    /// `AppsV1`
    group_id: String,
    /// `apps_v1`
    tag: String,
    /// `Namespaced` or nothing.
    scope: &'static str,
}

impl<'a> Writer<'a> {
    fn new(components: &'a Components, definition: &'a ResourceDefinition) -> Self {
        let gvk = &definition.gvk;
        let root = format!("/{}", index_path(gvk));
        let (scope, parent) = match definition.scope {
            Scope::Namespaced => ("Namespaced", "/namespaces/{namespace}"),
            Scope::Cluster => ("", ""),
        };
        let group = match gvk.group.as_str() {
            "" => "core",
            group => group.strip_suffix(".k8s.io").unwrap_or(group),
        };
        let camel: String = group.split(['.', '-']).map(capitalized).collect();
        let lower: String = group
            .split(['.', '-'])
            .enumerate()
            .map(|(n, word)| if n == 0 { word.to_owned() } else { capitalized(word) })
            .collect();
        Self {
            components,
            definition,
            component: component_name(definition),
            plural: format!("{root}{parent}/{}", definition.names.plural),
            root,
            group_id: format!("{camel}{}", capitalized(&gvk.version)),
            tag: format!("{lower}_{}", gvk.version),
            scope,
        }
    }

    fn verb(&self, verb: &str) -> bool {
        self.definition.verbs.iter().any(|known| known == verb)
    }

    fn kind(&self) -> &str {
        &self.definition.gvk.kind
    }

    /// The list of one namespace (or of the cluster), and that of all namespaces.
    fn collection(&self) -> Vec<Path> {
        let kind = self.kind();
        let mut operations = Vec::new();
        if self.verb("list") {
            operations.push(self.list(format!("list{}{}{kind}", self.group_id, self.scope)));
        }
        if self.verb("create") {
            operations.push(self.write("post", Action::Post, format!("create{}{}{kind}", self.group_id, self.scope)));
        }
        if self.verb("deletecollection") {
            let id = format!("delete{}Collection{}{kind}", self.group_id, self.scope);
            let mut operation = self.operation("delete", Action::DeleteCollection, id, Some(meta::STATUS.to_owned()));
            operation.body = Some(delete_options());
            operations.push(operation);
        }
        let mut paths = vec![Path { path: self.plural.clone(), parameters: vec![PRETTY], operations }];
        if self.verb("list") && self.definition.scope == Scope::Namespaced {
            let operation = self.list(format!("list{}{kind}ForAllNamespaces", self.group_id));
            let path = format!("{}/{}", self.root, self.definition.names.plural);
            paths.push(Path { path, parameters: vec![PRETTY], operations: vec![operation] });
        }
        paths
    }

    fn item(&self) -> Path {
        let id = |verb: &str| format!("{verb}{}{}{}", self.group_id, self.scope, self.kind());
        let mut operations = Vec::new();
        if self.verb("get") {
            operations.push(self.operation("get", Action::Get, id("read"), Some(self.component.clone())));
        }
        if self.verb("update") {
            operations.push(self.write("put", Action::Put, id("replace")));
        }
        if self.verb("patch") {
            operations.push(self.patch(id("patch"), &self.definition.gvk, self.component.clone()));
        }
        if self.verb("delete") {
            let mut operation = self.operation("delete", Action::Delete, id("delete"), Some(meta::STATUS.to_owned()));
            operation.body = Some(delete_options());
            operations.push(operation);
        }
        Path { path: format!("{}/{{name}}", self.plural), parameters: vec![PRETTY], operations }
    }

    /// A subresource that is read, replaced and patched like an object.
    fn object_subresource(&self, name: &str, gvk: &GroupVersionKind, component: String) -> Path {
        let id = |verb: &str| self.subresource_id(verb, name);
        let mut get = self.operation("get", Action::Get, id("read"), Some(component.clone()));
        let mut put = self.operation("put", Action::Put, id("replace"), Some(component.clone()));
        put.body = Some(Body { component: component.clone(), consumes: vec!["*/*"], required: true });
        let mut patch = self.patch(id("patch"), gvk, component);
        for operation in [&mut get, &mut put, &mut patch] {
            operation.gvk = gvk.clone();
            operation.description = format!("{} of {}", name, operation.description);
        }
        Path {
            path: format!("{}/{{name}}/{name}", self.plural),
            parameters: vec![PRETTY],
            operations: vec![get, put, patch],
        }
    }

    fn connect(&self, subresource: &ConnectSubresource) -> Path {
        let ConnectSubresource { name, kind, verbs } = subresource;
        let streams = kind.kind.ends_with("Options");
        let text = !streams
            && verbs.len() == 1
            && verbs.first().is_some_and(|verb| verb == "get")
            && *kind == self.definition.gvk;
        let body_component = self.component_of(kind);
        let mut operations = Vec::new();
        for verb in verbs {
            let (method, action, word) = match verb.as_str() {
                "get" => ("get", Action::Get, "read"),
                "create" => ("post", Action::Post, "create"),
                "update" => ("put", Action::Put, "replace"),
                "patch" => ("patch", Action::Patch, "patch"),
                "delete" => ("delete", Action::Delete, "delete"),
                _ => continue,
            };
            let mut operation = if streams {
                let id = self.subresource_id(&format!("connect{{}}{}", capitalized(method)), name);
                let mut operation = self.operation(method, Action::Connect, id, None);
                operation.produces = vec!["*/*"];
                operation
            } else if text {
                let mut operation = self.operation(method, action, self.subresource_id(word, name), None);
                operation.produces = vec!["text/plain"];
                operation
            } else if action == Action::Patch {
                self.patch(self.subresource_id(word, name), kind, body_component.clone())
            } else {
                let mut operation =
                    self.operation(method, action, self.subresource_id(word, name), Some(body_component.clone()));
                if matches!(action, Action::Post | Action::Put) {
                    operation.body =
                        Some(Body { component: body_component.clone(), consumes: vec!["*/*"], required: true });
                }
                operation
            };
            operation.gvk = kind.clone();
            operations.push(operation);
        }
        let mut parameters = connect_parameters(if text { name } else { &kind.kind });
        if !streams {
            parameters.push(PRETTY);
        }
        Path { path: format!("{}/{{name}}/{name}", self.plural), parameters, operations }
    }

    /// `readAppsV1NamespacedDeploymentScale`; `{}` in the verb takes the group's place:
    /// `connectCoreV1GetNamespacedPodExec`.
    fn subresource_id(&self, verb: &str, name: &str) -> String {
        let rest = format!("{}{}{}", self.scope, self.kind(), capitalized(name));
        match verb.split_once("{}") {
            Some((before, after)) => format!("{before}{}{after}{rest}", self.group_id),
            None => format!("{verb}{}{rest}", self.group_id),
        }
    }

    /// The type of a kind: the definition's own, or Kubernetes' by name.
    fn component_of(&self, gvk: &GroupVersionKind) -> String {
        if *gvk == self.definition.gvk {
            return self.component.clone();
        }
        let package = match gvk.group.split('.').next() {
            Some("") | None => "core",
            Some(first) => first,
        };
        let name = format!("io.k8s.api.{package}.{}.{}", gvk.version, gvk.kind);
        if self.components.contains(&name) { name } else { meta::PATCH.to_owned() }
    }

    fn list(&self, id: String) -> Operation {
        let mut operation = self.operation("get", Action::List, id, Some(format!("{}List", self.component)));
        operation.produces.push("application/json;stream=watch");
        operation
    }

    fn write(&self, method: &'static str, action: Action, id: String) -> Operation {
        let mut operation = self.operation(method, action, id, Some(self.component.clone()));
        operation.body = Some(Body { component: self.component.clone(), consumes: vec!["*/*"], required: true });
        operation
    }

    fn patch(&self, id: String, gvk: &GroupVersionKind, component: String) -> Operation {
        let mut operation = self.operation("patch", Action::Patch, id, Some(component));
        operation.gvk = gvk.clone();
        let mut consumes = vec!["application/json-patch+json", "application/merge-patch+json"];
        if self.definition.is_built_in() {
            consumes.push("application/strategic-merge-patch+json");
        }
        operation.body = Some(Body { component: meta::PATCH.to_owned(), consumes, required: true });
        operation
    }

    fn operation(&self, method: &'static str, action: Action, id: String, answer: Option<String>) -> Operation {
        let kind = self.kind();
        let description = match action {
            Action::Get => format!("read the specified {kind}"),
            Action::List => format!("list or watch objects of kind {kind}"),
            Action::Post => format!("create a {kind}"),
            Action::Put => format!("replace the specified {kind}"),
            Action::Patch => format!("partially update the specified {kind}"),
            Action::Delete => format!("delete a {kind}"),
            Action::DeleteCollection => format!("delete collection of {kind}"),
            Action::Connect => format!("connect to the specified {kind}"),
        };
        Operation {
            method,
            id,
            action,
            gvk: self.definition.gvk.clone(),
            tag: self.tag.clone(),
            description,
            body: None,
            answer,
            produces: vec![JSON],
        }
    }
}

fn delete_options() -> Body {
    Body { component: meta::DELETE_OPTIONS.to_owned(), consumes: vec!["*/*"], required: false }
}

/// Query parameters of the streaming subresources of Pods and of their log.
fn connect_parameters(kind: &str) -> Vec<Parameter> {
    let container = ("container", "string", "The container; may be left out when there is one.");
    let streams = [
        ("stderr", "boolean", "Whether to send standard error."),
        ("stdin", "boolean", "Whether to take standard input."),
        ("stdout", "boolean", "Whether to send standard output."),
        ("tty", "boolean", "Whether the command has a terminal."),
    ];
    match kind {
        "PodExecOptions" => [("command", "string", "The command and its arguments, without a shell."), container]
            .into_iter()
            .chain(streams)
            .collect(),
        "PodAttachOptions" => [container].into_iter().chain(streams).collect(),
        "PodPortForwardOptions" => vec![("ports", "integer", "Ports to forward.")],
        "log" => vec![
            container,
            ("follow", "boolean", "Whether to go on as the log grows."),
            ("limitBytes", "integer", "Most bytes to return."),
            ("previous", "boolean", "The log of the container's previous run."),
            ("sinceSeconds", "integer", "Only what is younger."),
            ("sinceTime", "string", "Only what is younger."),
            ("tailLines", "integer", "Only the last lines."),
            ("timestamps", "boolean", "Whether lines start with their time."),
        ],
        _ => Vec::new(),
    }
}

fn capitalized(word: &str) -> String {
    let mut characters = word.chars();
    characters.next().map(|first| first.to_ascii_uppercase().to_string() + characters.as_str()).unwrap_or_default()
}
