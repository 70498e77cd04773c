//! Addresses, messages, DNS and Service rules; and the real kernel where the test may use it.

use super::address::{Cidr, Pool};
use super::dns::{Endpoint, NamedPort, Outcome, Record, Target, Zone, answer};
use super::dns_server::{DnsOptions, SharedZone, serve};
use super::netlink;
use super::nft::{Forward, Protocol};
use super::services::{Fixed, Services};
use crate::watch::Change;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

#[test]
fn ranges_are_read_and_addresses_come_back_late() {
    let range: Cidr = "10.244.3.9/29".parse().unwrap();
    assert_eq!(range, Cidr { base: Ipv4Addr::new(10, 244, 3, 8), prefix: 29 });
    for bad in ["10.0.0.0", "10.0.0.0/33", "a/8", "::/8"] {
        assert!(bad.parse::<Cidr>().is_err(), "{bad}");
    }
    let mut pool = Pool::new(range);
    assert_eq!(pool.gateway(), Some(Ipv4Addr::new(10, 244, 3, 9)));
    let all: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!(all.iter().map(|a| a.octets()[3]).collect::<Vec<_>>(), [10, 11, 12, 13, 14]);
    pool.free(all[1]);
    assert_eq!(pool.take(), Some(all[1]));
    assert_eq!(pool.take(), None);
    let mut pool = Pool::new(range);
    let first = pool.take().unwrap();
    pool.free(first);
    assert_ne!(pool.take(), Some(first));
    assert_eq!(Pool::new("10.0.0.0/31".parse().unwrap()).take(), None);
}

#[test]
fn messages_are_padded_nested_and_numbered() {
    let mut message = netlink::Message::new(16, 0);
    message.string(3, "lo").nested(18, |inner| {
        inner.string(1, "veth");
    });
    let bytes = message.finish(7);
    assert_eq!(u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len());
    assert_eq!(&bytes[8..12], 7u32.to_ne_bytes());
    assert_eq!(&bytes[16..24], [7, 0, 3, 0, b'l', b'o', 0, 0]);
    assert_eq!(&bytes[24..28], [16, 0, 18, 0x80]);
    assert_eq!(bytes.len(), 40);
}

#[test]
fn the_kernel_answers_for_the_right_request() {
    let reply = |sequence: u32, code: i32| {
        let mut bytes = vec![36, 0, 0, 0, 2, 0, 0, 0];
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&code.to_ne_bytes());
        bytes.resize(36, 0);
        bytes
    };
    assert!(netlink::answer(&reply(6, 0), 7).is_none());
    assert!(netlink::answer(&reply(7, 0), 7).unwrap().is_ok());
    let both = [reply(6, 0), reply(7, -17)].concat();
    assert_eq!(netlink::answer(&both, 7).unwrap().unwrap_err().raw_os_error(), Some(17));
    assert!(netlink::answer(&[0; 40], 7).is_none());
    assert!(netlink::answer(&reply(7, 0)[..17], 7).is_none());
}

fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&[0, 1]);
    bytes
}

fn zone() -> Zone {
    let ports = vec![NamedPort { name: "http".into(), protocol: "tcp", port: 80 }];
    let endpoint = |hostname: Option<&str>, last| Endpoint {
        hostname: hostname.map(str::to_owned),
        address: Ipv4Addr::new(10, 244, 0, last),
    };
    let record = |target| Record { target, ports: ports.clone() };
    Zone {
        domain: "cluster.local".into(),
        services: [
            (("a".into(), "web".into()), record(Target::Address(Ipv4Addr::new(10, 96, 0, 7)))),
            (("a".into(), "db".into()), record(Target::Headless(vec![endpoint(Some("db-0"), 5), endpoint(None, 6)]))),
            (("a".into(), "out".into()), record(Target::Name("example.org".into()))),
        ]
        .into(),
    }
}

