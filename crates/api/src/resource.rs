//! Our kinds as resources of the generic Kubernetes client: both are cluster-scoped within their
//! workspace.

use crate::{API_VERSION, Cluster, GROUP, NodeClaim, VERSION};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, Metadata, Resource};

impl Resource for Cluster {
    const API_VERSION: &'static str = API_VERSION;
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "Cluster";
    const VERSION: &'static str = VERSION;
    const URL_PATH_SEGMENT: &'static str = "clusters";
    type Scope = ClusterResourceScope;
}

impl Metadata for Cluster {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Resource for NodeClaim {
    const API_VERSION: &'static str = API_VERSION;
    const GROUP: &'static str = GROUP;
    const KIND: &'static str = "NodeClaim";
    const VERSION: &'static str = VERSION;
    const URL_PATH_SEGMENT: &'static str = "nodeclaims";
    type Scope = ClusterResourceScope;
}

impl Metadata for NodeClaim {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
