//! The rules of the scale decision, as tables. Times are seconds; the hold is 120, the loss grace 60.

use super::*;

const NOW: i64 = 1_000_000;

fn options() -> Options {
    Options { pods_per_node: 1, node: Resources { cpu_milli: 1000, memory: 1 << 30 }, ..Options::default() }
}

fn key(kind: WorkloadKind, name: &str) -> WorkloadKey {
    WorkloadKey { kind, namespace: "default".to_owned(), name: name.to_owned() }
}

fn workload(kind: WorkloadKind, name: &str, wants: u32) -> Workload {
    Workload { key: key(kind, name), wants, each: Resources::default(), spec_hash: [0; 32] }
}

fn pod(name: &str, node: Option<&str>) -> Pod {
    Pod { name: name.to_owned(), node: node.map(str::to_owned), created: Some(NOW - 500), ..Pod::default() }
}

fn node(name: &str) -> Node {
    Node { name: name.to_owned(), ready: true, created: NOW - 1000, not_ready_since: None }
}

fn claim(node: &str, state: ClaimState) -> Claim {
    let name = format!("claim-{node}");
    Claim { name, node: node.to_owned(), pod_range: None, state, message: String::new(), expiry: None }
}

fn joined(nodes: &[&str]) -> Observation {
    Observation {
        nodes: nodes.iter().map(|n| node(n)).collect(),
        claims: nodes.iter().map(|n| claim(n, ClaimState::Joined)).collect(),
        ..Observation::default()
    }
}

fn run(seen: &Observation, state: &State) -> Decision {
    decide(seen, state, &Baseline::default(), NOW, &options())
}

#[test]
fn target_is_demand_by_pods_per_node_within_the_ceiling() {
    for (wants, per_node, max, target) in
        [(0, 1, 10, 0), (1, 1, 10, 1), (8, 8, 10, 1), (9, 8, 10, 2), (500, 1, 10, 10), (3, 1, 2, 2)]
    {
        let seen =
            Observation { workloads: vec![workload(WorkloadKind::Deployment, "d", wants)], ..Observation::default() };
        let options = Options { pods_per_node: per_node, max_nodes: max, ..options() };
        let got = decide(&seen, &State::default(), &Baseline::default(), NOW, &options);
        assert_eq!(got.target, target, "{wants} Pods at {per_node} a node, at most {max}");
        let action = if target == 0 { Action::Nothing } else { Action::Provision(target) };
        assert_eq!(got.action, action);
    }
}

#[test]
fn requests_ask_for_nodes_that_hold_them() {
    let mut large = workload(WorkloadKind::Deployment, "d", 4);
    large.each = Resources { cpu_milli: 600, memory: 1 };
    let mut never = workload(WorkloadKind::Job, "j", 1);
    never.each = Resources { cpu_milli: 64_000, memory: 1 };
    let seen = Observation { workloads: vec![large, never], ..Observation::default() };
    let options = Options { pods_per_node: 100, ..options() };
    assert_eq!(decide(&seen, &State::default(), &Baseline::default(), NOW, &options).target, 4);
}

#[test]
fn a_pod_and_its_workload_are_one_unit() {
    let mut of_deployment = pod("d-1", None);
    of_deployment.workload = Some(key(WorkloadKind::Deployment, "d"));
    let mut orphan = pod("x-1", None);
    orphan.workload = Some(key(WorkloadKind::ReplicaSet, "not-read"));
    let seen = Observation {
        workloads: vec![workload(WorkloadKind::Deployment, "d", 1)],
        pods: vec![of_deployment, orphan, pod("bare", None)],
        ..Observation::default()
    };
    assert_eq!(run(&seen, &State::default()).action, Action::Provision(3));
}

