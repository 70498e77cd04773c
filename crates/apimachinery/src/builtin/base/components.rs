//! Roles for the parts of a cluster, as programs expect to find them by name.
//!
//! The controllers and the scheduler of this product are in the server's process and need no role;
//! nodes are limited by the server's node authorizer, so that the role `system:node` is bound to
//! nobody.

use super::role::Grant::{Named, Paths};
use super::role::{Grant, Subject, cluster_binding, cluster_role, on, role, role_binding};
use serde_json::Value;

const READ: &str = "get list watch";
const EVENTS: Grant = on("create patch update", "core events.k8s.io", "events");
const TOKEN_REVIEWS: Grant = on("create", "authentication.k8s.io", "tokenreviews");
const ACCESS_REVIEWS: Grant = on("create", "authorization.k8s.io", "subjectaccessreviews");
const NEW_LEASES: Grant = on("create", "coordination.k8s.io", "leases");

const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";

/// Every ClusterRole.
const CLUSTER_ROLES: &[(&str, &[Grant])] = &[
    ("system:auth-delegator", &[TOKEN_REVIEWS, ACCESS_REVIEWS]),
    ("system:certificates.k8s.io:certificatesigningrequests:nodeclient", &[CSR_NODE]),
    ("system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", &[CSR_SELF_NODE]),
    ("system:certificates.k8s.io:kube-apiserver-client-approver", &[approve("kubernetes.io/kube-apiserver-client")]),
    (
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[approve("kubernetes.io/kube-apiserver-client-kubelet")],
    ),
    ("system:certificates.k8s.io:kubelet-serving-approver", &[approve("kubernetes.io/kubelet-serving")]),
    ("system:certificates.k8s.io:legacy-unknown-approver", &[approve("kubernetes.io/legacy-unknown")]),
    ("system:kube-aggregator", &[on(READ, "core", "endpoints services")]),
    (
        CONTROLLER_MANAGER,
        &[
            EVENTS,
            NEW_LEASES,
            Named {
                verbs: "get update",
                groups: "coordination.k8s.io",
                resources: "leases",
                names: "kube-controller-manager",
            },
            on("create", "core", "secrets serviceaccounts"),
            on("delete", "core", "secrets"),
            on("get", "core", "configmaps namespaces secrets serviceaccounts"),
            on("update", "core", "secrets serviceaccounts"),
            TOKEN_REVIEWS,
            ACCESS_REVIEWS,
            on("list watch", "*", "*"),
            on("create", "core", "serviceaccounts/token"),
        ],
    ),
    ("system:kube-dns", &[on("list watch", "core", "endpoints services")]),
    (
        SCHEDULER,
        &[
            EVENTS,
            NEW_LEASES,
            Named { verbs: "get update", groups: "coordination.k8s.io", resources: "leases", names: "kube-scheduler" },
            on(READ, "core", "nodes"),
            on("delete get list watch", "core", "pods"),
            on("create", "core", "bindings pods/binding"),
            on("patch update", "core", "pods/status"),
            on(READ, "core", "replicationcontrollers services"),
            on(READ, "apps", "replicasets statefulsets"),
            on(READ, "policy", "poddisruptionbudgets"),
            on(READ, "core", "persistentvolumeclaims persistentvolumes"),
            TOKEN_REVIEWS,
            ACCESS_REVIEWS,
            on(READ, "core", "namespaces"),
            on(READ, "storage.k8s.io", "csidrivers csinodes csistoragecapacities"),
        ],
    ),
    (
        "system:kubelet-api-admin",
        &[
            on(READ, "core", "nodes"),
            on("proxy", "core", "nodes"),
            on("*", "core", "nodes/configz nodes/healthz nodes/log nodes/metrics nodes/pods nodes/proxy nodes/stats"),
        ],
    ),
    ("system:monitoring", &[Paths("/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*")]),
    ("system:node", NODE),
    ("system:node-bootstrapper", &[on("create get list watch", "certificates.k8s.io", "certificatesigningrequests")]),
    ("system:node-problem-detector", &[on("get", "core", "nodes"), on("patch", "core", "nodes/status"), EVENTS]),
    (
        "system:node-proxier",
        &[
            on("list watch", "core", "endpoints services"),
            on(READ, "core", "nodes"),
            EVENTS,
            on("list watch", "discovery.k8s.io", "endpointslices"),
        ],
    ),
    (
        "system:persistent-volume-provisioner",
        &[
            on("create delete get list watch", "core", "persistentvolumes"),
            on("get list update watch", "core", "persistentvolumeclaims"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("watch", "core", "events"),
            EVENTS,
        ],
    ),
    ("system:service-account-issuer-discovery", &[Paths("/.well-known/openid-configuration /openid/v1/jwks")]),
    (
        "system:volume-scheduler",
        &[
            on("get list patch update watch", "core", "persistentvolumes"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("get list patch update watch", "core", "persistentvolumeclaims"),
        ],
    ),
];

const CSR_NODE: Grant = on("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient");
const CSR_SELF_NODE: Grant = on("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient");

const NODE: &[Grant] = &[
    TOKEN_REVIEWS,
    on("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    on(READ, "core", "services"),
    on("create get list watch", "core", "nodes"),
    on("patch update", "core", "nodes/status"),
    on("patch update", "core", "nodes"),
    on("create patch update", "core", "events"),
    on(READ, "core", "pods"),
    on("create delete", "core", "pods"),
    on("patch update", "core", "pods/status"),
    on("create", "core", "pods/eviction"),
    on(READ, "core", "configmaps secrets"),
    on("get", "core", "persistentvolumeclaims persistentvolumes"),
    on("get", "core", "endpoints"),
    on("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
    on("create delete get patch update", "coordination.k8s.io", "leases"),
    on("get", "storage.k8s.io", "volumeattachments"),
    on("create", "core", "serviceaccounts/token"),
    on("get patch update", "core", "persistentvolumeclaims/status"),
    on(READ, "storage.k8s.io", "csidrivers"),
    on("create delete get patch update", "storage.k8s.io", "csinodes"),
    on(READ, "node.k8s.io", "runtimeclasses"),
];

/// Approving certificates of one signer.
const fn approve(signer: &'static str) -> Grant {
    Named { verbs: "approve", groups: "certificates.k8s.io", resources: "signers", names: signer }
}

/// Every binding of them, with whom it is for.
const CLUSTER_BINDINGS: &[(&str, &[Subject])] = &[
    (CONTROLLER_MANAGER, &[Subject::User(CONTROLLER_MANAGER)]),
    ("system:kube-dns", &[]),
    (SCHEDULER, &[Subject::User(SCHEDULER)]),
    ("system:monitoring", &[Subject::Group("system:monitoring")]),
    ("system:node", &[]),
    ("system:node-proxier", &[Subject::User("system:kube-proxy")]),
    ("system:service-account-issuer-discovery", &[Subject::Group("system:serviceaccounts")]),
    ("system:volume-scheduler", &[Subject::User(SCHEDULER)]),
];

/// The roles in `kube-system` with which candidates agree on a leader.
const LEADER_LOCKS: [(&str, &str); 2] = [
    ("system::leader-locking-kube-controller-manager", CONTROLLER_MANAGER),
    ("system::leader-locking-kube-scheduler", SCHEDULER),
];

/// The roles and bindings.
pub(super) fn objects() -> Vec<Value> {
    const NAMESPACE: &str = "kube-system";
    let mut objects: Vec<Value> =
        CLUSTER_ROLES.iter().map(|(name, grants)| cluster_role(name, grants.iter().copied())).collect();
    objects.extend(CLUSTER_BINDINGS.iter().map(|(name, subjects)| cluster_binding(name, subjects)));
    for (name, user) in LEADER_LOCKS {
        let leases = on("create get list update watch", "coordination.k8s.io", "leases leasecandidates");
        objects.push(role(NAMESPACE, name, [leases]));
        objects.push(role_binding(NAMESPACE, name, &[Subject::User(user)]));
    }
    objects
}
