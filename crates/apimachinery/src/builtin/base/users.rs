//! Roles for people and their programs: `cluster-admin`, `admin`, `edit`, `view`, and what
//! everybody may.

use super::role::Grant::{EveryPath, Paths};
use super::role::{Grant, Subject, aggregate, cluster_binding, cluster_role, on, part_of};
use crate::auth::{GROUP_AUTHENTICATED, GROUP_MASTERS, GROUP_UNAUTHENTICATED};
use serde_json::Value;

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const READ_WRITE: &str = "create delete deletecollection get list patch update watch";

const EVERYTHING: &[Grant] = &[on("*", "*", "*"), EveryPath];

/// Reading what is in a namespace, except what would make the reader somebody else: Secrets.
const VIEW: &[Grant] = &[
    on(
        READ,
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers \
         replicationcontrollers/scale serviceaccounts services services/status",
    ),
    on(
        READ,
        "core",
        "bindings events limitranges namespaces/status pods/log pods/status replicationcontrollers/status \
         resourcequotas resourcequotas/status",
    ),
    on(READ, "core", "namespaces"),
    on(READ, "discovery.k8s.io", "endpointslices"),
    on(
        READ,
        "apps",
        "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status \
         replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    ),
    on(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    on(READ, "batch", "cronjobs cronjobs/status jobs jobs/status"),
    on(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    on(READ, "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
];

/// Writing what is in a namespace, except who may do what there.
const EDIT: &[Grant] = &[
    on(READ, "core", "pods/attach pods/exec pods/portforward pods/proxy secrets services/proxy"),
    on("impersonate", "core", "serviceaccounts"),
    on(WRITE, "core", "pods pods/attach pods/exec pods/portforward pods/proxy"),
    on("create", "core", "pods/eviction"),
    on(
        WRITE,
        "core",
        "configmaps events persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets \
         serviceaccounts services services/proxy",
    ),
    on("create", "core", "serviceaccounts/token"),
    on(
        WRITE,
        "apps",
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets \
         statefulsets/scale",
    ),
    on(WRITE, "autoscaling", "horizontalpodautoscalers"),
    on(WRITE, "batch", "cronjobs jobs"),
    on(WRITE, "policy", "poddisruptionbudgets"),
    on(WRITE, "networking.k8s.io", "ingresses networkpolicies"),
    on(READ_WRITE, "coordination.k8s.io", "leases"),
];

/// Saying who may do what in a namespace.
const ADMIN: &[Grant] = &[
    on("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    on(READ_WRITE, "rbac.authorization.k8s.io", "rolebindings roles"),
];

/// Asking who one is and what one may do.
const BASIC_USER: &[Grant] = &[
    on("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
    on("create", "authentication.k8s.io", "selfsubjectreviews"),
];

/// Seeing what the server serves.
const DISCOVERY: &[Grant] =
    &[Paths("/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/")];

/// Seeing that the server serves.
const PUBLIC_INFO: &[Grant] = &[Paths("/healthz /livez /readyz /version /version/")];

fn all(parts: &[&[Grant]]) -> Vec<Grant> {
    parts.concat()
}

/// The roles and bindings.
pub(super) fn objects() -> Vec<Value> {
    let authenticated = Subject::Group(GROUP_AUTHENTICATED);
    let anybody = [authenticated, Subject::Group(GROUP_UNAUTHENTICATED)];
    vec![
        cluster_role("cluster-admin", all(&[EVERYTHING])),
        cluster_binding("cluster-admin", &[Subject::Group(GROUP_MASTERS)]),
        aggregate("admin", all(&[EDIT, VIEW, ADMIN])),
        part_of(aggregate("edit", all(&[EDIT, VIEW])), "admin"),
        part_of(aggregate("view", all(&[VIEW])), "edit"),
        part_of(cluster_role("system:aggregate-to-admin", all(&[ADMIN])), "admin"),
        part_of(cluster_role("system:aggregate-to-edit", all(&[EDIT])), "edit"),
        part_of(cluster_role("system:aggregate-to-view", all(&[VIEW])), "view"),
        cluster_role("system:basic-user", all(&[BASIC_USER])),
        cluster_binding("system:basic-user", &[authenticated]),
        cluster_role("system:discovery", all(&[DISCOVERY])),
        cluster_binding("system:discovery", &[authenticated]),
        cluster_role("system:public-info-viewer", all(&[PUBLIC_INFO])),
        cluster_binding("system:public-info-viewer", &anybody),
    ]
}
