//! Intent, demand and target: whether anything wants to run, how many Pods, and how many nodes.

use super::Options;
use super::baseline::Narrowed;
use super::resources::Resources;

/// Whether anything wants to run. Coarse on purpose: an error in a count must never make zero
/// unreachable, nor keep work from being seen.
pub(super) fn intent(left: &Narrowed<'_>) -> bool {
    !left.bare_pods.is_empty() || left.workloads.iter().any(|workload| workload.wants > 0)
}

/// Pods that want to run.
pub(super) fn demand(left: &Narrowed<'_>) -> u64 {
    left.bare_pods.len() as u64 + left.workloads.iter().map(|workload| u64::from(workload.wants)).sum::<u64>()
}

/// Nodes for that demand: by the Pods that one node is asked to hold and by what they request,
/// between one and the ceiling when there is intent, zero when there is none.
pub(super) fn target(left: &Narrowed<'_>, options: &Options) -> u32 {
    if !intent(left) {
        return 0;
    }
    let by_count = demand(left).div_ceil(u64::from(options.pods_per_node.max(1)));
    let by_count = u32::try_from(by_count).unwrap_or(u32::MAX);
    by_count.max(nodes_by_requests(left, options)).clamp(1, options.max_nodes.max(1))
}

/// Nodes that hold all requests, first fit by decreasing size, at most the ceiling. A Pod that no
/// node could ever hold asks for none.
fn nodes_by_requests(left: &Narrowed<'_>, options: &Options) -> u32 {
    let bare = left.bare_pods.iter().map(|pod| (pod.requests, 1));
    let mut sizes: Vec<(Resources, u32)> =
        bare.chain(left.workloads.iter().map(|workload| (workload.each, workload.wants))).collect();
    sizes.retain(|(size, _)| options.node.holds(Resources::default(), *size));
    sizes.sort_by(|a, b| b.cmp(a));
    let mut nodes: Vec<Resources> = Vec::new();
    let ceiling = options.max_nodes.max(1);
    for (size, count) in sizes {
        if size == Resources::default() {
            continue;
        }
        for _ in 0..count {
            if let Some(used) = nodes.iter_mut().find(|used| options.node.holds(**used, size)) {
                *used = used.plus(size);
            } else if nodes.len() < ceiling as usize {
                nodes.push(size);
            } else {
                return ceiling;
            }
        }
    }
    u32::try_from(nodes.len()).unwrap_or(ceiling)
}
