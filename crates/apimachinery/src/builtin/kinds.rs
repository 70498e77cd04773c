//! The list of built-in kinds: names, scope, verbs, subresources, and which rules and columns
//! belong to them.

use super::schemas::{Components, Converter};
use crate::definition::{
    Audience, ConnectSubresource, GroupVersionKind, Names, PrinterColumn, ResourceDefinition, Rules, Scale, Scope,
    Subresources,
};
use k8s_openapi::api::{
    apps::v1 as apps, authentication::v1 as authentication, authorization::v1 as authorization, batch::v1 as batch,
    coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery, rbac::v1 as rbac,
    scheduling::v1 as scheduling,
};
use std::sync::OnceLock;

/// Verbs of an ordinary resource.
const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Namespaces go one at a time.
const NAMESPACE_VERBS: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const EDIT: &[&str] = &["get", "patch", "update"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];

/// Every type of the built-in kinds by OpenAPI component name, with the type's own description.
#[must_use]
pub fn components() -> &'static Components {
    static COMPONENTS: OnceLock<Components> = OnceLock::new();
    COMPONENTS.get_or_init(|| {
        let mut converter = Converter::default();
        converter.add::<core::Namespace>();
        converter.add::<core::Pod>();
        converter.add::<core::Node>();
        converter.add::<core::Service>();
        converter.add::<core::Endpoints>();
        converter.add::<core::ConfigMap>();
        converter.add::<core::Secret>();
        converter.add::<core::ServiceAccount>();
        converter.add::<core::Event>();
        converter.add::<coordination::Lease>();
        converter.add::<discovery::EndpointSlice>();
        converter.add::<apps::Deployment>();
        converter.add::<apps::ReplicaSet>();
        converter.add::<apps::DaemonSet>();
        converter.add::<apps::ControllerRevision>();
        converter.add::<batch::Job>();
        converter.add::<rbac::Role>();
        converter.add::<rbac::RoleBinding>();
        converter.add::<rbac::ClusterRole>();
        converter.add::<rbac::ClusterRoleBinding>();
        converter.add::<scheduling::PriorityClass>();
        converter.add::<authentication::TokenReview>();
        converter.add::<authentication::SelfSubjectReview>();
        converter.add::<authorization::SelfSubjectAccessReview>();
        converter.add::<authorization::SubjectAccessReview>();
        converter.add::<authorization::LocalSubjectAccessReview>();
        converter.add::<authorization::SelfSubjectRulesReview>();
        converter.finish()
    })
}

/// A definition under construction.
pub(super) struct Kind(ResourceDefinition);

impl Kind {
    /// A kind of `group` (empty for core) `v1`; `component` is the OpenAPI package,
    /// `core.v1`.
    fn new(group: &str, package: &str, kind: &str, plural: &str, scope: Scope) -> Self {
        let component = format!("io.k8s.api.{package}.{kind}");
        let schema = components().get(&component).cloned().unwrap_or_default();
        Self(ResourceDefinition {
            gvk: gvk(group, "v1", kind),
            names: Names {
                plural: plural.into(),
                singular: kind.to_lowercase(),
                kind: kind.into(),
                short_names: Vec::new(),
                categories: Vec::new(),
            },
            scope,
            verbs: owned(ALL_VERBS),
            schema,
            columns: Vec::new(),
            subresources: Subresources::default(),
            audience: Audience::Every,
            selectable_fields: Vec::new(),
            rules: Rules::default(),
        })
    }

    fn short(mut self, name: &str) -> Self {
        self.0.names.short_names.push(name.into());
        self
    }

    /// In the category `all`.
    fn all(mut self) -> Self {
        self.0.names.categories.push("all".into());
        self
    }

    fn verbs(mut self, verbs: &[&str]) -> Self {
        self.0.verbs = owned(verbs);
        self
    }

    fn status(mut self) -> Self {
        self.0.subresources.status = true;
        self
    }

    fn scale(mut self) -> Self {
        self.0.subresources.scale = Some(Scale {
            spec_replicas: ".spec.replicas".into(),
            status_replicas: ".status.replicas".into(),
            selector: Some(".spec.selector".into()),
        });
        self
    }

    /// A subresource that speaks `kind` of the same group and version.
    fn connect(self, name: &str, kind: &str, verbs: &[&str]) -> Self {
        let gvk = gvk(&self.0.gvk.group, &self.0.gvk.version, kind);
        self.connect_foreign(name, gvk, verbs)
    }

    fn connect_foreign(mut self, name: &str, kind: GroupVersionKind, verbs: &[&str]) -> Self {
        self.0.subresources.connect.push(ConnectSubresource { name: name.into(), kind, verbs: owned(verbs) });
        self
    }

    fn fields(mut self, fields: &[&str]) -> Self {
        self.0.selectable_fields = owned(fields);
        self
    }

    fn columns(mut self, columns: Vec<PrinterColumn>) -> Self {
        self.0.columns = columns;
        self
    }

    fn rules(mut self, rules: Rules) -> Self {
        self.0.rules = rules;
        self
    }
}

