//! The list of built-in kinds: names, scope, verbs, subresources, and which rules and columns
//! belong to them.

use super::schemas::{Components, Converter};
use super::{apps, batch, cluster, config, endpoints, pod, printers, rbac, service};
use crate::definition::{
    Audience, ConnectSubresource, GroupVersionKind, Names, PrinterColumn, ResourceDefinition, Rules, Scale, Scope,
    Subresources,
};
use k8s_openapi::api;
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
        converter.add::<api::core::v1::Namespace>();
        converter.add::<api::core::v1::Pod>();
        converter.add::<api::core::v1::Node>();
        converter.add::<api::core::v1::Service>();
        converter.add::<api::core::v1::Endpoints>();
        converter.add::<api::core::v1::ConfigMap>();
        converter.add::<api::core::v1::Secret>();
        converter.add::<api::core::v1::ServiceAccount>();
        converter.add::<api::core::v1::Event>();
        converter.add::<api::coordination::v1::Lease>();
        converter.add::<api::discovery::v1::EndpointSlice>();
        converter.add::<api::apps::v1::Deployment>();
        converter.add::<api::apps::v1::ReplicaSet>();
        converter.add::<api::apps::v1::DaemonSet>();
        converter.add::<api::apps::v1::ControllerRevision>();
        converter.add::<api::batch::v1::Job>();
        converter.add::<api::rbac::v1::Role>();
        converter.add::<api::rbac::v1::RoleBinding>();
        converter.add::<api::rbac::v1::ClusterRole>();
        converter.add::<api::rbac::v1::ClusterRoleBinding>();
        converter.add::<api::scheduling::v1::PriorityClass>();
        converter.add::<api::authentication::v1::TokenReview>();
        converter.add::<api::authentication::v1::SelfSubjectReview>();
        converter.add::<api::authorization::v1::SelfSubjectAccessReview>();
        converter.add::<api::authorization::v1::SubjectAccessReview>();
        converter.add::<api::authorization::v1::LocalSubjectAccessReview>();
        converter.add::<api::authorization::v1::SelfSubjectRulesReview>();
        // What subresources speak.
        converter.add::<api::core::v1::Binding>();
        converter.add::<api::policy::v1::Eviction>();
        converter.add::<api::authentication::v1::TokenRequest>();
        converter.add::<api::autoscaling::v1::Scale>();
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
            .fields(&["status.phase"])
            .columns(printers::namespace())
            .rules(cluster::NAMESPACE),
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
            ])
            .columns(pod::columns::columns())
            .rules(pod::RULES),
        kind("Node", "nodes", Cluster)
            .short("no")
            .status()
            .connect("proxy", "NodeProxyOptions", PROXY)
            .fields(&["spec.unschedulable"])
            .columns(printers::node())
            .rules(cluster::NODE),
        kind("Service", "services", Namespaced)
            .short("svc")
            .all()
            .status()
            .connect("proxy", "ServiceProxyOptions", PROXY)
            .fields(&["spec.clusterIP", "spec.type"])
            .columns(printers::service())
            .rules(service::RULES),
        kind("Endpoints", "endpoints", Namespaced)
            .short("ep")
            .columns(printers::endpoints())
            .rules(endpoints::ENDPOINTS),
        kind("ConfigMap", "configmaps", Namespaced)
            .short("cm")
            .columns(printers::config_map())
            .rules(config::CONFIG_MAP),
        kind("Secret", "secrets", Namespaced).fields(&["type"]).columns(printers::secret()).rules(config::SECRET),
        kind("ServiceAccount", "serviceaccounts", Namespaced)
            .short("sa")
            .connect_foreign("token", gvk("authentication.k8s.io", "v1", "TokenRequest"), &["create"])
            .columns(printers::service_account()),
        kind("Event", "events", Namespaced)
            .short("ev")
            .fields(&[
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
            ])
            .columns(printers::event())
            .rules(cluster::EVENT),
    ]
}

fn apps_and_batch() -> Vec<Kind> {
    let kind = |name, plural| Kind::new("apps", "apps.v1", name, plural, Scope::Namespaced);
    vec![
        kind("Deployment", "deployments")
            .short("deploy")
            .all()
            .status()
            .scale()
            .columns(printers::deployment())
            .rules(apps::DEPLOYMENT),
        kind("ReplicaSet", "replicasets")
            .short("rs")
            .all()
            .status()
            .scale()
            .fields(&["status.replicas"])
            .columns(printers::replica_set())
            .rules(apps::REPLICA_SET),
        kind("DaemonSet", "daemonsets")
            .short("ds")
            .all()
            .status()
            .columns(printers::daemon_set())
            .rules(apps::DAEMON_SET),
        kind("ControllerRevision", "controllerrevisions")
            .columns(printers::controller_revision())
            .rules(apps::CONTROLLER_REVISION),
        Kind::new("batch", "batch.v1", "Job", "jobs", Scope::Namespaced)
            .all()
            .status()
            .columns(printers::job())
            .rules(batch::JOB),
    ]
}

fn rbac_kinds() -> Vec<Kind> {
    let kind = |name, plural, scope| Kind::new("rbac.authorization.k8s.io", "rbac.v1", name, plural, scope);
    vec![
        kind("Role", "roles", Scope::Namespaced).columns(printers::role()).rules(rbac::ROLE),
        kind("RoleBinding", "rolebindings", Scope::Namespaced).columns(printers::binding()).rules(rbac::BINDING),
        kind("ClusterRole", "clusterroles", Scope::Cluster).columns(printers::role()).rules(rbac::CLUSTER_ROLE),
        kind("ClusterRoleBinding", "clusterrolebindings", Scope::Cluster)
            .columns(printers::binding())
            .rules(rbac::CLUSTER_BINDING),
    ]
}

fn others() -> Vec<Kind> {
    vec![
        Kind::new("coordination.k8s.io", "coordination.v1", "Lease", "leases", Scope::Namespaced)
            .columns(printers::lease())
            .rules(cluster::LEASE),
        Kind::new("discovery.k8s.io", "discovery.v1", "EndpointSlice", "endpointslices", Scope::Namespaced)
            .columns(printers::endpoint_slice())
            .rules(endpoints::ENDPOINT_SLICE),
        Kind::new("scheduling.k8s.io", "scheduling.v1", "PriorityClass", "priorityclasses", Scope::Cluster)
            .short("pc")
            .columns(printers::priority_class())
            .rules(cluster::PRIORITY_CLASS),
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