/// Response code and the last four bytes of each answer record's data.
fn ask(name: &str, kind: u16) -> (u8, u16, Vec<u8>) {
    match answer(&query(name, kind), &zone(), true) {
        Outcome::Reply(reply) => {
            assert_eq!(reply[..2], [0xab, 0xcd]);
            let question = query(name, kind).len();
            (reply[3] & 15, u16::from_be_bytes([reply[6], reply[7]]), reply[question..].to_vec())
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn names_of_services_pods_and_endpoints() {
    for (name, kind, code, addresses) in [
        ("web.a.svc.cluster.local", 1, 0, vec![[10, 96, 0, 7]]),
        ("WEB.a.SVC.Cluster.Local", 1, 0, vec![[10, 96, 0, 7]]),
        ("web.a.svc.cluster.local", 28, 0, vec![]),
        ("db.a.svc.cluster.local", 1, 0, vec![[10, 244, 0, 5], [10, 244, 0, 6]]),
        ("db-0.db.a.svc.cluster.local", 1, 0, vec![[10, 244, 0, 5]]),
        ("10-244-0-6.db.a.svc.cluster.local", 1, 0, vec![[10, 244, 0, 6]]),
        ("db-1.db.a.svc.cluster.local", 1, 3, vec![]),
        ("10-244-0-9.a.pod.cluster.local", 1, 0, vec![[10, 244, 0, 9]]),
        ("x.a.pod.cluster.local", 1, 3, vec![]),
        ("web.b.svc.cluster.local", 1, 3, vec![]),
        ("a.svc.cluster.local", 1, 0, vec![]),
        ("cluster.local", 1, 0, vec![]),
        ("web.a.svc.cluster.local.cluster.local", 1, 3, vec![]),
    ] {
        let (found, count, data) = ask(name, kind);
        assert_eq!((found, usize::from(count)), (code, addresses.len()), "{name}");
        let parts: Vec<[u8; 4]> = data.chunks(16).map(|record| record[12..16].try_into().unwrap()).collect();
        assert_eq!(parts, addresses, "{name}");
    }
    let (code, count, data) = ask("_http._tcp.web.a.svc.cluster.local", 33);
    assert_eq!((code, count), (0, 1));
    assert_eq!(&data[12..18], [0, 0, 0, 100, 0, 80]);
    assert_eq!(ask("_http._udp.web.a.svc.cluster.local", 33).0, 3);
    let (_, count, data) = ask("out.a.svc.cluster.local", 1);
    assert_eq!((count, data[3]), (1, 5));
}

#[test]
fn what_is_not_a_query_or_not_ours() {
    assert_eq!(answer(&query("example.org", 1), &zone(), true), Outcome::Forward);
    assert_eq!(answer(&query("notcluster.local", 1), &zone(), true), Outcome::Forward);
    assert_eq!(answer(&[0; 5], &zone(), true), Outcome::Drop);
    let mut response = query("web.a.svc.cluster.local", 1);
    response[2] |= 0x80;
    assert_eq!(answer(&response, &zone(), true), Outcome::Drop);
    let whole = query("web.a.svc.cluster.local", 1);
    for cut in 12..whole.len() {
        match answer(&whole[..cut], &zone(), true) {
            Outcome::Reply(reply) => assert_eq!(reply[3] & 15, 1, "cut at {cut}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn long_answers_are_cut_on_udp_only() {
    let mut zone = zone();
    let endpoints =
        (0..100).map(|n| Endpoint { hostname: None, address: Ipv4Addr::new(10, 244, 1, n) }).collect::<Vec<_>>();
    zone.services.insert(("a".into(), "big".into()), Record { target: Target::Headless(endpoints), ports: vec![] });
    let query = query("big.a.svc.cluster.local", 1);
    let Outcome::Reply(udp) = answer(&query, &zone, true) else { panic!() };
    assert!(udp.len() <= 512 && udp[2] & 2 != 0);
    let Outcome::Reply(tcp) = answer(&query, &zone, false) else { panic!() };
    assert!(tcp[2] & 2 == 0 && u16::from_be_bytes([tcp[6], tcp[7]]) == 100);
}

#[tokio::test]
async fn the_server_answers_on_both_transports_and_forwards() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let resolver = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let options = DnsOptions {
        resolver: Some(resolver.local_addr().unwrap()),
        timeout: Duration::from_secs(5),
        max_concurrent: 4,
    };
    tokio::spawn(async move {
        let mut buffer = [0; 512];
        let (length, from) = resolver.recv_from(&mut buffer).await.unwrap();
        buffer[3] = 0x85;
        resolver.send_to(&buffer[..length], from).await.unwrap();
    });
    let udp = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (udp_at, tcp_at): (SocketAddr, SocketAddr) = (udp.local_addr().unwrap(), tcp.local_addr().unwrap());
    let shared = SharedZone::default();
    shared.set(zone());
    let server = tokio::spawn(serve(udp, tcp, shared, options));
    let client = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut buffer = [0; 512];
    for (name, code) in [("web.a.svc.cluster.local", 0), ("example.org", 5)] {
        client.send_to(&query(name, 1), udp_at).await.unwrap();
        let received = tokio::time::timeout(Duration::from_secs(5), client.recv(&mut buffer)).await;
        assert!(received.unwrap().unwrap() > 12);
        assert_eq!(buffer[3] & 15, code, "{name}");
    }
    let mut stream = tokio::net::TcpStream::connect(tcp_at).await.unwrap();
    let query = query("web.a.svc.cluster.local", 1);
    stream.write_u16(u16::try_from(query.len()).unwrap()).await.unwrap();
    stream.write_all(&query).await.unwrap();
    let length = stream.read_u16().await.unwrap();
    assert_eq!(usize::from(length), query.len() + 16);
    server.abort();
}

#[test]
fn services_become_names_and_forwards() {
    let service = |name: &str, ip: &str| {
        serde_json::from_value(json!({
            "metadata": {"namespace": "a", "name": name},
            "spec": {"clusterIP": ip, "ports": [{"name": "http", "port": 80}, {"name": "d", "port": 53, "protocol": "UDP"}]},
        }))
        .unwrap()
    };
    let kubernetes = serde_json::from_value(json!({
        "metadata": {"namespace": "default", "name": "kubernetes"},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443}]},
    }))
    .unwrap();
    let slice = serde_json::from_value(json!({
        "metadata": {"namespace": "a", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
        "endpoints": [
            {"addresses": ["10.244.0.5"]},
            {"addresses": ["10.244.0.6"], "conditions": {"ready": false}},
            {"addresses": ["10.244.0.4"], "conditions": {"ready": true}},
        ],
    }))
    .unwrap();
    let mut services = Services::default();
    services.service(Change::All(vec![service("web", "10.96.0.7"), service("dns", "10.96.0.10"), kubernetes]));
    services.slice(Change::Now(slice));
    let fixed = Fixed {
        domain: "cluster.local".into(),
        api_server: Some("10.0.2.2:6443".parse().unwrap()),
        own: vec![Ipv4Addr::new(10, 96, 0, 10)],
    };
    let (zone, forwards) = services.plan(&fixed);
    assert_eq!(zone.services.len(), 3);
    assert_eq!(
        forwards,
        [
            Forward {
                protocol: Protocol::Tcp,
                address: Ipv4Addr::new(10, 96, 0, 7),
                port: 80,
                endpoints: vec!["10.244.0.4:8080".parse().unwrap(), "10.244.0.5:8080".parse().unwrap()],
            },
            Forward {
                protocol: Protocol::Tcp,
                address: Ipv4Addr::new(10, 96, 0, 1),
                port: 443,
                endpoints: vec!["10.0.2.2:6443".parse().unwrap()],
            },
        ]
    );
    let pods = "10.244.0.0/24".parse().unwrap();
    // Three tables, three chains, two endpoints and the API server in two chains, one masquerade.
    assert_eq!(super::nft::messages(pods, &forwards).len(), 3 + 3 + 2 * 3 + 1);
}
