//! SPDY as Kubernetes clients speak it.

use super::frame::{Error, FLAG_FIN, Frame, PING, SYN_REPLY, SYN_STREAM};
use super::headers::{Malformed, Reader, Writer, dictionary};
use super::session::{Session, SpdyStream};
use bytes::{Bytes, BytesMut};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

#[test]
fn the_dictionary_is_the_specified_one() {
    // The draft gives its length; its Adler-32 is what every compressed stream begins with.
    assert_eq!(dictionary().len(), 1423);
    let block = Writer::new().write(&[]);
    assert_eq!(block[2..6], [0xe3, 0xc6, 0xa7, 0xc2]);
}

#[test]
fn header_blocks_share_one_window() {
    let (mut writer, mut reader) = (Writer::new(), Reader::new());
    for port in ["80", "8080", "80"] {
        let block = writer.write(&[("streamtype", "data"), ("port", port)]);
        let want = vec![("streamtype".to_owned(), "data".to_owned()), ("port".to_owned(), port.to_owned())];
        assert_eq!(reader.read(&block), Ok(want));
    }
    assert!(Reader::new().read(b"nonsense").is_err());
    assert!(Reader::new().read(b"").is_err());
}

#[test]
fn damaged_blocks_are_refused() {
    let text = "x".repeat(5000);
    let block = Writer::new().write(&[("streamtype", "data"), ("text", &text)]);
    let read = |block: &[u8]| Reader::new().read(block);
    let whole = read(&block).unwrap();
    assert!(whole[1] == ("text".to_owned(), text));
    // What ends a block says nothing more, so all else that is cut off is missed.
    let refused = (0..block.len()).filter(|length| match read(&block[..*length]) {
        Ok(pairs) => {
            assert!(pairs == whole, "{length} bytes of {}", block.len());
            false
        }
        Err(Malformed) => true,
    });
    let needed = refused.count();
    assert!(block.len() - needed <= 8, "{needed} bytes of {} are needed", block.len());
    assert_eq!(read(b"this is not compressed"), Err(Malformed));
    // A little that becomes a lot.
    let bomb = "x".repeat(1 << 20);
    assert_eq!(read(&Writer::new().write(&[("text", &bomb)])), Err(Malformed));
}

#[test]
fn frames_are_taken_whole_and_bounded() {
    let frame = Frame::Data { stream: 5, fin: true, payload: Bytes::from_static(b"abc") };
    let bytes = frame.encode();
    let mut partial = BytesMut::from(&bytes[..bytes.len() - 1]);
    assert_eq!(Frame::decode(&mut partial, 100), Ok(None));
    assert_eq!(Frame::decode(&mut BytesMut::from(&bytes[..]), 100), Ok(Some(frame)));
    assert_eq!(Frame::decode(&mut BytesMut::from(&bytes[..]), 2), Err(Error::TooLarge(3)));
    let http = BytesMut::from(&b"\x80\x02\x00\x01\x00\x00\x00\x00"[..]);
    assert_eq!(Frame::decode(&mut http.clone(), 100), Err(Error::Version(2)));
}

async fn frame(client: &mut DuplexStream) -> Frame {
    let mut buffer = BytesMut::new();
    loop {
        if let Some(frame) = Frame::decode(&mut buffer, 1 << 20).unwrap() {
            return frame;
        }
        let byte = client.read_u8().await.unwrap();
        buffer.extend_from_slice(&[byte]);
    }
}

fn syn(headers: &mut Writer, id: u32, flags: u8, pairs: &[(&str, &str)]) -> Bytes {
    let mut payload = BytesMut::new();
    payload.extend_from_slice(&id.to_be_bytes());
    payload.extend_from_slice(&[0; 6]);
    payload.extend_from_slice(&headers.write(pairs));
    Frame::Control { type_: SYN_STREAM, flags, payload: payload.freeze() }.encode()
}

#[tokio::test]
async fn a_client_opens_a_stream_and_both_sides_talk() {
    let (mut client, server) = tokio::io::duplex(4096);
    let (accept, mut accepted) = mpsc::channel::<SpdyStream>(4);
    let session = Session { max_streams: 4, queue: 4, idle: Duration::from_secs(30) };
    let serving = tokio::spawn(async move { session.serve(server, accept).await.map_err(|e| e.to_string()) });
    let mut headers = Writer::new();
    client.write_all(&syn(&mut headers, 1, FLAG_FIN, &[("streamtype", "error")])).await.unwrap();
    client.write_all(&syn(&mut headers, 3, 0, &[("streamtype", "data"), ("port", "80")])).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(frame(&mut client).await, Frame::Control { type_: SYN_REPLY, .. }));
    }
    let mut error = accepted.recv().await.unwrap();
    let mut data = accepted.recv().await.unwrap();
    assert_eq!(error.header("streamtype"), Some("error"));
    assert_eq!(error.input.recv().await, None);
    assert_eq!(data.header("port"), Some("80"));

    let hello = Frame::Data { stream: 3, fin: true, payload: Bytes::from_static(b"hello") };
    client.write_all(&hello.encode()).await.unwrap();
    assert_eq!(data.input.recv().await.as_deref(), Some(&b"hello"[..]));
    assert_eq!(data.input.recv().await, None);
    let output = data.output();
    assert!(output.send(Bytes::from_static(b"world")).await);
    output.finish().await;
    let world = Frame::Data { stream: 3, fin: false, payload: Bytes::from_static(b"world") };
    assert_eq!(frame(&mut client).await, world);
    assert_eq!(frame(&mut client).await, Frame::Data { stream: 3, fin: true, payload: Bytes::new() });

    let ping = Frame::Control { type_: PING, flags: 0, payload: Bytes::from_static(&[0, 0, 0, 7]) };
    client.write_all(&ping.encode()).await.unwrap();
    assert_eq!(frame(&mut client).await, ping);
    drop(client);
    assert_eq!(serving.await.unwrap(), Ok(()));
}