#[test]
fn what_follows_nodes_and_what_has_ended_never_asks() {
    let mut of_daemon_set = pod("ds-1", None);
    of_daemon_set.follows_node = true;
    let mut done = pod("done", None);
    done.terminal = true;
    let seen = Observation {
        workloads: vec![workload(WorkloadKind::DaemonSet, "ds", 3), workload(WorkloadKind::Job, "finished", 0)],
        pods: vec![of_daemon_set, done],
        ..Observation::default()
    };
    assert_eq!(run(&seen, &State::default()).action, Action::Nothing);
    let mut with_node = seen;
    with_node.nodes.push(node("a"));
    with_node.claims.push(claim("a", ClaimState::Joined));
    let state = State { idle_since: Some(NOW - 120), ..State::default() };
    assert_eq!(run(&with_node, &state).action, Action::Teardown, "a DaemonSet does not hold a node");
}

#[test]
fn zero_comes_after_the_whole_hold() {
    let seen = joined(&["a", "b"]);
    let first = run(&seen, &State::default());
    assert_eq!((first.action, first.state.idle_since, first.wake_at), (Action::Nothing, Some(NOW), Some(NOW + 120)));
    let late = State { idle_since: Some(NOW - 119), ..State::default() };
    assert_eq!(run(&seen, &late).action, Action::Nothing);
    let over = State { idle_since: Some(NOW - 120), ..State::default() };
    assert_eq!(run(&seen, &over).action, Action::Teardown);
    let mut busy = seen;
    busy.pods.push(pod("bare", Some("a")));
    assert_eq!(run(&busy, &over).state.idle_since, None, "work starts the hold again");
    assert_eq!(run(&Observation::default(), &over).state, State::default(), "an idle cluster remembers nothing");
}

#[test]
fn a_claim_counts_until_its_node_does() {
    let mut seen =
        Observation { workloads: vec![workload(WorkloadKind::Deployment, "d", 2)], ..Observation::default() };
    seen.claims = vec![claim("a", ClaimState::Coming)];
    assert_eq!(run(&seen, &State::default()).action, Action::Provision(1));
    seen.nodes = vec![node("a")];
    assert_eq!(run(&seen, &State::default()).action, Action::Provision(1), "not counted twice");
    seen.claims.push(claim("b", ClaimState::Coming));
    assert_eq!(run(&seen, &State::default()).action, Action::Nothing);
    seen.claims[1].state = ClaimState::Releasing;
    assert_eq!(run(&seen, &State::default()).action, Action::Provision(1), "a machine that goes is not there");
}

#[test]
fn the_baseline_asks_for_nothing_until_it_is_changed() {
    let ours = workload(WorkloadKind::Deployment, "addon", 1);
    let baseline = Baseline::measure([&ours]);
    let mut seen = Observation { workloads: vec![ours], ..Observation::default() };
    let decided = |seen: &Observation| decide(seen, &State::default(), &baseline, NOW, &options()).action;
    assert_eq!(decided(&seen), Action::Nothing);
    seen.workloads[0].spec_hash = [1; 32];
    assert_eq!(decided(&seen), Action::Provision(1));
    seen.workloads[0] = workload(WorkloadKind::Deployment, "addon", 1);
    seen.workloads[0].key.namespace = "elsewhere".to_owned();
    assert_eq!(decided(&seen), Action::Provision(1));
}

#[test]
fn declines_back_off_twice_as_long_each_time_up_to_the_cap() {
    let mut seen =
        Observation { workloads: vec![workload(WorkloadKind::Deployment, "d", 1)], ..Observation::default() };
    seen.claims = vec![claim("a", ClaimState::Declined), claim("b", ClaimState::Declined)];
    let mut state = State::default();
    for wait in [15, 30, 60, 120, 240, 300, 300] {
        let got = run(&seen, &state);
        assert_eq!(got.action, Action::GiveUp(vec!["claim-a".to_owned(), "claim-b".to_owned()]));
        assert_eq!(got.state.backoff.map(|b| b.until), Some(NOW + wait), "several declines are one answer");
        state = got.state;
    }
    seen.claims.clear();
    let waiting = run(&seen, &state);
    assert_eq!((waiting.action, waiting.wake_at), (Action::Nothing, Some(NOW + 300)));
    let after = decide(&seen, &state, &Baseline::default(), NOW + 300, &options());
    assert_eq!(after.action, Action::Provision(1));
    assert!(after.state.backoff.is_some(), "asking again does not forget");
    seen.nodes = vec![node("a")];
    seen.claims = vec![claim("a", ClaimState::Joined)];
    assert_eq!(run(&seen, &state).state.backoff, None, "a node that joins does");
    assert_eq!(run(&Observation::default(), &state).state.backoff, None, "and so does having nothing to run");
}

