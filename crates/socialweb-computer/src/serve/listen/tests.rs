//! The remembered port.

use super::bind;

#[tokio::test]
async fn the_port_of_the_last_run_is_taken_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("address");
    let first = bind(&file, None).await.unwrap().local_addr().unwrap();
    assert!(first.ip().is_loopback());
    std::fs::write(&file, format!("https://{first}\n")).unwrap();
    assert_eq!(bind(&file, None).await.unwrap().local_addr().unwrap(), first);
    std::fs::write(&file, "nonsense").unwrap();
    assert!(bind(&file, None).await.unwrap().local_addr().unwrap().ip().is_loopback());
    let chosen = bind(&file, Some("127.0.0.1:0".parse().unwrap())).await.unwrap().local_addr().unwrap();
    assert_ne!(chosen.port(), 0);
}