fn gvk(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Builds every definition, in the order discovery lists groups.
pub(super) fn build() -> Vec<ResourceDefinition> {
    let mut kinds = core_kinds();
    kinds.extend(apps_and_batch());
    kinds.extend(rbac_kinds());
    kinds.extend(others());
    kinds.extend(reviews());
    kinds.into_iter().map(|kind| kind.0).collect()
}

fn core_kinds() -> Vec<Kind> {
    use Scope::{Cluster, Namespaced};
    let kind = |name, plural, scope| Kind::new("", "core.v1", name, plural, scope);
    vec![
        kind("Namespace", "namespaces", Cluster)
            .short("ns")
            .verbs(NAMESPACE_VERBS)
            .status()
            .connect("finalize", "Namespace", &["update"])
            .fields(&["status.phase"]),
        kind("Pod", "pods", Namespaced)
            .short("po")
            .all()
            .status()
            .connect("attach", "PodAttachOptions", &["create", "get"])
            .connect("binding", "Binding", &["create"])
            .connect("ephemeralcontainers", "Pod", EDIT)
            .connect_foreign("eviction", gvk("policy", "v1", "Eviction"), &["create"])
            .connect("exec", "PodExecOptions", &["create", "get"])
            .connect("log", "Pod", &["get"])
            .connect("portforward", "PodPortForwardOptions", &["create", "get"])
            .connect("proxy", "PodProxyOptions", PROXY)
            .connect("resize", "Pod", EDIT)
            .fields(&[
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ]),
        kind("Node", "nodes", Cluster)
            .short("no")
            .status()
            .connect("proxy", "NodeProxyOptions", PROXY)
            .fields(&["spec.unschedulable"]),
        kind("Service", "services", Namespaced)
            .short("svc")
            .all()
            .status()
            .connect("proxy", "ServiceProxyOptions", PROXY)
            .fields(&["spec.clusterIP", "spec.type"]),
        kind("Endpoints", "endpoints", Namespaced).short("ep"),
        kind("ConfigMap", "configmaps", Namespaced).short("cm"),
        kind("Secret", "secrets", Namespaced).fields(&["type"]),
        kind("ServiceAccount", "serviceaccounts", Namespaced).short("sa").connect_foreign(
            "token",
            gvk("authentication.k8s.io", "v1", "TokenRequest"),
            &["create"],
        ),
        kind("Event", "events", Namespaced).short("ev").fields(&[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "type",
        ]),
    ]
}

fn apps_and_batch() -> Vec<Kind> {
    let kind = |name, plural| Kind::new("apps", "apps.v1", name, plural, Scope::Namespaced);
    vec![
        kind("Deployment", "deployments").short("deploy").all().status().scale(),
        kind("ReplicaSet", "replicasets").short("rs").all().status().scale().fields(&["status.replicas"]),
        kind("DaemonSet", "daemonsets").short("ds").all().status(),
        kind("ControllerRevision", "controllerrevisions"),
        Kind::new("batch", "batch.v1", "Job", "jobs", Scope::Namespaced).all().status(),
    ]
}

fn rbac_kinds() -> Vec<Kind> {
    let kind = |name, plural, scope| Kind::new("rbac.authorization.k8s.io", "rbac.v1", name, plural, scope);
    vec![
        kind("Role", "roles", Scope::Namespaced),
        kind("RoleBinding", "rolebindings", Scope::Namespaced),
        kind("ClusterRole", "clusterroles", Scope::Cluster),
        kind("ClusterRoleBinding", "clusterrolebindings", Scope::Cluster),
    ]
}

fn others() -> Vec<Kind> {
    vec![
        Kind::new("coordination.k8s.io", "coordination.v1", "Lease", "leases", Scope::Namespaced),
        Kind::new("discovery.k8s.io", "discovery.v1", "EndpointSlice", "endpointslices", Scope::Namespaced),
        Kind::new("scheduling.k8s.io", "scheduling.v1", "PriorityClass", "priorityclasses", Scope::Cluster).short("pc"),
    ]
}

/// Kinds that are answered, never stored.
fn reviews() -> Vec<Kind> {
    let authentication = |name: &str, plural: &str| {
        Kind::new("authentication.k8s.io", "authentication.v1", name, plural, Scope::Cluster).verbs(&["create"])
    };
    let authorization = |name: &str, plural: &str, scope| {
        Kind::new("authorization.k8s.io", "authorization.v1", name, plural, scope).verbs(&["create"])
    };
    vec![
        authentication("TokenReview", "tokenreviews"),
        authentication("SelfSubjectReview", "selfsubjectreviews"),
        authorization("LocalSubjectAccessReview", "localsubjectaccessreviews", Scope::Namespaced),
        authorization("SelfSubjectAccessReview", "selfsubjectaccessreviews", Scope::Cluster),
        authorization("SelfSubjectRulesReview", "selfsubjectrulesreviews", Scope::Cluster),
        authorization("SubjectAccessReview", "subjectaccessreviews", Scope::Cluster),
    ]
}
