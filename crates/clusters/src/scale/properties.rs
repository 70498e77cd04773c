//! What holds for every observation.

use super::*;
use proptest::prelude::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn name() -> impl Strategy<Value = String> {
    proptest::sample::select(&NAMES[..]).prop_map(str::to_owned)
}

fn nodes() -> impl Strategy<Value = Vec<Node>> {
    proptest::collection::btree_map(name(), (0..2000_i64, proptest::option::of(0..2000_i64)), 0..4).prop_map(|nodes| {
        nodes
            .into_iter()
            .map(|(name, (created, not_ready_since))| Node {
                name,
                ready: not_ready_since.is_none(),
                created,
                not_ready_since,
            })
            .collect()
    })
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    use ClaimState::{Coming, Declined, Failed, Joined, Releasing};
    let states = proptest::sample::select(&[Coming, Joined, Declined, Failed, Releasing][..]);
    proptest::collection::btree_map(name(), states, 0..4).prop_map(|claims| {
        claims
            .into_iter()
            .map(|(node, state)| Claim {
                name: node.clone(),
                node,
                pod_range: None,
                state,
                message: String::new(),
                expiry: None,
            })
            .collect()
    })
}

prop_compose! {
    fn pods()(pods in proptest::collection::vec(
        (proptest::option::of(name()), proptest::option::of(name()), any::<bool>(), any::<bool>(),
         proptest::option::of(0..2000_i64)), 0..6)) -> Vec<Pod> {
        pods.into_iter().map(|(node, names_node, follows_node, terminal, created)|
            Pod { node, names_node, follows_node, terminal, created, ..Pod::default() }).collect()
    }
}

prop_compose! {
    fn observations()(
        nodes in nodes(),
        claims in claims(),
        pods in pods(),
        wants in proptest::collection::vec(
            (0..5_u32, 0..3000_u64, proptest::sample::select(&[WorkloadKind::Deployment, WorkloadKind::DaemonSet][..])),
            0..3),
    ) -> Observation {
        let workloads = wants.into_iter().enumerate().map(|(i, (wants, cpu_milli, kind))| Workload {
            key: WorkloadKey { kind, namespace: "default".to_owned(), name: i.to_string() },
            wants, each: Resources { cpu_milli, memory: 0 }, spec_hash: [0; 32],
        }).collect();
        Observation { nodes, claims, workloads, pods }
    }
}

fn step(seen: &Observation, state: &State, now: i64) -> Decision {
    decide(seen, state, &Baseline::default(), now, &Options::default())
}

proptest! {
    #[test]
    fn the_target_is_zero_exactly_without_intent_and_never_above_the_ceiling(seen in observations()) {
        let got = step(&seen, &State::default(), 2000);
        let wants = seen.pods.iter().any(|p| !p.follows_node && !p.terminal)
            || seen.workloads.iter().any(|w| w.key.kind != WorkloadKind::DaemonSet && w.wants > 0);
        prop_assert_eq!(got.target > 0, wants);
        prop_assert!(got.target <= Options::default().max_nodes);
    }

    #[test]
    fn nothing_is_released_under_work(seen in observations()) {
        let ages = NAMES.iter().map(|n| ((*n).to_owned(), 0)).collect();
        let old = State { idle_since: Some(0), node_idle_since: ages, backoff: None };
        match step(&seen, &old, 10_000).action {
            Action::Teardown => prop_assert_eq!(step(&seen, &State::default(), 0).target, 0),
            Action::Release { node, .. } => {
                let load = load(&seen, &Baseline::default(), &node);
                prop_assert!(load.busy == 0 && !load.incoming);
            }
            _ => {}
        }
    }

    #[test]
    fn provisioning_never_goes_over_the_target(seen in observations()) {
        let got = step(&seen, &State::default(), 2000);
        if let Action::Provision(more) = got.action {
            let there = seen.nodes.iter().filter(|node| !seen.claims.iter().any(
                |claim| claim.node == node.name && claim.state == ClaimState::Releasing)).count();
            prop_assert!(there + more as usize <= got.target as usize);
            prop_assert!(more > 0);
        }
    }

    #[test]
    fn a_cluster_without_intent_reaches_zero(seen in observations()) {
        let mut seen = seen;
        seen.pods.clear();
        seen.workloads.clear();
        seen.nodes.retain(|node| seen.claims.iter().any(|claim| claim.node == node.name));
        let (mut state, mut now) = (State::default(), 2000);
        for _ in 0..8 {
            let got = step(&seen, &state, now);
            let gone: Vec<String> = match &got.action {
                Action::Teardown => seen.claims.iter().map(|claim| claim.name.clone()).collect(),
                Action::GiveUp(claims) => claims.clone(),
                _ => Vec::new(),
            };
            seen.nodes.retain(|node| !gone.contains(&node.name));
            seen.claims.retain(|claim| !gone.contains(&claim.name) && claim.state != ClaimState::Releasing);
            seen.nodes.retain(|node| seen.claims.iter().any(|claim| claim.node == node.name));
            state = got.state;
            now = got.wake_at.unwrap_or(now + 1);
        }
        prop_assert!(seen.claims.is_empty() && seen.nodes.is_empty(), "left: {:?}", seen);
        prop_assert_eq!(step(&seen, &state, now).state, State::default());
    }

    #[test]
    fn a_decision_that_does_nothing_is_stable(seen in observations()) {
        let got = step(&seen, &State::default(), 2000);
        if got.action == Action::Nothing {
            prop_assert_eq!(&step(&seen, &got.state, 2000), &got);
        }
    }
}
