//! Links, namespaces and rules in the real kernel, inside a network of the test's own. Where the
//! test may not make one, or the kernel has no such parts, it has nothing to check.

use super::link::Links;
use super::nft::{self, Forward, Protocol};
use super::pods::PodNetworks;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Runs on a thread whose network is its own.
fn isolated(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        if os_linux::network_namespace::enter_new().is_ok() {
            Links::open().unwrap().up("lo").unwrap();
            test();
        }
    });
    thread.join().unwrap();
}

#[test]
fn a_pod_reaches_a_service() {
    isolated(|| {
        let dir = tempfile::tempdir().unwrap();
        let range = "10.244.9.0/24".parse().unwrap();
        let networks = PodNetworks::new(range, dir.path().join("netns"));
        let pod = match networks.add("uid") {
            Ok(pod) => pod,
            Err(error) if error.raw_os_error() == Some(95) => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(pod.address, Ipv4Addr::new(10, 244, 9, 2));
        let listener = TcpListener::bind(("10.244.9.1", 0)).unwrap();
        let SocketAddr::V4(endpoint) = listener.local_addr().unwrap() else { panic!() };
        let address = Ipv4Addr::new(10, 96, 0, 7);
        let forward = Forward { protocol: Protocol::Tcp, address, port: 80, endpoints: vec![endpoint, endpoint] };
        let rules = nft::apply(range, std::slice::from_ref(&forward));
        if rules.as_ref().is_err_and(|error| matches!(error.raw_os_error(), Some(93 | 95))) {
            networks.remove(&pod);
            return;
        }
        rules.unwrap();
        // Applied again, the table is replaced.
        nft::apply(range, &[forward]).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, from) = listener.accept().unwrap();
            stream.write_all(b"hello").unwrap();
            from
        });
        let namespace = pod.namespace.clone();
        let client = std::thread::spawn(move || {
            let file = std::fs::File::open(namespace).unwrap();
            rustix::thread::move_into_link_name_space(file.as_fd(), Some(rustix::thread::LinkNameSpaceType::Network))
                .unwrap();
            let mut stream = TcpStream::connect_timeout(&SocketAddr::from((address, 80)), TIMEOUT).unwrap();
            stream.set_read_timeout(Some(TIMEOUT)).unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        });
        assert_eq!(client.join().unwrap(), "hello");
        assert_eq!(server.join().unwrap().ip(), pod.address);
        networks.remove(&pod);
        assert!(!pod.namespace.exists());
        assert_ne!(networks.add("other").map(|next| next.address).unwrap(), pod.address);
        rustix::mount::unmount(dir.path().join("netns/other"), rustix::mount::UnmountFlags::DETACH).unwrap();
    });
}