#[test]
fn failed_claims_and_lost_nodes_are_given_up_without_a_wait() {
    let mut seen = joined(&["a"]);
    seen.pods.push(pod("bare", Some("a")));
    seen.claims[0].state = ClaimState::Failed;
    let got = run(&seen, &State::default());
    assert_eq!((got.action, got.state.backoff), (Action::GiveUp(vec!["claim-a".to_owned()]), None));
    seen.claims[0].state = ClaimState::Joined;
    seen.nodes[0].ready = false;
    seen.nodes[0].not_ready_since = Some(NOW - 59);
    let early = run(&seen, &State::default());
    assert_eq!((early.action, early.wake_at), (Action::Nothing, Some(NOW + 1)));
    seen.nodes[0].not_ready_since = Some(NOW - 60);
    assert_eq!(run(&seen, &State::default()).action, Action::GiveUp(vec!["claim-a".to_owned()]));
}

#[test]
fn one_idle_node_goes_per_hold_the_emptiest_then_the_newest() {
    let mut seen = joined(&["a", "b", "c"]);
    seen.pods.push(pod("bare", Some("a")));
    seen.nodes[2].created = NOW - 10;
    let idle = |since| State {
        node_idle_since: [("b".to_owned(), since), ("c".to_owned(), since)].into(),
        ..State::default()
    };
    assert_eq!(run(&seen, &idle(NOW - 119)).action, Action::Nothing);
    let got = run(&seen, &idle(NOW - 120));
    assert_eq!(got.action, Action::Release { claim: "claim-c".to_owned(), node: "c".to_owned() });
    assert_eq!(got.state.node_idle_since, [("b".to_owned(), NOW)].into(), "the other starts again");

    let mut incoming = seen.clone();
    incoming.pods.push(Pod { names_node: Some("c".to_owned()), ..pod("named", None) });
    incoming.workloads.clear();
    let got =
        decide(&incoming, &idle(NOW - 120), &Baseline::default(), NOW, &Options { pods_per_node: 8, ..options() });
    assert_eq!(got.action, Action::Release { claim: "claim-b".to_owned(), node: "b".to_owned() });

    let mut placing = seen.clone();
    placing.pods.push(Pod { created: Some(NOW - 1), ..pod("young", None) });
    let got = decide(&placing, &idle(NOW - 120), &Baseline::default(), NOW, &Options { pods_per_node: 8, ..options() });
    assert_eq!(got.action, Action::Nothing, "a young Pod may be about to be placed");

    seen.claims.retain(|claim| claim.node == "a");
    assert_eq!(run(&seen, &idle(NOW - 120)).action, Action::Nothing, "nodes that we do not hold stay");
}

#[test]
fn the_expiry_gate_refuses_what_it_cannot_compare() {
    let with = |expiries: &[Option<NodeExpiry>]| -> Vec<Claim> {
        expiries.iter().map(|expiry| Claim { expiry: *expiry, ..claim("a", ClaimState::Joined) }).collect()
    };
    use compute_api::NodeExpiry::{self, At, Unlimited};
    assert_eq!(roll_up(&with(&[])), Some(Unlimited));
    assert_eq!(roll_up(&with(&[Some(Unlimited), Some(At(7)), Some(At(5))])), Some(At(5)));
    assert_eq!(roll_up(&with(&[Some(At(7)), None])), None);
    assert_eq!(roll_up(&[claim("a", ClaimState::Coming)]), Some(Unlimited), "what has not joined has nothing to lose");
    assert!(gate(None, NOW).unwrap_err().contains("nodeExpiry is absent"));
    assert_eq!(gate(Some(Unlimited), NOW), Ok(()));
    assert_eq!(gate(Some(At(NOW)), NOW), Ok(()));
    assert!(gate(Some(At(NOW - 1)), NOW).is_err());
}
